"""The controls that hold messages, and release or lose them."""

from __future__ import annotations

import math
from collections.abc import Iterable

from ..holding import MESSAGE_KINDS, HeldMessage, MessageKind
from ..operations import Selection
from ..sessions import SessionRef
from .base import ServerBase, control


class MessageControls(ServerBase):
    """The controls of held messages."""

    @control
    def hold(
        self,
        kind: MessageKind = "request",
        *,
        op: str | Iterable[str] | None = None,
        path: str | None = None,
        session: SessionRef | None = None,
        times: int | None = None,
        seconds: float | None = None,
    ) -> int:
        """Hold messages from now on, as a slow network does, until they are released or lost.

        Later messages of the same connection, except pings, wait behind a held request or reply, because
        clients rely on their order. When a connection ends, its held messages are lost.

        :param kind: ``"request"``: the request has not arrived yet. ``"reply"``: the request was handled, but
            the reply is not sent yet. ``"event"``: a watch has fired, but the event is not sent yet.
            ``"handshake"``: a client has asked for a session, and has no answer yet.
        :param op: hold only requests and replies of this operation, as for :meth:`fault`.
        :param path: a glob, as for :meth:`fault`: hold only messages with a matching path.
        :param session: hold only messages of this session.
        :param times: the largest number of messages to hold; None holds all messages.
        :param seconds: how long each message is held, in seconds on the server's clock; None holds a message
            until it is released.
        :returns: the number of this hold, for :meth:`stop_holding`.
        :raises ValueError: a kind or an operation is unknown, a number is out of range, or messages of this
            kind do not have such a filter.
        :raises UnknownSessionError: there is no such session.
        """
        if kind not in MESSAGE_KINDS:
            raise ValueError(f"kind must be one of {', '.join(MESSAGE_KINDS)}, not {kind!r}")
        if op is not None and kind not in ("request", "reply"):
            raise ValueError(f"op= selects requests and replies; leave it out for kind={kind!r}")
        if path is not None and kind == "handshake":
            raise ValueError("a handshake has no path; leave path= out, or give session=")
        if times is not None and times < 1:
            raise ValueError(f"times must be at least 1, not {times}")
        if seconds is not None and not 0 <= seconds < math.inf:
            raise ValueError(f"seconds must be a number of at least 0, not {seconds}")
        session_id = None if session is None else self._find(session).id
        selection = Selection.of(op, path, session_id)
        number = self.running.gate.hold(kind, selection, times, seconds)
        self._enter(f"hold {number}: each {kind}", session_id or 0)
        return number

    @control
    def holds(self) -> list[int]:
        """List the numbers of the active holds."""
        return self.running.gate.holds()

    @control
    def held(self) -> list[HeldMessage]:
        """List the messages that are held now, the oldest first."""
        return self.running.gate.held()

    @control
    def release(self, *numbers: int) -> None:
        """Release held messages in the given order. A test reorders messages if it gives the numbers in
        another order.

        Messages that only waited behind a message follow it.

        :param numbers: numbers of messages from :meth:`held`; without numbers, all messages are released, the
            oldest first.
        :raises ValueError: no message with this number is held. Then no message is released.
        """
        gate = self.running.gate
        self._enter(f"release {', '.join(map(str, numbers)) or 'everything'}")
        gate.release(numbers or [message.number for message in gate.held()])

    @control
    def lose(self, *numbers: int) -> None:
        """Drop held messages, as if the network had lost them. Messages that waited behind the dropped
        messages are released.

        A connection whose handshake is lost never gets an answer.

        :param numbers: numbers of messages from :meth:`held`.
        :raises ValueError: no message with this number is held. Then no message is lost.
        """
        self.running.gate.lose(numbers)

    @control
    def stop_holding(self, hold: int | None = None) -> None:
        """End a hold, and release its messages.

        :param hold: the number of the hold; None for all holds.
        :raises ValueError: there is no hold with this number.
        """
        gate = self.running.gate
        for number in gate.holds() if hold is None else [hold]:
            self._enter(f"stop hold {number}")
            gate.stop_holding(number)
