"""What many clients did and saw, and a checker for what ZooKeeper guarantees about it.

The times of all clients come from one clock. Reads may be stale, so the whole need not be linearizable; what
must hold is written at each rule of :func:`violations`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Literal

import attrs

Fate = Literal["done", "refused", "unsent", "unknown"]


@attrs.frozen
class Write:
    """An attempt to write.

    :ivar value: unlike that of any other write.
    :ivar begun: when it was submitted, in seconds; ``ended``: when its outcome was known.
    :ivar fate: ``done``: acknowledged. ``refused``: the server said no. ``unsent``: it never left the client.
        ``unknown``: it may have been applied.
    :ivar version: of the data, if done.
    :ivar zxid: of the transaction, if done.
    """

    client: int
    path: str
    value: bytes
    begun: float
    ended: float
    fate: Fate
    version: int = -1
    zxid: int = 0


@attrs.frozen
class Read:
    """A successful read.

    :ivar synced: when the sync just before it was submitted; None if there was none.
    :ivar last_zxid: the highest zxid that the client had seen by the end of it.
    """

    client: int
    path: str
    value: bytes
    begun: float
    ended: float
    version: int
    zxid: int
    synced: float | None = None
    last_zxid: int = 0


@attrs.define
class History:
    """Everything that happened, each client's part in its own order."""

    writes: list[Write] = attrs.Factory(list)
    reads: list[Read] = attrs.Factory(list)


def violations(history: History, final: Iterable[Read]) -> Iterator[str]:
    """What contradicts the guarantees.

    :param final: a read of each path after a sync, when everything was over.
    """
    final = list(final)
    done = sorted((w for w in history.writes if w.fate == "done"), key=lambda w: w.zxid)
    reads = [*history.reads, *final]
    yield from _one_history(done, reads)
    yield from _real_time_order(done)
    yield from _nothing_out_of_thin_air(history.writes, reads)
    yield from _nothing_lost(done, final)
    yield from _each_client_moves_forward(done, history.reads)
    yield from _sync_shows_what_was_done(done, reads)


def _one_history(done: list[Write], reads: list[Read]) -> Iterator[str]:
    """Everybody sees the same value at the same version and zxid, and zxids order versions."""
    seen: dict[tuple[str, int], tuple[int, bytes]] = {}
    owner: dict[tuple[int, str], bytes] = {}
    everything: list[Write | Read] = [*done, *reads]
    for item in everything:
        known = seen.setdefault((item.path, item.version), (item.zxid, item.value))
        if known != (item.zxid, item.value):
            yield f"version {item.version} of {item.path} is both {known} and {(item.zxid, item.value)!r}"
        if owner.setdefault((item.zxid, item.path), item.value) != item.value:
            yield f"transaction 0x{item.zxid:x} wrote both {owner[item.zxid, item.path]!r} and {item.value!r}"
    by_path: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for (path, version), (zxid, _) in seen.items():
        by_path[path].append((version, zxid))
    for path, versions in by_path.items():
        versions.sort()
        for (_, earlier), (version, later) in pairwise(versions):
            if later <= earlier:
                yield f"version {version} of {path} has zxid 0x{later:x}, its predecessor 0x{earlier:x}"


def _real_time_order(done: list[Write]) -> Iterator[str]:
    """Linearizable writes: one that was over before another began has the lower zxid."""
    latest_begin, latest = 0.0, None
    for write in done:  # in the order of zxids
        if latest is not None and write.ended < latest_begin:
            yield f"{write} was over before {latest} began, but comes later"
        if write.begun > latest_begin:
            latest_begin, latest = write.begun, write


def _nothing_out_of_thin_air(writes: list[Write], reads: list[Read]) -> Iterator[str]:
    """What is read was written, and by none of the writes that failed for certain."""
    fates = {write.value: write.fate for write in writes}
    for read in reads:
        fate = fates.get(read.value)
        if read.version > 0 and fate is None:
            yield f"{read} was written by nobody"
        if fate in ("refused", "unsent"):
            yield f"{read} shows a write that was {fate}"


def _nothing_lost(done: list[Write], final: list[Read]) -> Iterator[str]:
    """The last acknowledged write of each path is there, or one that came after it."""
    for read in final:
        for write in done:
            if write.path == read.path and (write.version > read.version or write.zxid > read.zxid):
                yield f"{write} is lost: in the end there is {read}"


def _each_client_moves_forward(done: list[Write], reads: list[Read]) -> Iterator[str]:
    """FIFO per client: nobody's view goes back, and everybody sees his own writes."""
    by_client: dict[int, list[Write | Read]] = defaultdict(list)
    everything: list[Write | Read] = [*done, *reads]
    for item in everything:
        by_client[item.client].append(item)
    for items in by_client.values():
        items.sort(key=lambda item: item.begun)
        newest: dict[str, Write | Read] = {}
        last_zxid = 0
        for item in items:
            before = newest.get(item.path)
            if before is not None and item.version < before.version:
                yield f"{item} goes back behind {before}"
            newest[item.path] = item
            if isinstance(item, Read):
                if item.last_zxid < last_zxid:
                    yield f"{item}: the client had seen 0x{last_zxid:x} before"
                last_zxid = item.last_zxid


def _sync_shows_what_was_done(done: list[Write], reads: list[Read]) -> Iterator[str]:
    """A read behind a sync sees every write that was over when the sync was submitted."""
    for read in reads:
        if read.synced is None:
            continue
        for write in done:
            if write.path == read.path and write.ended < read.synced and write.version > read.version:
                yield f"{read} does not see {write}"
