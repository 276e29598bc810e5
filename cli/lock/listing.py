"""The holders and the waiters of a lock, as a table and as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import attrs

from ...client import ZooKeeper
from ...protocol.layouts import ContenderKind
from ...protocol.paths import join
from ...protocol.text import session_text
from ...recipes.locks.lock import Contender, contenders
from ...recipes.locks.semaphore import LeaseHolder, Semaphore
from ..show import ending
from ..show import table as columns
from ..units import age

if TYPE_CHECKING:
    from ..verbs.servers import Session

_KAZOO_LEASE = re.compile(r"/[0-9a-f]{32}$")
_WIDEST = 120
"""The largest number of characters of data in a line of the table. With this number, a line fits on a wide
screen. Data may be 1 MB."""
_LONGEST = 200
"""The largest number of characters of data in a message."""


@attrs.frozen
class Entry:
    """A holder or a waiter. A contender with two znodes (one with Curator's name, one with kazoo's name) is
    one entry.

    :ivar kind: lock, read, write, lease, latch or candidate.
    :ivar libraries: the libraries whose names the znodes have. If several libraries use the same names, the
        first of these libraries is returned.
    :ivar came: when the znode was created, in seconds since the epoch, by the server's clock.
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
        """Add the other znode of the same contender."""
        return attrs.evolve(self, libraries=self.libraries + other.libraries, paths=self.paths + other.paths)

    def text(self) -> str:
        """Return the data as printable text."""
        try:
            text = self.data.decode()
        except UnicodeDecodeError:
            return repr(self.data)
        return text if text.isprintable() else repr(self.data)

    def describe(self, now: float) -> str:
        """Describe the entry on one line.

        :param now: seconds since the epoch.
        """
        text = self.text() or "a contender without data"
        if len(text) > _LONGEST:
            text = f"{text[:_LONGEST]}… ({len(self.data):,} bytes)"
        return f"{text} (session {session_text(self.session)}, for {age(now - self.came)})"


@attrs.frozen
class Survey:
    """Return all entries of a lock, in the order of the queue.

    :ivar holders: several libraries if they share the lock.
    """

    holders: Sequence[Entry]
    waiting: Sequence[Entry]


async def survey(zk: ZooKeeper, path: str) -> Survey:
    """Read a lock, a read/write lock, a leader latch or a semaphore, of any library.

    :raises ZooKeeperError: the server refuses.
    """
    leases = [Entry.lease("curator", found) for found in await Semaphore(zk, path, 1).holders()]
    leases += [
        Entry.lease("kazoo", found)
        for found in await Semaphore(zk, path, 1, layout="kazoo").holders()
        if _KAZOO_LEASE.search(found.path)  # that layout takes every child for a lease
    ]
    queue, *gates = [
        entries(await contenders(zk, place, frozenset(ContenderKind)))
        for place in (path, join(path, "locks"), f"{path}-__lock__")
    ]
    holding = next((i for i, entry in enumerate(queue) if not entry.shared), len(queue)) or len(queue[:1])
    return Survey(leases + queue[:holding], [*queue[holding:], *chain(*gates)])


def entries(found: Sequence[Contender]) -> list[Entry]:
    """Return an entry for each contender, in the same order. A contender with two znodes has only one
    entry."""
    merged: list[Entry] = []
    for entry in map(Entry.contender, found):
        if merged and (merged[-1].session, merged[-1].token) == (entry.session, entry.token):
            merged[-1] = merged[-1].merged(entry)
        else:
            merged.append(entry)
    return merged


def table(path: str, found: Survey, now: float, clients: Mapping[str, Session]) -> str:
    """Return the table that ``--list`` prints.

    :param now: seconds since the epoch.
    :param clients: the known clients, by session.
    """
    if not (found.holders or found.waiting):
        return f"{path}: nobody holds it"
    rows = [("", "STATE", "AS", "LIBRARY", "SESSION", "CLIENT", "PROGRAM", "AGE", "ZNODE", "DATA")]
    for number, (position, entry) in enumerate(_positions(found), 1):
        text = entry.text()
        if len(text) > _WIDEST:
            text = text[: _WIDEST - 1] + "…"
        state = "waits" if position else "holds"
        library, session = "+".join(entry.libraries), session_text(entry.session)
        znode = ending(entry.paths[0].rpartition("/")[2])
        client = clients.get(session)
        who = (client.address, client.program) if client else ("", "")
        row = str(number), state, entry.kind, library, session, *who, age(now - entry.came), znode, text
        rows.append(row)
    return f"{path}: {len(found.holders)} holding, {len(found.waiting)} waiting\n{columns(rows)}"


def as_json(path: str, found: Survey, now: float, clients: Mapping[str, Session]) -> str:
    """Return the JSON that ``--list --json`` prints. The token is text, because many JSON parsers would round
    the number.

    :param now: seconds since the epoch.
    :param clients: the known clients, by session.
    """
    return json.dumps(
        {
            "path": path,
            "contenders": [
                {
                    "holds": not position,
                    "position": position,
                    "kind": entry.kind,
                    "libraries": entry.libraries,
                    "session": (session := session_text(entry.session)),
                    "client": (client := clients.get(session)) and client.client,
                    "program": client and client.program,
                    "token": str(entry.token),
                    "age": round(max(0.0, now - entry.came), 3),
                    "data": entry.text(),
                    "nodes": entry.paths,
                }
                for position, entry in _positions(found)
            ],
        },
        indent=2,
    )


def _positions(found: Survey) -> list[tuple[int, Entry]]:
    """Return all entries, each with the position among the waiters. The position of a holder is 0."""
    return [(0, entry) for entry in found.holders] + list(enumerate(found.waiting, 1))
