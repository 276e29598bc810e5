"""Markers: znodes that tell, after a lost reply, whether a transaction was carried out.

The rules:

* A marker is created in the transaction itself. The client that has created it deletes it when it knows the
  result.
* A marker is persistent, so it tells the result also after the session has ended.
* A process that is killed in between leaves its marker behind. Other users of the value delete it when it is
  one hour old. If the value was written since, the server's clock decides; otherwise a client must have seen
  the marker for one hour by its own clock.
* A marker that is missing was either never created, or deleted by another writer. No clock decides which: a
  writer that deletes markers of others notes the largest czxid among them, in the same transaction, in a
  znode ``swept`` beside them. A marker with a higher czxid than the note was never deleted by others.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Sequence
from contextlib import suppress

import trio

from ..client import (
    ACL,
    Create,
    Delete,
    Exists,
    NoNodeError,
    SetData,
    Stat,
    ZooKeeper,
    ZooKeeperError,
    paths,
)
from .base.bound import Bound

_ABANDONED_AFTER = 3600.0
"""Seconds after which a marker is abandoned. A client that is without a connection for longer may never learn
the result of its write; an hour is longer than most outages."""
_READERS_AFTER = 2
"""A client that only reads looks for markers after this number of periods, because writers know more."""
_AT_ONCE = 500
"""Markers that are deleted in one transaction: some 50 KB, well below the 1 MB that servers accept."""
_NOTE = "swept"
"""The name of the znode with the largest czxid of the deleted markers."""
_UNKNOWN = 2**63 - 1
"""The zxid that stands for a note that cannot be read: any marker may have been deleted."""


class Markers:
    """The markers of one value.

    :param value: the path of the value, which each transaction with a marker writes.

    :ivar path: the directory of the markers.
    """

    def __init__(self, zk: ZooKeeper, value: str, acl: Sequence[ACL]) -> None:
        self.path = f"{value}.ops"
        self._zk = zk
        self._value = value
        self._acl = acl
        self._note = paths.join(self.path, _NOTE)
        self._first_read_at: float | None = None
        self._swept_at = -math.inf
        self._seen: dict[str, float] = {}  # since when each marker is known, by our own clock

    def new(self) -> Create:
        """Return the operation that creates a marker of a unique name."""
        return Create(paths.join(self.path, str(uuid.uuid4())), acl=self._acl)

    async def may_be_swept(self, since: int) -> bool:
        """Return whether another writer may have deleted a marker that was created after the zxid
        ``since``."""
        return (await self._swept())[0] > since

    async def _swept(self) -> tuple[int, Stat | None]:
        """Read the note: the largest czxid of the deleted markers, 0 for none, and the Stat of the note."""
        try:
            data, stat = await self._zk.get(self._note)
        except NoNodeError:
            return 0, None
        return int(data) if data and data.isdigit() else _UNKNOWN, stat

    def delete(self, marker: str) -> None:
        """Delete an own marker in the background. The cleanup stops when the session ends, but a marker
        does not end with the session: then the deletion continues in the next one."""
        zk = self._zk

        async def go_on(bound: Bound, done: trio.Event) -> None:
            await done.wait()
            if bound.over:
                with suppress(ZooKeeperError):
                    await zk.session.wait_connected()
                    self.delete(marker)

        bound, job = Bound(zk), zk.cleanup.delete(marker)
        if not zk.closing:
            zk.start_soon(go_on, bound, job.done)

    def sweep(self) -> None:
        """Delete abandoned markers in the background, after a write; once an hour at most."""
        self._sweep_after(self._swept_at, _ABANDONED_AFTER)

    def sweep_as_reader(self) -> None:
        """Delete abandoned markers in the background, before a read: if nothing was written here for long."""
        if self._first_read_at is None:
            self._first_read_at = trio.current_time()
        self._sweep_after(max(self._swept_at, self._first_read_at), _READERS_AFTER * _ABANDONED_AFTER)

    def _sweep_after(self, since: float, pause: float) -> None:
        now = trio.current_time()
        if now >= since + pause and not self._zk.closing:
            self._swept_at = now
            self._zk.start_soon(self._sweep)

    async def _sweep(self) -> None:
        with suppress(ZooKeeperError):  # such as NoAuthError, or another sweep at the same time: not urgent
            markers = [name for name in await self._zk.get_children(self.path) if name != _NOTE]
            found = [paths.join(self.path, name) for name in markers]
            value, *stats = await self._stats([self._value, *found])
            now = trio.current_time()
            self._seen = {name: self._seen.get(name, now) for name in markers}
            abandoned = [
                (stat.czxid, path)
                for name, path, stat in zip(markers, found, stats, strict=True)
                if stat is not None and (_is_old(stat, value) or now - self._seen[name] >= _ABANDONED_AFTER)
            ]
            abandoned.sort()
            for start in range(0, len(abandoned), _AT_ONCE):
                await self._sweep_away(abandoned[start : start + _AT_ONCE])

    async def _stats(self, paths: Sequence[str]) -> list[Stat | None]:
        """Read the Stats of znodes; None for those that do not exist."""
        stats: list[Stat | None] = []
        for pending in [self._zk.submit(Exists(path)) for path in paths]:
            try:
                stats.append(await pending.wait())
            except NoNodeError:
                stats.append(None)
        return stats

    async def _sweep_away(self, abandoned: Sequence[tuple[int, str]]) -> None:
        """Delete markers, and write the note."""
        before, note = await self._swept()
        data = str(max(before, abandoned[-1][0])).encode()
        if note is None:
            write: Create | SetData = Create(self._note, data, acl=self._acl)
        else:
            write = SetData(self._note, data, note.version)
        await self._zk.multi([write, *(Delete(path) for _, path in abandoned)])


def _is_old(marker: Stat, value: Stat | None) -> bool:
    """Return whether a marker is old, by the server's time: that of the last write of the value."""
    return value is not None and value.mtime - marker.ctime > 1000 * _ABANDONED_AFTER
