"""The lease against a model of an ensemble: a leader that ends sessions by its own clock, and a follower that
reports every half tick what it has heard of. Whatever happens to one of them, what is held has been given up
when the leader ends the session.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
import struct
from collections import deque
from collections.abc import Callable
from typing import Any, Literal, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyzk.client.lease import PROOFS, Lease
from pyzk.protocol.operations import OpCode

from .scripted import START, Script

Fault = Literal[
    "none",
    "follower cut off",
    "follower not heard by the leader",
    "leader not heard by the follower",
    "client cut off",
    "client not heard",
    "follower killed",
    "follower stopped",
    "leader stopped",
    "slow",
]
FAULTS: tuple[Fault, ...] = get_args(Fault)
MARGIN = 0.1
"""Of the session timeout: what :class:`pyzk.recipes.base.ownership.Ownership` takes off."""


DELAY = 0.02
"""Seconds that a message takes at most, while all is well."""


class Queue:
    """Messages on their way to somebody who may stand still; in order."""

    def __init__(self, world: World, receive: Callable[[Any], None]) -> None:
        self._world = world
        self._receive = receive
        self._waiting: deque[Any] = deque()
        self._last = 0.0
        self.stopped = False

    def send(self, message: Any) -> None:
        """It arrives a bit later, behind all that was sent before."""
        self._last = max(self._last, self._world.now + self._world.rng.uniform(0, self._world.delay))
        self._world.at(self._last, lambda: self._arrive(message))

    def _arrive(self, message: Any) -> None:
        if self.stopped:
            self._waiting.append(message)
        else:
            self._receive(message)

    def go_on(self) -> None:
        """Deliver what has come meanwhile, some ms from now."""
        self.stopped = False
        waiting, self._waiting = self._waiting, deque()
        for message in waiting:
            self.send(message)


class World:
    """A client, its follower, the leader. Times are seconds.

    :ivar delay: what a message takes at most.
    """

    def __init__(self, seed: int, timeout: float, tick: float, fault: Fault, length: float) -> None:
        self.rng = random.Random(seed)
        self.now = START
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._number = itertools.count()
        self.timeout = timeout
        self.half_tick = tick / 2
        self.fault = fault
        self.length = length
        self.delay = DELAY
        self.script = Script(timeout=timeout)
        self.to_follower = Queue(self, self.follower_hears_client)
        self.from_leader = Queue(self, self.follower_hears_leader)
        self.to_leader = Queue(self, self.leader_hears)
        self.to_client = Queue(self, self.client_hears)
        self.unanswered: deque[int] = deque()  # requests that the follower has read
        self.answers: list[int] = []  # which it could answer if others were not before them
        self.heard = False  # by the follower, since its last report
        self.leader_stopped = False
        self.touched = START  # at the leader
        self.ended_at = math.inf
        self.held = False
        self.limit = math.inf
        self.lost_at = math.inf

    def at(self, when: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._events, (when, next(self._number), action))

    def run(self, until: float) -> None:
        while self._events and self._events[0][0] <= until:
            self.now, _, action = heapq.heappop(self._events)
            self.script.now = self.now
            action()
            self.look()
        self.now = until

    # --- the servers -------------------------------------------------------------------------------------

    def leader_pings(self) -> None:
        if not self.leader_stopped:
            self.from_leader.send("ping")
            self.at(self.now + self.half_tick, self.leader_pings)

    def leader_hears(self, message: Any) -> None:
        if message == "report":
            self.touched = self.now
        else:
            self.from_leader.send(message)

    def leader_looks(self) -> None:
        """It may end the session."""
        if not self.leader_stopped and self.now >= self.touched + self.timeout:
            self.ended_at = min(self.ended_at, self.now)
        self.at(self.now + 0.01, self.leader_looks)

    def follower_hears_client(self, payload: bytes) -> None:
        self.heard = True
        xid, op = struct.unpack_from(">ii", payload)
        self.unanswered.append(xid)
        if op in PROOFS:
            self.to_leader.send(xid)
        else:
            self.follower_answers(xid)

    def follower_answers(self, xid: int) -> None:
        """In the order of the requests."""
        self.answers.append(xid)
        while self.unanswered and self.unanswered[0] in self.answers:
            self.answers.remove(self.unanswered[0])
            self.to_client.send(self.unanswered.popleft())

    def follower_hears_leader(self, message: Any) -> None:
        if message != "ping":
            self.follower_answers(message)
        elif self.heard:
            self.heard = False
            self.to_leader.send("report")

    # --- the client --------------------------------------------------------------------------------------

    def client_hears(self, xid: int) -> None:
        if self.script.machine.state.name == "CONNECTED":
            self.script.reply(xid)

    def look(self) -> None:
        """Let the client do what is due, and the holder see whether it still holds."""
        machine = self.script.machine
        if machine.next_deadline() <= self.now:
            machine.handle_timer(self.now)
        if not machine.should_close:
            for payload in self.script.frames():
                self.to_follower.send(payload)
        if self.held and self.lost_at == math.inf:
            if self.now >= self.limit:
                self.lost_at = self.limit
            self.limit = machine.data.lease.deadline - MARGIN * self.timeout

    def client_ticks(self) -> None:
        self.at(self.now + 0.01, self.client_ticks)

    def client_asks(self) -> None:
        """Now and then, a read or a write."""
        if not self.script.machine.should_close:
            self.script.write() if self.rng.random() < 0.3 else self.script.read()
        self.at(self.now + self.rng.expovariate(1 / self.timeout), self.client_asks)

    def hold(self) -> None:
        """As after a write that was just answered, which precedes everything that is held."""
        machine = self.script.machine
        machine.data.lease.keep(lambda: None, self.now)
        write = self.script.write()
        write.on_settled(lambda _: self.granted())

    def granted(self) -> None:
        self.held = True
        self.limit = self.script.machine.data.lease.deadline - MARGIN * self.timeout

    # --- the fault ---------------------------------------------------------------------------------------

    def strike(self) -> None:
        match self.fault:
            case "follower cut off":
                stopped = [self.to_leader, self.from_leader]
            case "follower not heard by the leader":
                stopped = [self.to_leader]
            case "leader not heard by the follower":
                stopped = [self.from_leader]
            case "client cut off":
                stopped = [self.to_follower, self.to_client]
            case "client not heard":
                stopped = [self.to_follower]
            case "follower stopped":
                stopped = [self.to_follower, self.from_leader]
            case "follower killed":
                self.to_follower.stopped = self.from_leader.stopped = True
                return
            case "leader stopped":
                self.leader_stopped = True
                stopped = [self.to_leader]
            case "slow":
                self.delay = MARGIN / 2 * self.timeout
                self.at(self.now + self.length, self.be_fast)
                return
            case "none":
                return
        for queue in stopped:
            queue.stopped = True
        self.rng.shuffle(stopped)
        self.at(self.now + self.length, lambda: self.go_on(stopped))

    def be_fast(self) -> None:
        self.delay = DELAY

    def go_on(self, stopped: list[Queue]) -> None:
        if self.leader_stopped:
            self.leader_stopped = False
            if self.now >= self.touched + self.timeout:  # before it looks at anything else
                self.ended_at = self.now
            self.leader_pings()
        for queue in stopped:
            queue.go_on()

    def play(self, *, idle: float, held: float) -> None:
        self.at(START + self.rng.uniform(0, self.half_tick), self.leader_pings)
        self.at(START, self.leader_looks)
        self.at(START, self.client_ticks)
        if self.rng.random() < 0.5:
            self.at(START, self.client_asks)
        self.script.connect(self.timeout)
        self.at(START + idle, self.hold)
        self.at(START + idle + held, self.strike)
        self.run(START + idle + held + 3 * self.timeout)


@given(
    seed=st.integers(0, 2**32),
    ticks=st.sampled_from([2.0, 2.5, 3.0, 5.0, 20.0]),
    fault=st.sampled_from(FAULTS),
    idle=st.floats(0, 3),
    held=st.floats(0.02, 3),
    length=st.floats(0, 2),
)
def test_what_is_held_is_given_up_before_the_leader_ends_the_session(
    seed: int, ticks: float, fault: Fault, idle: float, held: float, length: float
) -> None:
    """Times are in session timeouts, and ``ticks`` is how many ticks the session timeout has."""
    timeout, tick = 2.0 * ticks, 2.0
    world = World(seed, timeout, tick, fault, length * timeout)
    world.play(idle=idle * timeout, held=held * timeout)
    assert world.held, "it was granted in the first place"
    if world.ended_at < math.inf:
        assert world.lost_at < world.ended_at
    if fault == "none":
        assert world.lost_at == math.inf, "it is kept while all is well"


# --- the arithmetic -------------------------------------------------------------------------------------

T = 24.0


@pytest.fixture
def lease() -> Lease:
    lease = Lease()
    lease.attached(100, 101, T)
    return lease


def test_a_handshake_begins_it(lease: Lease) -> None:
    assert lease.deadline == 100 + T
    assert lease.acknowledged == 100


def test_an_answer_of_one_server_alone_does_not_move_it(lease: Lease) -> None:
    lease.answered(105, 106)
    lease.answered(120, 121)
    assert lease.deadline == 100 + T
    assert lease.acknowledged == 120


def test_the_leader_vouches_for_what_was_answered_a_third_of_the_timeout_ago(lease: Lease) -> None:
    lease.answered(105, 106)
    lease.prove(113.9)
    assert lease.deadline == 100 + T
    lease.prove(114)
    assert lease.deadline == 105 + T
    lease.prove(113)
    assert lease.deadline == 105 + T, "never back"


def test_what_was_sent_long_ago_and_answered_lately_is_not_vouched_for(lease: Lease) -> None:
    """Of two answers the older one counts, as long as the newer one is too new."""
    lease.answered(105, 106)
    lease.answered(107, 112)
    lease.prove(106 + T / 3)
    assert lease.deadline == 105 + T
    lease.prove(112 + T / 3 - 0.1)
    assert lease.deadline == 105 + T
    lease.prove(112 + T / 3)
    assert lease.deadline == 107 + T


def test_without_a_session_nothing_is_short() -> None:
    lease = Lease()
    assert lease.short_at == math.inf
    lease.keep(lambda: None, 100)
    assert lease.short_at == math.inf
    assert not lease.warned
    lease.attached(100, 101, T)
    assert lease.short_at == pytest.approx(100 + T - T / 5)


def test_another_server_vouches_for_nothing_of_the_one_before(lease: Lease) -> None:
    lease.answered(105, 106)
    lease.disconnected()
    lease.prove(120)
    assert lease.deadline == 100 + T
    lease.attached(121, 122, T / 2)
    assert lease.deadline == 121 + T / 2, "the shorter timeout counts at once"


def test_a_longer_timeout_of_another_server_does_not_count(lease: Lease) -> None:
    """A new leader gives the session the timeout that it was created with."""
    lease.disconnected()
    lease.attached(110, 111, 2 * T)
    assert lease.deadline == 110 + T
    lease.answered(112, 113)
    lease.prove(113 + T / 3)
    assert lease.deadline == 112 + T


def test_a_new_session_begins_without(lease: Lease) -> None:
    moves: list[float] = []
    lease.keep(lambda: moves.append(lease.deadline), 102)
    lease.ended()
    assert moves == [-math.inf] == [lease.deadline]
    lease.attached(200, 201, 2 * T)
    assert lease.deadline == 200 + 2 * T, "with a timeout of its own"


def test_it_says_when_it_moves_while_it_is_kept(lease: Lease) -> None:
    moves: list[float] = []

    def moved() -> None:
        moves.append(lease.deadline)

    assert not lease.kept
    lease.keep(moved, 102)
    assert lease.kept
    lease.answered(105, 106)
    lease.prove(114)
    lease.prove(114.5)
    lease.release(moved)
    lease.release(moved)
    assert not lease.kept
    lease.prove(200)
    assert moves == [105 + T]


def test_a_proof_is_due_in_time_for_the_next_message_that_it_vouches_for(lease: Lease) -> None:
    assert lease.proof_due == pytest.approx(100 + T / 5), "the last one was the handshake"
    lease.prove(103)
    assert lease.proof_due == pytest.approx(103 + T / 5)
    lease.answered(103, 103.5)
    lease.prove(108)
    assert lease.proof_due == pytest.approx(103.5 + T / 3), "less than a fifth from now"


def test_busy_clients_note_few_answers(lease: Lease) -> None:
    for answer in range(100_000):
        lease.answered(102 + answer / 1000, 102 + answer / 1000)
    assert len(lease._answered) <= 18


def test_reads_and_pings_prove_nothing() -> None:
    assert not PROOFS & {OpCode.PING, OpCode.GET_DATA, OpCode.EXISTS, OpCode.MULTI_READ, OpCode.SET_WATCHES2}
