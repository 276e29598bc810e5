"""A call that the caller or the loop can do, and which of the two does the call."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ...client import ClosingError
from ...client.direct_connection import ConnectionSource, DirectConnection, Exchange
from ...client.handoff import Handoff
from ...client.pending import thread
from ...client.request import Request
from ..loop import Loop
from ..workers import Call, Interrupted


class DirectCall(Call):
    """A call that sends one request after the other.

    :ivar is_direct: whether the direct caller does the call. Then no other code may use the call.
    :ivar direct_caller: the caller that can do the call over a direct connection, if there is one; ``source``
        hands over the connection. Both are None if only the loop can do the call.
    """

    is_direct = False
    direct_caller: DirectCaller | None = None
    source: Handoff | None = None

    @property
    def request(self) -> Request[Any] | None:
        """The exchange for which the call waits without a task, or None."""
        return self.taskless.request if self.taskless is not None else None

    def adopt(self) -> None:
        """Note that the loop does the call from now on; called in the loop."""
        self.is_direct = False

    def do_directly(self) -> None:
        """Do the call in the loop. If the direct caller has begun the call, continue the call in the loop."""
        if self.source is not None:
            self.source.asker = self.direct_caller
        if self.taskless is None:
            self.start()
            return
        self.adopt()
        if self.cancelled:
            self.taskless.cancel(Interrupted())
        elif self.source is not None and self.request is not None:
            self.source.submit_late(self.request)

    def forget(self) -> None:
        self.is_direct = False
        if self.taskless is not None:
            self.taskless.close()
            self.taskless = None

    def cancel(self) -> None:
        if self.is_direct and self.scope is None:
            self.cancelled = True  # it ends with its next request
        else:
            super().cancel()


class DirectCaller:
    """A thread that makes calls.

    :param loop: the loop of the clients.
    """

    def __init__(self, loop: Loop) -> None:
        self.loop = loop

    # --- in the loop -------------------------------------------------------------------------------------

    def offer(self, source: ConnectionSource) -> None:
        self.loop.sources.offers[source] = None

    def withdraw(self, source: ConnectionSource) -> None:
        self.loop.sources.offers.pop(source, None)

    def ended(self, direct: DirectConnection, under_way: bool) -> None:
        raise NotImplementedError

    # --- in the thread -----------------------------------------------------------------------------------

    def direct_for(self, call: DirectCall) -> DirectConnection | None:
        """Return the direct connection over which this thread can do a call; None if there is none."""
        if self.loop.forked:
            return None
        call.source = source = call.function.__self__.source  # type: ignore[attr-defined]
        if source is None:
            return None
        call.direct_caller = self
        direct = source.direct
        return (
            direct if direct is not None and direct.direct_caller is self and self.loop.allows(call) else None
        )

    def start(self, call: DirectCall) -> None:
        """Begin a call. Afterwards the call has its answer, or has a request to send."""
        before, call.is_direct = thread.sends, True
        try:
            thread.sends = True
            call.start()
        finally:
            thread.sends = before

    def send(self, call: DirectCall, direct: DirectConnection) -> Exchange | None:
        """Send the request of a call. Returns None if the call is answered.

        :raises TakenError: the loop must do the call.
        """
        request = call.request
        return None if request is None else direct.send(request, call.adopt)

    def settle(self, call: DirectCall, exchange: Exchange, reply: bytes) -> None:
        """Take a reply. Afterwards the call has its answer, or another request to send."""
        before = thread.sends
        try:
            thread.sends = True
            exchange.request.take_reply(exchange.code, reply)
        except Exception as error:
            assert call.source is not None
            self._tell(call.source.end_connection, f"the server broke the protocol: {error}")
        finally:
            thread.sends = before

    def give_back(self) -> None:
        """Make the loop take its connection back."""
        self._tell(_go_on)

    def _tell(self, function: Callable[..., object], *args: Any) -> None:
        with suppress(ClosingError):  # it has taken its connection back, and has answered all calls
            self.loop.post(function, *args)


def _go_on() -> None:
    """When anything wakes the loop, the loop takes its connections back."""
