"""Markers: znodes that tell, after a lost reply, whether a transaction was carried out.

* A marker is created in the transaction itself. Whoever has made it deletes it once he knows.
* It is persistent, so that it tells what was done even after the session is over.
* So a process that is killed in between leaves its marker behind. Those who come later delete it, once it is
  an hour old by the server's clock.
* No clock decides whether a marker that is missing was never there: whoever deletes those of others notes the
  largest czxid among them, in the same transaction, in a znode ``swept`` beside them.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Sequence
from contextlib import suppress

import trio

from ..client import ACL, Create, Delete, NoNodeError, SetData, Stat, ZooKeeper, ZooKeeperError
from ..protocol.paths import join
from .base.bound import Bound

_ABANDONED_AFTER = 3600.0
"""Seconds. Whoever has not found out by then what became of his write may never do so."""
_AT_ONCE = 500
"""How many are deleted in one transaction."""
_NOTE = "swept"
_UNKNOWN = 2**63 - 1
"""What a note says that nobody can read: any marker may have been deleted."""


class Markers:
    """The markers of one value.

    :param value: the path of the value, which is written to with every marker.

    :ivar path: the directory that they are in.
    """

    def __init__(self, zk: ZooKeeper, value: str, acl: Sequence[ACL]) -> None:
        self.path = f"{value}.ops"
        self._zk = zk
        self._value = value
        self._acl = acl
        self._note = join(self.path, _NOTE)
        self._sweep_at = -math.inf

    def new(self) -> Create:
        """The creation of a marker that is like no other."""
        return Create(join(self.path, str(uuid.uuid4())), acl=self._acl)

    async def may_be_swept(self, since: int) -> bool:
        """Whether a marker that is missing may have been there: somebody has deleted one that was created
        after the zxid ``since``."""
        return (await self._swept())[0] > since

    async def _swept(self) -> tuple[int, Stat | None]:
        """The largest czxid of those that were deleted by others, 0 for none, and the Stat of the note."""
        try:
            data, stat = await self._zk.get(self._note)
        except NoNodeError:
            return 0, None
        return int(data) if data and data.isdigit() else _UNKNOWN, stat

    def delete(self, marker: str) -> None:
        """Delete an own marker, in the background. The janitor stops with the session, and the marker does
        not: the next session goes on."""
        zk = self._zk

        async def go_on(bound: Bound, done: trio.Event) -> None:
            await done.wait()
            if bound.over:
                with suppress(ZooKeeperError):
                    await zk.session.wait_connected()
                    self.delete(marker)

        bound, job = Bound(zk), zk.janitor.delete(marker)
        if not zk.closing:
            zk.start_soon(go_on, bound, job.done)

    def sweep(self) -> None:
        """Delete abandoned markers, in the background; once an hour at most."""
        if trio.current_time() >= self._sweep_at and not self._zk.closing:
            self._sweep_at = trio.current_time() + _ABANDONED_AFTER
            self._zk.start_soon(self._sweep)

    async def _sweep(self) -> None:
        with suppress(ZooKeeperError):  # another may be at it, or not be allowed to: the next one will do
            value = await self._zk.exists(self._value)
            if value is None:
                return
            abandoned = []
            for name in await self._zk.get_children(self.path):
                stat = await self._zk.exists(join(self.path, name))
                if name != _NOTE and stat is not None and _is_abandoned(stat, value):
                    abandoned.append((stat.czxid, join(self.path, name)))
            if abandoned:
                await self._sweep_away(sorted(abandoned)[:_AT_ONCE])

    async def _sweep_away(self, abandoned: Sequence[tuple[int, str]]) -> None:
        """Delete markers, and say so."""
        before, note = await self._swept()
        data = str(max(before, abandoned[-1][0])).encode()
        write = (
            Create(self._note, data, self._acl) if note is None else SetData(self._note, data, note.version)
        )
        await self._zk.multi([write, *(Delete(path) for _, path in abandoned)])


def _is_abandoned(marker: Stat, value: Stat) -> bool:
    """Whether a marker is old, by a write to the value that was made just now."""
    return value.mtime - marker.ctime > 1000 * _ABANDONED_AFTER
