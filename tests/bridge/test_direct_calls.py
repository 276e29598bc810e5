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
from pyzk.bridge.direct.calls import DirectCall, DirectCaller
from pyzk.bridge.direct.tasks import Reading
from pyzk.bridge.direct.threads import Waiting
from pyzk.bridge.workers import Interrupted
from pyzk.client import ClosingError
from pyzk.client.direct_connection import TakenError
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


class ConnectionSource:
    """Who hands over connections.

    :ivar late: requests that the loop was to send.
    """

    def __init__(self) -> None:
        self.direct: Any = None
        self.asker: object = None
        self.late: list[object] = []
        self.ended: list[str] = []

    def submit_late(self, request: object) -> None:
        self.late.append(request)

    def end_connection(self, reason: str) -> None:
        self.ended.append(reason)


class Client:
    """An object of trio's whose method sends requests one after the other."""

    def __init__(self, *requests: Request, source: ConnectionSource | None = None) -> None:
        self.source = source
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
        self.sources = SimpleNamespace(offers={})

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
    """A request on its way over a direct connection."""

    code = 7

    def __init__(self, request: Any, adopt: Any, is_sent: bool = True) -> None:
        self.request = request
        self.adopt = adopt
        self.is_sent = is_sent


class DirectConnection:
    """A connection handed over, whose replies are in a pipe.

    :ivar sent: the exchanges.
    """

    is_here = True
    takes = True
    is_sent = True

    def __init__(self, direct_caller: Any) -> None:
        self.direct_caller = direct_caller
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


def direct_call(client: Client) -> DirectCall:
    """A call, whose answer is its attribute ``answers``."""
    call: Any = Call(object(), client.call, (), {}, waits_for_requests=True)
    call.answers = []
    call.reply = lambda value, error: call.answers.append(value if error is None else error)
    return call  # type: ignore[no-any-return]


def answers(call: Any) -> list[Any]:
    found: list[Any] = call.answers
    return found


# --- calls ------------------------------------------------------------------------------------------------


def test_a_call_that_is_not_handed_over_begins_in_the_loop() -> None:
    call = direct_call(Client(request := Request()))
    assert (call.is_direct, call.direct_caller, call.source, call.request) == (False, None, None, None)
    call.do_directly()
    assert call.request is request
    assert sends == [False]
    request.go_on(request)
    assert answers(call) == ["done"]
    assert call.request is None


def test_the_source_hears_who_has_asked() -> None:
    source = ConnectionSource()
    call = direct_call(Client(Request(), source=source))
    call.source, call.direct_caller = source, direct_caller = source, object()  # type: ignore[assignment]
    call.do_directly()
    assert source.asker is direct_caller
    assert source.late == [], "it was not begun by the direct caller"


def test_a_call_that_its_direct_caller_has_begun_goes_on_in_the_loop() -> None:
    source, loop = ConnectionSource(), Loop()
    call = direct_call(Client(request := Request(), source=source))
    call.source = source  # type: ignore[assignment]
    direct_caller = DirectCaller(loop)  # type: ignore[arg-type]
    direct_caller.start(call)
    assert call.is_direct
    assert sends == [True]
    assert not thread.sends
    call.do_directly()
    assert not call.is_direct
    assert source.late == [request]
    assert sends == [True], "it is not begun anew"


def test_a_call_that_was_cancelled_while_it_was_direct_ends_in_the_loop() -> None:
    source, loop = ConnectionSource(), Loop()
    call = direct_call(Client(request := Request(), source=source))
    call.source = source  # type: ignore[assignment]
    DirectCaller(loop).start(call)  # type: ignore[arg-type]
    call.cancel()
    assert call.cancelled
    assert answers(call) == [], "nobody else may touch it"
    call.do_directly()
    assert [type(answer) for answer in answers(call)] == [Interrupted]
    assert source.late == []
    assert request.forgotten == 1


def test_a_call_that_the_loop_does_is_cancelled_at_once() -> None:
    call = direct_call(Client(Request()))
    call.do_directly()
    call.cancel()
    assert [type(answer) for answer in answers(call)] == [Interrupted]
    scope = SimpleNamespace(cancels=0)
    scope.cancel = lambda: setattr(scope, "cancels", scope.cancels + 1)
    call = direct_call(Client(Request()))
    call.is_direct, call.scope = True, scope  # type: ignore[assignment]
    call.cancel()
    assert scope.cancels == 1, "an agent does it"


def test_a_call_that_has_ended_sends_nothing_more() -> None:
    source = ConnectionSource()
    call = direct_call(Client(source=source))
    call.source = source  # type: ignore[assignment]
    DirectCaller(Loop()).start(call)  # type: ignore[arg-type]
    call.do_directly()
    assert answers(call) == ["done"]
    assert source.late == []


def test_an_agent_begins_with_a_call_anew() -> None:
    call = direct_call(Client(request := Request()))
    call.forget()
    DirectCaller(Loop()).start(call)  # type: ignore[arg-type]
    call.forget()
    assert not call.is_direct
    assert call.request is None
    assert request.forgotten == 1
    assert answers(call) == []
    call.do_directly()
    assert sends == [True, False]


# --- direct callers -----------------------------------------------------------------------------------------


def test_offers_are_made_and_withdrawn_in_the_loop() -> None:
    loop: Any = Loop()
    source: Any = ConnectionSource()
    direct_caller = DirectCaller(loop)
    direct_caller.offer(source)
    assert list(loop.sources.offers) == [source]
    for _ in range(2):
        direct_caller.withdraw(source)
        assert not loop.sources.offers
    anything: Any = None
    with pytest.raises(NotImplementedError):
        direct_caller.ended(anything, True)


def test_whose_direct_it_is() -> None:
    loop: Any = Loop()
    source = ConnectionSource()
    direct_caller = DirectCaller(loop)
    client = Client(source=source)
    call = direct_call(client)
    assert direct_caller.direct_for(call) is None, "nothing is handed over"
    assert (call.source, call.direct_caller) == (source, direct_caller)
    source.direct = SimpleNamespace(direct_caller=direct_caller)
    assert direct_caller.direct_for(call) is source.direct
    loop.allowed = False
    assert direct_caller.direct_for(call) is None
    loop.allowed, source.direct.direct_caller = True, DirectCaller(loop)
    assert direct_caller.direct_for(call) is None, "it is another's"
    source.direct.direct_caller, loop.forked = direct_caller, True
    assert direct_caller.direct_for(call) is None, "it is the parent's"


def test_a_client_that_hands_over_nothing() -> None:
    loop: Any = Loop()
    call = direct_call(Client())
    assert DirectCaller(loop).direct_for(call) is None
    assert (call.source, call.direct_caller) == (None, None)


def test_a_call_is_sent_and_settled_by_its_direct_caller() -> None:
    loop: Any = Loop()
    direct_caller = DirectCaller(loop)
    first, second = Request(), Request()
    call = direct_call(Client(first, second))
    direct: Any = DirectConnection(direct_caller)
    direct_caller.start(call)
    for request in (first, second):
        exchange = direct_caller.send(call, direct)
        assert isinstance(exchange, Exchange)
        assert exchange.request is request
        direct_caller.settle(call, exchange, b"reply")  # type: ignore[arg-type]
        assert request.replies == [(7, b"reply")]
        assert not thread.sends
    assert sends == [True, True, True]
    assert direct_caller.send(call, direct) is None
    assert answers(call) == ["done"]
    assert loop.posted == []
    direct.close()


def test_a_reply_that_breaks_the_protocol_ends_the_connection() -> None:
    loop: Any = Loop()
    source: Any = ConnectionSource()
    direct_caller = DirectCaller(loop)
    call = direct_call(Client(request := Request(fails=ValueError("too short"))))
    call.source = source
    exchange: Any = Exchange(request, None)
    direct_caller.settle(call, exchange, b"")
    assert not thread.sends
    assert loop.posted == [(source.end_connection, "the server broke the protocol: too short")]


def test_a_connection_is_given_back_by_any_post() -> None:
    loop: Any = Loop()
    direct_caller = DirectCaller(loop)
    direct_caller.give_back()
    ((function, *args),) = loop.posted
    assert function(*args) is None
    loop.closed = True
    direct_caller.give_back()


# --- threads ----------------------------------------------------------------------------------------------


class InThread:
    """A thread with a direct connection."""

    def __init__(self, *requests: Request) -> None:
        self.loop: Any = Loop()
        self.source = ConnectionSource()
        self.direct_caller = Waiting(self.loop)
        self.direct = self.source.direct = DirectConnection(self.direct_caller)
        self.call = direct_call(Client(*requests, source=self.source))

    def close(self) -> None:
        self.direct.close()


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
    one.direct.reply()
    one.direct.reply()
    assert one.direct_caller.carry_out(one.call) is True
    assert answers(one.call) == ["done"]
    assert len(one.direct.sent) == 2
    assert one.loop.posted == []
    call = direct_call(Client(Request(), source=one.source))
    one.direct.reply()
    assert one.direct_caller.carry_out(call) is True
    assert answers(call) == ["done"]


def test_a_thread_without_a_connection_asks_the_loop(waiting: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    one = waiting(Request())
    one.source.direct = None
    assert one.direct_caller.carry_out(one.call) is False
    one.source.direct = one.direct
    with monkeypatch.context() as patch:
        patch.setattr(threads, "_poll", None)
        assert one.direct_caller.carry_out(one.call) is False
    with monkeypatch.context() as patch:
        patch.setattr(one.direct_caller, "_waits", True)  # this is the handler of a signal
        assert one.direct_caller.carry_out(one.call) is False

    def no_wakeup() -> None:
        raise OSError

    with monkeypatch.context() as patch:
        patch.setattr(threads, "Wakeup", no_wakeup)
        assert one.direct_caller.carry_out(one.call) is False
    assert one.call.request is None, "it was not begun"
    one.direct.takes = False
    assert one.direct_caller.carry_out(one.call) is False
    assert answers(one.call) == []


def test_what_comes_beside_a_reply_is_for_the_loop(waiting: Any) -> None:
    one = waiting(Request(), Request())
    one.direct.reply(b"0")
    assert one.direct_caller.carry_out(one.call) is True
    assert answers(one.call) == [], "the loop answers"
    assert len(one.loop.posted) == 1
    assert len(one.direct.sent) == 1


def test_a_request_that_was_not_sent_as_a_whole_is_not_waited_for(waiting: Any) -> None:
    one = waiting(Request())
    one.direct.is_sent = False
    one.direct.reply(b"0")
    one.direct_caller._wait = None  # to call it would fail
    assert one.direct_caller.carry_out(one.call) is True
    assert len(one.loop.posted) == 1


def test_a_thread_that_waits_hears_that_the_direct_connection_has_ended(waiting: Any) -> None:
    one = waiting(Request())

    def end() -> None:
        while not one.direct_caller._waits:
            pass
        one.direct_caller.ended(one.direct, False)  # its call is not under way: nobody is woken
        one.direct.is_here = False
        one.direct_caller.ended(one.direct, True)

    one.direct.receive = lambda exchange: None
    ending = threading.Thread(target=end)
    ending.start()
    assert one.direct_caller.carry_out(one.call) is True
    ending.join()
    assert answers(one.call) == []
    assert not one.direct_caller._waits
    assert len(one.loop.posted) == 1


def test_a_wake_up_that_was_rung_for_a_call_before_does_not_end_the_wait(waiting: Any) -> None:
    one = waiting(Request(), Request())
    one.direct.reply()
    one.direct.reply()
    assert one.direct_caller.carry_out(one.call)
    one.direct_caller.ended(one.direct, True)
    call = direct_call(Client(Request(), source=one.source))
    threading.Timer(0.02, one.direct.reply).start()
    assert one.direct_caller.carry_out(call) is True
    assert answers(call) == ["done"]
    wakeup = one.direct_caller._wakeup.fileno()
    assert select.select([wakeup], [], [], 0)[0] == [], "it was answered, and wakes nobody again"


def test_the_end_of_a_direct_connection_wakes_nobody_who_has_never_waited(waiting: Any) -> None:
    one = waiting(Request())
    one.direct_caller.ended(one.direct, True)
    assert one.direct_caller._wakeup is None


def test_a_thread_calls_directly_from_one_loop_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_here", here := threads._Here())
    assert here.direct_caller is None
    one: Any = Loop()
    other: Any = Loop()
    calls = [direct_call(Client()) for _ in range(3)]
    threads.begin(one, calls[0])
    direct_caller = here.direct_caller
    assert isinstance(direct_caller, Waiting)
    threads.begin(one, calls[1])
    assert here.direct_caller is direct_caller
    threads.begin(other, calls[2])
    assert here.direct_caller is not direct_caller
    assert here.direct_caller is not None
    assert here.direct_caller.loop is other
    assert (one.asked, other.asked) == (calls[:2], calls[2:])
    for _ in range(2):
        threads.forget()
        assert here.direct_caller is None


def test_a_thread_that_has_a_direct_connection_does_not_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_here", here := threads._Here())
    loop: Any = Loop()
    here.direct_caller = direct_caller = Waiting(loop)
    source = ConnectionSource()
    source.direct = direct = DirectConnection(direct_caller)
    call = direct_call(Client(Request(), source=source))
    direct.reply()
    threads.begin(loop, call)
    assert answers(call) == ["done"]
    assert loop.asked == []
    threads.forget()
    direct.close()


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
    """An event loop with a direct connection."""

    def __init__(self, *requests: Request) -> None:
        self.loop: Any = Loop()
        self.source = ConnectionSource()
        self.posted: list[Any] = []
        self.direct_caller = Reading(self.loop, self.posted.append)
        self.direct = self.source.direct = DirectConnection(self.direct_caller)
        self.call = direct_call(Client(*requests, source=self.source))
        self.asked = Asked(self.call)

    def begin(self) -> None:
        self.direct_caller.begin(self.call, self.asked)

    def close(self) -> None:
        if self.direct.reader is not None:
            self.direct.reader.close()
        self.direct.close()


@in_asyncio
async def test_an_event_loop_makes_a_call_itself() -> None:
    one = InTask(Request(), Request())
    one.begin()
    one.direct.reply()
    one.direct.reply()
    await one.asked.woken.wait()
    assert one.asked.answers == ["done"]
    assert one.asked.heres == [True], "it need not be posted"
    assert not one.asked.here
    assert len(one.direct.sent) == 2
    assert (one.loop.asked, one.loop.posted) == ([], [])
    assert one.direct.reader.is_free
    assert not thread.sends
    one.close()


@in_asyncio
async def test_a_call_that_is_answered_as_it_begins_needs_no_direct() -> None:
    one = InTask()
    one.begin()
    assert one.asked.answers == ["done"]
    assert (one.direct.sent, one.loop.asked) == ([], [])
    assert one.direct.reader.is_free
    one.close()


@in_asyncio
async def test_an_event_loop_without_a_direct_connection_asks() -> None:
    one = InTask(Request())
    one.source.direct = None
    one.begin()
    assert one.loop.asked == [one.call]
    assert one.call.request is None
    one.close()


@in_asyncio
async def test_a_second_call_asks_the_loop() -> None:
    one = InTask(Request())
    one.begin()
    reader = one.direct.reader
    assert not reader.is_free
    second = direct_call(Client(Request(), source=one.source))
    one.direct_caller.begin(second, Asked(second))
    assert one.loop.asked == [second]
    one.direct.reply()
    await one.asked.woken.wait()
    third = direct_call(Client(Request(), source=one.source))
    one.direct_caller.begin(third, asked := Asked(third))
    assert one.direct.reader is reader
    one.direct.reply()
    await asked.woken.wait()
    assert one.loop.asked == [second]
    one.close()


@in_asyncio
async def test_a_direct_connection_that_was_taken_back_is_watched_no_more() -> None:
    one = InTask(Request())
    one.direct.takes = False
    one.begin()
    assert one.loop.asked == [one.call]
    assert one.call.is_direct, "the loop goes on with it"
    assert not one.direct.reader.is_free
    assert one.direct.reader._fileno == -1
    one.close()


@in_asyncio
async def test_a_direct_connection_that_ends_between_two_requests() -> None:
    one = InTask(Request(), Request())
    one.begin()
    one.direct.takes = False
    one.direct.reply()
    while not one.loop.asked:
        await asyncio.sleep(0)
    assert one.loop.asked == [one.call]
    assert not one.asked.answered
    one.close()


@in_asyncio
async def test_a_direct_connection_that_ends_between_two_requests_of_a_client_that_is_closed() -> None:
    one = InTask(Request(), Request())
    one.begin()
    one.direct.takes, one.loop.closed = False, True
    one.direct.reply()
    while not one.asked.answered:
        await asyncio.sleep(0)
    assert [type(answer) for answer in one.asked.answers] == [ClosingError]
    one.close()


@pytest.mark.parametrize("under_way", [True, False])
@in_asyncio
async def test_what_comes_otherwise_is_for_the_loop(under_way: bool) -> None:
    one = InTask(*[Request()] * under_way)
    one.begin()
    one.direct.reply(b"0")
    while not one.loop.posted:
        await asyncio.sleep(0)
    assert len(one.loop.posted) == 1
    assert one.loop.asked == [], "the loop knows of the exchange"
    assert one.direct.reader._fileno == -1
    assert not one.direct.reader.is_free
    one.close()


@in_asyncio
async def test_a_request_that_was_not_sent_as_a_whole_is_for_the_loop() -> None:
    one = InTask(Request())
    one.direct.is_sent = False
    one.begin()
    assert len(one.loop.posted) == 1
    assert one.loop.asked == []
    assert one.direct.reader._fileno == -1
    assert one.direct.reader._under_way is None
    one.close()


@in_asyncio
async def test_the_end_of_a_direct_connection_is_posted_to_the_event_loop() -> None:
    one = InTask(Request())
    direct: Any = one.direct
    one.direct_caller.ended(direct, True)
    assert one.posted == [], "nobody watches it"
    one.begin()
    one.direct_caller.ended(direct, True)
    (function,) = one.posted
    reader = one.direct.reader
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
    assert one.direct.reader is None
    assert closed == [], "there was nothing to close"
    monkeypatch.undo()
    one.close()


@in_asyncio
async def test_a_desk_that_is_forgotten_leaves_no_file() -> None:
    one = InTask(Request())
    one.begin()
    reader = one.direct.reader
    number = reader._fileno
    asyncio.get_running_loop().remove_reader(number)
    reader.__del__()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)
    reader.__del__()
    one.close()
