"""Calls that a thread makes itself: it sends the request, and waits for the reply."""

from __future__ import annotations

import select
import threading
from contextlib import suppress

from ...client import ClosingError
from ...client.loan import Loan, TakenError
from ...client.pending import thread
from ..loop import Loop
from ..wakeups import Wakeup
from .calls import Borrower, DirectCall

_poll = getattr(select, "poll", None)
"""None on Windows: there the loop makes all calls."""


class _Here(threading.local):
    """:ivar borrower: the borrower of this thread; None before its first call."""

    borrower: Waiting | None = None


_here = _Here()


def begin(loop: Loop, call: DirectCall) -> None:
    """Do a call in this thread, or ask the loop. It raises the errors of :meth:`.Loop.ask`."""
    borrower = _here.borrower
    if borrower is None or borrower.loop is not loop:
        borrower = _here.borrower = Waiting(loop)
    if not borrower.carry_out(call):
        loop.ask(call)


def forget() -> None:
    """Forget the borrower of this thread: a client was closed."""
    borrower, _here.borrower = _here.borrower, None
    if borrower is not None:
        borrower.close()


class Waiting(Borrower):
    """A thread that waits for the answer. It has one wake-up for all its loans. If each loan had one,
    Python would close the wake-ups, and a KeyboardInterrupt that comes while it does would be lost."""

    def __init__(self, loop: Loop) -> None:
        super().__init__(loop)
        self._wakeup: Wakeup | None = None
        self._waits = False

    def close(self) -> None:
        """End; called in the thread."""
        if self._wakeup is not None:
            self._wakeup.close()

    def ended(self, loan: Loan, under_way: bool) -> None:
        if under_way and self._wakeup is not None:
            with suppress(ClosingError):
                self._wakeup.ring()

    def carry_out(self, call: DirectCall) -> bool:
        """Do a call while a connection is on loan. Returns False if the loop must be asked. Otherwise the
        call is answered, or the loop will answer it."""
        loan = self.loan_for(call)
        if loan is None or _poll is None:
            return False
        if self._waits:  # the handler of a signal would answer the wake-up that is for the wait
            return False
        try:
            if self._wakeup is None:
                self._wakeup = Wakeup()
        except OSError:  # no file descriptor is left
            return False
        if loan.reader is None:
            reader = _poll()
            reader.register(loan.fileno, select.POLLIN)
            reader.register(self._wakeup.fileno(), select.POLLIN)
            loan.reader = reader
        before = thread.taskless, thread.sends
        try:
            self.start(call)
            while (exchange := self.send(call, loan)) is not None:
                if exchange.is_sent:
                    self._wait(loan)
                reply = loan.receive(exchange)
                if reply is None:
                    self.give_back()
                    break
                self.settle(call, exchange, reply)
        except TakenError:
            return False
        finally:
            thread.taskless, thread.sends = before  # an exception may have come where they are set
        return True

    def _wait(self, loan: Loan) -> None:
        """Wait until something comes, or the loop has taken its connection back."""
        wakeup = self._wakeup
        assert wakeup is not None
        try:
            self._waits = True
            while loan.is_here:
                for fileno, _ in loan.reader.poll():
                    if fileno == loan.fileno:
                        return
                    wakeup.answer()  # rung for this loan, or for one before, whose call was interrupted
        finally:
            self._waits = False
