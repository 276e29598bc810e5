"""The controls that inject faults into messages: single faults, and chaos."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..faults import Action, ErrorSpec, Fault, When
from ..operations import Selection
from ..origin import origin
from ..sessions import SessionRef
from .base import ServerBase, control

if TYPE_CHECKING:
    from ..chaos import Chaos


class FaultControls(ServerBase):
    """Faults that a test plans, and chaos."""

    @control
    def fault(
        self,
        op: str | Iterable[str] | None = None,
        path: str | None = None,
        session: SessionRef | None = None,
        nth: int = 1,
        times: int | None = 1,
        when: When = "before",
        action: Action = "disconnect",
        error: ErrorSpec | None = None,
        seconds: float | None = None,
        required: bool = True,
    ) -> Fault:
        """Inject a fault into certain requests; a context manager, in force inside its ``with``.

        :param op: the operation, such as ``"create"`` (every kind of create), ``"get_data"``, ``"multi"``; or
            several. None is any but ping.
        :param path: a glob for the path in the request, in which ``*`` is any text without a slash and ``**``
            any text. A sequential create is asked for without its number. A multi matches by each path in it.
        :param session: only requests of this session.
        :param nth: the first matching request to affect, from 1.
        :param times: how many from there on; None is all.
        :param when: ``"before"`` the request is applied, and instead of that; or ``"after"``.
        :param action: ``"disconnect"``: the connection is cut without a reply. ``"drop_reply"``: no reply,
            and the connection stays open but hears and says nothing any more. ``"error"``: answered with
            ``error``. ``"delay"``: for ``seconds`` nothing on this connection is handled (before) or sent
            (after). ``"expire"``: the session ends, without a reply.
        :param error: a class of :mod:`pyzk.protocol.errors`, or a code.
        :param seconds: on the server's clock.
        :param required: whether leaving the ``with`` raises :class:`.faults.FaultNeverFired` where it never
            fired.
        :raises ValueError: for an unknown operation or a combination that makes no sense.
        :raises UnknownSessionError: if there is no such session.
        """
        return Fault(
            self.running.gate,
            op=op,
            path=path,
            session=None if session is None else self._find(session).id,
            nth=nth,
            times=times,
            when=when,
            action=action,
            error=error,
            seconds=seconds,
            required=required,
            run=self.run,
        )

    @control
    def chaos(
        self,
        seed: int,
        *,
        disconnect: float = 0.0,
        lose_reply: float = 0.0,
        silence: float = 0.0,
        delay_request: float = 0.0,
        delay_reply: float = 0.0,
        expire: float = 0.0,
        delay_event: float = 0.0,
        refuse: float = 0.0,
        lose_session: float = 0.0,
        longest: float = 0.1,
        op: str | Iterable[str] | None = None,
        path: str | None = None,
        session: SessionRef | None = None,
    ) -> Chaos:
        """Inject faults by chance from now on, until ``end()`` of the result, which is a context manager too.
        The same seed and the same requests give the same faults; :mod:`.chaos` has the rules.

        :param seed: from which all is drawn.
        :param disconnect: the probability that a request is lost, and its connection cut.
        :param lose_reply: that it is applied, and the connection cut before its reply.
        :param silence: that it is applied, and its connection hears and says nothing from then on.
        :param delay_request: that it is handled later, and what comes behind it.
        :param delay_reply: that it is answered later.
        :param expire: that it is lost, and its session ends.
        :param delay_event: the probability that a watch event is sent later, and what comes behind it.
        :param refuse: that a handshake is lost, and its connection cut.
        :param lose_session: that a session is granted, or resumed, and the connection cut before the answer.
        :param longest: seconds on the server's clock that a delay takes at most.
        :param op: only requests of these operations, as for :meth:`fault`.
        :param path: a glob, as for :meth:`fault`: only requests and events with such a path, no handshakes.
        :param session: only messages of this session.
        :raises ValueError: for a probability that is not from 0 to 1, if there is none above 0, or for an
            unknown operation.
        :raises UnknownSessionError: if there is no such session.
        """
        from ..chaos import Chaos

        running = self.running
        probabilities = {
            "disconnect": disconnect,
            "lose_reply": lose_reply,
            "silence": silence,
            "delay_request": delay_request,
            "delay_reply": delay_reply,
            "expire": expire,
            "delay_event": delay_event,
            "refuse": refuse,
            "lose_session": lose_session,
        }
        chaos = Chaos(
            seed,
            probabilities,
            longest=longest,
            selection=Selection.of(op, path, None if session is None else self._find(session).id),
            names=running.names,
            sessions=[each.id for each in running.engine.sessions],
            gate=running.gate,
            run=self.run,
            origin=origin(),
        )
        running.enter(f"chaos {seed}: {', '.join(f'{n}={p:g}' for n, p in chaos.probabilities.items())}")
        running.gate.add_injector(chaos)
        return chaos
