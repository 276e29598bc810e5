"""The hook between clients and the engine. Tests use it to hold, lose, delay and observe messages.

The command runs without a gate. Then each turn of a connection, and each request that arrives alone, only
compares ``service.gate`` with None. If there is a gate, each message passes the gate on its way:

    ConnectRequest -> handshake -> session granted (attached) or refused (refused)
    requests       -> requests  -> handle, which stands in for Engine.handle -> reply
    watch events   -> events    -> sent

A gate that holds a message returns it later: a request by :meth:`.connection.Connection.put_back`, a reply or
an event as a frame by ``send``. A gate can also stop a whole connection by ``freeze``, until ``thaw``. Then
the connection receives and sends nothing, as if the network were cut.

A request that takes several turns (:mod:`.operations.long`) begins in ``handle``, and ends in ``finished``.
A gate can prevent this: while ``wants_whole`` is true, each request is handled in one piece.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...protocol.records import ConnectRequest
from ..core.watches import Notification

if TYPE_CHECKING:
    from .connection import Connection


class Withheld(Exception):
    """There is no reply now. :meth:`Gate.handle` raises this error if the gate keeps the request."""


class Gate:
    """A gate that does not hold or change any message. Subclasses override the methods that they need."""

    @property
    def wants_whole(self) -> bool:
        """Whether each request is handled in one piece now."""
        return False

    def opened(self, connection: Connection) -> None:
        """Note that a client has connected."""

    def handshake(self, connection: Connection, request: ConnectRequest) -> bool:
        """Note that a client asks for a session.

        :returns: True to answer now. If the result is False, the gate has frozen the connection, and this
            method is called again when the connection is thawed.
        """
        return True

    def attached(self, connection: Connection, resumed: bool) -> None:
        """Note that a connection has its session.

        :param resumed: whether the session existed before; otherwise it is new.
        """

    def refused(self, connection: Connection, session_id: int, seen: int = 0) -> None:
        """Note that a client did not get the session that it asked for.

        :param seen: the last zxid that the client has seen, if this server has not reached this zxid. Such a
            client gets no answer.
        """

    def requests(self, connection: Connection, frames: list[bytes]) -> list[bytes]:
        """Return the requests that are handled now. This call comes before the requests count as a sign of
        life.

        :param frames: the requests, with headers and records. The rest of an earlier turn is among them.
        :returns: the requests to handle now. The gate has taken the others.
        """
        return frames

    def handle(self, connection: Connection, op: int, frame: bytes, now: float) -> tuple[int, int, bytes]:
        """Handle a request as :meth:`.engine.Engine.handle` does.

        :raises Withheld: there is no reply now.
        """
        return connection.engine.handle(connection, op, frame, connection.service.at(now))

    def finished(
        self, connection: Connection, op: int, frame: bytes, result: tuple[int, int, bytes], now: float
    ) -> None:
        """Note that a request that has taken several turns is done. Its reply will be queued now.

        :raises Withheld: there is no reply now.
        """

    def answered(
        self, connection: Connection, op: int, frame: bytes, result: tuple[int, int, bytes], now: float
    ) -> None:
        """Send the reply to a request that had to wait in the engine. For this request :meth:`handle` has
        raised :class:`Withheld`."""
        connection.reply(op, frame, result)

    def events(self, connection: Connection, events: Sequence[Notification]) -> Sequence[Notification]:
        """Return the watch events that are queued now.

        :returns: the events to queue now. The gate has taken the others.
        """
        return events

    def closed(self, connection: Connection, reason: str) -> None:
        """Note that a connection is over."""
