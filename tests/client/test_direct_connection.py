"""A direct connection: whatever the thread does when the loop takes the connection back, both know whose
the exchange is."""

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

from pyzk.client import direct_connection as module
from pyzk.client.direct_connection import ConnectionSource, DirectConnection, Exchange, TakenError
from pyzk.client.request import Request
from pyzk.protocol.constants import INT_MAX
from pyzk.protocol.operations import OpCode
from pyzk.server.storage.building import collector_paused

from ..support.stopping import cannot_stop, stopped_at

LIMIT = 1000
REPLY = struct.Struct(">iiqi")


class DirectCaller:
    """Whom the loop tells nothing in these tests."""

    def offer(self, source: ConnectionSource) -> None:
        raise NotImplementedError

    def withdraw(self, source: ConnectionSource) -> None:
        raise NotImplementedError

    def ended(self, direct: DirectConnection, under_way: bool) -> None:
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
def direct(pair: tuple[socket.socket, socket.socket]) -> DirectConnection:
    return DirectConnection(pair[0], 6, LIMIT, LIMIT, DirectCaller())


def request() -> Request[Any]:
    return Request(OpCode.SYNC, b"body", "/")


def send(direct: DirectConnection) -> Exchange:
    return direct.send(request(), lambda: None)


def reply(xid: int = 7, zxid: int = 100, code: int = 0, body: bytes = b"") -> bytes:
    return REPLY.pack(16 + len(body), xid, zxid, code) + body


def on_the_wire(theirs: socket.socket) -> bytes:
    try:
        return theirs.recv(LIMIT)
    except BlockingIOError:
        return b""


def test_exchanges_follow_one_another(direct: DirectConnection, theirs: socket.socket) -> None:
    for xid in (7, 8):
        exchange = send(direct)
        assert exchange.is_sent
        assert on_the_wire(theirs) == struct.pack(">iii", 12, xid, OpCode.SYNC) + b"body"
        assert exchange.request.sent
        theirs.send(reply(xid, 90 + xid, -xid, b"result"))
        assert direct.receive(exchange) == reply(xid, 90 + xid, -xid, b"result")[4:]
        assert (exchange.code, exchange.zxid) == (-xid, 90 + xid)
        assert exchange.sent_at <= exchange.received_at
    done, open = direct.take(math.inf)
    assert [each.xid for each in done] == [7, 8]
    assert open is None
    with pytest.raises(TakenError):
        send(direct)
    assert on_the_wire(theirs) == b""


def test_xids_begin_again_after_the_largest(pair: tuple[socket.socket, socket.socket]) -> None:
    assert send(DirectConnection(pair[0], INT_MAX, LIMIT, LIMIT, DirectCaller())).xid == 1


def test_a_claim_is_taken_once(direct: DirectConnection) -> None:
    exchange = send(direct)
    assert [exchange.take_claim() for _ in range(3)] == [True, False, False]


def test_a_large_request_is_for_the_loop(direct: DirectConnection, theirs: socket.socket) -> None:
    with pytest.raises(TakenError):
        direct.send(Request(OpCode.SET_DATA, b"x" * LIMIT), lambda: None)
    assert on_the_wire(theirs) == b""
    send(direct)


@pytest.mark.parametrize(("size", "is_whole"), [(LIMIT, True), (LIMIT + 1, False)])
def test_a_reply_up_to_the_limit_comes_as_a_whole(
    direct: DirectConnection, theirs: socket.socket, size: int, is_whole: bool
) -> None:
    exchange = send(direct)
    theirs.send(reply(body=bytes(size - 16)))
    assert (direct.receive(exchange) is not None) is is_whole


@pytest.mark.parametrize(("size", "is_sent"), [(LIMIT - 8, True), (LIMIT - 7, False)])
def test_a_request_up_to_the_limit_is_sent(
    direct: DirectConnection, theirs: socket.socket, size: int, is_sent: bool
) -> None:
    with suppress(TakenError):
        direct.send(Request(OpCode.SET_DATA, bytes(size)), lambda: None)
    assert bool(on_the_wire(theirs)) is is_sent


def test_the_largest_request_and_reply_on_direct(pair: tuple[socket.socket, socket.socket]) -> None:
    """64 KiB each, whatever the limits of the client are."""
    for sock in pair:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2**20)
    large = 64 * 1024
    with pytest.raises(TakenError):
        DirectConnection(pair[0], 0, 2**20, 2**20, DirectCaller()).send(
            Request(1, bytes(large - 7)), lambda: None
        )
    direct = DirectConnection(pair[0], 0, 2**20, 2**20, DirectCaller())
    exchange = direct.send(Request(1, bytes(large - 8)), lambda: None)
    assert exchange.is_sent
    pair[1].send(reply(1, body=bytes(large - 20)))
    assert direct.receive(exchange) is not None
    exchange = direct.send(Request(1), lambda: None)
    pair[1].send(reply(2, body=bytes(large - 19)))
    assert direct.receive(exchange) is None


def test_an_exchange_of_the_loop_has_the_time_at_which_it_was_taken(
    direct: DirectConnection, theirs: socket.socket
) -> None:
    exchange = send(direct)
    assert exchange.received_at == exchange.sent_at == exchange.request.sent_at
    theirs.send(reply())
    direct._step(exchange, direct._receive, LIMIT)
    exchange.received_at = -1.0
    assert direct.take(math.inf) == ([exchange], None)
    assert exchange.received_at >= exchange.sent_at


def test_one_exchange_at_a_time(direct: DirectConnection, theirs: socket.socket) -> None:
    """The handler of a signal runs in the middle of one."""
    exchange = send(direct)
    with pytest.raises(TakenError):
        send(direct)
    theirs.send(reply())
    assert direct.receive(exchange) is not None
    send(direct)


def test_taken_before_the_request_is_sent(direct: DirectConnection, theirs: socket.socket) -> None:
    assert direct.is_here
    assert direct.take(math.inf) == ([], None)
    assert not direct.is_here
    wanted = request()
    with pytest.raises(TakenError):
        direct.send(wanted, lambda: None)
    assert not wanted.sent
    assert on_the_wire(theirs) == b""


def test_taken_before_the_reply_is_read(direct: DirectConnection, theirs: socket.socket) -> None:
    exchange = send(direct)
    assert direct.take(math.inf) == ([], exchange)
    theirs.send(reply())
    assert direct.receive(exchange) is None
    assert (exchange.received, exchange.unsent, exchange.failed) == (b"", b"", False)


@pytest.mark.parametrize(
    "data",
    [reply()[:-1], reply() + reply(8), reply(6), reply(-1), b"\0\0\0\4oops", b""],
    ids=["a part", "more than one", "another reply", "an event", "too short", "the end"],
)
def test_what_is_not_the_reply_alone_is_for_the_loop(
    direct: DirectConnection, theirs: socket.socket, data: bytes
) -> None:
    exchange = send(direct)
    theirs.send(data) if data else theirs.shutdown(socket.SHUT_WR)
    assert direct.receive(exchange) is None
    assert direct.take(math.inf) == ([], exchange)
    assert exchange.received == data


def test_taken_when_the_reply_was_read_and_the_thread_has_not_noted_it(
    direct: DirectConnection, theirs: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange = send(direct)
    theirs.send(reply())
    taken = []
    claim = Exchange.take_claim

    def take_claim(exchange: Exchange) -> bool:
        taken.append(direct.take(math.inf))
        return claim(exchange)

    monkeypatch.setattr(Exchange, "take_claim", take_claim)
    assert direct.receive(exchange) == reply()[4:]
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


def test_a_step_that_ends_while_the_loop_looks(direct: DirectConnection, theirs: socket.socket) -> None:
    """It was an AssertionError, which ended the connection."""
    exchange, replies = send(direct), []
    theirs.send(reply())
    direct._cell = LookedAtTooSoon(direct._cell, lambda: replies.append(direct.receive(exchange)))
    assert direct.take(math.inf) == ([exchange], None)
    assert replies == [reply()[4:]]


def test_a_kernel_that_takes_a_part(pair: tuple[socket.socket, socket.socket]) -> None:
    pair[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    direct = DirectConnection(pair[0], 0, 2**20, 2**20, DirectCaller())
    large = Request[Any](OpCode.SET_DATA, b"x" * 60_000)
    exchange = direct.send(large, lambda: None)
    assert not exchange.is_sent
    assert direct.receive(exchange) is None
    assert direct.take(math.inf) == ([], exchange)
    assert 0 < len(exchange.unsent) < 60_000


def test_a_kernel_that_takes_nothing(pair: tuple[socket.socket, socket.socket]) -> None:
    with suppress(BlockingIOError):
        while True:
            pair[0].send(b"x" * 4096)
    direct = DirectConnection(pair[0], 0, LIMIT, LIMIT, DirectCaller())
    exchange = send(direct)
    assert direct.receive(exchange) is None
    assert direct.take(math.inf) == ([], exchange)
    assert not exchange.failed
    assert exchange.unsent == exchange.frame


def test_nothing_has_come(direct: DirectConnection) -> None:
    exchange = send(direct)
    assert direct.receive(exchange) is None
    assert direct.take(math.inf) == ([], exchange)
    assert not exchange.failed
    assert (exchange.received, exchange.unsent) == (b"", b"")


def test_a_lost_connection(direct: DirectConnection, pair: tuple[socket.socket, socket.socket]) -> None:
    pair[1].close()
    exchange = send(direct)
    assert direct.receive(exchange) is None
    assert direct.take(math.inf) == ([], exchange)
    assert exchange.failed
    assert (exchange.received, exchange.unsent) == (b"", b"")


def test_a_lost_connection_is_not_left_to_the_garbage_collector(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    """Its direct caller has file descriptors."""
    pair[1].close()
    direct = DirectConnection(pair[0], 6, LIMIT, LIMIT, DirectCaller())
    exchange, left = send(direct), weakref.ref(direct)
    with collector_paused():
        del direct
        assert exchange.failed
        assert left() is None


# --- at any moment ----------------------------------------------------------------------------------------


@cannot_stop
def test_stopped_before_any_instruction(pair: tuple[socket.socket, socket.socket]) -> None:
    """What the loop concludes is what is on the wire."""
    ours, theirs = pair
    seen = set()
    for number in range(1, 2000):
        direct = DirectConnection(ours, 6, LIMIT, LIMIT, DirectCaller())

        def call(direct: DirectConnection = direct) -> None:
            exchange = send(direct)
            theirs.send(reply())
            direct.receive(exchange)

        stopped = stopped_at(number, [module.__file__], call)
        done, open = direct.take(math.inf)
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
    direct = DirectConnection(sock, 6, LIMIT, LIMIT, DirectCaller())  # type: ignore[arg-type]
    exchange = send(direct)
    replies = []
    thread = threading.Thread(target=lambda: replies.append(direct.receive(exchange)))
    thread.start()
    assert sock.reads.wait(10)
    if ends:
        monkeypatch.setattr(module.time, "sleep", lambda seconds: sock.may_end.set() or thread.join())
        assert direct.take(time.monotonic()) == ([exchange], None)
    else:
        slept: list[float] = []
        now, lease = 0.0, 60.0

        def sleep(seconds: float) -> None:
            nonlocal now
            now += seconds
            slept.append(seconds)

        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now, sleep=sleep))
        assert direct.take(lease) == ([], exchange)
        assert now >= lease, "it has waited for as long as the lease lasts"
        assert len(slept) >= 2000
        assert slept[:99] == [0.0001] * 99
        assert slept[99:199] == [0.0002] * 100, "looks become rarer"
        assert max(slept) == slept[-1] == 0.01
        assert exchange.failed
        sock.may_end.set()
    thread.join()
    assert replies == [reply()[4:] if ends else None]
