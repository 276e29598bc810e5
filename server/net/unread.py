"""A limit for the memory of output that clients do not read, of all connections together.

1. Output that a socket takes at once is never counted. For the rest, the transport notes here how many bytes
   it holds.
2. Above the limit a connection is closed. Among the connections that hold at least the average, it is the
   one whose client has read nothing for the longest time. This spares clients that keep reading, and clients
   that hold little.
3. The connection that was noted last is spared, so that a single reply may have any size.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol


class Reader(Hashable, Protocol):
    """The part of a connection that is used here.

    :ivar aborted: the connection was closed, and its transport is about to drop its bytes.
    :ivar waiting: bytes of output that the transport did not get yet.
    """

    aborted: bool

    @property
    def waiting(self) -> int: ...

    def reject(self, reason: str) -> None:
        """Close the connection at once."""


class UnreadOutput:
    """
    :param limit: bytes that transports may hold for all connections together.
    :ivar total: bytes that they hold now.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: dict[Reader, int] = {}  # bytes; first the one whose client has read nothing for longest
        self.total = 0

    def note(self, connection: Reader, size: int, *, progress: bool) -> None:
        """Note that the transport holds ``size`` bytes, beside the bytes that wait in the connection.

        :param progress: whether the client has read anything since the last time.
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
        """Note that ``size`` more bytes wait in a connection; they count if its transport holds some, too."""
        if connection in self._held:
            self._held[connection] += size
            self.total += size
            if self.total > self._limit:
                self._make_room()

    def forget(self, connection: Reader) -> None:
        """Count nothing for a connection: its client has read everything, or the transport has dropped it."""
        self.total -= self._held.pop(connection, 0)

    def _make_room(self) -> None:
        held = self._held
        while self.total > self._limit:
            average = self.total / len(held)
            connection, size = next(item for item in held.items() if item[1] >= average)
            if connection is next(reversed(held)):
                return
            total = self.total
            self.forget(connection)
            connection.reject(
                f"its client does not read: {size:,} bytes wait for it, and {total:,} for all clients; "
                "maxUnreadBytes raises the limit"
            )
