"""The end of the timeline of a test that failed or hangs: the time, the watches that have not fired, who
waits for whom, and since when. These facts alone usually explain a test that hangs.

All facts are read at one moment, in the thread of the servers. This reads all znodes of the tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Final

from ...protocol.layouts import Layout, Shape, Wait, find_cycles, waits
from ...protocol.text import printable, session_text
from ..core.tree import DataTree
from .directories import recognised
from .running import Running
from .running_ensemble import RunningEnsemble

_LEFT: Final = 19
"""The width of the left margin, in characters, for a line of the timeline that belongs to no session."""
_MOST: Final = 20
"""The largest number of lines of each kind: sessions with watches, paths of each session, waits, and
holders."""
_MOST_WAITS: Final = 500
"""The largest number of waits among which cycles are searched."""
_DATA: Final = 40
"""The number of characters that are shown of the data in a holder's znode."""
_LOOKED_AT: Final = 100_000
"""The largest number of znodes that are searched for locks."""


def ending(running: Running | RunningEnsemble, text: str) -> Callable[[Mapping[int, str]], Iterator[str]]:
    """Return a function that makes the last lines of a timeline. Its argument has the names of the sessions
    in this timeline.

    :param text: the last line of the timeline.
    """

    def lines(names: Mapping[int, str]) -> Iterator[str]:
        parts = list(running.each())
        now = parts[0].clock.now() - running.started
        yield f"{now:10.3f}{'':>{_LEFT - 10}}  == {text}"

        def who(session: int) -> str:
            return names.get(session) or running.names[session] or session_text(session)

        yield from _cut(
            _unsent(parts, who), "events that wait because the connection is stopped:", "sessions"
        )
        yield from _cut(_watches(parts, who), "watches that have not fired:", "sessions")
        yield from _who_waits(running, parts, who, running.wall_clock(now))

    return lines


def _unsent(parts: Iterable[Running], who: Callable[[int], str]) -> Iterator[str]:
    for part in parts:
        for connection, events in part.gate.unsent.items():
            yield f"  {who(connection.session_id)}: {printable(str(events))}"


def _watches(parts: Iterable[Running], who: Callable[[int], str]) -> Iterator[str]:
    for part in parts:
        for connection in part.service.connections:
            paths = part.engine.watches.watchers.get(connection) if connection.session is not None else None
            if paths:
                yield f"  {who(connection.session_id)}: {_listed(paths)}"


def _listed(paths: Mapping[str, None]) -> str:
    more = len(paths) - _MOST
    return printable(", ".join(islice(paths, _MOST))) + (f", and {more:,} more" if more > 0 else "")


def _cut(lines: Iterator[str], head: str, what: str) -> Iterator[str]:
    """Yield a heading and the first lines. Yield nothing if there are no lines."""
    for n, text in enumerate(lines):
        if n == 0:
            yield head
        if n == _MOST:
            yield f"  and more {what}"
            return
        yield text


def _who_waits(
    running: Running | RunningEnsemble, parts: list[Running], who: Callable[[int], str], now: float
) -> Iterator[str]:
    tree = parts[0].engine.tree if isinstance(running, Running) else running.host.ensemble.newest_tree()
    waiting: list[Wait] = []
    yield from _cut(_waiters(tree, who, now, waiting), "who waits:", "waits")
    for cycle in find_cycles(waiting):
        ring = [f"{who(session)} waits at {printable(path)}" for session, path in cycle]
        yield f"  deadlock: {' for '.join([*ring, who(cycle[0][0])])}"


def _waiters(tree: DataTree, who: Callable[[int], str], now: float, waiting: list[Wait]) -> Iterator[str]:
    for found in islice(recognised(tree, "/"), _LOOKED_AT):
        if found is None:
            continue
        path, _, layout = found
        if layout.shape in (Shape.GROUP, Shape.QUEUE):
            continue
        waiting += islice(waits(path, layout), _MOST_WAITS - len(waiting))
        for entry in layout.waiters:
            stat = entry.child.stat
            since = f" {max(0.0, now - stat.ctime / 1000):.3f} s" if stat is not None else ""
            yield f"  {printable(path)}: {who(entry.session or 0)} waits{since}{_for_whom(layout, who)}"


def _for_whom(layout: Layout, who: Callable[[int], str]) -> str:
    found = []
    for entry in islice(layout.holders, _MOST):
        data = printable((entry.child.data or b"")[:_DATA].decode(errors="replace"))
        found.append(who(entry.session or 0) + (f" ({data!r})" if data else ""))
    return f" for {', '.join(found)}" if found else ""
