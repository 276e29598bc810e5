"""Markers: znodes that show after a lost reply whether a transaction was carried out.

The rules:

* A marker is created in the transaction itself. The client that created the marker deletes it when the result
  is known.
* A marker is persistent, so it shows the result even after the session has ended.
* A process that is killed before the deletion leaves its marker behind. Other clients that use the same
  znodes delete the marker one hour after its creation. If the value was written after the marker, the
  server's clock decides about the age. Otherwise a client must have seen the marker for one hour by its own
  clock.
* A missing marker was either never created, or another client has deleted it. A note helps to distinguish the
  two cases without a clock. A client that deletes markers of other clients also writes the note: the largest
  czxid of these markers, in the znode ``swept`` beside the markers, in the same transaction. If the czxid of
  a marker is above the note, no other client has deleted the marker.
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
"""The age in seconds at which a marker is abandoned. A client that has no connection for a longer time may
never learn the result of its write. One hour is longer than most outages."""
_READERS_AFTER = 2
"""A client that only reads looks for old markers after this number of periods. A client that writes looks for
old markers earlier."""
_AT_ONCE = 500
"""The number of markers that are deleted in one transaction. A transaction with so many deletions has about
50 KB; servers accept 1 MB."""
_NOTE = "swept"
"""The name of the znode with the largest czxid of the deleted markers."""
_UNKNOWN = 2**63 - 1
"""The zxid that is used in place of an unreadable note. With this zxid any marker may have been deleted."""


class Markers:
    """The markers of one value.

    :param value: the path of the value. Each transaction with a marker writes this value.

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
        self._seen: dict[str, float] = {}  # the time when each marker was first seen, by our own clock

    def new(self) -> Create:
        """Return the operation that creates a marker with a unique name."""
        return Create(paths.join(self.path, str(uuid.uuid4())), acl=self._acl)

    async def may_be_swept(self, since: int) -> bool:
        """Return whether another writer may have deleted a marker that was created after the zxid
        ``since``."""
        return (await self._swept())[0] > since

    async def _swept(self) -> tuple[int, Stat | None]:
        """Read the note. Returns the largest czxid of the deleted markers, and the Stat of the note. Without
        a note the czxid is 0, and the Stat is None."""
        try:
            data, stat = await self._zk.get(self._note)
        except NoNodeError:
            return 0, None
        return int(data) if data and data.isdigit() else _UNKNOWN, stat

    def delete(self, marker: str) -> None:
        """Delete an own marker in the background. The cleanup stops at the end of the session, but a marker
        does not end with the session. So the deletion continues in the next session."""
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
        """Delete abandoned markers in the background after a write, at most once in an hour."""
        self._sweep_after(self._swept_at, _ABANDONED_AFTER)

    def sweep_as_reader(self) -> None:
        """Delete abandoned markers in the background before a read, if this client has written nothing for a
        long time."""
        if self._first_read_at is None:
            self._first_read_at = trio.current_time()
        self._sweep_after(max(self._swept_at, self._first_read_at), _READERS_AFTER * _ABANDONED_AFTER)

    def _sweep_after(self, since: float, pause: float) -> None:
        now = trio.current_time()
        if now >= since + pause and not self._zk.closing:
            self._swept_at = now
            self._zk.start_soon(self._sweep)

    async def _sweep(self) -> None:
        with suppress(ZooKeeperError):  # an error such as NoAuthError does no harm here
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
        """Read the Stats of znodes. The Stat of a missing znode is None."""
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
    """Return whether a marker was already old at the last write of the value, by the server's clock."""
    return value is not None and value.mtime - marker.ctime > 1000 * _ABANDONED_AFTER
