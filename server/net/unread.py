"""Output that clients do not read: how much memory it may take, of all connections together.

What a socket takes at once is never counted; where it takes less, the transport notes here what it holds.
Above the limit connections are disconnected: each time the one whose client has read nothing for longest,
among those that hold at least the average. So it is not a client that goes on reading beside one that does
not, nor one that holds little beside one that holds much. A single reply may be as large as it is: the
connection that was noted last is left alone.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol


class Reader(Hashable, Protocol):
    """What is to be known of a connection.

    :ivar aborted: it was disconnected, and its transport is about to throw away what it holds.
    :ivar waiting: bytes of output that the transport was not given yet.
    """

    aborted: bool

    @property
    def waiting(self) -> int: ...

    def abort(self, reason: str) -> None:
        """Disconnect it at once."""


class UnreadOutput:
    """
    :param limit: in bytes.
    :ivar total: bytes that are held at present.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: dict[Reader, int] = {}  # in bytes; whose client has read nothing for longest, first
        self.total = 0

    def note(self, connection: Reader, size: int, *, progress: bool) -> None:
        """The transport holds ``size`` bytes, beside those that wait in the connection.

        :param progress: whether the client has read something since the last time.
        """
        if connection.aborted:
            return
        size += connection.waiting
        self.total += size - self._held.get(connection, 0)
        if progress:
            self._held.pop(connection, None)
        self._held[connection] = size
        if self.total > self._limit:
            self._make_room()

    def grew(self, connection: Reader, size: int) -> None:
        """So many bytes more wait in a connection, which counts if the transport holds something, too."""
        if connection in self._held:
            self._held[connection] += size
            self.total += size
            if self.total > self._limit:
                self._make_room()

    def forget(self, connection: Reader) -> None:
        """The client has read everything, or the transport has thrown it away."""
        self.total -= self._held.pop(connection, 0)

    def disconnect_largest(self) -> None:
        """Disconnect those that hold at least the average, because memory is short."""
        average = self.total / max(1, len(self._held))
        for connection, size in list(self._held.items()):
            if size >= average:
                self.forget(connection)
                connection.abort(f"it does not read: {size:,} bytes wait for it, and memory is short")

    def _make_room(self) -> None:
        held = self._held
        while self.total > self._limit:
            average = self.total / len(held)
            connection, size = next(item for item in held.items() if item[1] >= average)
            if connection is next(reversed(held)):
                return
            total = self.total
            self.forget(connection)
            connection.abort(
                f"it does not read: {size:,} bytes wait for it, and {total:,} for all clients together; "
                "maxUnreadBytes raises the limit"
            )
