"""Limits that a test sets. The test fails if a client uses more watches or requests than the limit, or if the
tree gets more znodes.

Each session is counted separately. Znodes are counted for the whole server. Znodes that existed before the
block are not counted. Requests are counted only inside the block, so no other part of the test becomes
slower.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from ...protocol.operations import PING
from ...protocol.text import printable, session_text
from ..net.connection import Connection
from .errors import LimitExceeded
from .in_thread import ServerStopped
from .observers import Observer
from .operations import name_of, paths_in
from .running import Running

if TYPE_CHECKING:
    from .controls.history import HistoryControls


@contextmanager
def limits(
    server: HistoryControls,
    *,
    watches: int | None = None,
    requests: int | None = None,
    znodes: int | None = None,
) -> Iterator[None]:
    """Fail if a client of a server or of an ensemble exceeds a limit in the block::

        with limits(server, watches=10, requests=100):
            ...

    :param watches: the largest number of paths that each client can watch at a time.
    :param requests: the largest number of requests that each client can send; pings do not count.
    :param znodes: the largest number of znodes at a time; znodes that existed before the block do not count.
    :raises LimitExceeded: a client has exceeded a limit. The message says which client and which limit.
    :raises TypeError: a limit is not a whole number.
    :raises ValueError: a limit is below 0, or no limit is given.
    """
    given = {"watches": watches, "requests": requests, "znodes": znodes}
    for name, value in given.items():
        if value is not None and type(value) is not int:
            raise TypeError(f"{name} must be a whole number, not {value!r}")
        if value is not None and value < 0:
            raise ValueError(f"{name} must be at least 0, not {value}")
    if not any(value is not None for value in given.values()):
        raise ValueError("give a limit: watches, requests or znodes")
    observers = server.run(lambda: [_begin(part, given) for part in server.running.each()])
    ended = False
    try:
        yield
        ended = True
    finally:
        found: list[str] = []
        with suppress(ServerStopped):
            found = server.run(lambda: [text for observer in observers for text in observer.end()])
        if ended and found:
            raise LimitExceeded("\n".join(dict.fromkeys(found)))


def _begin(running: Running, given: dict[str, int | None]) -> _Count:
    running.receive()
    count = _Count(running, **given)
    running.observe(count)
    return count


class _Count(Observer):
    """The watches, requests and znodes that the clients of one server have used."""

    def __init__(
        self, running: Running, *, watches: int | None, requests: int | None, znodes: int | None
    ) -> None:
        self._running = running
        self._watches, self._requests, self._znodes = watches, requests, znodes
        self._before = len(running.engine.tree.nodes)
        self._seen: Counter[int] = Counter()
        self._last: tuple[Connection, int, bytes] | None = None
        self._found: dict[Any, str] = {}

    def request(self, connection: Connection, op: int, frame: bytes) -> None:
        self._look()  # at what the request before has left
        if op == PING:
            return
        self._last = connection, op, frame
        session = connection.session_id
        self._seen[session] += 1
        if self._requests is not None and self._seen[session] > self._requests:
            self._exceeded("requests", session, f"{self._requests:,} requests")

    def happened(self) -> None:
        self._look()

    def end(self) -> list[str]:
        """Return the exceeded limits, in words."""
        self._running.receive()
        self._look()
        self._running.unobserve(self)
        for key, text in self._found.items():
            if key[0] == "requests":
                self._found[key] = f"{text}; it sent {self._seen[key[1]]:,} in all"
        return list(self._found.values())

    def _look(self) -> None:
        if self._last is None:
            return
        connection, engine = self._last[0], self._running.engine
        if self._watches is not None:
            paths = engine.watches.watchers.get(connection, ())
            if len(paths) > self._watches:
                self._exceeded("watches", connection.session_id, f"{self._watches:,} watches")
        if self._znodes is not None and len(engine.tree.nodes) - self._before > self._znodes:
            self._exceeded("znodes", 0, f"{self._znodes:,} znodes")

    def _exceeded(self, kind: str, session: int, limit: str) -> None:
        if (kind, session) in self._found or self._last is None:
            return
        connection, op, frame = self._last
        name = self._running.names[connection.session_id]
        host, port = connection.peer
        who = f"{name or 'session'} {session_text(connection.session_id)} at {host}:{port}"
        where = printable(" ".join([name_of(op), *paths_in(op, frame)[:3]]))
        time = self._running.clock.now() - self._running.started
        self._found[kind, session] = f"{who} needs more than {limit}: exceeded by {where} at {time:.3f} s"
