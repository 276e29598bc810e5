"""Cycles of waiting: sessions that wait for each other over several directories, and so for ever.

The rules:

1. A waiter waits for every holder of its directory. Waiters do not count as waiting for earlier waiters,
   because all waiters of a directory wait for the same holders.
2. Only locks, read-write locks and semaphores with one holder are considered. If a semaphore has several
   holders, a waiter waits only until one of the holders releases. Candidates of an election and members of a
   barrier may wait for a long time without harm.
3. A session that waits for itself is not a cycle, because two threads of one client may share the session.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs

from .directories import Layout, Shape

_MOST_CYCLES = 20
"""The largest number of cycles that are returned. A user needs only one cycle to find the fault."""


@attrs.frozen
class Wait:
    """A session that waits at a path for other sessions.

    :ivar holders: the sessions that hold the directory.
    """

    session: int
    path: str
    holders: frozenset[int]


def waits(path: str, layout: Layout) -> Iterator[Wait]:
    """Yield a :class:`Wait` for each waiter of a directory. Unknown sessions are left out."""
    blocks = layout.shape in (Shape.LOCK, Shape.READ_WRITE_LOCK)
    if not blocks and not (layout.shape is Shape.SEMAPHORE and len(layout.holders) == 1):
        return
    holders = frozenset(entry.session for entry in layout.holders if entry.session)
    for entry in layout.waiters:
        if entry.session and holders:
            yield Wait(entry.session, path, holders)


def find_cycles(found: Iterable[Wait]) -> list[list[tuple[int, str]]]:
    """Return cycles of waiting: each session with the path at which it waits for the next session. The last
    session waits for the first. If there are cycles, at least one cycle and at most 20 cycles are
    returned."""
    by_session: dict[int, list[Wait]] = {}
    for wait in found:
        by_session.setdefault(wait.session, []).append(wait)
    edges = {
        session: {
            holder: wait.path
            for wait in waits_of
            for holder in sorted(wait.holders & by_session.keys())
            if holder != session
        }
        for session, waits_of in by_session.items()
    }
    cycles: list[list[tuple[int, str]]] = []
    over: set[int] = set()
    for start in edges:
        way: dict[int, Iterator[int]] = {} if start in over else {start: iter(edges[start])}
        while way and len(cycles) < _MOST_CYCLES:
            session = next(reversed(way))
            following = next(way[session], None)
            if following is None:
                del way[session]
                over.add(session)
            elif following in way:
                ring = list(way)
                ring = ring[ring.index(following) :]
                pairs = zip(ring, [*ring[1:], following], strict=True)
                cycles.append([(each, edges[each][other]) for each, other in pairs])
            elif following not in over:
                way[following] = iter(edges[following])
    return cycles
