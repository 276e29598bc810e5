"""Who holds a lock and who waits for it, for people and for machines."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from itertools import chain

import attrs

from ...client import ZooKeeper
from ...protocol.paths import join
from ...recipes.locks.lock import Contender, contenders
from ...recipes.locks.names import Kind
from ...recipes.locks.semaphore import LeaseHolder, Semaphore
from ..units import age

_KAZOO_LEASE = re.compile(r"/[0-9a-f]{32}$")
_WIDEST = 120
"""Characters of data in the table; znodes may hold a megabyte."""
_LONGEST = 200
"""Characters of data in a sentence."""


@attrs.frozen
class Entry:
    """One who holds or waits. One that has two names, for Curator and for kazoo, is one.

    :ivar kind: what it contends for: lock, read, write, lease, latch or candidate.
    :ivar libraries: whose name it has; of those of one name, the first.
    :ivar came: seconds since the epoch, by the server's clock.
    """

    kind: str
    libraries: tuple[str, ...]
    shared: bool
    session: int
    came: float
    token: int
    paths: tuple[str, ...]
    data: bytes

    @classmethod
    def contender(cls, found: Contender) -> Entry:
        library, _, kind = found.kind.name.lower().partition("_")
        return cls._of(kind, library, found, shared=found.kind.shared)

    @classmethod
    def lease(cls, library: str, found: LeaseHolder) -> Entry:
        return cls._of("lease", library, found)

    @classmethod
    def _of(cls, kind: str, library: str, found: Contender | LeaseHolder, *, shared: bool = False) -> Entry:
        stat = found.stat
        return cls(
            kind,
            (library,),
            shared,
            stat.ephemeralOwner,
            stat.ctime / 1000,
            stat.czxid,
            (found.path,),
            found.data,
        )

    def merged(self, other: Entry) -> Entry:
        """The same one by its other name."""
        return attrs.evolve(self, libraries=self.libraries + other.libraries, paths=self.paths + other.paths)

    def text(self) -> str:
        """The data, readable."""
        try:
            text = self.data.decode()
        except UnicodeDecodeError:
            return repr(self.data)
        return text if text.isprintable() else repr(self.data)

    def describe(self, now: float) -> str:
        """In a few words, on one line."""
        text = self.text() or "one without data"
        if len(text) > _LONGEST:
            text = f"{text[:_LONGEST]}… ({len(self.data):,} bytes)"
        return f"{text} (session 0x{self.session:x}, for {age(now - self.came)})"


@attrs.frozen
class Survey:
    """Everybody, first come first.

    :ivar holders: several if they share it.
    """

    holders: Sequence[Entry]
    waiting: Sequence[Entry]


async def survey(zk: ZooKeeper, path: str) -> Survey:
    """Look at a lock, a read/write lock, a leader latch or a semaphore, whoever's it is."""
    leases = [Entry.lease("curator", found) for found in await Semaphore(zk, path, 1).holders()]
    leases += [
        Entry.lease("kazoo", found)
        for found in await Semaphore(zk, path, 1, layout="kazoo").holders()
        if _KAZOO_LEASE.search(found.path)  # to that layout every child is one
    ]
    queue, *gates = [
        entries(await contenders(zk, place, frozenset(Kind)))
        for place in (path, join(path, "locks"), f"{path}-__lock__")
    ]
    holding = next((i for i, entry in enumerate(queue) if not entry.shared), len(queue)) or len(queue[:1])
    return Survey(leases + queue[:holding], [*queue[holding:], *chain(*gates)])


def entries(found: Sequence[Contender]) -> list[Entry]:
    """The contenders in order, each once."""
    merged: list[Entry] = []
    for entry in map(Entry.contender, found):
        if merged and (merged[-1].session, merged[-1].token) == (entry.session, entry.token):
            merged[-1] = merged[-1].merged(entry)
        else:
            merged.append(entry)
    return merged


def table(path: str, found: Survey, now: float) -> str:
    """For people."""
    if not (found.holders or found.waiting):
        return f"{path}: nobody holds it"
    rows = [("", "KIND", "SESSION", "AGE", "DATA")]
    for place, entry in _places(found):
        kind = f"{entry.kind} ({'+'.join(entry.libraries)})"
        text = entry.text()
        if len(text) > _WIDEST:
            text = text[: _WIDEST - 1] + "…"
        rows.append((str(place or "holder"), kind, f"0x{entry.session:x}", age(now - entry.came), text))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    pad: Callable[[str, int], str] = str.ljust
    lines = ["  ".join(map(pad, row, widths)).rstrip() for row in rows]
    return "\n".join([f"{path}: {len(found.holders)} holding, {len(found.waiting)} waiting", *lines])


def as_json(path: str, found: Survey, now: float) -> str:
    """For machines. The token is text: many readers of JSON would round such a number."""
    return json.dumps(
        {
            "path": path,
            "contenders": [
                {
                    "holds": not place,
                    "position": place,
                    "kind": entry.kind,
                    "libraries": entry.libraries,
                    "session": f"0x{entry.session:x}",
                    "token": str(entry.token),
                    "age": round(max(0.0, now - entry.came), 3),
                    "data": entry.text(),
                    "nodes": entry.paths,
                }
                for place, entry in _places(found)
            ],
        },
        indent=2,
    )


def _places(found: Survey) -> list[tuple[int, Entry]]:
    """Everybody, with the place in the queue; 0 for holders."""
    return [(0, entry) for entry in found.holders] + list(enumerate(found.waiting, 1))
