"""A connection on loan: whatever the thread does when the loop takes the connection back, both know whose the
exchange is."""

from __future__ import annotations

import math
import select
import socket
import struct
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from pyzk.client import loan as module
from pyzk.client.loan import Exchange, Lender, Loan, TakenError
from pyzk.client.request import Request
from pyzk.protocol.constants import INT_MAX
from pyzk.protocol.operations import OpCode
from pyzk.server.storage.building import collector_paused

from ..support.stopping import cannot_stop, stopped_at

LIMIT = 1000
REPLY = struct.Struct(">iiqi")


class Borrower:
    """Whom the loop tells nothing in these tests."""

    def offer(self, lender: Lender) -> None:
        raise NotImplementedError

    def withdraw(self, lender: Lender) -> None:
        raise NotImplementedError

    def ended(self, loan: Loan, under_way: bool) -> None:
        raise NotImplementedError


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """The client's socket, and the server's."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    with ours, theirs:
        yield ours, theirs


@pytest.fixture
def theirs(pair: tuple[socket.socket, socket.socket]) -> socket.socket:
    return pair[1]


@pytest.fixture
def loan(pair: tuple[socket.socket, socket.socket]) -> Loan:
    return Loan(pair[0], 6, LIMIT, LIMIT, Borrower())


def request() -> Request[Any]:
    return Request(OpCode.SYNC, b"body", "/")


def send(loan: Loan) -> Exchange:
    return loan.send(request(), lambda: None)


def reply(xid: int = 7, zxid: int = 100, code: int = 0, body: bytes = b"") -> bytes:
    return REPLY.pack(16 + len(body), xid, zxid, code) + body


def on_the_wire(theirs: socket.socket) -> bytes:
    try:
        return theirs.recv(LIMIT)
    except BlockingIOError:
        return b""


def test_exchanges_follow_one_another(loan: Loan, theirs: socket.socket) -> None:
    for xid in (7, 8):
        exchange = send(loan)
        assert exchange.is_sent
        assert on_the_wire(theirs) == struct.pack(">iii", 12, xid, OpCode.SYNC) + b"body"
        assert exchange.request.sent
        theirs.send(reply(xid, 90 + xid, -xid, b"result"))
        assert loan.receive(exchange) == reply(xid, 90 + xid, -xid, b"result")[4:]
        assert (exchange.code, exchange.zxid) == (-xid, 90 + xid)
        assert exchange.sent_at <= exchange.received_at
    done, open = loan.take(math.inf)
    assert [each.xid for each in done] == [7, 8]
    assert open is None
    with pytest.raises(TakenError):
        send(loan)
    assert on_the_wire(theirs) == b""


def test_xids_begin_again_after_the_largest(pair: tuple[socket.socket, socket.socket]) -> None:
    assert send(Loan(pair[0], INT_MAX, LIMIT, LIMIT, Borrower())).xid == 1


def test_a_claim_is_taken_once(loan: Loan) -> None:
    exchange = send(loan)
    assert [exchange.take_claim() for _ in range(3)] == [True, False, False]


def test_a_large_request_is_for_the_loop(loan: Loan, theirs: socket.socket) -> None:
    with pytest.raises(TakenError):
        loan.send(Request(OpCode.SET_DATA, b"x" * LIMIT), lambda: None)
    assert on_the_wire(theirs) == b""
    send(loan)


@pytest.mark.parametrize(("size", "is_whole"), [(LIMIT, True), (LIMIT + 1, False)])
def test_a_reply_up_to_the_limit_comes_as_a_whole(
    loan: Loan, theirs: socket.socket, size: int, is_whole: bool
) -> None:
    exchange = send(loan)
    theirs.send(reply(body=bytes(size - 16)))
    assert (loan.receive(exchange) is not None) is is_whole


@pytest.mark.parametrize(("size", "is_sent"), [(LIMIT - 8, True), (LIMIT - 7, False)])
def test_a_request_up_to_the_limit_is_sent(
    loan: Loan, theirs: socket.socket, size: int, is_sent: bool
) -> None:
    with suppress(TakenError):
        loan.send(Request(OpCode.SET_DATA, bytes(size)), lambda: None)
    assert bool(on_the_wire(theirs)) is is_sent


def test_the_largest_request_and_reply_on_loan(pair: tuple[socket.socket, socket.socket]) -> None:
    """64 KiB each, whatever the limits of the client are."""
    for sock in pair:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2**20)
    large = 64 * 1024
    with pytest.raises(TakenError):
        Loan(pair[0], 0, 2**20, 2**20, Borrower()).send(Request(1, bytes(large - 7)), lambda: None)
    loan = Loan(pair[0], 0, 2**20, 2**20, Borrower())
    exchange = loan.send(Request(1, bytes(large - 8)), lambda: None)
    assert exchange.is_sent
    pair[1].send(reply(1, body=bytes(large - 20)))
    assert loan.receive(exchange) is not None
    exchange = loan.send(Request(1), lambda: None)
    pair[1].send(reply(2, body=bytes(large - 19)))
    assert loan.receive(exchange) is None


def test_an_exchange_of_the_loop_has_the_time_at_which_it_was_taken(
    loan: Loan, theirs: socket.socket
) -> None:
    exchange = send(loan)
    assert exchange.received_at == exchange.sent_at == exchange.request.sent_at
    theirs.send(reply())
    loan._step(exchange, loan._receive, LIMIT)
    exchange.received_at = -1.0
    assert loan.take(math.inf) == ([exchange], None)
    assert exchange.received_at >= exchange.sent_at


def test_one_exchange_at_a_time(loan: Loan, theirs: socket.socket) -> None:
    """The handler of a signal runs in the middle of one."""
    exchange = send(loan)
    with pytest.raises(TakenError):
        send(loan)
    theirs.send(reply())
    assert loan.receive(exchange) is not None
    send(loan)


def test_taken_before_the_request_is_sent(loan: Loan, theirs: socket.socket) -> None:
    assert loan.is_here
    assert loan.take(math.inf) == ([], None)
    assert not loan.is_here
    wanted = request()
    with pytest.raises(TakenError):
        loan.send(wanted, lambda: None)
    assert not wanted.sent
    assert on_the_wire(theirs) == b""


def test_taken_before_the_reply_is_read(loan: Loan, theirs: socket.socket) -> None:
    exchange = send(loan)
    assert loan.take(math.inf) == ([], exchange)
    theirs.send(reply())
    assert loan.receive(exchange) is None
    assert (exchange.received, exchange.unsent, exchange.failed) == (b"", b"", False)


@pytest.mark.parametrize(
    "data",
    [reply()[:-1], reply() + reply(8), reply(6), reply(-1), b"\0\0\0\4oops", b""],
    ids=["a part", "more than one", "another reply", "an event", "too short", "the end"],
)
def test_what_is_not_the_reply_alone_is_for_the_loop(loan: Loan, theirs: socket.socket, data: bytes) -> None:
    exchange = send(loan)
    theirs.send(data) if data else theirs.shutdown(socket.SHUT_WR)
    assert loan.receive(exchange) is None
    assert loan.take(math.inf) == ([], exchange)
    assert exchange.received == data


def test_taken_when_the_reply_was_read_and_the_thread_has_not_noted_it(
    loan: Loan, theirs: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange = send(loan)
    theirs.send(reply())
    taken = []
    claim = Exchange.take_claim

    def take_claim(exchange: Exchange) -> bool:
        taken.append(loan.take(math.inf))
        return claim(exchange)

    monkeypatch.setattr(Exchange, "take_claim", take_claim)
    assert loan.receive(exchange) == reply()[4:]
    assert taken == [([exchange], None)]


class LookedAtTooSoon(list[Any]):
    """A cell. When the loop looks first, the thread is in a step, which ends before the loop goes on."""

    def __init__(self, items: list[Any], end_step: Callable[[], object]) -> None:
        super().__init__(items)
        self._end_step: Callable[[], object] | None = end_step

    def pop(self, *at: Any) -> Any:
        end_step, self._end_step = (self._end_step, None) if not at else (None, self._end_step)
        if end_step is not None:
            end_step()
            raise IndexError
        return super().pop(*at)


def test_a_step_that_ends_while_the_loop_looks(loan: Loan, theirs: socket.socket) -> None:
    """It was an AssertionError, which ended the connection."""
    exchange, replies = send(loan), []
    theirs.send(reply())
    loan._cell = LookedAtTooSoon(loan._cell, lambda: replies.append(loan.receive(exchange)))
    assert loan.take(math.inf) == ([exchange], None)
    assert replies == [reply()[4:]]


def test_a_kernel_that_takes_a_part(pair: tuple[socket.socket, socket.socket]) -> None:
    pair[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    loan = Loan(pair[0], 0, 2**20, 2**20, Borrower())
    large = Request[Any](OpCode.SET_DATA, b"x" * 60_000)
    exchange = loan.send(large, lambda: None)
    assert not exchange.is_sent
    assert loan.receive(exchange) is None
    assert loan.take(math.inf) == ([], exchange)
    assert 0 < len(exchange.unsent) < 60_000


def test_a_kernel_that_takes_nothing(pair: tuple[socket.socket, socket.socket]) -> None:
    with suppress(BlockingIOError):
        while True:
            pair[0].send(b"x" * 4096)
    loan = Loan(pair[0], 0, LIMIT, LIMIT, Borrower())
    exchange = send(loan)
    assert loan.receive(exchange) is None
    assert loan.take(math.inf) == ([], exchange)
    assert not exchange.failed
    assert exchange.unsent == exchange.frame


def test_nothing_has_come(loan: Loan) -> None:
    exchange = send(loan)
    assert loan.receive(exchange) is None
    assert loan.take(math.inf) == ([], exchange)
    assert not exchange.failed
    assert (exchange.received, exchange.unsent) == (b"", b"")


def test_a_lost_connection(loan: Loan, pair: tuple[socket.socket, socket.socket]) -> None:
    pair[1].close()
    exchange = send(loan)
    assert loan.receive(exchange) is None
    assert loan.take(math.inf) == ([], exchange)
    assert exchange.failed
    assert (exchange.received, exchange.unsent) == (b"", b"")


def test_a_lost_connection_is_not_left_to_the_garbage_collector(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    """Its borrower has file descriptors."""
    pair[1].close()
    loan = Loan(pair[0], 6, LIMIT, LIMIT, Borrower())
    exchange, left = send(loan), weakref.ref(loan)
    with collector_paused():
        del loan
        assert exchange.failed
        assert left() is None


# --- at any moment ----------------------------------------------------------------------------------------


@cannot_stop
def test_stopped_before_any_instruction(pair: tuple[socket.socket, socket.socket]) -> None:
    """What the loop concludes is what is on the wire."""
    ours, theirs = pair
    seen = set()
    for number in range(1, 2000):
        loan = Loan(ours, 6, LIMIT, LIMIT, Borrower())

        def call(loan: Loan = loan) -> None:
            exchange = send(loan)
            theirs.send(reply())
            loan.receive(exchange)

        stopped = stopped_at(number, [module.__file__], call)
        done, open = loan.take(math.inf)
        sent = on_the_wire(theirs)
        left = select.select([ours], [], [], 0)[0]
        assert bool(sent) == bool(done or open)
        if left:
            ours.recv(LIMIT)  # the loop does
        if done:
            assert not left
        elif open is not None:
            assert open.is_sent
            assert open.received == b""
        seen.add("done" if done else "open" if open else "nothing")
        if not stopped:
            break
    assert number > 100
    assert seen == {"nothing", "open", "done"}


class Slow:
    """A socket whose reads end when they may."""

    def __init__(self) -> None:
        self.may_end = threading.Event()
        self.reads = threading.Event()

    def fileno(self) -> int:
        return -1

    def send(self, data: bytes) -> int:
        return len(data)

    def recv(self, size: int) -> bytes:
        self.reads.set()
        self.may_end.wait(10)
        return reply()


@pytest.mark.parametrize("ends", [True, False])
def test_the_loop_waits_for_a_step_but_not_for_ever(monkeypatch: pytest.MonkeyPatch, ends: bool) -> None:
    sock = Slow()
    loan = Loan(sock, 6, LIMIT, LIMIT, Borrower())  # type: ignore[arg-type]
    exchange = send(loan)
    replies = []
    thread = threading.Thread(target=lambda: replies.append(loan.receive(exchange)))
    thread.start()
    assert sock.reads.wait(10)
    if ends:
        monkeypatch.setattr(module.time, "sleep", lambda seconds: sock.may_end.set() or thread.join())
        assert loan.take(time.monotonic()) == ([exchange], None)
    else:
        slept: list[float] = []
        now, lease = 0.0, 60.0

        def sleep(seconds: float) -> None:
            nonlocal now
            now += seconds
            slept.append(seconds)

        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now, sleep=sleep))
        assert loan.take(lease) == ([], exchange)
        assert now >= lease, "it has waited for as long as the lease lasts"
        assert len(slept) >= 2000
        assert slept[:99] == [0.0001] * 99
        assert slept[99:199] == [0.0002] * 100, "looks become rarer"
        assert max(slept) == slept[-1] == 0.01
        assert exchange.failed
        sock.may_end.set()
    thread.join()
    assert replies == [reply()[4:] if ends else None]
