"""The controls that hold messages back, and let them go on or lose them."""

from __future__ import annotations

import math
from collections.abc import Iterable

from ..holding import MESSAGE_KINDS, HeldMessage, MessageKind
from ..operations import Selection
from ..sessions import SessionRef
from .base import ServerBase, control


class MessageControls(ServerBase):
    """What a test holds back."""

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
        """Hold messages back from now on, as a slow network does, until they are released or lost.

        Later messages of the same connection wait behind a held request or reply, pings excepted:
        clients count on that order. Messages of a connection that ends are gone.

        :param kind: ``"request"``: it has not arrived yet. ``"reply"``: the request was handled, the reply is
            not sent yet. ``"event"``: a watch has fired, the event is not sent yet. ``"handshake"``: a client
            asks for a session, and is not answered yet.
        :param op: for requests and replies: as for :meth:`fault`.
        :param path: a glob, as for :meth:`fault`; for events the path of the event.
        :param session: only messages of this session.
        :param times: how many messages are held at most; None is all.
        :param seconds: for how long each is held, on the server's clock; None is until it is released.
        :returns: the number of this hold, for :meth:`stop_holding`.
        :raises ValueError: for an unknown kind or operation, a number out of range, or a filter that makes no
            sense for this kind.
        :raises UnknownSessionError: if there is no such session.
        """
        if kind not in MESSAGE_KINDS:
            raise ValueError(f"kind is one of {', '.join(MESSAGE_KINDS)}, not {kind!r}")
        if op is not None and kind not in ("request", "reply"):
            raise ValueError(f"op= selects requests and replies; leave it out for kind={kind!r}")
        if path is not None and kind == "handshake":
            raise ValueError("a handshake has no path; leave path= out, or name its session")
        if times is not None and times < 1:
            raise ValueError(f"times counts from 1, not {times}")
        if seconds is not None and not 0 <= seconds < math.inf:
            raise ValueError(f"seconds must be a number of at least 0, not {seconds}")
        session_id = None if session is None else self._find(session).id
        selection = Selection.of(op, path, session_id)
        number = self.running.gate.hold(kind, selection, times, seconds)
        self._enter(f"hold {number}: each {kind}", session_id or 0)
        return number

    @control
    def holds(self) -> list[int]:
        """List the numbers of the holds in force."""
        return self.running.gate.holds()

    @control
    def held(self) -> list[HeldMessage]:
        """List the messages that are held now, the oldest first."""
        return self.running.gate.held()

    @control
    def release(self, *numbers: int) -> None:
        """Let held messages go on, in the order given: another order than theirs is how a test reorders.

        Each is followed by those that only waited behind it.

        :param numbers: of messages from :meth:`held`; without any, all of them, the oldest first.
        :raises ValueError: for a number that is not held; then nothing is released.
        """
        gate = self.running.gate
        self._enter(f"release {', '.join(map(str, numbers)) or 'everything'}")
        gate.release(numbers or [message.number for message in gate.held()])

    @control
    def lose(self, *numbers: int) -> None:
        """Throw held messages away, as if the network had lost them; what waited behind them goes on.

        A lost handshake leaves its connection without an answer for ever.

        :param numbers: of messages from :meth:`held`.
        :raises ValueError: for a number that is not held; then nothing is lost.
        """
        self.running.gate.lose(numbers)

    @control
    def stop_holding(self, hold: int | None = None) -> None:
        """End a hold, and release what it holds; without a number, do so with every hold.

        :raises ValueError: for a number that is no hold's.
        """
        gate = self.running.gate
        for number in gate.holds() if hold is None else [hold]:
            self._enter(f"stop hold {number}")
            gate.stop_holding(number)
