"""A limit for the total memory of output that clients do not read.

1. Output that a socket takes immediately is never counted. For other output, the transport notes here how
many bytes it holds.
2. Above the limit one connection is closed. Among the connections that hold the average or more, it is the
   connection whose client has read nothing for the longest time. So clients that keep reading, and clients
   with little output, are not closed.
3. The connection that was noted last is not closed, so that a single reply may have any size.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol


class Reader(Hashable, Protocol):
    """The part of a connection that this module uses.

    :ivar aborted: whether the connection was aborted, so that its transport will drop the output.
    """

    aborted: bool

    @property
    def waiting(self) -> int:
        """The number of bytes of output that are still in the connection, and not in its transport."""

    def reject(self, reason: str) -> None:
        """Close the connection immediately."""


class UnreadOutput:
    """The counter of the output that clients do not read.

    :param limit: the number of bytes that all transports together may hold.
    :ivar total: the number of bytes that all transports together hold now.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: dict[
            Reader, int
        ] = {}  # bytes; the client that has not read for the longest time is first
        self.total = 0

    def note(self, connection: Reader, size: int, *, progress: bool) -> None:
        """Note the number of bytes that the transport of a connection holds. Bytes that wait in the
        connection are not part of ``size``.

        :param progress: whether the client has read anything since the last call.
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
        """Note that ``size`` more bytes wait in a connection. They count only if its transport holds bytes
        too."""
        if connection in self._held:
            self._held[connection] += size
            self.total += size
            if self.total > self._limit:
                self._make_room()

    def forget(self, connection: Reader) -> None:
        """Count no output of a connection any more, because its client has read all output, or its transport
        has dropped the output."""
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
