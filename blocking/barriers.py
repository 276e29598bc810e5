"""Made by ``python -m pyzk.bridge.generate`` from the client and the recipes: change those."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType

from ..bridge.exits import leaves
from ..client import ACL
from ..recipes import Parents
from ..recipes.barrier import Barrier as TrioBarrier
from ..recipes.double_barrier import DoubleBarrier as TrioDoubleBarrier
from .client import ZooKeeper
from .wrapper import ThreadWrapper


class Barrier(ThreadWrapper, of=TrioBarrier):
    """A barrier at a path. The barrier is closed while its znode exists.

        barrier = Barrier(zk, "/barriers/migration")
        barrier.create()                          # one client stops the others
        with timeout(60): barrier.wait()  # the others wait
        barrier.remove()

    The znode is persistent, so the barrier outlives the client that created it. Curator's DistributedBarrier
    and kazoo's Barrier use the same znode.

    :param parents: the kind of a missing parent: see :data:`.Parents`.
    :param acl: the ACL of every znode that is created; None gives all permissions to everybody.
    :raises BadArgumentsError: the path is not a valid path.
    :raises ValueError: ``parents`` has a value that is not allowed.
    """

    _trio: TrioBarrier

    @property
    def zk(self) -> ZooKeeper:
        return self._wrap(self._trio.zk)

    @property
    def path(self) -> str:
        return self._trio.path

    def __init__(
        self, zk: ZooKeeper, path: str, *, parents: Parents = "container", acl: Sequence[ACL] | None = None
    ) -> None:
        self._make(zk, path, parents=parents, acl=acl)

    def create(self) -> None:
        """Create the barrier. If the znode exists already, nothing happens.

        :raises SessionExpiredError: the session ended during the call.
        :raises ZooKeeperError: the server refuses the request, for example with :class:`NoAuthError`.
        """
        return self._call(self._trio.create)

    def remove(self) -> bool:
        """Remove the barrier. Returns True if the barrier existed. If a reply was lost, True means that the
        barrier may have existed.

        :raises SessionExpiredError: the session ended during the call.
        :raises ZooKeeperError: the server refuses the request, for example with :class:`NoAuthError`.
        """
        return self._call(self._trio.remove)

    def wait(self) -> None:
        """Wait until the barrier does not exist. The wait survives the loss of the connection and of the
        session."""
        return self._call(self._trio.wait)


class DoubleBarrier(ThreadWrapper, of=TrioDoubleBarrier):
    """Members begin their work together and end it together.

        barrier = DoubleBarrier(zk, "/barriers/step-1", 3)
        with barrier:    # waits until there are three members
            ...                # the work
                               # waits until all other members have ended their work

    A member that comes while a round is under way joins it. The block's value is the path of the member's
    znode. Any number of threads can use one object, in any number of rounds. Each block is one member.

    If the body raises or is cancelled, the member leaves without waiting. If the session ends between the
    beginning of the block and its end, the body is cancelled, and the block raises :class:`BarrierBroken`. If
    the znode of a member is deleted while the member waits for the beginning, the member creates the znode
    again. If the znode is deleted later, the other members treat the member as gone.

    The layout is the layout of Curator's DistributedDoubleBarrier. Members of Curator and kazoo can take
    part: every child except ``ready`` is a member. Members of kazoo delete ``ready`` when they *begin* to
    leave. A member of this recipe that has no connection during the whole time in which ``ready`` exists does
    not notice ``ready``, and keeps waiting. At the end of a round a member writes the data of ``path`` again,
    unchanged. So the member needs the permission to write the znode ``path``.

    :param parties: the number of members that must be there before the work begins.
    :param data: the data of the member's znode.
    :param parents: the kind of a missing parent: see :data:`.Parents`.
    :param acl: the ACL of every znode that is created; None gives all permissions to everybody.
    :raises BadArgumentsError: the path is not a valid path.
    :raises ValueError: ``parties`` is lower than 1, or ``parents`` has a value that is not allowed.
    """

    _trio: TrioDoubleBarrier

    @property
    def zk(self) -> ZooKeeper:
        return self._wrap(self._trio.zk)

    @property
    def path(self) -> str:
        return self._trio.path

    @property
    def parties(self) -> int:
        return self._trio.parties

    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        parties: int,
        *,
        data: bytes = b"",
        parents: Parents = "container",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        self._make(zk, path, parties, data=data, parents=parents, acl=acl)

    def __enter__(self) -> str:
        return self._enter()

    @leaves
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> bool | None:
        return self._leave(kind, error, tb)
