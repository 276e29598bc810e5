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
    """The controls of planned faults, and of chaos."""

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
        """Inject a fault into the requests that match.

        The result is a context manager, and the fault is active inside its ``with`` block.

        :param op: the operation, such as ``"create"`` (every kind of create), ``"get_data"`` or ``"multi"``;
            or several operations. None means every operation except ping.
        :param path: a glob for the path in the request: ``*`` is any text without a slash, ``**`` is any
            text. The request of a sequential create has a path without the number. A multi matches if one of
            its paths matches.
        :param session: affect only requests of this session.
        :param nth: the number of the first matching request to affect, from 1.
        :param times: how many matching requests to affect; None affects all from number ``nth`` on.
        :param when: ``"before"``: the fault happens, and the request is not applied. ``"after"``: the request
            is applied, and then the fault happens.
        :param action: ``"disconnect"``: the connection is cut without a reply. ``"drop_reply"``: there is no
            reply; the connection stays open, but the server reads and sends nothing more on it. ``"error"``:
            the reply is ``error``. ``"delay"``: for ``seconds``, the server handles no request (``"before"``)
            or sends nothing (``"after"``) on this connection. ``"expire"``: the session ends without a reply.
        :param error: a class of :mod:`pyzk.protocol.errors`, or a negative error code.
        :param seconds: the delay, in seconds on the server's clock.
        :param required: whether the end of the ``with`` block raises :class:`.faults.FaultNeverFired` if no
            request was affected.
        :raises ValueError: an operation is unknown, or arguments exclude each other.
        :raises UnknownSessionError: there is no such session.
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
        """Inject random faults from now on, until ``end()`` of the result.

        The result is also a context manager. The same seed and the same requests give the same faults:
        :mod:`.chaos` has the rules.

        :param seed: the seed of all random decisions.
        :param disconnect: the probability that a request is lost and its connection is cut.
        :param lose_reply: the probability that a request is applied and its connection is cut before the
            reply.
        :param silence: the probability that a request is applied, and that the server then reads and sends
            nothing more on its connection.
        :param delay_request: the probability that a request is handled later. Later messages of the
            connection wait.
        :param delay_reply: the probability that a request is answered later.
        :param expire: the probability that a request is lost and its session ends.
        :param delay_event: the probability that a watch event is sent later. Later messages of the connection
            wait.
        :param refuse: the probability that a handshake is lost and its connection is cut.
        :param lose_session: the probability that a session is granted or resumed, and the connection is cut
            before the answer.
        :param longest: the longest delay, in seconds on the server's clock.
        :param op: affect only requests of these operations, as for :meth:`fault`.
        :param path: a glob, as for :meth:`fault`: affect only requests and events with a matching path, and
            no handshakes.
        :param session: affect only messages of this session.
        :raises ValueError: a probability is not from 0 to 1, no probability is above 0, or an operation is
            unknown.
        :raises UnknownSessionError: there is no such session.
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
