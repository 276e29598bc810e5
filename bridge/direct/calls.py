"""A call that its caller may do itself, and who does it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ...client import ClosingError
from ...client.lending import Lending
from ...client.loan import Exchange, Lender, Loan
from ...client.pending import thread
from ...client.request import Request
from ..loop import Loop
from ..workers import Call, Interrupted


class DirectCall(Call):
    """A call that sends one request after the other.

    :ivar borrowed: whether the borrower does the call: nobody else may touch it. :ivar borrower: can do the
        call over a connection on loan, if there is one; ``lender`` lends the connection. Both are None if
        the loop does the call in any case.
    """

    borrowed = False
    borrower: Borrower | None = None
    lender: Lending | None = None

    @property
    def request(self) -> Request[Any] | None:
        """The exchange for which the call waits without a task, or None."""
        return self.taskless.request if self.taskless is not None else None

    def adopt(self) -> None:
        """Note that the loop does the call from now on; called in the loop."""
        self.borrowed = False

    def do_directly(self) -> None:
        """Do the call in the loop, or continue it there if its borrower has begun."""
        if self.lender is not None:
            self.lender.asker = self.borrower
        if self.taskless is None:
            self.start()
            return
        self.adopt()
        if self.cancelled:
            self.taskless.cancel(Interrupted())
        elif self.lender is not None and self.request is not None:
            self.lender.submit_late(self.request)

    def forget(self) -> None:
        self.borrowed = False
        if self.taskless is not None:
            self.taskless.close()
            self.taskless = None

    def cancel(self) -> None:
        if self.borrowed and self.scope is None:
            self.cancelled = True  # it ends with its next request
        else:
            super().cancel()


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

    def loan_for(self, call: DirectCall) -> Loan | None:
        """Return the loan over which this thread may do a call; None if there is none."""
        if self.loop.forked:
            return None
        call.lender = lender = call.function.__self__.lender  # type: ignore[attr-defined]
        if lender is None:
            return None
        call.borrower = self
        loan = lender.loan
        return loan if loan is not None and loan.borrower is self and self.loop.allows(call) else None

    def start(self, call: DirectCall) -> None:
        """Begin a call. Afterwards it is answered, or has a request to send."""
        before, call.borrowed = thread.sends, True
        try:
            thread.sends = True
            call.start()
        finally:
            thread.sends = before

    def send(self, call: DirectCall, loan: Loan) -> Exchange | None:
        """Send the request of a call. Returns None if the call is answered.

        :raises TakenError: the loop must do the call.
        """
        request = call.request
        return None if request is None else loan.send(request, call.adopt)

    def settle(self, call: DirectCall, exchange: Exchange, reply: bytes) -> None:
        """Take a reply. Afterwards the call is answered, or has another request to send."""
        before = thread.sends
        try:
            thread.sends = True
            exchange.request.take_reply(exchange.code, reply)
        except Exception as error:
            assert call.lender is not None
            self._tell(call.lender.end_connection, f"the server broke the protocol: {error}")
        finally:
            thread.sends = before

    def give_back(self) -> None:
        """Have the loop take its connection back."""
        self._tell(_go_on)

    def _tell(self, function: Callable[..., object], *args: Any) -> None:
        with suppress(ClosingError):  # it has taken its connection back, and has answered all calls
            self.loop.post(function, *args)


def _go_on() -> None:
    """Whatever wakes the loop, it takes its connections back."""
