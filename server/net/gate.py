"""The hook between clients and the engine, where tests hold, lose, delay and observe messages.

The command runs without a gate. Then each turn of a connection, and each request that arrives alone, only
compares ``service.gate`` with None. With a gate, each message passes it on its way:

    ConnectRequest -> handshake -> session granted (attached) or refused (refused)
    requests       -> requests  -> handle, which stands in for Engine.handle -> reply
    watch events   -> events    -> sent

A gate that keeps a message back returns it later: requests by :meth:`.connection.Connection.put_back`,
replies and events as frames by ``send``. It can also stop a whole connection, by ``freeze`` and ``thaw``:
then the connection neither receives nor sends, as if the network were cut.

A request that takes several turns (:mod:`.operations.long`) begins in ``handle``, and ends in ``finished``.
A gate can prevent that: while ``wants_whole`` is true each request is handled in one piece.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...protocol.records import ConnectRequest
from ..core.watches import Notification

if TYPE_CHECKING:
    from .connection import Connection


class Withheld(Exception):
    """Raised by :meth:`Gate.handle`: send no reply now. The gate takes care of the request."""


class Gate:
    """A gate that lets everything pass. Subclasses override the methods that they need."""

    @property
    def wants_whole(self) -> bool:
        """Whether each request is handled in one piece now."""
        return False

    def opened(self, connection: Connection) -> None:
        """Note that a client has connected."""

    def handshake(self, connection: Connection, request: ConnectRequest) -> bool:
        """Note that a client asks for a session.

        :returns: True to answer now. Otherwise the gate has frozen the connection, and is asked again once it
            is thawed.
        """
        return True

    def attached(self, connection: Connection, resumed: bool) -> None:
        """Note that a connection has its session: a new one, or one ``resumed``."""

    def refused(self, connection: Connection, session_id: int, seen: int = 0) -> None:
        """Note that a client was refused the session that it asked for.

        :param seen: the zxid that it has seen, if it is ahead of this server; such a client gets no answer.
        """

    def requests(self, connection: Connection, frames: list[bytes]) -> list[bytes]:
        """Requests are about to be handled; this comes before they count as a sign of life.

        :param frames: headers and records. The rest of an earlier turn is shown again.
        :returns: the requests that are handled now; the gate has taken the others.
        """
        return frames

    def handle(self, connection: Connection, op: int, frame: bytes, now: float) -> tuple[int, int, bytes]:
        """Handle a request as :meth:`.engine.Engine.handle` does.

        :raises Withheld: if nothing is to be answered now.
        :raises Withheld: there is no reply now.
        """
        return connection.engine.handle(connection, op, frame, connection.service.at(now))

    def finished(
        self, connection: Connection, op: int, frame: bytes, result: tuple[int, int, bytes], now: float
    ) -> None:
        """A request that has taken several turns is done, and its reply is about to be queued.

        :raises Withheld: if nothing is to be answered now.
        """

    def answered(
        self, connection: Connection, op: int, frame: bytes, result: tuple[int, int, bytes], now: float
    ) -> None:
        """Send the reply to a request that the engine had to keep waiting: :meth:`handle` has raised
        :class:`Withheld` for it."""
        connection.reply(op, frame, result)

    def events(self, connection: Connection, events: Sequence[Notification]) -> Sequence[Notification]:
        """Watch events are about to be queued.

        :returns: the events that are queued now.
        """
        return events

    def closed(self, connection: Connection, reason: str) -> None:
        """Note that a connection is over."""
