"""To whom a connection is handed over, and when: with a client and a thread that tests play."""

from __future__ import annotations

import math
import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from pyzk.client.direct_connection import HANDOFF_TIME, ConnectionSource, DirectConnection
from pyzk.client.handoff import Handoff
from pyzk.client.request import Request
from pyzk.protocol.operations import OpCode


class DirectCaller:
    """A thread. It notes what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.under_way: list[bool] = []

    def offer(self, source: ConnectionSource) -> None:
        self.told.append("offered")

    def withdraw(self, source: ConnectionSource) -> None:
        self.told.append("withdrawn")

    def ended(self, direct: DirectConnection, under_way: bool) -> None:
        self.told.append("ended")
        self.under_way.append(under_way)


class Keeper:
    """A client whose connection is idle, and which notes what it is told."""

    def __init__(self, sock: socket.socket) -> None:
        data = SimpleNamespace(
            xid=6, request_limit=1000, reply_limit=1000, lease=SimpleNamespace(deadline=math.inf)
        )
        self.told: list[Any] = []
        self.machine: Any = SimpleNamespace(
            data=data,
            is_quiet=True,
            exchanged=lambda done, open, now: self.told.append(("exchanged", len(done), open, now)),
        )
        self.socket: socket.socket | None = sock
        self.in_sequence = True
        self.is_idle = True
        self.is_observed = False

    def submit(self, request: Request[Any]) -> None:
        self.told.append(("submitted", request))

    def go_on(self, unsent: bytes) -> None:
        self.told.append(("go on", unsent))

    def end_connection(self, reason: str) -> None:
        self.told.append(("ended", reason))


@pytest.fixture
def theirs() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        yield ours, theirs


@pytest.fixture
def keeper(theirs: tuple[socket.socket, socket.socket]) -> Keeper:
    return Keeper(theirs[0])


async def calls(handoff: Handoff, direct_caller: DirectCaller | None, times: int = 1) -> None:
    """A thread has made calls, one after the other."""
    for _ in range(times):
        handoff.asker = direct_caller
        await handoff.offer()


async def test_a_thread_is_regular_after_three_calls(autojump_clock: MockClock, keeper: Keeper) -> None:
    handoff, direct_caller = Handoff(keeper), DirectCaller()
    await calls(handoff, direct_caller, 3)
    assert direct_caller.told == []
    assert not handoff.hand_over() or handoff.direct is not None
    began = trio.current_time()
    await calls(handoff, direct_caller)
    assert direct_caller.told == ["offered", "withdrawn"]
    assert trio.current_time() == pytest.approx(began + HANDOFF_TIME)
    await calls(handoff, direct_caller)
    assert direct_caller.told == ["offered", "withdrawn"] * 2, "it goes on being so"


async def test_a_pause_or_another_caller_begins_anew(autojump_clock: MockClock, keeper: Keeper) -> None:
    handoff, direct_caller, other = Handoff(keeper), DirectCaller(), DirectCaller()
    await calls(handoff, direct_caller, 3)
    await trio.sleep(HANDOFF_TIME * 1.01)
    await calls(handoff, direct_caller, 3)
    assert direct_caller.told == []
    await calls(handoff, other)
    await calls(handoff, direct_caller, 3)
    assert direct_caller.told == []
    keeper.in_sequence = False
    await calls(handoff, direct_caller)
    keeper.in_sequence = True
    await calls(handoff, direct_caller, 2)
    assert direct_caller.told == [], "something else was in flight"
    handoff.reset()
    await calls(handoff, direct_caller, 3)
    assert direct_caller.told == [], "it was another connection"
    await calls(handoff, direct_caller)
    assert direct_caller.told == ["offered", "withdrawn"]


async def test_a_short_pause_does_not(autojump_clock: MockClock, keeper: Keeper) -> None:
    handoff, direct_caller = Handoff(keeper), DirectCaller()
    for _ in range(4):
        await calls(handoff, direct_caller)
        await trio.sleep(HANDOFF_TIME * 0.99)
    assert direct_caller.told == ["offered", "withdrawn"]


@pytest.mark.parametrize("lack", ["asker", "socket", "observer"])
async def test_nothing_is_offered_to_nobody(autojump_clock: MockClock, keeper: Keeper, lack: str) -> None:
    handoff, direct_caller = Handoff(keeper), DirectCaller()
    if lack == "socket":
        keeper.socket = None
    keeper.is_observed = lack == "observer"
    await calls(handoff, None if lack == "asker" else direct_caller, 9)
    assert direct_caller.told == []
    assert handoff.asker is None


async def test_a_connection_is_handed_over_where_it_is_not_needed(
    autojump_clock: MockClock, keeper: Keeper
) -> None:
    handoff, direct_caller = Handoff(keeper), DirectCaller()
    assert not handoff.hand_over(), "nobody is regular"
    await calls(handoff, direct_caller, 4)
    for owner, name, needed in (
        (keeper, "socket", None),
        (keeper, "is_idle", False),
        (keeper.machine, "is_quiet", False),
    ):
        before = getattr(owner, name)
        setattr(owner, name, needed)
        assert not handoff.hand_over()
        assert handoff.direct is None
        setattr(owner, name, before)
    assert handoff.hand_over()
    direct = handoff.direct
    assert direct is not None
    assert direct.direct_caller is direct_caller
    assert direct.send(Request(OpCode.SYNC, b"", "/"), lambda: None).xid == 7


async def test_a_direct_connection_is_taken_back(autojump_clock: MockClock, keeper: Keeper) -> None:
    """What waits for the end of the offer goes on at once."""
    handoff, direct_caller = Handoff(keeper), DirectCaller()
    await calls(handoff, direct_caller, 3)
    handoff.asker = direct_caller
    async with trio.open_nursery() as nursery:
        nursery.start_soon(handoff.offer)
        with trio.CancelScope():
            while not direct_caller.told:
                await trio.lowlevel.checkpoint()
        began = trio.current_time()
        assert handoff.hand_over()
        direct = handoff.direct
        assert direct is not None
        adopted: list[str] = []
        exchange = direct.send(Request(OpCode.SYNC, b"", "/"), lambda: adopted.append("adopted"))
        handoff.take_back()
        assert handoff.direct is None
        assert adopted == ["adopted"]
        assert direct_caller.under_way == [True]
        assert keeper.told == [("exchanged", 0, exchange, began), ("go on", b"")]
        handoff.take_back()
        assert len(keeper.told) == 2, "once"
        await wait_all_tasks_blocked()
    assert trio.current_time() == began
    assert direct_caller.told == ["offered", "ended", "withdrawn"]


async def test_a_direct_caller_that_did_nothing_with_a_direct_connection_is_forgotten_after_a_while(
    autojump_clock: MockClock, keeper: Keeper
) -> None:
    handoff, direct_caller = Handoff(keeper), DirectCaller()
    await calls(handoff, direct_caller, 4)
    for pause, is_handed_over in (
        (0.0, True),
        (HANDOFF_TIME * 0.9, True),
        (HANDOFF_TIME * 0.1, True),
        (0.0, False),
    ):
        await trio.sleep(pause)
        assert handoff.hand_over() is is_handed_over
        handoff.take_back()
    assert direct_caller.under_way == [False] * 3
    assert [told[:3] for told in keeper.told if told[0] == "exchanged"] == [("exchanged", 0, None)] * 3


async def test_a_direct_caller_that_uses_a_direct_connection_keeps_its_turn(
    autojump_clock: MockClock, keeper: Keeper, theirs: tuple[socket.socket, socket.socket]
) -> None:
    handoff, direct_caller = Handoff(keeper), DirectCaller()
    await calls(handoff, direct_caller, 4)
    await trio.sleep(HANDOFF_TIME * 2)
    assert handoff.hand_over()
    direct = handoff.direct
    assert direct is not None
    exchange = direct.send(Request(OpCode.SYNC, b"", "/"), lambda: None)
    theirs[1].send((16).to_bytes(4, "big") + exchange.xid.to_bytes(4, "big") + bytes(12))
    assert direct.receive(exchange) is not None
    handoff.take_back()
    assert keeper.told[0][:3] == ("exchanged", 1, None)
    assert handoff.hand_over()


async def test_what_is_submitted_late_fails_if_it_cannot_be_sent(keeper: Keeper) -> None:
    handoff = Handoff(keeper)
    request: Request[Any] = Request(OpCode.SYNC, b"", "/")
    handoff.submit_late(request)
    assert keeper.told == [("submitted", request)]

    def refuse(request: Request[Any]) -> None:
        raise LookupError("mine")

    keeper.submit = refuse  # type: ignore[method-assign]
    handoff.submit_late(request)
    assert isinstance(request.error, LookupError)
    handoff.end_connection("it is wrong")
    assert keeper.told[-1] == ("ended", "it is wrong")
