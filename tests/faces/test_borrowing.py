"""Calls that callers make themselves, over connections that are no connections."""

from __future__ import annotations

import asyncio
import os
import select
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from pyzk.bridge.direct import threads
from pyzk.bridge.direct.calls import Borrower, DirectCall
from pyzk.bridge.direct.tasks import Reading
from pyzk.bridge.direct.threads import Waiting
from pyzk.bridge.workers import Interrupted
from pyzk.client import ClosingError
from pyzk.client.loan import TakenError
from pyzk.client.pending import thread

from .drivers import in_asyncio


class Request:
    """What a call waits for.

    :ivar replies: what it was answered with.
    """

    settled = False

    def __init__(self, fails: Exception | None = None) -> None:
        self.replies: list[tuple[int, bytes]] = []
        self.forgotten = 0
        self.request = self
        self.on_cancel = None
        self.go_on: Any = None
        self._fails = fails

    def on_settled(self, function: Callable[..., object]) -> None:
        self.go_on = function

    def forget(self, function: object) -> None:
        self.forgotten += 1

    def take_reply(self, code: int, reply: bytes) -> None:
        sends.append(thread.sends)
        self.replies.append((code, reply))
        if self._fails is not None:
            raise self._fails
        self.go_on(self)

    def __await__(self) -> Iterator[Any]:
        yield self


sends: list[bool] = []
"""Whether the thread sends its requests itself, as a call begins and as it gets a reply."""


@pytest.fixture(autouse=True)
def nothing_was_sent() -> None:
    sends.clear()


class Lender:
    """Who lends connections.

    :ivar late: requests that the loop was to send.
    """

    def __init__(self) -> None:
        self.loan: Any = None
        self.asker: object = None
        self.late: list[object] = []
        self.ended: list[str] = []

    def submit_late(self, request: object) -> None:
        self.late.append(request)

    def end_connection(self, reason: str) -> None:
        self.ended.append(reason)


class Client:
    """An object of trio's whose method sends requests one after the other."""

    def __init__(self, *requests: Request, lender: Lender | None = None) -> None:
        self.lender = lender
        self._requests = requests

    async def call(self) -> str:
        sends.append(thread.sends)
        for request in self._requests:
            await request  # type: ignore[misc]
        return "done"


class Loop:
    """The client's loop.

    :ivar asked: what it was asked to do; ``posted``: functions that it was to call.
    """

    forked = closed = False
    allowed = True

    def __init__(self) -> None:
        self.asked: list[object] = []
        self.posted: list[tuple[Any, ...]] = []
        self.lenders = SimpleNamespace(offers={})

    def ask(self, call: object) -> None:
        if self.closed:
            raise ClosingError
        self.asked.append(call)

    def post(self, function: Callable[..., object], *args: Any) -> None:
        if self.closed:
            raise ClosingError
        self.posted.append((function, *args))

    def allows(self, call: object) -> bool:
        return self.allowed


class Exchange:
    """A request on its way over a loan."""

    code = 7

    def __init__(self, request: Any, adopt: Any, is_sent: bool = True) -> None:
        self.request = request
        self.adopt = adopt
        self.is_sent = is_sent


class Loan:
    """A connection on loan, whose replies are in a pipe.

    :ivar sent: the exchanges.
    """

    is_here = True
    takes = True
    is_sent = True

    def __init__(self, borrower: Any) -> None:
        self.borrower = borrower
        self.fileno, self._writer = os.pipe()
        self.reader: Any = None
        self.sent: list[Exchange] = []

    def send(self, request: Any, adopt: Any) -> Exchange:
        if not self.takes:
            raise TakenError
        self.sent.append(Exchange(request, adopt, self.is_sent))
        return self.sent[-1]

    def receive(self, exchange: Exchange) -> bytes | None:
        assert exchange is self.sent[-1]
        return os.read(self.fileno, 1).replace(b"0", b"") or None

    def reply(self, byte: bytes = b"r") -> None:
        """Have a reply come; ``b"0"``: something else comes."""
        os.write(self._writer, byte)

    def close(self) -> None:
        os.close(self.fileno)
        os.close(self._writer)


class Call(DirectCall):
    """It has room for its answers."""

    answers: list[Any]


def direct(client: Client) -> DirectCall:
    """A call, whose answer is its attribute ``answers``."""
    call: Any = Call(object(), client.call, (), {}, waits_for_requests=True)
    call.answers = []
    call.reply = lambda value, error: call.answers.append(value if error is None else error)
    return call  # type: ignore[no-any-return]


def answers(call: Any) -> list[Any]:
    found: list[Any] = call.answers
    return found


# --- calls ------------------------------------------------------------------------------------------------


def test_a_call_that_is_not_lent_begins_in_the_loop() -> None:
    call = direct(Client(request := Request()))
    assert (call.borrowed, call.borrower, call.lender, call.request) == (False, None, None, None)
    call.do_directly()
    assert call.request is request
    assert sends == [False]
    request.go_on(request)
    assert answers(call) == ["done"]
    assert call.request is None


def test_the_lender_hears_who_has_asked() -> None:
    lender = Lender()
    call = direct(Client(Request(), lender=lender))
    call.lender, call.borrower = lender, borrower = lender, object()  # type: ignore[assignment]
    call.do_directly()
    assert lender.asker is borrower
    assert lender.late == [], "it was not begun by the borrower"


def test_a_call_that_its_borrower_has_begun_goes_on_in_the_loop() -> None:
    lender, loop = Lender(), Loop()
    call = direct(Client(request := Request(), lender=lender))
    call.lender = lender  # type: ignore[assignment]
    borrower = Borrower(loop)  # type: ignore[arg-type]
    borrower.start(call)
    assert call.borrowed
    assert sends == [True]
    assert not thread.sends
    call.do_directly()
    assert not call.borrowed
    assert lender.late == [request]
    assert sends == [True], "it is not begun anew"


def test_a_call_that_was_cancelled_while_it_was_borrowed_ends_in_the_loop() -> None:
    lender, loop = Lender(), Loop()
    call = direct(Client(request := Request(), lender=lender))
    call.lender = lender  # type: ignore[assignment]
    Borrower(loop).start(call)  # type: ignore[arg-type]
    call.cancel()
    assert call.cancelled
    assert answers(call) == [], "nobody else may touch it"
    call.do_directly()
    assert [type(answer) for answer in answers(call)] == [Interrupted]
    assert lender.late == []
    assert request.forgotten == 1


def test_a_call_that_the_loop_does_is_cancelled_at_once() -> None:
    call = direct(Client(Request()))
    call.do_directly()
    call.cancel()
    assert [type(answer) for answer in answers(call)] == [Interrupted]
    scope = SimpleNamespace(cancels=0)
    scope.cancel = lambda: setattr(scope, "cancels", scope.cancels + 1)
    call = direct(Client(Request()))
    call.borrowed, call.scope = True, scope  # type: ignore[assignment]
    call.cancel()
    assert scope.cancels == 1, "an agent does it"


def test_a_call_that_has_ended_sends_nothing_more() -> None:
    lender = Lender()
    call = direct(Client(lender=lender))
    call.lender = lender  # type: ignore[assignment]
    Borrower(Loop()).start(call)  # type: ignore[arg-type]
    call.do_directly()
    assert answers(call) == ["done"]
    assert lender.late == []


def test_an_agent_begins_with_a_call_anew() -> None:
    call = direct(Client(request := Request()))
    call.forget()
    Borrower(Loop()).start(call)  # type: ignore[arg-type]
    call.forget()
    assert not call.borrowed
    assert call.request is None
    assert request.forgotten == 1
    assert answers(call) == []
    call.do_directly()
    assert sends == [True, False]


# --- borrowers --------------------------------------------------------------------------------------------


def test_offers_are_made_and_withdrawn_in_the_loop() -> None:
    loop: Any = Loop()
    lender: Any = Lender()
    borrower = Borrower(loop)
    borrower.offer(lender)
    assert list(loop.lenders.offers) == [lender]
    for _ in range(2):
        borrower.withdraw(lender)
        assert not loop.lenders.offers
    anything: Any = None
    with pytest.raises(NotImplementedError):
        borrower.ended(anything, True)


def test_whose_loan_it_is() -> None:
    loop: Any = Loop()
    lender = Lender()
    borrower = Borrower(loop)
    client = Client(lender=lender)
    call = direct(client)
    assert borrower.loan_for(call) is None, "nothing is on loan"
    assert (call.lender, call.borrower) == (lender, borrower)
    lender.loan = SimpleNamespace(borrower=borrower)
    assert borrower.loan_for(call) is lender.loan
    loop.allowed = False
    assert borrower.loan_for(call) is None
    loop.allowed, lender.loan.borrower = True, Borrower(loop)
    assert borrower.loan_for(call) is None, "it is another's"
    lender.loan.borrower, loop.forked = borrower, True
    assert borrower.loan_for(call) is None, "it is the parent's"


def test_a_client_that_lends_nothing() -> None:
    loop: Any = Loop()
    call = direct(Client())
    assert Borrower(loop).loan_for(call) is None
    assert (call.lender, call.borrower) == (None, None)


def test_a_call_is_sent_and_settled_by_its_borrower() -> None:
    loop: Any = Loop()
    borrower = Borrower(loop)
    first, second = Request(), Request()
    call = direct(Client(first, second))
    loan: Any = Loan(borrower)
    borrower.start(call)
    for request in (first, second):
        exchange = borrower.send(call, loan)
        assert isinstance(exchange, Exchange)
        assert exchange.request is request
        borrower.settle(call, exchange, b"reply")  # type: ignore[arg-type]
        assert request.replies == [(7, b"reply")]
        assert not thread.sends
    assert sends == [True, True, True]
    assert borrower.send(call, loan) is None
    assert answers(call) == ["done"]
    assert loop.posted == []
    loan.close()


def test_a_reply_that_breaks_the_protocol_ends_the_connection() -> None:
    loop: Any = Loop()
    lender: Any = Lender()
    borrower = Borrower(loop)
    call = direct(Client(request := Request(fails=ValueError("too short"))))
    call.lender = lender
    exchange: Any = Exchange(request, None)
    borrower.settle(call, exchange, b"")
    assert not thread.sends
    assert loop.posted == [(lender.end_connection, "the server broke the protocol: too short")]


def test_a_connection_is_given_back_by_any_post() -> None:
    loop: Any = Loop()
    borrower = Borrower(loop)
    borrower.give_back()
    ((function, *args),) = loop.posted
    assert function(*args) is None
    loop.closed = True
    borrower.give_back()


# --- threads ----------------------------------------------------------------------------------------------


class InThread:
    """A thread with a loan."""

    def __init__(self, *requests: Request) -> None:
        self.loop: Any = Loop()
        self.lender = Lender()
        self.borrower = Waiting(self.loop)
        self.loan = self.lender.loan = Loan(self.borrower)
        self.call = direct(Client(*requests, lender=self.lender))

    def close(self) -> None:
        self.borrower.close()
        self.loan.close()


@pytest.fixture
def waiting() -> Iterator[Callable[..., InThread]]:
    made: list[InThread] = []

    def make(*requests: Request) -> InThread:
        made.append(InThread(*requests))
        return made[-1]

    yield make
    for each in made:
        each.close()
    assert not thread.sends
    assert not thread.taskless


def test_a_thread_makes_a_call_itself(waiting: Any) -> None:
    one = waiting(Request(), Request())
    one.loan.reply()
    one.loan.reply()
    assert one.borrower.carry_out(one.call) is True
    assert answers(one.call) == ["done"]
    assert len(one.loan.sent) == 2
    assert one.loop.posted == []
    call = direct(Client(Request(), lender=one.lender))
    one.loan.reply()
    assert one.borrower.carry_out(call) is True
    assert answers(call) == ["done"]


def test_a_thread_without_a_loan_asks_the_loop(waiting: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    one = waiting(Request())
    one.lender.loan = None
    assert one.borrower.carry_out(one.call) is False
    one.lender.loan = one.loan
    with monkeypatch.context() as patch:
        patch.setattr(threads, "_poll", None)
        assert one.borrower.carry_out(one.call) is False
    with monkeypatch.context() as patch:
        patch.setattr(one.borrower, "_waits", True)  # this is the handler of a signal
        assert one.borrower.carry_out(one.call) is False

    def no_wakeup() -> None:
        raise OSError

    with monkeypatch.context() as patch:
        patch.setattr(threads, "Wakeup", no_wakeup)
        assert one.borrower.carry_out(one.call) is False
    assert one.call.request is None, "it was not begun"
    one.loan.takes = False
    assert one.borrower.carry_out(one.call) is False
    assert answers(one.call) == []


def test_what_comes_beside_a_reply_is_for_the_loop(waiting: Any) -> None:
    one = waiting(Request(), Request())
    one.loan.reply(b"0")
    assert one.borrower.carry_out(one.call) is True
    assert answers(one.call) == [], "the loop answers"
    assert len(one.loop.posted) == 1
    assert len(one.loan.sent) == 1


def test_a_request_that_was_not_sent_as_a_whole_is_not_waited_for(waiting: Any) -> None:
    one = waiting(Request())
    one.loan.is_sent = False
    one.loan.reply(b"0")
    one.borrower._wait = None  # to call it would fail
    assert one.borrower.carry_out(one.call) is True
    assert len(one.loop.posted) == 1


def test_a_thread_that_waits_hears_that_the_loan_has_ended(waiting: Any) -> None:
    one = waiting(Request())

    def end() -> None:
        while not one.borrower._waits:
            pass
        one.borrower.ended(one.loan, False)  # its call is not under way: nobody is woken
        one.loan.is_here = False
        one.borrower.ended(one.loan, True)

    one.loan.receive = lambda exchange: None
    ending = threading.Thread(target=end)
    ending.start()
    assert one.borrower.carry_out(one.call) is True
    ending.join()
    assert answers(one.call) == []
    assert not one.borrower._waits
    assert len(one.loop.posted) == 1


def test_a_wake_up_that_was_rung_for_a_call_before_does_not_end_the_wait(waiting: Any) -> None:
    one = waiting(Request(), Request())
    one.loan.reply()
    one.loan.reply()
    assert one.borrower.carry_out(one.call)
    one.borrower.ended(one.loan, True)
    call = direct(Client(Request(), lender=one.lender))
    threading.Timer(0.02, one.loan.reply).start()
    assert one.borrower.carry_out(call) is True
    assert answers(call) == ["done"]
    wakeup = one.borrower._wakeup.fileno()
    assert select.select([wakeup], [], [], 0)[0] == [], "it was answered, and wakes nobody again"


def test_the_end_of_a_loan_wakes_nobody_who_has_gone(waiting: Any) -> None:
    one = waiting(Request())
    one.borrower.ended(one.loan, True)  # there is no bell
    one.borrower.close()
    one.loan.reply()
    assert one.borrower.carry_out(one.call)
    one.borrower.close()
    with pytest.raises(ClosingError):
        one.borrower._wakeup.ring()
    one.borrower.ended(one.loan, True)


def test_a_thread_borrows_from_one_loop_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_here", here := threads._Here())
    assert here.borrower is None
    one: Any = Loop()
    other: Any = Loop()
    calls = [direct(Client()) for _ in range(3)]
    threads.begin(one, calls[0])
    borrower = here.borrower
    assert isinstance(borrower, Waiting)
    threads.begin(one, calls[1])
    assert here.borrower is borrower
    threads.begin(other, calls[2])
    assert here.borrower is not borrower
    assert here.borrower is not None
    assert here.borrower.loop is other
    assert (one.asked, other.asked) == (calls[:2], calls[2:])
    closed: list[int] = []
    monkeypatch.setattr(here.borrower, "close", lambda: closed.append(1))
    for _ in range(2):
        threads.forget()
        assert here.borrower is None
        assert closed == [1]


def test_a_thread_that_has_a_loan_does_not_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_here", here := threads._Here())
    loop: Any = Loop()
    here.borrower = borrower = Waiting(loop)
    lender = Lender()
    lender.loan = loan = Loan(borrower)
    call = direct(Client(Request(), lender=lender))
    loan.reply()
    threads.begin(loop, call)
    assert answers(call) == ["done"]
    assert loop.asked == []
    threads.forget()
    loan.close()


# --- asyncio ----------------------------------------------------------------------------------------------


class Asked:
    """A task that waits for the answer of a call.

    :ivar here: see :class:`pyzk.bridge.direct.tasks.Asked`.
    """

    here = answered = False

    def __init__(self, call: DirectCall) -> None:
        self.woken = asyncio.Event()
        self.heres: list[bool] = []
        call.reply = self._answer
        self.answers: list[Any] = []

    def _answer(self, value: Any, error: BaseException | None) -> None:
        self.answered = True
        self.heres.append(self.here)
        self.answers.append(value if error is None else error)

    def wake(self) -> None:
        self.woken.set()


class InTask:
    """An event loop with a loan."""

    def __init__(self, *requests: Request) -> None:
        self.loop: Any = Loop()
        self.lender = Lender()
        self.posted: list[Any] = []
        self.borrower = Reading(self.loop, self.posted.append)
        self.loan = self.lender.loan = Loan(self.borrower)
        self.call = direct(Client(*requests, lender=self.lender))
        self.asked = Asked(self.call)

    def begin(self) -> None:
        self.borrower.begin(self.call, self.asked)

    def close(self) -> None:
        if self.loan.reader is not None:
            self.loan.reader.close()
        self.loan.close()


@in_asyncio
async def test_an_event_loop_makes_a_call_itself() -> None:
    one = InTask(Request(), Request())
    one.begin()
    one.loan.reply()
    one.loan.reply()
    await one.asked.woken.wait()
    assert one.asked.answers == ["done"]
    assert one.asked.heres == [True], "it need not be posted"
    assert not one.asked.here
    assert len(one.loan.sent) == 2
    assert (one.loop.asked, one.loop.posted) == ([], [])
    assert one.loan.reader.is_free
    assert not thread.sends
    one.close()


@in_asyncio
async def test_a_call_that_is_answered_as_it_begins_needs_no_loan() -> None:
    one = InTask()
    one.begin()
    assert one.asked.answers == ["done"]
    assert (one.loan.sent, one.loop.asked) == ([], [])
    assert one.loan.reader.is_free
    one.close()


@in_asyncio
async def test_an_event_loop_without_a_loan_asks() -> None:
    one = InTask(Request())
    one.lender.loan = None
    one.begin()
    assert one.loop.asked == [one.call]
    assert one.call.request is None
    one.close()


@in_asyncio
async def test_a_second_call_asks_the_loop() -> None:
    one = InTask(Request())
    one.begin()
    reader = one.loan.reader
    assert not reader.is_free
    second = direct(Client(Request(), lender=one.lender))
    one.borrower.begin(second, Asked(second))
    assert one.loop.asked == [second]
    one.loan.reply()
    await one.asked.woken.wait()
    third = direct(Client(Request(), lender=one.lender))
    one.borrower.begin(third, asked := Asked(third))
    assert one.loan.reader is reader
    one.loan.reply()
    await asked.woken.wait()
    assert one.loop.asked == [second]
    one.close()


@in_asyncio
async def test_a_loan_that_was_taken_back_is_watched_no_more() -> None:
    one = InTask(Request())
    one.loan.takes = False
    one.begin()
    assert one.loop.asked == [one.call]
    assert one.call.borrowed, "the loop goes on with it"
    assert not one.loan.reader.is_free
    assert one.loan.reader._fileno == -1
    one.close()


@in_asyncio
async def test_a_loan_that_ends_between_two_requests() -> None:
    one = InTask(Request(), Request())
    one.begin()
    one.loan.takes = False
    one.loan.reply()
    while not one.loop.asked:
        await asyncio.sleep(0)
    assert one.loop.asked == [one.call]
    assert not one.asked.answered
    one.close()


@in_asyncio
async def test_a_loan_that_ends_between_two_requests_of_a_client_that_is_closed() -> None:
    one = InTask(Request(), Request())
    one.begin()
    one.loan.takes, one.loop.closed = False, True
    one.loan.reply()
    while not one.asked.answered:
        await asyncio.sleep(0)
    assert [type(answer) for answer in one.asked.answers] == [ClosingError]
    one.close()


@pytest.mark.parametrize("under_way", [True, False])
@in_asyncio
async def test_what_comes_otherwise_is_for_the_loop(under_way: bool) -> None:
    one = InTask(*[Request()] * under_way)
    one.begin()
    one.loan.reply(b"0")
    while not one.loop.posted:
        await asyncio.sleep(0)
    assert len(one.loop.posted) == 1
    assert one.loop.asked == [], "the loop knows of the exchange"
    assert one.loan.reader._fileno == -1
    assert not one.loan.reader.is_free
    one.close()


@in_asyncio
async def test_a_request_that_was_not_sent_as_a_whole_is_for_the_loop() -> None:
    one = InTask(Request())
    one.loan.is_sent = False
    one.begin()
    assert len(one.loop.posted) == 1
    assert one.loop.asked == []
    assert one.loan.reader._fileno == -1
    assert one.loan.reader._under_way is None
    one.close()


@in_asyncio
async def test_the_end_of_a_loan_is_posted_to_the_event_loop() -> None:
    one = InTask(Request())
    loan: Any = one.loan
    one.borrower.ended(loan, True)
    assert one.posted == [], "nobody watches it"
    one.begin()
    one.borrower.ended(loan, True)
    (function,) = one.posted
    reader = one.loan.reader
    number = reader._fileno
    os.fstat(number)
    for _ in range(2):
        function()
        assert reader._fileno == -1
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)
    assert asyncio.get_running_loop().remove_reader(number) is False
    one.close()


@pytest.mark.parametrize("error", [OSError, NotImplementedError])
@in_asyncio
async def test_a_connection_that_cannot_be_watched_is_left_to_the_loop(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object) -> None:
        raise error

    one = InTask(Request())
    closed: list[int] = []
    if error is OSError:
        monkeypatch.setattr(os, "dup", fail)
        monkeypatch.setattr(os, "close", closed.append)
    else:
        monkeypatch.setattr(asyncio.get_running_loop(), "add_reader", fail)
    one.begin()
    assert one.loop.asked == [one.call]
    assert one.loan.reader is None
    assert closed == [], "there was nothing to close"
    monkeypatch.undo()
    one.close()


@in_asyncio
async def test_a_desk_that_is_forgotten_leaves_no_file() -> None:
    one = InTask(Request())
    one.begin()
    reader = one.loan.reader
    number = reader._fileno
    asyncio.get_running_loop().remove_reader(number)
    reader.__del__()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)
    reader.__del__()
    one.close()
