"""The recipes, but for locks, on a real ensemble whose leader dies while all of them are in use, and with
connections that are cut: the rows of recipe-rules.md D.13 that have a star."""

from __future__ import annotations

import random
from collections import Counter as Tally
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial

import attrs
import pytest
import trio

from pyzk.client import UNANSWERED, NodeExistsError, NoNodeError, NotEmptyError, ZooKeeper, connect
from pyzk.client.tcp import TcpStream
from pyzk.recipes import (
    INT64,
    AmbiguousResult,
    CacheEventType,
    ClaimQueue,
    Counter,
    DoubleBarrier,
    LeaderElection,
    LeaderLatch,
    Party,
    PersistentNode,
    Queue,
    SharedValue,
    Term,
    TreeCache,
)

from ..support.lines import cut
from ..support.real import Ensemble
from ..support.waiting import PATIENCE, until

pytestmark = pytest.mark.row("F12", "F13")

KILLS = 3
PROGRESS = 5
"""How many steps further everybody has to come between two blows."""
SESSION_TIMEOUT = 40.0
PACE = 0.004
"""Seconds between two steps of one who has nobody to wait for."""

Step = Callable[[], None]
Work = Callable[[ZooKeeper, Step], Awaitable[None]]


@attrs.define
class Line:
    """A connector whose connection can be cut: what the server was asked for is done, and no reply comes."""

    _stream: trio.abc.Stream | None = None

    async def __call__(self, host: str, port: int) -> trio.abc.Stream:
        self._stream = stream = await TcpStream.open(host, port)
        return stream

    def cut(self) -> None:
        if self._stream is not None:
            cut(self._stream)


@attrs.define
class Run:
    """Everybody who is at work while leaders die, each with a client and a name.

    :ivar steps: how far they have come.
    :ivar over: true when those who write are to stop, each after what it has begun.
    """

    ensemble: Ensemble
    nursery: trio.Nursery
    steps: Tally[str] = attrs.Factory(Tally)
    clients: dict[str, ZooKeeper] = attrs.Factory(dict)
    over: bool = False
    _lines: list[Line] = attrs.Factory(list)
    _at_work: dict[str, trio.CancelScope] = attrs.Factory(dict)
    _stepped: trio.Event = attrs.Factory(trio.Event)

    async def start(self, name: str, work: Work) -> None:
        self.steps[name] = 0
        await self.nursery.start(self._live, name, work)

    async def _live(self, name: str, work: Work, task_status: trio.TaskStatus[None]) -> None:
        line = Line()
        async with connect(
            self.ensemble.hosts, session_timeout=SESSION_TIMEOUT, close_grace=PATIENCE, connector=line
        ) as zk:
            self.clients[name] = zk
            self._lines.append(line)
            with trio.CancelScope() as self._at_work[name]:
                task_status.started()
                await work(zk, partial(self._step, name))
            with trio.fail_after(PATIENCE):
                await zk.cleanup.idle()
            assert zk.watch_count == 0, name
            assert zk.session.generation == 1, "a session was lost"
        del self._at_work[name]
        self._step(name)

    def _step(self, name: str) -> None:
        self.steps[name] += 1
        self._stepped.set()
        self._stepped = trio.Event()

    async def until_none(self, those: Callable[[], object]) -> None:
        """Wait until there are none of those; it is looked at after each step."""
        with trio.move_on_after(PATIENCE):
            while those():
                await self._stepped.wait()
            return
        raise AssertionError(f"{those()} did not get any further")

    async def progress(self) -> None:
        """Everybody has come further."""
        goal = {name: steps + PROGRESS for name, steps in self.steps.items()}
        await self.until_none(lambda: [name for name in goal if self.steps[name] < goal[name]])

    async def cut_lines(self, pause: float) -> None:
        while not self.over:
            random.choice(self._lines).cut()
            await trio.sleep(pause)

    async def kill_leaders(self, *, cut_every: float) -> None:
        """Kill the leader and start it again, a few times, and cut a connection every so many seconds:
        not too often where one waits for another, since coming back takes up to a second."""
        self.nursery.start_soon(self.cut_lines, cut_every)
        for _ in range(KILLS):
            await self.progress()
            leader = await trio.to_thread.run_sync(self.ensemble.leader)
            leader.kill()
            await self.progress()
            leader.start()
            await trio.to_thread.run_sync(self.ensemble.wait_until_whole)
        await self.progress()
        assert all(zk.metrics.connections > KILLS for zk in self.clients.values()), "somebody did not notice"

    async def stop_writing(self, *names: str) -> None:
        self.over = True
        await self.until_none(lambda: [name for name in names if name in self._at_work])

    async def stop(self) -> None:
        for scope in self._at_work.values():
            scope.cancel()
        await self.until_none(lambda: list(self._at_work))


# --- what is written --------------------------------------------------------------------------------------


@attrs.define
class Sum:
    """A counter.

    :ivar added: before and after each addition that was acknowledged.
    :ivar ambiguous: the amounts of those that were not.
    :ivar seen: the last value that somebody has seen who follows them.
    """

    run: Run
    path: str
    exactly_once: bool
    added: list[tuple[int, int]] = attrs.Factory(list)
    ambiguous: list[int] = attrs.Factory(list)
    seen: int = 0

    async def add(self, zk: ZooKeeper, step: Step) -> None:
        counter = Counter(zk, self.path, exactly_once=self.exactly_once)
        while not self.run.over:
            amount = random.randint(1, 9)
            try:
                change = await counter.add(amount)
                assert change[1] - change[0] == amount
                self.added.append(change)
                step()
            except AmbiguousResult:
                self.ambiguous.append(amount)
            await trio.sleep(PACE)

    async def follow(self, zk: ZooKeeper, step: Step) -> None:
        mzxid = 0
        async with SharedValue(zk, self.path, codec=INT64).updates() as updates:
            async for item in updates:
                if item is not None:
                    assert (item.mzxid > mzxid, item.value > self.seen) == (True, True), "it went back"
                    mzxid, self.seen = item.mzxid, item.value
                    step()

    async def check(self, judge: ZooKeeper) -> None:
        """The additions lie end to end, without gaps but those that the ambiguous ones explain."""
        await judge.sync(self.path)
        final = await Counter(judge, self.path).get()
        end = gaps = 0
        for before, after in sorted(self.added):
            assert before >= end, "two have added to the same value"
            gaps += before - end
            end = after
        gaps += final - end
        assert 0 <= gaps <= sum(self.ambiguous)
        if self.exactly_once:
            assert (gaps, self.ambiguous) == (0, [])
            assert await children(judge, f"{self.path}.ops") == []
        await self.run.until_none(lambda: final - self.seen)


class Refused(Exception):
    """A consumer does not want an item."""


@attrs.define
class Flow:
    """A queue.

    :ivar put: the items that are there for certain, in the order in which each producer has put them.
    :ivar ambiguous: those that may be.
    :ivar taken: how many times each was; ``czxids`` tell their order in the queue.
    """

    run: Run
    claims: bool
    make: Callable[[ZooKeeper], Queue | ClaimQueue]
    put: list[bytes] = attrs.Factory(list)
    ambiguous: set[bytes] = attrs.Factory(set)
    taken: Tally[bytes] = attrs.Factory(Tally)
    czxids: dict[bytes, int] = attrs.Factory(dict)
    refused: set[bytes] = attrs.Factory(set)

    async def produce(self, zk: ZooKeeper, step: Step) -> None:
        queue, number = self.make(zk), 0
        while not self.run.over:
            number += 1
            data = b"%x %d" % (zk.session.id, number)
            try:
                await queue.put(data)
                self.put.append(data)
                step()
            except AmbiguousResult:
                self.ambiguous.add(data)
            await trio.sleep(3 * PACE)

    async def consume(self, zk: ZooKeeper, step: Step) -> None:
        queue = self.make(zk)
        while True:
            if self.claims:
                with suppress(Refused):
                    async with queue.claim() as item:
                        await self._handle(item.data, zk)
                    self._take(item.data, item.stat.czxid)
            else:
                item = await queue.get()
                self._take(item.data, item.stat.czxid)
            step()

    async def _handle(self, data: bytes, zk: ZooKeeper) -> None:
        """Take a moment; refuse some at first."""
        await zk.exists("/")
        if data.endswith(b"7") and data not in self.refused:
            self.refused.add(data)
            raise Refused

    def _take(self, data: bytes, czxid: int) -> None:
        self.taken[data] += 1
        self.czxids[data] = czxid

    async def check(self, judge: ZooKeeper) -> None:
        queue = self.make(judge)

        async def drained() -> bool:
            await judge.sync(queue.path)
            return await queue.size() == 0

        await until(drained, PATIENCE)
        await self.run.until_none(lambda: set(self.put) - self.taken.keys())
        assert self.taken.keys() <= {*self.put, *self.ambiguous}
        assert set(self.taken.values()) == {1}, "although no claim was lost"
        assert bool(self.refused) == self.claims
        for producer in {data.partition(b" ")[0] for data in self.put}:
            own = [self.czxids[data] for data in self.put if data.startswith(producer)]
            assert own == sorted(own), "they stood out of order"


@attrs.define
class Tree:
    """A tree, and a copy of it."""

    run: Run
    cache: TreeCache | None = None
    told: dict[str, bytes | None] = attrs.Factory(dict)

    async def write(self, zk: ZooKeeper, step: Step) -> None:
        number = 0
        while not self.run.over:
            number += 1
            path = random.choice(list(self._paths()))
            with suppress(*UNANSWERED, NoNodeError, NodeExistsError, NotEmptyError):
                match random.choice(["create", "set", "delete"]):
                    case "create":
                        await zk.create(path, b"%d" % number)
                    case "set":
                        await zk.set(path, b"%d" % number)
                    case "delete":
                        await zk.delete(path)
                step()
            await trio.sleep(PACE)

    @staticmethod
    def _paths() -> Iterator[str]:
        for name in "abc":
            yield f"/tree/{name}"
            for below in "xyz":
                yield f"/tree/{name}/{below}"

    async def copy(self, zk: ZooKeeper, step: Step) -> None:
        async with TreeCache(zk, "/tree") as self.cache:
            async for event in self.cache.events():
                if event.new is not None:
                    self.told[event.path] = event.new.data
                elif event.type is CacheEventType.REMOVED:
                    del self.told[event.path]
                step()

    async def check(self, judge: ZooKeeper) -> None:
        """The copy is equal to the tree, and so is what was told of its changes."""
        await judge.sync("/tree")
        tree = {}
        for path in ["/tree", *self._paths()]:
            with suppress(NoNodeError):
                data, stat = await judge.get(path)
                tree[path] = (data, stat.czxid, stat.mzxid)
        assert self.cache is not None
        nodes = self.cache.nodes

        async def equal() -> bool:
            copy = {path: (node.data, node.stat.czxid, node.stat.mzxid) for path, node in nodes.items()}
            return copy == tree and self.told == {path: data for path, (data, _, _) in tree.items()}

        await until(equal, PATIENCE)


async def children(zk: ZooKeeper, path: str) -> list[str]:
    await zk.sync(path)
    return await zk.get_children(path)


async def test_nothing_that_was_written_is_lost_or_doubled(ensemble: Ensemble) -> None:
    async with (
        connect(ensemble.hosts, session_timeout=SESSION_TIMEOUT) as judge,
        trio.open_nursery() as nursery,
    ):
        await judge.create("/tree")
        run = Run(ensemble, nursery)
        sums = [Sum(run, "/counted", exactly_once=True), Sum(run, "/counted-plainly", exactly_once=False)]
        flows = [
            Flow(run, False, lambda zk: Queue(zk, "/queue", limit=30)),
            Flow(run, True, lambda zk: Queue(zk, "/claimed")),
            Flow(run, True, lambda zk: ClaimQueue(zk, "/locking")),
        ]
        tree = Tree(run)
        writers: dict[str, Work] = {}
        readers: dict[str, Work] = {"cache": tree.copy}
        for who in "12":
            writers[f"tree {who}"] = tree.write
            for sum_ in sums:
                writers[f"{sum_.path} {who}"] = sum_.add
            for number, flow in enumerate(flows):
                writers[f"producer {number} {who}"] = flow.produce
                readers[f"consumer {number} {who}"] = flow.consume
        for sum_ in sums:
            readers[f"{sum_.path} seen"] = sum_.follow
        for name, work in (writers | readers).items():
            await run.start(name, work)
        await run.kill_leaders(cut_every=0.1)
        await run.stop_writing(*writers)
        checked: list[Sum | Flow | Tree] = [*sums, *flows, tree]
        for each in checked:
            await each.check(judge)
        await run.stop()


# --- who is there, and whose turn it is -------------------------------------------------------------------


@attrs.define
class Terms:
    """One term after the other."""

    leading: int = 0
    token: int = 0

    async def stand(self, zk: ZooKeeper, step: Step) -> None:
        async def lead(term: Term) -> None:
            assert self.leading == 0, "two lead"
            assert term.token > self.token, "a token from the past"
            self.leading, self.token = 1, term.token
            try:
                await term.verify()
                step()
            finally:
                self.leading = 0

        await LeaderElection(zk, "/terms").run(lead)

    async def observe(self, zk: ZooKeeper, step: Step) -> None:
        czxid = 0
        async for leader in LeaderElection(zk, "/terms").observe():
            if leader is not None:
                assert leader.stat.czxid >= czxid, "a leader from the past"
                czxid = leader.stat.czxid
                step()


async def reign(zk: ZooKeeper, step: Step) -> None:
    """One long term."""
    async with LeaderLatch(zk, "/reign", id="first") as latch, latch.term() as term:
        while True:
            await term.verify()
            assert latch.is_leader
            step()
            await trio.sleep(5 * PACE)


async def await_the_end_of_the_reign(zk: ZooKeeper, step: Step) -> None:
    async with LeaderLatch(zk, "/reign") as latch:
        while True:
            leader = await latch.election.leader()
            assert leader is not None
            assert leader.data == b"first"
            assert not latch.is_leader
            step()
            await trio.sleep(5 * PACE)


@attrs.define
class Rounds:
    """One round of a double barrier after the other."""

    run: Run
    members: int
    last: bool = False
    came: Tally[int] = attrs.Factory(Tally)
    ended: Tally[int] = attrs.Factory(Tally)

    async def take_part(self, zk: ZooKeeper, step: Step) -> None:
        barrier, number = DoubleBarrier(zk, "/rounds", self.members), 0
        while not self.last:
            number += 1
            self.came[number] += 1
            async with barrier:
                assert self.came[number] == self.members, "let in too early"
                await zk.exists("/")
                self.last = self.last or self.run.over  # nobody leaves before all have come to this
                self.ended[number] += 1
            assert self.ended[number] == self.members, "let out too early"
            step()


async def join(id: str, zk: ZooKeeper, step: Step) -> None:
    async with Party(zk, "/party", id) as party:
        joined: set[str] = set()
        while True:
            ids = {member.id for member in await party.members()}
            assert ids >= joined, "somebody has left"
            joined = ids
            step()
            await trio.sleep(5 * PACE)


@attrs.define
class Kept:
    """A znode that stays the same but for its data."""

    run: Run
    data: bytes = b""

    async def keep(self, zk: ZooKeeper, step: Step) -> None:
        async with PersistentNode(zk, "/kept/node") as node:
            await node.ready()
            born = await zk.exists("/kept/node")
            assert born is not None
            number = 0
            while True:
                if not self.run.over:
                    number += 1
                    self.data = b"%d" % number
                    await node.set_data(self.data)
                data, stat = await zk.get("/kept/node")
                assert (data, stat.czxid) == (self.data, born.czxid)
                assert stat.ephemeralOwner == zk.session.id
                step()
                await trio.sleep(5 * PACE)


async def test_no_waiter_loses_its_place(ensemble: Ensemble) -> None:
    async with (
        connect(ensemble.hosts, session_timeout=SESSION_TIMEOUT) as judge,
        trio.open_nursery() as nursery,
    ):
        run = Run(ensemble, nursery)
        terms, rounds, kept = Terms(), Rounds(run, 3), Kept(run)
        members: dict[str, Work] = {f"member {n}": rounds.take_part for n in range(rounds.members)}
        await run.start("reign", reign)
        work: dict[str, Work] = {
            "observer": terms.observe,
            "heir": await_the_end_of_the_reign,
            "kept": kept.keep,
            **{f"candidate {n}": terms.stand for n in range(3)},
            **members,
            **{id: partial(join, id) for id in ("a", "b")},
        }
        await run.until_none(lambda: not run.steps["reign"])
        for name, each in work.items():
            await run.start(name, each)
        await run.kill_leaders(cut_every=0.2)

        await run.stop_writing(*members)
        await judge.sync()
        assert sorted(member.id for member in await Party(judge, "/party").members()) == ["a", "b"]

        async def written() -> bool:
            await judge.sync()
            return (await judge.get("/kept/node"))[0] == kept.data

        await until(written, PATIENCE)
        await run.stop()
        left = {
            path: await children(judge, path) for path in ("/terms", "/reign", "/rounds", "/party", "/kept")
        }
        assert left == {"/terms": [], "/reign": [], "/rounds": [], "/party": [], "/kept": []}
