"""To whom a connection is lent, and when: with a client and a thread that tests play."""

from __future__ import annotations

import math
import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from pyzk.client.lending import Lending
from pyzk.client.loan import LOAN_TIME, Lender, Loan
from pyzk.client.request import Request
from pyzk.protocol.operations import OpCode


class Borrower:
    """A thread. It notes what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.under_way: list[bool] = []

    def offer(self, lender: Lender) -> None:
        self.told.append("offered")

    def withdraw(self, lender: Lender) -> None:
        self.told.append("withdrawn")

    def ended(self, loan: Loan, under_way: bool) -> None:
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


async def calls(lending: Lending, borrower: Borrower | None, times: int = 1) -> None:
    """A thread has made calls, one after the other."""
    for _ in range(times):
        lending.asker = borrower
        await lending.offer()


async def test_a_thread_is_regular_after_three_calls(autojump_clock: MockClock, keeper: Keeper) -> None:
    lending, borrower = Lending(keeper), Borrower()
    await calls(lending, borrower, 3)
    assert borrower.told == []
    assert not lending.lend() or lending.loan is not None
    began = trio.current_time()
    await calls(lending, borrower)
    assert borrower.told == ["offered", "withdrawn"]
    assert trio.current_time() == pytest.approx(began + LOAN_TIME)
    await calls(lending, borrower)
    assert borrower.told == ["offered", "withdrawn"] * 2, "it goes on being so"


async def test_a_pause_or_another_caller_begins_anew(autojump_clock: MockClock, keeper: Keeper) -> None:
    lending, borrower, other = Lending(keeper), Borrower(), Borrower()
    await calls(lending, borrower, 3)
    await trio.sleep(LOAN_TIME * 1.01)
    await calls(lending, borrower, 3)
    assert borrower.told == []
    await calls(lending, other)
    await calls(lending, borrower, 3)
    assert borrower.told == []
    keeper.in_sequence = False
    await calls(lending, borrower)
    keeper.in_sequence = True
    await calls(lending, borrower, 2)
    assert borrower.told == [], "something else was in flight"
    lending.reset()
    await calls(lending, borrower, 3)
    assert borrower.told == [], "it was another connection"
    await calls(lending, borrower)
    assert borrower.told == ["offered", "withdrawn"]


async def test_a_short_pause_does_not(autojump_clock: MockClock, keeper: Keeper) -> None:
    lending, borrower = Lending(keeper), Borrower()
    for _ in range(4):
        await calls(lending, borrower)
        await trio.sleep(LOAN_TIME * 0.99)
    assert borrower.told == ["offered", "withdrawn"]


@pytest.mark.parametrize("lack", ["asker", "socket", "observer"])
async def test_nothing_is_offered_to_nobody(autojump_clock: MockClock, keeper: Keeper, lack: str) -> None:
    lending, borrower = Lending(keeper), Borrower()
    if lack == "socket":
        keeper.socket = None
    keeper.is_observed = lack == "observer"
    await calls(lending, None if lack == "asker" else borrower, 9)
    assert borrower.told == []
    assert lending.asker is None


async def test_a_connection_is_lent_where_it_is_not_needed(autojump_clock: MockClock, keeper: Keeper) -> None:
    lending, borrower = Lending(keeper), Borrower()
    assert not lending.lend(), "nobody is regular"
    await calls(lending, borrower, 4)
    for owner, name, needed in (
        (keeper, "socket", None),
        (keeper, "is_idle", False),
        (keeper.machine, "is_quiet", False),
    ):
        before = getattr(owner, name)
        setattr(owner, name, needed)
        assert not lending.lend()
        assert lending.loan is None
        setattr(owner, name, before)
    assert lending.lend()
    loan = lending.loan
    assert loan is not None
    assert loan.borrower is borrower
    assert loan.send(Request(OpCode.SYNC, b"", "/"), lambda: None).xid == 7


async def test_a_loan_is_taken_back(autojump_clock: MockClock, keeper: Keeper) -> None:
    """What waits for the end of the offer goes on at once."""
    lending, borrower = Lending(keeper), Borrower()
    await calls(lending, borrower, 3)
    lending.asker = borrower
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lending.offer)
        with trio.CancelScope():
            while not borrower.told:
                await trio.lowlevel.checkpoint()
        began = trio.current_time()
        assert lending.lend()
        loan = lending.loan
        assert loan is not None
        adopted: list[str] = []
        exchange = loan.send(Request(OpCode.SYNC, b"", "/"), lambda: adopted.append("adopted"))
        lending.take_back()
        assert lending.loan is None
        assert adopted == ["adopted"]
        assert borrower.under_way == [True]
        assert keeper.told == [("exchanged", 0, exchange, began), ("go on", b"")]
        lending.take_back()
        assert len(keeper.told) == 2, "once"
        await wait_all_tasks_blocked()
    assert trio.current_time() == began
    assert borrower.told == ["offered", "ended", "withdrawn"]


async def test_a_borrower_that_did_nothing_with_a_loan_is_forgotten_after_a_while(
    autojump_clock: MockClock, keeper: Keeper
) -> None:
    lending, borrower = Lending(keeper), Borrower()
    await calls(lending, borrower, 4)
    for pause, is_lent in ((0.0, True), (LOAN_TIME * 0.9, True), (LOAN_TIME * 0.1, True), (0.0, False)):
        await trio.sleep(pause)
        assert lending.lend() is is_lent
        lending.take_back()
    assert borrower.under_way == [False] * 3
    assert [told[:3] for told in keeper.told if told[0] == "exchanged"] == [("exchanged", 0, None)] * 3


async def test_a_borrower_that_uses_a_loan_keeps_its_turn(
    autojump_clock: MockClock, keeper: Keeper, theirs: tuple[socket.socket, socket.socket]
) -> None:
    lending, borrower = Lending(keeper), Borrower()
    await calls(lending, borrower, 4)
    await trio.sleep(LOAN_TIME * 2)
    assert lending.lend()
    loan = lending.loan
    assert loan is not None
    exchange = loan.send(Request(OpCode.SYNC, b"", "/"), lambda: None)
    theirs[1].send((16).to_bytes(4, "big") + exchange.xid.to_bytes(4, "big") + bytes(12))
    assert loan.receive(exchange) is not None
    lending.take_back()
    assert keeper.told[0][:3] == ("exchanged", 1, None)
    assert lending.lend()


async def test_what_is_submitted_late_fails_if_it_cannot_be_sent(keeper: Keeper) -> None:
    lending = Lending(keeper)
    request: Request[Any] = Request(OpCode.SYNC, b"", "/")
    lending.submit_late(request)
    assert keeper.told == [("submitted", request)]

    def refuse(request: Request[Any]) -> None:
        raise LookupError("mine")

    keeper.submit = refuse  # type: ignore[method-assign]
    lending.submit_late(request)
    assert isinstance(request.error, LookupError)
    lending.end_connection("it is wrong")
    assert keeper.told[-1] == ("ended", "it is wrong")
