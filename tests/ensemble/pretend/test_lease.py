"""Nothing that is held is held twice, whatever happens to one of the servers: random schedules in virtual
time, with every recipe that holds something. In a schedule some clients take turns, one fault comes at some
time and goes, and in the end everybody gets a turn again.

What docs/lease.md does not promise is left out: a client that knows no server but a leader that is cut off.
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial

import attrs
import pytest
import trio

from pyzk.client import UNANSWERED, SessionExpiredError, ZooKeeper
from pyzk.recipes import (
    ClaimQueue,
    LeaderElection,
    LeaderLatch,
    Lock,
    LockLost,
    MultiLock,
    Queue,
    RWLock,
    Semaphore,
    SingleNodeLock,
)

from .place import Place, in_virtual_time, open_place

NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
SCHEDULES = 600 if NIGHTLY else 16
"""For each recipe."""
TICK = 2.0
"""Seconds; as in the sample configuration of the real server, and ``syncLimit`` likewise."""
SYNC_LIMIT = 5
TIMEOUTS = (4.0, 6.0, 10.0)
PATIENCE = 120.0
"""Seconds in which everybody gets a turn once the fault is over."""


# --- what is held -----------------------------------------------------------------------------------------


@asynccontextmanager
async def latch(zk: ZooKeeper, path: str) -> AsyncIterator[object]:
    async with LeaderLatch(zk, path) as latch, latch.term() as term:
        yield term


@asynccontextmanager
async def claim(queue: Queue | ClaimQueue) -> AsyncIterator[object]:
    """The claim on an item, of which there is one."""
    with suppress(Again):
        async with queue.claim() as item:
            yield item
            raise Again


class Again(Exception):
    """The item stays."""


Ownership = tuple[AbstractAsyncContextManager[object], float]
"""And how many may hold it at once, as long as we do."""


def read_or_write(zk: ZooKeeper, path: str, rng: random.Random) -> Ownership:
    lock = RWLock(zk, path)
    return (lock.read(), math.inf) if rng.random() < 0.5 else (lock.write(), 1)


HELD: dict[str, Callable[[ZooKeeper, str, random.Random], Ownership]] = {
    "lock": lambda zk, path, rng: (Lock(zk, path), 1),
    "lock for both libraries": lambda zk, path, rng: (Lock(zk, path, layout="both"), 1),
    "read or write lock": read_or_write,
    "two locks": lambda zk, path, rng: (MultiLock([Lock(zk, f"{path}/a"), Lock(zk, f"{path}/b")]), 1),
    "semaphore": lambda zk, path, rng: (Semaphore(zk, path, 1), 1),
    "semaphore of two": lambda zk, path, rng: (Semaphore(zk, path, 2), 2),
    "single node lock": lambda zk, path, rng: (SingleNodeLock(zk, path), 1),
    "election": lambda zk, path, rng: (LeaderElection(zk, path).lead(), 1),
    "latch": lambda zk, path, rng: (latch(zk, path), 1),
    "claim": lambda zk, path, rng: (claim(Queue(zk, path)), 1),
    "claim of a lock": lambda zk, path, rng: (claim(ClaimQueue(zk, path)), 1),
}
QUEUES = {"claim": Queue, "claim of a lock": ClaimQueue}
UNFAIR = {"single node lock", *QUEUES}
"""Whoever comes first is next: nobody is sure of a turn."""


# --- what happens -----------------------------------------------------------------------------------------


@attrs.define
class Turns:
    """
    :ivar holders: who holds it now, and how many may do so at once.
    :ivar taken: by client, how many turns it has had.
    """

    holders: dict[str, float] = attrs.Factory(dict)
    taken: dict[str, int] = attrs.Factory(dict)
    news: trio.Event = attrs.Factory(trio.Event)

    def enter(self, name: str, most: float) -> None:
        self.holders[name] = most
        is_legal = len(self.holders) <= min(self.holders.values())
        assert is_legal, f"too many holders at {trio.current_time():.3f} s: {self.holders}"

    def leave(self, name: str) -> None:
        del self.holders[name]
        self.taken[name] = self.taken.get(name, 0) + 1
        self.news.set()
        self.news = trio.Event()

    async def go_on(self, is_fair: bool) -> None:
        """Wait until everybody has had a turn, or somebody where nobody is sure of it."""
        before = dict(self.taken)
        with trio.fail_after(PATIENCE):
            while not (all if is_fair else any)(self.taken[name] > turns for name, turns in before.items()):
                await self.news.wait()


@attrs.frozen
class Schedule:
    place: Place
    rng: random.Random
    turns: Turns

    @property
    def leader(self) -> int:
        leader = self.place.ensemble.leader()
        assert leader is not None
        return leader

    def client(self) -> str:
        """Who holds it now, as a rule."""
        return self.rng.choice([*self.turns.taken, *[*self.turns.holders] * 5])

    def follower(self) -> int:
        """The server of that one, if it is a follower."""
        leader, server = self.leader, self.place.server_of(self.client())
        others = [number for number in self.place.ensemble.numbers if number != leader]
        return server if server in others else self.rng.choice(others)

    async def a_while(self, least: float, most: float) -> None:
        await trio.sleep(self.rng.uniform(least, most))


Fault = Callable[[Schedule], Awaitable[None]]
OF_A_FOLLOWER: list[Fault] = []
OF_THE_LEADER: list[Fault] = []
"""Clients know all servers."""


def of_a_follower(fault: Fault) -> Fault:
    OF_A_FOLLOWER.append(fault)
    return fault


def of_the_leader(fault: Fault) -> Fault:
    OF_THE_LEADER.append(fault)
    return fault


@of_a_follower
async def a_follower_is_cut_off(s: Schedule) -> None:
    follower = s.follower()
    s.place.ensemble.isolate(follower)
    await s.a_while(0, 30)
    s.place.ensemble.heal(follower)


@of_a_follower
async def a_link_is_reset(s: Schedule) -> None:
    follower = s.follower()
    s.place.ensemble.isolate(follower, silent=False)
    await s.a_while(0, 30)
    s.place.ensemble.heal(follower)


@of_a_follower
async def a_follower_lags(s: Schedule) -> None:
    follower = s.follower()
    s.place.ensemble.lag(follower)
    await s.a_while(0, 30)
    s.place.ensemble.catch_up(follower)


@of_a_follower
async def a_follower_dies(s: Schedule) -> None:
    follower = s.follower()
    s.place.ensemble.kill(follower)
    await s.a_while(0, 30)
    s.place.ensemble.start(follower)


@of_a_follower
async def a_follower_stands_still(s: Schedule) -> None:
    follower = s.follower()
    s.place.ensemble.freeze(follower)
    await s.a_while(0, 20)
    s.place.ensemble.thaw(follower)


@of_a_follower
async def a_client_is_cut_off(s: Schedule) -> None:
    name = s.client()
    s.place.cut_off(name)
    await s.a_while(0, 20)
    s.place.let_through(name)


@of_the_leader
async def the_leader_dies(s: Schedule) -> None:
    leader = s.leader
    s.place.ensemble.kill(leader, pending=s.rng.choice((None, "lost", "applied")))
    await s.a_while(0, 30)
    s.place.ensemble.start(leader)


@of_the_leader
async def the_leader_stands_still(s: Schedule) -> None:
    leader = s.leader
    s.place.ensemble.freeze(leader)
    await s.a_while(0, (SYNC_LIMIT + 4) * TICK)
    s.place.ensemble.thaw(leader)


@of_the_leader
async def the_leader_is_cut_off(s: Schedule) -> None:
    leader = s.leader
    s.place.ensemble.isolate(leader, silent=s.rng.random() < 0.7)
    await s.a_while(0, (SYNC_LIMIT + 8) * TICK)
    s.place.ensemble.heal(leader)


@of_the_leader
async def the_leader_resigns(s: Schedule) -> None:
    s.place.ensemble.elect()


@of_the_leader
async def nothing_is_acknowledged(s: Schedule) -> None:
    s.place.ensemble.hold_acks()
    await s.a_while(0, 20)
    s.place.ensemble.release_acks()


@of_the_leader
async def no_quorum_is_left(s: Schedule) -> None:
    numbers = s.place.ensemble.numbers
    s.rng.shuffle(numbers)
    s.place.ensemble.partition(*([number] for number in numbers), silent=s.rng.random() < 0.5)
    await s.a_while(0, (SYNC_LIMIT + 8) * TICK)
    s.place.ensemble.heal()


@of_the_leader
async def all_are_restarted(s: Schedule) -> None:
    s.place.ensemble.roll()


# --- who takes turns --------------------------------------------------------------------------------------


async def take_turns(
    place: Place, kind: str, name: str, servers: list[int], turns: Turns, rng: random.Random
) -> None:
    timeout, latency = rng.choice(TIMEOUTS), rng.choice((0.0, 0.002, 0.05))
    while True:
        with suppress(SessionExpiredError):
            async with place.client(
                name,
                servers,
                delay=lambda: latency,
                rng=rng,
                session_timeout=timeout,
                close_grace=0,
            ) as zk:
                while True:
                    with suppress(LockLost, *UNANSWERED):
                        hold, most = HELD[kind](zk, "/held", rng)
                        async with hold:
                            turns.enter(name, most)
                            try:
                                await trio.sleep(rng.choice((1.0, 4 * timeout)) * rng.random())
                            finally:
                                turns.leave(name)
                    await trio.sleep(rng.uniform(0, 0.5))


async def run(kind: str, seed: int, fault: Fault | None = None) -> None:
    rng = random.Random(f"{kind} {seed}")
    fault = fault or rng.choice(OF_A_FOLLOWER + OF_THE_LEADER)
    names = [f"client {number}" for number in range(rng.choice((2, 3)))]
    turns = Turns(taken=dict.fromkeys(names, 0))
    async with (
        open_place(tick_time=round(1000 * TICK), max_session_timeout=60_000) as place,
        trio.open_nursery() as nursery,
    ):
        schedule = Schedule(place, rng, turns)
        everywhere = place.ensemble.numbers
        if kind in QUEUES:
            async with place.client("setup", everywhere) as zk:
                await QUEUES[kind](zk, "/held").put(b"the only one")
        for name in names:
            some = rng.sample(everywhere, rng.randint(1, len(everywhere)))
            servers = some if fault in OF_A_FOLLOWER else everywhere
            nursery.start_soon(take_turns, place, kind, name, servers, turns, random.Random(rng.random()))
        await turns.go_on(kind not in UNFAIR)
        await schedule.a_while(0, 2 * max(TIMEOUTS))
        await fault(schedule)
        await turns.go_on(kind not in UNFAIR)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("kind", HELD)
def test_never_two_holders(kind: str) -> None:
    first = random.SystemRandom().getrandbits(32) if NIGHTLY else 0
    for seed in range(first, first + SCHEDULES):
        try:
            in_virtual_time(partial(run, kind, seed))
        except BaseException as error:
            error.add_note(f"schedule {seed} of {kind!r}")
            raise


def test_the_schedules_find_who_ignores_the_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """So they would find a lease that is too long."""
    monkeypatch.setitem(HELD, "careless", lambda zk, path, rng: (Lock(zk, path, suspended="ignore"), 1))
    with pytest.raises(ExceptionGroup) as caught:
        for seed in range(20):
            in_virtual_time(partial(run, "careless", seed, a_follower_is_cut_off))
    assert caught.group_contains(AssertionError, match="too many holders")
