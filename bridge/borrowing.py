"""Calls over a connection on loan (:mod:`pyzk.client.loan`): no switch to the thread of the loop.

The rules:

* The loop lends while it waits for I/O, and takes back when it goes on, before it does anything else.
* A caller may do a call itself if the call sends one request after the other, and the blocks around it are
  not cancelled. That is known while the loop waits; when it changes, the loop has the connection again, and
  the call is brought to the loop with its next request.
* A call that the loop was asked for comes first: until the loop goes on for it, no other call borrows.
* A call is *borrowed* while its caller does it: then the loop leaves it alone. That ends when the loop goes
  on with its exchange, or when the caller asks the loop.
* What the loop has to do is posted to it: a request that could not be sent any more, or a reply that came
  with something else.
"""

from __future__ import annotations

import select
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ..client import ClosingError
from ..client.loan import Exchange, Lender, Loan, TakenError
from ..client.pending import thread
from .agent import Call
from .loop import Loop
from .wakeups import Bell

_poll = getattr(select, "poll", None)
"""None on Windows: there the loop makes all calls."""


class Borrower:
    """A thread that makes calls.

    :param loop: the loop of the clients.
    """

    def __init__(self, loop: Loop) -> None:
        self.loop = loop

    # --- in the loop -------------------------------------------------------------------------------------

    def offer(self, lender: Lender) -> None:
        self.loop.lenders.offers[lender] = None

    def withdraw(self, lender: Lender) -> None:
        self.loop.lenders.offers.pop(lender, None)

    def ended(self, loan: Loan, under_way: bool) -> None:
        raise NotImplementedError

    # --- in the thread -----------------------------------------------------------------------------------

    def loan_for(self, call: Call) -> Loan | None:
        """Return the loan over which this thread may do a call; None if there is none."""
        if self.loop.forked:
            return None
        call.lender = lender = call.function.__self__.lender  # type: ignore[attr-defined]
        if lender is None:
            return None
        call.borrower = self
        loan = lender.loan
        return loan if loan is not None and loan.borrower is self and self.loop.allows(call) else None

    def start(self, call: Call) -> None:
        """Begin a call. It is answered then, or has a request to send."""
        before, call.borrowed = thread.borrows, True
        try:
            thread.borrows = True
            call.start()
        finally:
            thread.borrows = before

    def send(self, call: Call, loan: Loan) -> Exchange | None:
        """Send the request of a call. Returns None if the call is answered.

        :raises TakenError: the loop is to be asked.
        """
        request = call.request
        return None if request is None else loan.send(request, call.adopt)

    def settle(self, call: Call, exchange: Exchange, reply: bytes) -> None:
        """Take a reply. Then the call is answered, or has another request to send."""
        before = thread.borrows
        try:
            thread.borrows = True
            exchange.request.take_reply(exchange.code, reply)
        except Exception as error:
            assert call.lender is not None
            self._tell(call.lender.end_connection, f"the server broke the protocol: {error}")
        finally:
            thread.borrows = before

    def give_back(self) -> None:
        """Have the loop take its connection back."""
        self._tell(_go_on)

    def _tell(self, function: Callable[..., object], *args: Any) -> None:
        with suppress(ClosingError):  # it has taken its connection back, and has answered all calls
            self.loop.post(function, *args)


def _go_on() -> None:
    """Whatever wakes the loop, it takes its connections back."""


class Waiting(Borrower):
    """A thread that waits for the answer. It has one bell for all its loans: one for each would be closed by
    Python, which swallows a KeyboardInterrupt there."""

    def __init__(self, loop: Loop) -> None:
        super().__init__(loop)
        self._bell: Bell | None = None
        self._waits = False

    def close(self) -> None:
        """End; called in the thread."""
        if self._bell is not None:
            self._bell.close()

    def ended(self, loan: Loan, under_way: bool) -> None:
        if under_way and self._bell is not None:
            with suppress(ClosingError):
                self._bell.ring()

    def carry_out(self, call: Call) -> bool:
        """Do a call, as far as a connection is on loan. Returns False if the loop is to be asked; else the
        call is answered, or the loop will do that."""
        loan = self.loan_for(call)
        if loan is None or _poll is None:
            return False
        if self._waits:  # the handler of a signal would answer the bell that is for the wait
            return False
        try:
            if self._bell is None:
                self._bell = Bell()
        except OSError:  # no file descriptor is left
            return False
        if loan.desk is None:
            desk = _poll()
            desk.register(loan.fileno, select.POLLIN)
            desk.register(self._bell.fileno(), select.POLLIN)
            loan.desk = desk
        before = thread.taskless, thread.borrows
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
            thread.taskless, thread.borrows = before  # an exception may have come where they are set
        return True

    def _wait(self, loan: Loan) -> None:
        """Wait until something comes, or the loop has taken its connection back."""
        bell = self._bell
        assert bell is not None
        try:
            self._waits = True
            while loan.is_here:
                for fileno, _ in loan.desk.poll():
                    if fileno == loan.fileno:
                        return
                    bell.answer()  # rung for this loan, or for one before, whose call was interrupted
        finally:
            self._waits = False
