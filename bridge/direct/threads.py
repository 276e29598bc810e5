"""Calls that a thread makes itself. The thread sends the request and waits for the reply."""

from __future__ import annotations

import select
import threading

from ...client.direct_connection import DirectConnection, TakenError
from ...client.pending import thread
from ..loop import Loop
from ..wakeups import Wakeup
from .calls import DirectCall, DirectCaller

_poll = getattr(select, "poll", None)
"""The function ``select.poll``; None on Windows, where the loop makes all calls."""


class _Here(threading.local):
    """:ivar direct_caller: the direct caller of this thread; None before its first call."""

    direct_caller: Waiting | None = None


_here = _Here()


def begin(loop: Loop, call: DirectCall) -> None:
    """Do a call in this thread, or ask the loop. It raises the errors of :meth:`.Loop.ask`."""
    direct_caller = _here.direct_caller
    if direct_caller is None or direct_caller.loop is not loop:
        direct_caller = _here.direct_caller = Waiting(loop)
    if not direct_caller.carry_out(call):
        loop.ask(call)


def forget() -> None:
    """Forget the direct caller of this thread: a client was closed."""
    direct_caller, _here.direct_caller = _here.direct_caller, None
    if direct_caller is not None:
        direct_caller.close()


class Waiting(DirectCaller):
    """A thread that waits for the answer.

    All direct connections of the thread use one wake-up.
    """

    def __init__(self, loop: Loop) -> None:
        super().__init__(loop)
        self._wakeup: Wakeup | None = None
        self._calls = 0
        self._waits = False

    def close(self) -> None:
        """Close the wake-up; called in the thread. If the handler of a signal closes the client, the call
        that the handler has interrupted still needs the wake-up. Then the garbage collector closes it."""
        if not self._calls:
            self._wakeup = None

    def ended(self, direct: DirectConnection, under_way: bool) -> None:
        wakeup = self._wakeup
        if under_way and wakeup is not None:
            wakeup.ring()

    def carry_out(self, call: DirectCall) -> bool:
        """Do a call while this thread has the connection.

        Returns False if the loop must be asked. Otherwise the call is answered, or the loop will answer it.
        """
        direct = self.direct_for(call) if _poll is not None else None
        if direct is None:
            return False
        if self._waits:  # the handler of a signal would answer the wake-up that is for the wait
            return False
        self._calls += 1
        try:
            return self._carry_out(call, direct)
        finally:
            self._calls -= 1

    def _carry_out(self, call: DirectCall, direct: DirectConnection) -> bool:
        try:
            if self._wakeup is None:
                self._wakeup = Wakeup()
        except OSError:  # no file descriptor is left
            return False
        if direct.reader is None:
            assert _poll is not None
            reader = _poll()
            reader.register(direct.fileno, select.POLLIN)
            reader.register(self._wakeup.fileno(), select.POLLIN)
            direct.reader = reader
        before = thread.taskless, thread.sends
        try:
            self.start(call)
            while (exchange := self.send(call, direct)) is not None:
                if exchange.is_sent:
                    self._wait(direct)
                reply = direct.receive(exchange)
                if reply is None:
                    self.give_back()
                    break
                self.settle(call, exchange, reply)
        except TakenError:
            return False
        finally:
            thread.taskless, thread.sends = before  # an exception may have come where they are set
        return True

    def _wait(self, direct: DirectConnection) -> None:
        """Wait until something comes, or the loop has taken its connection back."""
        wakeup = self._wakeup
        assert wakeup is not None
        try:
            self._waits = True
            while direct.is_here:
                for fileno, _ in direct.reader.poll():
                    if fileno == direct.fileno:
                        return
                    wakeup.answer()  # for this connection, or for an earlier one, whose call was interrupted
        finally:
            self._waits = False
