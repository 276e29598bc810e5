"""The servers that a test has started itself, for the report of its failure. The pytest plugin asks for them.

* A server is noted when it starts, and stays known after its end: a test that fails leaves the ``async with``
  of its server before pytest hears of the failure.
* While the thread of a server runs, that thread is asked; afterwards nobody else looks at the server.
* Only the last servers of a test are kept, and only until its end.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ...protocol.text import printable

if TYPE_CHECKING:
    from .ensemble import LocalEnsemble
    from .host import LocalServer

_MOST: Final = 4
"""Servers of a test that are shown: each keeps its history and its tree."""
_LINES: Final = 200
"""Lines of a timeline."""

_started: deque[tuple[LocalServer | LocalEnsemble, Callable[[Callable[[], Any]], Any]]] | None = None


@contextmanager
def noted() -> Iterator[None]:
    """Note which servers are started inside the ``with``."""
    global _started
    before, _started = _started, deque(maxlen=_MOST)
    try:
        yield
    finally:
        _started = before


def note(server: LocalServer | LocalEnsemble) -> None:
    """Note a server that has started; called in its trio run."""
    if _started is None:
        return
    import trio

    token, thread = trio.lowlevel.current_trio_token(), threading.get_ident()

    def call(function: Callable[[], Any]) -> Any:
        if thread != threading.get_ident():
            try:
                return trio.from_thread.run_sync(function, trio_token=token)
            except trio.RunFinishedError:
                pass
        return function()

    _started.append((server, call))


def forget(running: object) -> None:
    """Forget a server: somebody else shows it."""
    for entry in list(_started or ()):
        if entry[0].running is running and _started is not None:
            _started.remove(entry)


def take() -> Iterator[tuple[str, str]]:
    """Return title and text of what is to be shown of the servers, and forget them."""
    while _started:
        server, call = _started.popleft()
        try:
            yield from call(partial(_sections, server))
        except Exception as error:  # a report without the timeline is better than none
            yield "server: no timeline", repr(error)


def _sections(server: LocalServer | LocalEnsemble) -> list[tuple[str, str]]:
    return sections(f"server at {server.hosts}", server)


def sections(name: str, server: Any) -> list[tuple[str, str]]:
    """Return title and text of what is to be shown of a server or an ensemble."""
    timeline, tree = server.format_timeline(limit=_LINES), server.format_tree()
    return [(f"{name}: timeline", _safe(timeline)), (f"{name}: tree", _safe(tree))]


def _safe(text: str) -> str:
    """Escape what a terminal would obey: clients choose paths and data."""
    return "\n".join(map(printable, text.split("\n")))
