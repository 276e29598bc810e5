"""Leases by the clock on the wall (recipe-rules.md B.10, D.11)."""

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
    repeat,
)
from ...protocol.paths import join
from ..base.creating import CreateOptions, Parents
from ..base.running import steady
from ..errors import ForeignLayout
from .grant import Grant
from .lock import Lock

_NAME = "lease_holder"
_VERSION = 1
_FORMAT = "%Y-%m-%dT%H:%M:%S"

_Change = Callable[[bytes | None, Stat | None], Operation[Any] | None]
"""What to write, given what is there."""


def _now() -> datetime:
    return datetime.now(UTC)


@attrs.frozen
class Tenancy:
    """Who has a lease, and until when.

    :ivar end: with its time zone, in whole seconds.
    """

    holder: str
    end: datetime


class TimeLease:
    """A right that its holder has until a given time, whether it lives or not.

        lease = TimeLease(zk, "/leases/cleanup", duration=4200, holder=socket.gethostname())
        if await lease.obtain():
            clean_up()

    For what is to run on one host, and on the same one as long as that is there. It has nothing to do with
    the session: **it is the clocks of the clients that decide** (trap E-54), so they have to agree, and what
    takes longer than the lease is not stopped. Where that is not good enough, use a :class:`.Lock`.

    The layout is that of kazoo's NonBlockingLease: a znode ``lease_holder`` with JSON, changed under kazoo's
    lock on the path. Ours is changed in place, in one transaction with a check that the lock is still held.
    The Go client cannot lock a path with such a znode.

    :param duration: seconds from the moment it is obtained.
    :param holder: who wants it; unique, and the same again for who is to have it back.
    :param parents: how a missing path is created.
    :param acl: of what is created; everything for everyone if None.
    :param now: the clock.
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
        self._zk = zk
        self._duration = timedelta(seconds=duration)
        self._options = CreateOptions(parents, acl)
        self._now = now
        self._znode = join(path, _NAME)
        self._lock = Lock(zk, path, data=holder.encode(), layout="kazoo", parents=parents, acl=acl)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path}>"

    async def obtain(self) -> bool:
        """Obtain or renew it. Returns False if somebody else has it, or if it was written by a later version
        of the layout. Waits for others only while they look at it too.

        Raises :class:`LockLost` if the session may have ended meanwhile: it is open then who has it;
        :class:`ForeignLayout` if the znode holds something else; what the server refuses.
        """
        return await self._locked(self._obtain)

    async def release(self) -> None:
        """Give it back before its time, if we have it. Raises what :meth:`obtain` raises."""
        await self._locked(self._release)

    async def tenancy(self) -> Tenancy | None:
        """Who had it last, even if its time is over; None if nobody has it, or it was written by a later
        version of the layout."""
        try:
            data, _ = await steady(self._zk, lambda: self._zk.get(self._znode))
        except NoNodeError:
            return None
        return self._parse(data)

    async def _locked(self, change: _Change) -> bool:
        async with self._lock as grant:
            return await repeat(self._zk, lambda: self._change(grant, change), grant.generation)

    async def _change(self, grant: Grant, change: _Change) -> bool:
        """Read, decide, write. Returns False if there was nothing to write. It may be done twice: what we
        have obtained we obtain again."""
        while True:
            data: bytes | None
            stat: Stat | None
            try:
                data, stat = await self._zk.get(self._znode)
            except NoNodeError:
                data = stat = None
            operation = change(data, stat)
            if operation is None:
                return False
            try:
                await self._zk.multi([grant.fence(), operation])
            except (NoNodeError, NodeExistsError, BadVersionError) as error:
                if error.index == 0:
                    await grant.verify()
                # Somebody has written without the lock.
            else:
                return True

    def _obtain(self, data: bytes | None, stat: Stat | None) -> Operation[Any] | None:
        now = self._now()
        end = (now + self._duration).astimezone(UTC).strftime(_FORMAT)
        wanted = json.dumps({"version": _VERSION, "holder": self.holder, "end": end}).encode()
        if stat is None:
            return Create(self._znode, wanted, acl=self._options.acl)
        tenancy = self._parse(data)
        if tenancy is None or (tenancy.holder != self.holder and now < tenancy.end):
            return None
        return SetData(self._znode, wanted, stat.version)

    def _release(self, data: bytes | None, stat: Stat | None) -> Operation[Any] | None:
        tenancy = self._parse(data) if stat is not None else None
        if stat is None or tenancy is None or tenancy.holder != self.holder:
            return None
        return Delete(self._znode, stat.version)

    def _parse(self, data: bytes | None) -> Tenancy | None:
        try:
            fields = json.loads(data or b"")
            if fields["version"] != _VERSION:
                return None
            end = datetime.strptime(fields["end"], _FORMAT).replace(tzinfo=UTC)
            return Tenancy(str(fields["holder"]), end)
        except (ValueError, KeyError, TypeError) as error:
            raise ForeignLayout(self.path, [_NAME]) from error


class MultiTimeLease:
    """Several leases, of which a holder wants any one: ``<path>/0`` to ``<path>/<count - 1>``. The layout of
    kazoo's MultiNonBlockingLease.

    :param count: how many there are.
    :param options: those of :class:`TimeLease`.
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
        self.leases = tuple(
            TimeLease(zk, join(path, str(number)), duration, holder, parents=parents, acl=acl, now=now)
            for number in range(count)
        )

    async def obtain(self) -> TimeLease | None:
        """Obtain or renew the first that is to be had; None if there is none. Raises what
        :meth:`TimeLease.obtain` raises."""
        for lease in self.leases:
            if await lease.obtain():
                return lease
        return None
