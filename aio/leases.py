"""Made by ``python -m pyzk.bridge.generate`` from the client and the recipes: change those."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from ..client import ACL
from ..recipes import Parents, TimeLeaseHolder
from ..recipes.locks.time_lease import MultiTimeLease as TrioMultiTimeLease
from ..recipes.locks.time_lease import TimeLease as TrioTimeLease
from ..recipes.locks.time_lease import _now
from .client import ZooKeeper
from .wrapper import TaskWrapper


class TimeLease(TaskWrapper, of=TrioTimeLease):
    """A right that its holder has until a given time, whether the holder is alive or not.

        lease = TimeLease(zk, "/leases/cleanup", duration=4200, holder=socket.gethostname())
        if await lease.obtain():
            clean_up()

    Use a time lease for jobs that only one host should do, always the same host while this host runs.
    Sessions do not matter: **the clocks of the clients decide** (trap E-54). So the clocks must agree. A job
    that takes longer than the lease is not stopped. If you need stronger guarantees, use a :class:`.Lock`.

    The layout is the layout of kazoo's NonBlockingLease: a znode ``lease_holder`` with JSON, and kazoo's lock
    on the path. The Go client cannot lock a path with such a znode.

    :param duration: the length of the lease in seconds, from the moment when it is obtained.
    :param holder: the name of the holder. The name must be unique, and a holder that renews its lease must
        use the same name.
    :param parents: the kind of a missing parent: see :data:`.Parents`.
    :param acl: the ACL of every znode that is created; None gives all permissions to everybody.
    :param now: a function that returns the time, with a time zone.
    :raises BadArgumentsError: the path is not a valid path.
    :raises ValueError: ``parents`` has a value that is not allowed.
    """

    _trio: TrioTimeLease

    @property
    def path(self) -> str:
        return self._trio.path

    @property
    def holder(self) -> str:
        return self._trio.holder

    @property
    def zk(self) -> ZooKeeper:
        return self._wrap(self._trio.zk)

    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        duration: float,
        holder: str,
        *,
        parents: Parents = "container",
        acl: Sequence[ACL] | None = None,
        now: Callable[[], datetime] = _now,
    ) -> None:
        self._make(zk, path, duration, holder, parents=parents, acl=acl, now=now)

    async def obtain(self) -> bool:
        """Obtain or renew the lease. Returns False if another holder has the lease, or if the lease has a
        later version of the layout. The call waits only while other clients read or write the lease.

        :raises LockLost: the session may have ended during the call. Then it is unknown whether the lease was
            obtained.
        :raises ForeignLayout: the znode does not hold a lease.
        :raises ZooKeeperError: the server refuses a request, for example with :class:`NoAuthError`.
        """
        return await self._call(self._trio.obtain)

    async def release(self) -> None:
        """If this holder has the lease, give the lease back before its end. The method raises the errors of
        :meth:`obtain`."""
        return await self._call(self._trio.release)

    async def last_holder(self) -> TimeLeaseHolder | None:
        """Return the last holder, even if the lease is over. Returns None if there was no holder, or if the
        lease has a later version of the layout.

        :raises ForeignLayout: the znode does not hold a lease.
        """
        return await self._call(self._trio.last_holder)


class MultiTimeLease(TaskWrapper, of=TrioMultiTimeLease):
    """Several time leases, ``<path>/0`` to ``<path>/<count - 1>``. A holder obtains one lease, whichever is
    free. The layout is the layout of kazoo's MultiNonBlockingLease.

    :param count: the number of leases.
    :param duration: the length of a lease in seconds, from the moment when it is obtained.
    :param holder, parents, acl, now: see :class:`TimeLease`.
    """

    _trio: TrioMultiTimeLease

    @property
    def leases(self) -> tuple[TimeLease, ...]:
        return self._wrap(self._trio.leases)

    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        count: int,
        duration: float,
        holder: str,
        *,
        parents: Parents = "container",
        acl: Sequence[ACL] | None = None,
        now: Callable[[], datetime] = _now,
    ) -> None:
        self._make(zk, path, count, duration, holder, parents=parents, acl=acl, now=now)

    async def obtain(self) -> TimeLease | None:
        """Obtain or renew the first lease that no other holder has. Returns None if other holders have all
        leases. The method raises the errors of :meth:`TimeLease.obtain`."""
        return await self._call(self._trio.obtain)
