"""Hands the connection of a client to a thread that makes one call after another.

:mod:`.direct_connection` has the connection that the thread gets.

The rules:

* A thread is *regular* after a few calls that have begun while no other request was in flight. The client
  then offers the connection to the thread after each reply, for ``HANDOFF_TIME``. The loop hands over the
  connection when the loop waits next.
* When the loop takes the connection back, it first notes what the thread has done with the connection.
* A client with an observer, a TLS connection or its own connector never hands over its connection.
"""

from __future__ import annotations

import socket
from typing import Any, Protocol

import trio

from .direct_connection import HANDOFF_TIME, DirectCaller, DirectConnection
from .machine import SessionMachine
from .request import Request

_REGULAR = 3
"""The number of calls in sequence after which a thread gets the connection."""


class Keeper(Protocol):
    """The part of :class:`.Runner` that :class:`Handoff` needs; :class:`.Runner` describes the members."""

    machine: SessionMachine
    socket: socket.socket | None
    in_sequence: bool

    @property
    def is_idle(self) -> bool: ...

    @property
    def is_observed(self) -> bool: ...

    def submit(self, request: Request[Any]) -> None: ...

    def go_on(self, unsent: bytes) -> None: ...

    def end_connection(self, reason: str) -> None: ...


class Handoff:
    """Hands over the client's connections, one after the other.

    :ivar asker: the thread that has made the last call; None if a direct connection is impossible for this
        thread.
    :ivar direct: the connection that is handed over now; None while the loop runs.
    :ivar _regular: the thread that calls in sequence, the number of its calls, and the time of the last call.
    :ivar _offering: the task that waits while the connection is offered.
    """

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self.asker: DirectCaller | None = None
        self.direct: DirectConnection | None = None
        self._regular: tuple[DirectCaller | None, int, float] = (None, 0, 0.0)
        self._offering: trio.lowlevel.Task | None = None

    async def offer(self) -> None:
        """Hand over the connection for a while, if a single thread makes one call after another."""
        keeper = self._keeper
        asker, self.asker = self.asker, None
        now = trio.current_time()
        regular, count, since = self._regular
        if asker is not regular or not keeper.in_sequence or now - since > HANDOFF_TIME:
            count = 0
        self._regular = asker, count + 1, now
        if asker is None or count < _REGULAR or keeper.socket is None or keeper.is_observed:
            return
        self._offering = trio.lowlevel.current_task()
        asker.offer(self)
        try:
            with trio.move_on_after(HANDOFF_TIME):
                await trio.lowlevel.wait_task_rescheduled(lambda _: trio.lowlevel.Abort.SUCCEEDED)
        finally:
            self._offering = None
            asker.withdraw(self)
            self._regular = *self._regular[:2], trio.current_time()

    def reset(self) -> None:
        """Note that the connection has ended."""
        self.asker, self._regular = None, (None, 0, 0.0)  # a thread that has ended may have a wake-up

    def submit_late(self, request: Request[Any]) -> None:
        """Send a request that the thread could not send itself. A request that is too large fails."""
        try:
            self._keeper.submit(request)
        except Exception as error:
            request.fail(error)

    # --- for the loop ------------------------------------------------------------------------------------

    def hand_over(self) -> bool:
        keeper, direct_caller = self._keeper, self._regular[0]
        if (
            direct_caller is None
            or keeper.socket is None
            or not keeper.is_idle
            or not keeper.machine.is_quiet
        ):
            return False
        data = keeper.machine.data
        self.direct = DirectConnection(
            keeper.socket, data.xid, data.request_limit, data.reply_limit, direct_caller
        )
        return True

    def take_back(self) -> None:
        offering, self._offering = self._offering, None
        direct, self.direct = self.direct, None
        try:
            if direct is not None:
                self._go_on(direct)
        finally:
            if offering is not None:
                trio.lowlevel.reschedule(offering)

    def end_connection(self, reason: str) -> None:
        self._keeper.end_connection(reason)

    def _go_on(self, direct: DirectConnection) -> None:
        machine, now = self._keeper.machine, trio.current_time()
        done, open = direct.take(machine.data.lease.deadline)
        if not done and open is None and now >= self._regular[2] + HANDOFF_TIME:
            self._regular = None, 0, now  # its direct caller has something else to do
        if open is not None:
            open.adopt()
        direct.direct_caller.ended(direct, open is not None)
        machine.exchanged(done, open, now)
        self._keeper.go_on(open.unsent if open is not None else b"")
