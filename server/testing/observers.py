"""Observers of requests and sessions. Waits of tests and the names of sessions use them.

Observers are called in the middle of a request or a transaction. So an observer only reads the parts of the
server. It changes nothing and calls no control.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType

import attrs
import trio

from ..net.connection import Connection
from ..net.service import java_address
from .operations import Selection

_NAME = re.compile(r"[A-Za-z_][\w.-]{0,23}", re.ASCII)
"""A name is neither a number nor an address, and is shorter than the narrowest column of a timeline."""
_ADDRESS = re.compile(r"\[(?P<v6>[^]]*)\](:(?P<port6>\d+))?|(?P<v4>[^:]*):(?P<port4>\d+)|(?P<host>.*)")
_MOST_EXPECTED = 1000
_MOST_NAMED = 10_000
"""The largest number of named sessions; the oldest names are dropped first."""


@attrs.frozen
class Address:
    """Where a client comes from.

    :ivar port: None for any.
    """

    host: str
    port: int | None

    @classmethod
    def of(cls, text: str) -> Address:
        """:raises ValueError: the text is not an IP address, with or without a port."""
        match = _ADDRESS.fullmatch(text)
        given = match.groupdict() if match else {}
        port = given.get("port6") or given.get("port4")
        try:
            host = str(ipaddress.ip_address(given.get("v6") or given.get("v4") or given.get("host") or ""))
        except ValueError:
            raise ValueError(f"an address must be like 127.0.0.1 or 127.0.0.1:40000, not {text!r}") from None
        return cls(java_address(host), int(port) if port else None)

    def matches(self, peer: tuple[str, int]) -> bool:
        return self.host == peer[0] and self.port in (None, peer[1])


class Observer:
    """The base of observers. Subclasses override the methods that they need."""

    def request(self, connection: Connection, op: int, frame: bytes) -> None:
        """A request is about to be handled."""

    def attached(self, connection: Connection, resumed: bool) -> None:
        """A connection has its session. All observers get this call before ``happened``."""

    def happened(self) -> None:
        """The tree, the sessions or the held messages may have changed."""


class Wait(Observer):
    """Waits until a condition holds.

    :param look: returns whether the condition is true; called at each change.
    """

    def __init__(self, look: Callable[[], bool]) -> None:
        self._look = look
        self._met = trio.Event()

    def happened(self) -> None:
        if not self._met.is_set() and self._look():
            self._met.set()

    async def until_met(self, seconds: float) -> bool:
        """Return True as soon as the condition has been true once. Return False after ``seconds`` seconds of
        real time."""
        with trio.move_on_after(seconds):
            await self._met.wait()
        return self._met.is_set()


class RequestWait(Wait):
    """Waits until a number of requests have come.

    :ivar seen: the number of requests so far.
    """

    def __init__(self, selection: Selection, count: int) -> None:
        super().__init__(lambda: self.seen >= count)
        self._selection = selection
        self.seen = 0

    def request(self, connection: Connection, op: int, frame: bytes) -> None:
        if self._selection.has_request(connection.session_id, op, frame):
            self.seen += 1
            self.happened()


class AddressWait(Wait):
    """Waits until a number of connections from an address have a session. After it has found enough
    connections, it checks only these connections at each event.

    :param connections: all present connections. The collection may change later.
    """

    def __init__(self, address: Address, connections: Collection[Connection], count: int) -> None:
        super().__init__(self._are_enough)
        self._address, self._connections, self._count = address, connections, count
        self._found = {each for each in connections if address.matches(each.peer)}

    def attached(self, connection: Connection, resumed: bool) -> None:
        if self._address.matches(connection.peer):
            self._found.add(connection)

    def _are_enough(self) -> bool:
        if len(self._found) < self._count:
            return False
        self._found = {each for each in self._found if each.session is not None and each in self._connections}
        return len(self._found) >= self._count


class SessionNames(Observer):
    """The names that a test has given to sessions, or has reserved for later sessions."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._expected: list[tuple[str, Address | None]] = []

    def __getitem__(self, session: int) -> str | None:
        return self._names.get(session)

    @property
    def all(self) -> Mapping[int, str]:
        """The names by session, the oldest first."""
        return MappingProxyType(self._names)

    @property
    def expected(self) -> list[str]:
        """The names that wait for their sessions."""
        return [name for name, _ in self._expected]

    def session(self, name: str) -> int | None:
        """The id of the last session of this name."""
        return next((session for session, given in reversed(self._names.items()) if given == name), None)

    def give(self, session: int, name: str) -> None:
        """:raises ValueError: the text cannot be a name."""
        check_name(name)
        self._names.pop(session, None)
        self._names[session] = name
        if len(self._names) > _MOST_NAMED:
            del self._names[next(iter(self._names))]

    def expect(self, name: str, address: str | None) -> None:
        """Give a name to the next new session.

        :param address: the address of the session's client, with or without a port; None for any.
        :raises ValueError: the name or the address is malformed, or too many names wait for sessions.
        """
        check_name(name)
        if len(self._expected) >= _MOST_EXPECTED:
            raise ValueError(f"{_MOST_EXPECTED} names already wait for new sessions; use some of them first")
        self._expected.append((name, None if address is None else Address.of(address)))

    def attached(self, connection: Connection, resumed: bool) -> None:
        if not resumed:
            for expected in self._expected:
                name, address = expected
                if address is None or address.matches(connection.peer):
                    self._expected.remove(expected)
                    self.give(connection.session_id, name)
                    return
        if connection.endpoint and connection.session_id not in self._names:
            self.give(connection.session_id, connection.endpoint)

    def clear(self) -> None:
        self._names.clear()
        self._expected.clear()


def check_name(name: str) -> None:
    """:raises ValueError: the text cannot be the name of a session or an endpoint."""
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"a name is a letter and up to 23 letters, digits, dots, dashes or underscores, not {name!r}"
        )
