"""Whatever happens, no item is lost and none is handled twice without anybody knowing (recipe-rules.md I-13).

Random puts and consumers of one to four clients, amid lost requests and replies, dropped connections,
partitions, expiries, cancellations and deleted claims. Each example runs in virtual time of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import attrs
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from pyzk.client import SessionExpiredError, ZooKeeper
from pyzk.recipes.errors import AmbiguousResult, LockLost
from pyzk.recipes.queues.claim_queue import ClaimQueue
from pyzk.recipes.queues.id_queue import IdQueue
from pyzk.recipes.queues.items import QueueEmpty, UndecidedItem
from pyzk.recipes.queues.priority_queue import PriorityQueue
from pyzk.recipes.queues.queue import Queue

from ...support.lab import SESSION_TIMEOUT, Lab, open_lab

AnyQueue = Queue | ClaimQueue | PriorityQueue | IdQueue


@attrs.define
class Kind:
    """A queue put to the test; ``put`` takes the payload for a priority or an id too."""

    make: Callable[[ZooKeeper], Any]
    claims: str
    put: Callable[[Any, bytes], Any] = lambda queue, data: queue.put(data)


KINDS = {
    "native": Kind(lambda zk: Queue(zk, "/q"), "/q.claims"),
    "kazoo-locking": Kind(lambda zk: ClaimQueue(zk, "/q"), "/q/taken"),
    "curator": Kind(lambda zk: ClaimQueue(zk, "/q", layout="curator"), "/q.claims"),
    "priority": Kind(lambda zk: PriorityQueue(zk, "/q"), "/q.claims", lambda q, d: q.put(d, int(d) % 3)),
    "id": Kind(lambda zk: IdQueue(zk, "/q"), "/q.claims", lambda q, d: q.put(d, d.decode())),
}

TROUBLE = ["lose request", "lose reply", "disconnect", "cut off", "expire", "cancel", "delete claims"]


@attrs.frozen
class Step:
    pause: float
    what: str
    client: int


STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from([0.0, 0.0, 0.01, 0.3, 2.0, SESSION_TIMEOUT]),
        st.sampled_from(["put", "put", "put", *TROUBLE]),
        st.integers(0, 3),
    ),
    max_size=25,
)


@attrs.define(eq=False)
class Example:
    """One run, and what its consumers saw."""

    lab: Lab
    kind: Kind
    clients: list[ZooKeeper]
    slow: bool
    stack: ExitStack
    queues: list[Any] = attrs.Factory(list)
    scopes: dict[int, trio.CancelScope] = attrs.Factory(dict)
    unforeseen: bool = False
    """Claims may have ended sooner than any client could know."""
    over: bool = False
    puts: int = 0
    acknowledged: set[bytes] = attrs.Factory(set)
    at_work: set[bytes] = attrs.Factory(set)
    handled: Counter[bytes] = attrs.Factory(Counter)
    order: list[bytes] = attrs.Factory(list)
    in_doubt: set[bytes] = attrs.Factory(set)
    """Whose handlers do not know what became of them."""

    async def run(self, steps: list[Step], consume: Callable[[int], Any]) -> None:
        self.queues = [self.kind.make(zk) for zk in self.clients]
        async with trio.open_nursery() as nursery:
            for number in range(len(self.clients)):
                nursery.start_soon(consume, number)
                nursery.start_soon(consume, number + len(self.clients))
            for step in steps:
                await trio.sleep(step.pause)
                await self.do(step, nursery)
            await trio.sleep(3 * SESSION_TIMEOUT)
            self.stack.close()
            for zk in self.clients:
                self.lab.let_through(zk)
            await trio.sleep(3 * SESSION_TIMEOUT)
            self.over = True
            for scope in self.scopes.values():
                scope.cancel()
        await trio.sleep(3 * SESSION_TIMEOUT)
        await self.drain()

    async def drain(self) -> None:
        """Nothing is left but items, and they are free."""
        for zk in self.clients:
            await zk.cleanup.idle()
            assert zk.watch_count == 0
        assert self.lab.watch_count == 0
        dump = self.lab.server.dump()
        assert not [path for path in dump if path.startswith((f"{self.kind.claims}/", "/q.puts/"))]
        queue = self.kind.make(await self.lab.client())
        try:
            while True:
                data = (await queue.get(wait=False)).data
                self.handled[data] += 1
        except QueueEmpty:
            pass

    async def do(self, step: Step, nursery: trio.Nursery) -> None:
        number = step.client % len(self.clients)
        zk, server = self.clients[number], self.lab.server
        alive = any(session.id == zk.session.id for session in server.sessions())
        match step.what:
            case "put":
                nursery.start_soon(self.put, number, b"%d" % self.puts)
                self.puts += 1
            case "lose request" | "lose reply" if alive:
                when: Any = "before" if step.what == "lose request" else "after"
                ops = ("multi", "delete", "get_data", "get_children")
                self.stack.enter_context(
                    server.fault(ops, session=zk.session.id, when=when, action="disconnect", required=False)
                )
            case "disconnect" if alive:
                server.disconnect(zk.session.id)
            case "cut off" if alive:
                self.lab.cut_off(zk)
                nursery.start_soon(self.let_through, zk)
            case "expire" if alive:
                self.unforeseen = True
                server.expire(zk.session.id)
            case "cancel" if number in self.scopes:
                self.scopes[number].cancel()
            case "delete claims":
                self.unforeseen = True
                claims = [path for path in server.dump() if path.startswith(f"{self.kind.claims}/")]
                operator = await self.lab.client()
                for path in claims:
                    await operator.cleanup.delete(path).done.wait()

    async def let_through(self, zk: ZooKeeper) -> None:
        await trio.sleep(1.5 * SESSION_TIMEOUT)
        self.lab.let_through(zk)

    async def put(self, number: int, data: bytes) -> None:
        try:
            await self.kind.put(self.queues[number], data)
        except (AmbiguousResult, SessionExpiredError):
            return
        self.acknowledged.add(data)

    # --- consumers ---------------------------------------------------------------------------------------

    async def consume_by_claim(self, number: int) -> None:
        queue = self.queues[number % len(self.clients)]
        while not self.over:
            handled = None
            with trio.CancelScope() as self.scopes[number]:
                try:
                    async with queue.claim() as item:
                        data = item.data
                        assert data not in self.at_work or self.unforeseen, "two at a time"
                        self.at_work.add(data)
                        try:
                            if self.slow:
                                await trio.sleep(0.5)
                        finally:
                            self.at_work.discard(data)
                        handled = data
                    self.count(data)
                    handled = None
                except LockLost:
                    pass
            if handled is not None:
                self.in_doubt.add(handled)

    async def consume_by_get(self, number: int) -> None:
        queue = self.queues[number % len(self.clients)]
        while not self.over:
            with trio.CancelScope() as self.scopes[number]:
                try:
                    item = await queue.get()
                except UndecidedItem as error:
                    self.in_doubt.add(error.item.data)
                else:
                    self.count(item.data)
                    if self.slow:
                        await trio.sleep(0.5)

    def count(self, data: bytes) -> None:
        self.handled[data] += 1
        self.order.append(data)

    # --- the verdict -------------------------------------------------------------------------------------

    def check(self, steps: list[Step]) -> None:
        for data, times in self.handled.items():
            assert times == 1, f"{data!r} was taken {times} times"
        lost = self.acknowledged - set(self.handled) - self.in_doubt
        assert not lost, "put, and never taken"
        if not any(step.what in TROUBLE for step in steps):
            assert not self.in_doubt
            assert self.acknowledged == set(self.handled) == {b"%d" % n for n in range(self.puts)}


async def one_example(kind: Kind, clients: int, slow: bool, steps: list[Step], by_claim: bool) -> None:
    async with open_lab(record=False) as lab:
        with ExitStack() as stack:
            members = [await lab.client() for _ in range(clients)]
            example = Example(lab, kind, members, slow, stack)
            await example.run(steps, example.consume_by_claim if by_claim else example.consume_by_get)
            example.check(steps)


@pytest.mark.row("I-13")
@pytest.mark.parametrize("by_claim", [True, False], ids=["claim", "get"])
@given(kind=st.sampled_from(list(KINDS)), clients=st.integers(1, 4), slow=st.booleans(), steps=STEPS)
def test_nothing_is_lost_and_nothing_is_doubled(
    by_claim: bool, kind: str, clients: int, slow: bool, steps: list[Step]
) -> None:
    trio.run(one_example, KINDS[kind], clients, slow, steps, by_claim, clock=MockClock(autojump_threshold=0))


@pytest.mark.row("I-13")
@given(
    kind=st.sampled_from(["native", "kazoo-locking", "curator", "id"]),
    items=st.integers(0, 40),
    batch=st.integers(1, 5),
)
def test_one_consumer_sees_the_order(kind: str, items: int, batch: int) -> None:
    async def main() -> None:
        async with open_lab() as lab:
            queue = KINDS[kind].make(await lab.client())
            found: list[bytes] = []
            for n in range(items):
                await KINDS[kind].put(queue, b"%d" % n)
                if n % batch == 0:
                    found.append((await queue.get()).data)
            while len(found) < items:
                async with queue.claim() as item:
                    found.append(item.data)
            assert found == [b"%d" % n for n in range(items)]

    trio.run(main, clock=MockClock(autojump_threshold=0))
