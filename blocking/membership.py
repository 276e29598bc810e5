"""Made by ``python -m pyzk.bridge.generate`` from the client and the recipes: change those."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Self

from ..client import ACL, CreateMode
from ..recipes import Change, Member, Parents
from ..recipes.base.hold import Suspended
from ..recipes.membership.party import Changes as TrioChanges
from ..recipes.membership.party import Party as TrioParty
from ..recipes.membership.party import PartyLayout
from ..recipes.membership.persistent_node import Conflict
from ..recipes.membership.persistent_node import KeptNode as TrioKeptNode
from ..recipes.membership.persistent_node import PersistentNode as TrioPersistentNode
from ..recipes.membership.ttl_node import TtlNode as TrioTtlNode
from ..recipes.partitioner import Partitioner as TrioPartitioner
from .base import Running
from .client import ZooKeeper
from .grants import Grant
from .wrapper import ThreadWrapper


class Party(Running, of=TrioParty):
    """The members of a group. During its block this object is a member too.

        party = Party(zk, "/services/api", "10.0.0.1:80")
        with party:
            print(party.members())

    The block begins when the member has joined. The member joins again when its znode is deleted, and in the
    next session. To list or follow the members you need no block. If an error such as :class:`NoAuthError`
    makes the membership impossible, the block is cancelled and raises that error.

    A child whose name does not fit the layout is not a member. In ``"curator-group"`` every child is a
    member.

    :param path: the directory of the members; created when a member joins.
    :param id: the id of this member. It is the name of the znode in ``"curator-group"``, and a part of the
        name in ``"kazoo-shallow"``, so in these layouts it must be a valid name.
    :param data: the data of this member's znode. The default is what the library of the layout writes: the
        id, or nothing in ``"curator-group"``. In the layout ``"kazoo"`` it is always the id.
    :param conflict: what to do if a member of another session has the same name. This is possible only in
        ``"curator-group"``: see :class:`.PersistentNode`.
    :param parents: how a missing directory is created.
    :param acl: the ACL of every znode that is created; everything for everyone if None.
    :raises ValueError: an option has a wrong value.
    """

    _trio: TrioParty

    @property
    def path(self) -> str:
        return self._trio.path

    @property
    def zk(self) -> ZooKeeper:
        return self._wrap(self._trio.zk)

    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        id: str = "",
        *,
        data: bytes | None = None,
        layout: PartyLayout = "kazoo",
        conflict: Conflict = "wait",
        parents: Parents = "container",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        self._make(zk, path, id, data=data, layout=layout, conflict=conflict, parents=parents, acl=acl)

    def members(self) -> list[Member]:
        """List the members, in the order of their names. This costs 1 request, and 1 more for each member. In
        ``"kazoo-shallow"`` it costs 1 request in all."""
        return self._call(self._trio.members)

    def changes(self) -> Changes:
        """Follow the members: ``for change in party.changes()``. The first change has all present
        members as joined. A slow reader does not see members that came and went in between."""
        return self._wrap(self._trio.changes())


class Changes(ThreadWrapper, of=TrioChanges):
    """The changes of a party. There is a watch only while a thread waits for the next change."""

    _trio: TrioChanges

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Change:
        """Wait for the next change. After an error the iterator can be used again.

        :raises ZooKeeperError: the error of a read, such as :class:`NoAuthError`.
        :raises ClosingError: the client was closed.
        """
        return self._next(self._trio.__anext__)


class KeptNode(Running, of=TrioKeptNode):
    """The base: creates a znode, watches it, and creates it again when it is gone."""

    _trio: TrioKeptNode

    @property
    def path(self) -> str:
        return self._trio.path

    @property
    def zk(self) -> ZooKeeper:
        return self._wrap(self._trio.zk)

    def ready(self) -> None:
        """Wait until the znode is there.

        :raises RuntimeError: the block has ended, or not begun.
        """
        return self._call(self._trio.ready)

    def set_data(self, data: bytes) -> None:
        """Change the data of the znode, and of each that is created later, and wait until it is written.

        Cancelling ends the wait, not the change. Outside of the block nothing is written.

        :raises RuntimeError: the block ended before the data was written.
        """
        return self._call(self._trio.set_data, data)


class PersistentNode(KeptNode, of=TrioPersistentNode):
    """Keeps a znode until the end of the block: it is created again when it is deleted, and in the
    next session.

        with PersistentNode(zk, "/services/api/10.0.0.1", data=b"port=80") as node:
            node.ready()

    The block begins at once, connected or not. Leaving the block deletes the znode, and waits for that
    ``cleanup_grace`` seconds at most; without a connection the deletion is done later. Layout and behaviour
    are those of Curator's PersistentNode.

    If another owner has an ephemeral znode at the path, ``conflict`` says what happens. A znode of an earlier
    session of this object is deleted. A persistent znode has no owner, so an existing one is adopted, and
    its data is replaced.

    An error that makes it impossible to keep the znode, such as :class:`NoAuthError`, cancels the block,
    which raises the error.

    :param data: the data of the znode.
    :param mode: EPHEMERAL, PERSISTENT, or EPHEMERAL_SEQUENTIAL. A sequential znode keeps its number when it
        is created again. Its name is ``_c_<uuid>-<name><number>``, as Curator's with protection.
    :param conflict: ``"wait"`` until the other znode is gone, ``"takeover"`` to delete it, or ``"raise"``
        :class:`NodeExistsError`. Two owners with ``"takeover"`` replace each other's znode without end.
    :param parents: how missing parents are created.
    :param acl: the ACL of every znode that is created; everything for everyone if None.
    :param cleanup_grace: seconds that leaving the block may wait for the server.
    :raises ValueError: an option has a wrong value.

    :ivar path: the path of the znode; with the number, after it was created.
    """

    _trio: TrioPersistentNode

    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        *,
        data: bytes = b"",
        mode: CreateMode = CreateMode.EPHEMERAL,
        conflict: Conflict = "wait",
        parents: Parents = "container",
        acl: Sequence[ACL] | None = None,
        cleanup_grace: float = 1.0,
    ) -> None:
        self._make(
            zk,
            path,
            data=data,
            mode=mode,
            conflict=conflict,
            parents=parents,
            acl=acl,
            cleanup_grace=cleanup_grace,
        )


class TtlNode(KeptNode, of=TrioTtlNode):
    """Keeps a znode for as long as the block lasts and ``ttl`` seconds after, even if the session ends
    before.

        with TtlNode(zk, "/reports/today", data=b"...", ttl=3600) as node:
            node.ready()

    Curator's PersistentTtlNode is a container with the same child, so each of the two recipes keeps the
    znode of the other.

    An error that makes it impossible to keep the znode cancels the block, which raises the error. One of
    them is
    :class:`UnimplementedError`: the server does not allow TTL znodes; set ``extendedTypesEnabled`` there.

    :param ttl: seconds.
    :param parents: how missing parents are created.
    :param acl: the ACL of every znode that is created; everything for everyone if None.
    :raises ValueError: an option has a wrong value.
    """

    _trio: TrioTtlNode

    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        *,
        data: bytes = b"",
        ttl: float,
        parents: Parents = "container",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        self._make(zk, path, data=data, ttl=ttl, parents=parents, acl=acl)


class Partitioner(Running, of=TrioPartitioner):
    """Divides items among the members of a group. Each item belongs to one member. This object is a member
    until the end of the block.

        with Partitioner(zk, "/work", ["a", "b", "c"], id="10.0.0.1") as partitioner:
            while True:
                with suppress(Rebalance, LockLost):
                    with partitioner.share() as items:
                        ...     # only we work on these items; cancelled when the members change

    The znodes are those of kazoo's SetPartitioner: a member is ``<path>/party/<32 hex digits>-<id>``. A lock,
    ``<path>/locks/<item>``, guards each item, so that an item never belongs to two members, even while the
    members disagree about who is there. Members of both libraries may be mixed; all must have the same items.
    Other children of the party are ignored, with a warning (kazoo counts them as members).

    When the session expires, the items are lost, and the member joins again in the next session. The block
    raises
    :class:`NodeExistsError` if another member has the same id.

    :param items: names that a znode may have. With n members, each has every nth of the sorted items.
    :param id: the id of this member; no other member may have the same one. A process that starts again while
        the session of its predecessor lives must wait for the end of that session.
    :param settle: seconds for which the members must have stayed the same before the items are divided.
    :param margin: seconds by which the lease of an item's lock is taken to be shorter.
    :param parents, suspended, acl: see :class:`.HoldingOptions`.
    :raises BadArgumentsError: the path is not a valid path.
    :raises ValueError: an option has a value that is not one of its values, or a name holds a slash.
    """

    _trio: TrioPartitioner

    @property
    def zk(self) -> ZooKeeper:
        return self._wrap(self._trio.zk)

    @property
    def path(self) -> str:
        return self._trio.path

    @property
    def id(self) -> str:
        return self._trio.id

    @property
    def settle(self) -> float:
        return self._trio.settle

    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        items: Iterable[str],
        id: str,
        *,
        settle: float = 30.0,
        parents: Parents = "container",
        suspended: Suspended = "deadline",
        margin: float | None = None,
        acl: Sequence[ACL] | None = None,
    ) -> None:
        self._make(
            zk, path, items, id, settle=settle, parents=parents, suspended=suspended, margin=margin, acl=acl
        )

    def members(self) -> list[Member]:
        """List the present members."""
        return self._call(self._trio.members)

    def share(self) -> AbstractContextManager[dict[str, Grant]]:
        """Wait for this member's share of the items. In the block no other member has these items. The share
        may be empty.

        Yields the items, in order, each with the grant of its lock: for fencing.

        :raises Rebalance: the members have changed. The block was cancelled; ask for the next share.
        :raises LockLost: an item was lost for another reason. The block was cancelled; ask for the next
            share.
        :raises NodeExistsError: another member has the same id.
        :raises RuntimeError: the partitioner's block was left, or not entered yet.
        """
        return self._block(self._trio.share())
