"""The servers that a test has started itself, for the report of its failure. The pytest plugin reads them.

* A server is noted when it starts, and remains noted after its end. The reason: a test that fails leaves the
  ``async with`` of its server before pytest gets the failure.
* As long as the thread of a server runs, only that thread reads the server. After the end of the thread, any
  thread can read the server.
* Only the last servers of a test are kept, and only until the end of the test.
"""

from __future__ import annotations

import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ...protocol.text import printable
from .errors import TEST_ENDED

if TYPE_CHECKING:
    from .ensemble import LocalEnsemble
    from .host import LocalServer

_MOST: Final = 4
"""The largest number of shown servers of a test. A noted server keeps its history and its tree in memory."""
_LINES: Final = 200
"""Lines of a timeline."""

_started: deque[tuple[LocalServer | LocalEnsemble, Callable[[Callable[[], Any]], Any], int]] | None = None

at_interrupt: Callable[[Callable[[int, Any], object]], Callable[[int, Any], object]] | None = None
"""Set by the pytest plugin: a function that takes a signal handler, and returns a handler that first takes a
picture and then calls the given handler."""


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

    _started.append((server, call, thread))


def forget(running: object) -> None:
    """Forget a server, because another report shows it."""
    for entry in list(_started or ()):
        if entry[0].running is running and _started is not None:
            _started.remove(entry)


def started() -> list[tuple[str, Any, Callable[[Callable[[], Any]], Any], bool]]:
    """Return the noted servers. Each is a tuple of its title, the server, a function that calls functions in
    the server's thread, and whether that thread is the current thread."""
    here = threading.get_ident()
    return [
        (f"server at {server.hosts}", server, call, thread == here)
        for server, call, thread in list(_started or ())
    ]


def take() -> Iterator[tuple[str, str]]:
    """Return title and text for the report of each server, and forget the servers."""
    while _started:
        server, call, _ = _started.popleft()
        try:
            yield from call(partial(sections, f"server at {server.hosts}", server))
        except Exception as error:  # a report without the timeline is better than none
            yield "server: no timeline", repr(error)


def pictures(servers: list[tuple[str, Any]], last: str, patience: float) -> Iterator[tuple[str, str]]:
    """Return title and text for the report of each server, at any moment: the handler of a signal calls this.

    :param servers: the servers of fixtures, by name.
    :param last: the text of the last line of the timeline.
    :param last: the last line of the timeline.
    """
    asked: list[tuple[str, Callable[[], Any]]] = [
        (name, partial(sections, name, server, last)) for name, server in servers
    ]
    for name, server, call, is_here in started():
        look = partial(sections, name, server, last)
        if is_here:
            yield from _answer(look)
        else:
            asked.append((name, partial(call, look)))
    for name, ask in asked:
        answers: list[tuple[str, str]] = []
        thread = threading.Thread(target=_keep, args=(answers, ask), daemon=True)
        thread.start()
        thread.join(patience)
        yield from answers or [(f"{name}: no timeline", "its thread does not answer")]


def _keep(answers: list[tuple[str, str]], ask: Callable[[], Any]) -> None:
    answers.extend(_answer(ask))


def _answer(look: Callable[[], Any]) -> Any:
    try:
        return look()
    except Exception as error:  # whatever the moment has interrupted
        return [("server: no timeline", repr(error))]


@contextmanager
def interruptible() -> Iterator[None]:
    """Inside the ``with``, make Ctrl-C take a picture before the event loop handles it."""
    if at_interrupt is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler):
        yield
        return
    signal.signal(signal.SIGINT, ours := at_interrupt(handler))
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is ours:
            signal.signal(signal.SIGINT, handler)


def sections(name: str, server: Any, last: str = TEST_ENDED) -> list[tuple[str, str]]:
    """Return title and text for the report of a server or an ensemble.

    :param last: the text of the last line of the timeline.
    """
    from .controls.history import timeline_of
    from .ending import ending
    from .steps import finish

    def draw() -> str:
        return finish(timeline_of(server, limit=_LINES, ending=ending(server.running, last)))

    timeline, tree = server.run(draw), server.format_tree()
    return [(f"{name}: timeline", _safe(timeline)), (f"{name}: tree", _safe(tree))]


def _safe(text: str) -> str:
    """Escape control characters of terminals, because clients choose paths and data."""
    return "\n".join(map(printable, text.split("\n")))
