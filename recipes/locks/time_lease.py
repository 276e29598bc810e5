"""Leases by the wall clock (recipe-rules.md B.10, D.11).

The rules:

* A lease is a znode with the name of the holder and the end of the lease, as JSON. The lease does not end
  with a session. The lease ends at the time in the znode, by the clocks of the clients.
* A client changes the znode only while it holds a lock on the parent, and in one transaction with a check of
  this lock.
* The holder can renew the lease before its end. Other clients can take the lease after its end.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import attrs

from ...client import (
    ACL,
    BadVersionError,
    Create,
    Delete,
    NodeExistsError,
    NoNodeError,
    Operation,
    SetData,
    Stat,
    ZooKeeper,
    paths,
)
from ...client.repeating import repeat
from ..base.creating import Parents, ZnodeOptions
from ..base.running import steady
from ..errors import ForeignLayout
from .grant import Grant
from .lock import Lock

_NAME = "lease_holder"
"""The name of the znode, as in kazoo."""

_VERSION = 1
"""The version of the JSON, as in kazoo. Znodes with another version are not changed."""

_FORMAT = "%Y-%m-%dT%H:%M:%S"
"""The format of the end of a lease: UTC, in whole seconds."""

_Change = Callable[[bytes | None, Stat | None], Operation[Any] | None]
"""A function that makes the writing operation from the present data and Stat. The function returns None if
nothing must be written."""


def _now() -> datetime:
    return datetime.now(UTC)


@attrs.frozen
class TimeLeaseHolder:
    """The holder of a time lease, and its end.

    :ivar name: the name that the holder gave as ``holder``.
    :ivar end: the end of the lease, with a time zone, in whole seconds.
    """

    name: str
    end: datetime


class TimeLease:
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
        self.path = path
        self.holder = holder
        self.zk = zk
        self._duration = timedelta(seconds=duration)
        self._options = ZnodeOptions(parents, acl)
        self._now = now
        self._znode = paths.join(path, _NAME)
        self._lock = Lock(zk, path, data=holder.encode(), layout="kazoo", parents=parents, acl=acl)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path}>"

    async def obtain(self) -> bool:
        """Obtain or renew the lease. Returns False if another holder has the lease, or if the lease has a
        later version of the layout. The call waits only while other clients read or write the lease.

        :raises LockLost: the session may have ended during the call. Then it is unknown whether the lease was
            obtained.
        :raises ForeignLayout: the znode does not hold a lease.
        :raises ZooKeeperError: the server refuses a request, for example with :class:`NoAuthError`.
        """
        return await self._under_lock(self._obtain)

    async def release(self) -> None:
        """If this holder has the lease, give the lease back before its end. The method raises the errors of
        :meth:`obtain`."""
        await self._under_lock(self._release)

    async def last_holder(self) -> TimeLeaseHolder | None:
        """Return the last holder, even if the lease is over. Returns None if there was no holder, or if the
        lease has a later version of the layout.

        :raises ForeignLayout: the znode does not hold a lease.
        """
        try:
            data, _ = await steady(self.zk, lambda: self.zk.get(self._znode))
        except NoNodeError:
            return None
        return self._parse(data)

    async def _under_lock(self, change: _Change) -> bool:
        async with self._lock as grant:
            return await repeat(self.zk, lambda: self._change(grant, change), grant.generation)

    async def _change(self, grant: Grant, change: _Change) -> bool:
        """Read the lease, and write the change. Returns False if there was nothing to write. The call can be
        repeated, because a holder can obtain its own lease again."""
        while True:
            data: bytes | None
            stat: Stat | None
            try:
                data, stat = await self.zk.get(self._znode)
            except NoNodeError:
                data = stat = None
            operation = change(data, stat)
            if operation is None:
                return False
            try:
                await self.zk.multi([grant.fence(), operation])
            except (NoNodeError, NodeExistsError, BadVersionError) as error:
                if error.index == 0:
                    await grant.verify()
                # Another client has written without the lock: read again.
            else:
                return True

    def _obtain(self, data: bytes | None, stat: Stat | None) -> Operation[Any] | None:
        now = self._now()
        end = (now + self._duration).astimezone(UTC).strftime(_FORMAT)
        wanted = json.dumps({"version": _VERSION, "holder": self.holder, "end": end}).encode()
        if stat is None:
            return Create(self._znode, wanted, acl=self._options.acl)
        present = self._parse(data)
        if present is None or (present.name != self.holder and now < present.end):
            return None
        return SetData(self._znode, wanted, stat.version)

    def _release(self, data: bytes | None, stat: Stat | None) -> Operation[Any] | None:
        present = self._parse(data) if stat is not None else None
        if stat is None or present is None or present.name != self.holder:
            return None
        return Delete(self._znode, stat.version)

    def _parse(self, data: bytes | None) -> TimeLeaseHolder | None:
        try:
            fields = json.loads(data or b"")
            if fields["version"] != _VERSION:
                return None
            end = datetime.strptime(fields["end"], _FORMAT).replace(tzinfo=UTC)
            return TimeLeaseHolder(str(fields["holder"]), end)
        except (ValueError, KeyError, TypeError) as error:
            raise ForeignLayout(self.path, [_NAME]) from error


class MultiTimeLease:
    """Several time leases, ``<path>/0`` to ``<path>/<count - 1>``. A holder obtains one lease, whichever is
    free. The layout is the layout of kazoo's MultiNonBlockingLease.

    :param count: the number of leases.
    :param duration: the length of a lease in seconds, from the moment when it is obtained.
    :param holder, parents, acl, now: see :class:`TimeLease`.
    """

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
        self.leases: tuple[TimeLease, ...] = tuple(
            TimeLease(zk, paths.join(path, str(number)), duration, holder, parents=parents, acl=acl, now=now)
            for number in range(count)
        )

    async def obtain(self) -> TimeLease | None:
        """Obtain or renew the first lease that no other holder has. Returns None if other holders have all
        leases. The method raises the errors of :meth:`TimeLease.obtain`."""
        for lease in self.leases:
            if await lease.obtain():
                return lease
        return None
