"""The invariants of semaphores under random schedules (recipe-rules.md D.14): I-10, and of the others I-2,
I-3, I-4, I-6, I-8, I-9 in their sense. The server counts the leases at every zxid."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable, Sequence
from contextlib import suppress

import attrs
import pytest
import trio
import trio.testing
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from pyzk.client import ZooKeeper, ZooKeeperError
from pyzk.recipes import LockLost
from pyzk.recipes.locks.acquiring import Grants
from pyzk.recipes.locks.semaphore import Semaphore
from pyzk.recipes.locks.semaphore_layouts import SemaphoreLayout
from pyzk.server.core.txn import AnyEffect

from ...support.lab import SESSION_TIMEOUT, Lab, open_lab
from ...support.oracle import Oracle
from ...support.trouble import Step, Trouble, schedules
from .semaphores import GATE, LEASES, children

pytestmark = pytest.mark.row("I-2", "I-3", "I-4", "I-6", "I-8", "I-9", "I-10")

NIGHTLY = settings.get_current_profile_name() == "nightly"
EXAMPLES = 10_000 if NIGHTLY else 200

CLIENTS = 5
LIMIT = 3
PATIENCE = 40 * SESSION_TIMEOUT

ACTIONS = (
    "acquire",
    "acquire",
    "acquire",
    "release",
    "release",
    "cancel",
    "expire",
    "drop before",
    "drop after",
    "slow",
    "slow",
    "slow",
    "restart",
    "lose data",
    "operator deletes a lease",
    "operator deletes at the gate",
    "cut off",
    "let through",
)


STEPS = schedules(ACTIONS, CLIENTS, st.integers(1, LIMIT))
"""They know how many leases to acquire."""


class LeaseOracle(Oracle):
    """Counts the live leases at every zxid.

    :ivar most: how many there were at most.
    :ivar queues: the zxids at which the gate was made, and its numbers began anew.
    """

    def __init__(self, lab: Lab, layout: SemaphoreLayout) -> None:
        self._leases = LEASES[layout]
        self._gate = GATE[layout]
        self.most = 0
        self.queues: list[int] = []
        super().__init__(lab)

    def _note(self, zxid: int, effect: AnyEffect) -> None:
        super()._note(zxid, effect)
        self.most = max(self.most, len(self.live))
        if self.created.get(self._gate) == zxid:
            self.queues.append(zxid)

    @property
    def live(self) -> set[str]:
        return {
            path
            for path, begin in self.created.items()
            if path.rpartition("/")[0] == self._leases and self.deleted.get(path, 0) < begin
        }

    def lose_data(self) -> None:
        for path in self.live:
            self.deleted[path] = self.now
        self.attach()


@attrs.define(eq=False)
class Contest:
    """One task that wants leases."""

    client: int
    count: int
    scope: trio.CancelScope = attrs.Factory(trio.CancelScope)
    release: trio.Event = attrs.Factory(trio.Event)
    leases: Grants = attrs.Factory(lambda: Grants(()))
    excused: bool = False
    """Somebody has ended its hold behind its back: it cannot have known before the next one was admitted."""


@attrs.define(eq=False)
class Run:
    """A schedule being carried out."""

    lab: Lab
    clients: list[ZooKeeper]
    operator: ZooKeeper
    layout: SemaphoreLayout
    semaphores: list[Semaphore]
    oracle: LeaseOracle
    trouble: Trouble
    nursery: trio.Nursery
    contests: list[Contest] = attrs.Factory(list)
    inside: list[Contest] = attrs.Factory(list)
    admitted: list[Grants] = attrs.Factory(list)

    async def contend(self, contest: Contest) -> None:
        with contest.scope, suppress(LockLost):
            async with self.semaphores[contest.client].acquire_many(contest.count) as contest.leases:
                self._enter(contest)
                try:
                    await contest.release.wait()
                finally:
                    self.inside.remove(contest)
        self.contests.remove(contest)

    def _enter(self, contest: Contest) -> None:
        """I-9: whoever may have lost a lease has stopped before another is admitted in its place."""
        self.inside.append(contest)
        self.admitted.append(contest.leases)
        sure = [other for other in self.inside if not other.excused]
        assert sum(other.count for other in sure) <= LIMIT, ("too many at once", sure)

    async def take(self, step: Step[int]) -> None:
        zk = self.clients[step.who]
        own = [contest for contest in self.contests if contest.client == step.who]
        match step.action:
            case "acquire":
                if len(own) < 2:
                    self.contests.append(contest := Contest(step.who, step.what))
                    self.nursery.start_soon(self.contend, contest)
            case "release":
                for contest in own[:1]:
                    contest.release.set()
            case "cancel":
                for contest in own[-1:]:
                    contest.scope.cancel()
            case "lose data":
                self._excuse(self.contests)
                self.lab.server.restart(keep_data=False)
                self.oracle.lose_data()
            case "operator deletes a lease":
                await self._delete(LEASES[self.layout], step.who)
            case "operator deletes at the gate":
                await self._delete(GATE[self.layout], step.who)
            case "expire":
                if self.trouble.inject(zk, "expire"):
                    self._excuse(own)
            case trouble:
                self.trouble.inject(zk, trouble)
        await trio.sleep(step.pause)
        self._check()

    def _excuse(self, contests: Iterable[Contest]) -> None:
        for contest in contests:
            contest.excused = True

    async def _delete(self, parent: str, number: int) -> None:
        paths = self.oracle.in_order(children(self.lab, parent))
        if paths:
            path = paths[number % len(paths)]
            self._excuse(c for c in self.contests if path in [lease.path for lease in c.leases])
            with suppress(ZooKeeperError):  # it may be gone, or the operator cut off
                await self.operator.delete(path)

    def _check(self) -> None:
        """I-10 at every zxid so far. I-4: who waits watches the own znode and the one before, or the leases;
        who holds some, those."""
        assert self.oracle.most <= LIMIT, "more leases than the limit"
        for number, zk in enumerate(self.clients):
            allowed = sum(max(2, contest.count) + 2 for contest in self.contests if contest.client == number)
            assert zk.watch_count <= allowed + _JUST_ENDED, (number, zk.watch_count, allowed)

    async def finish(self) -> None:
        self.trouble.end(self.clients)
        for contest in self.contests:
            contest.release.set()
        # I-6: whoever was not cancelled gets them, and lets go at once.
        with trio.move_on_after(PATIENCE) as patience:
            while self.contests:
                await trio.sleep(1)
        assert not patience.cancelled_caught, ("no progress", self.contests, self.lab.server.format_tree())
        await self.trouble.calm(self.clients)
        self._check()
        # I-3: nothing is left.
        assert children(self.lab, LEASES[self.layout]) == children(self.lab, GATE[self.layout]) == []
        self._check_order()

    def _check_order(self) -> None:
        """I-2, I-8: who came first to the gate has the lower token; those acquired together share it."""
        assert all(len({lease.token for lease in leases}) == 1 for leases in self.admitted)
        in_order = []
        for leases in sorted(self.admitted, key=lambda leases: leases[0].token):
            queue = bisect(self.oracle.queues, leases[0].token)
            in_order.append((queue, leases[0].sequence))
        assert in_order == sorted(set(in_order))


_JUST_ENDED = 1  # a watch whose removal was begun in this moment


def run_schedule(schedule: Sequence[Step[int]], layout: SemaphoreLayout) -> Run:
    """Carry out a schedule; raises AssertionError if anything did not hold."""

    async def main() -> Run:
        async with open_lab() as lab:
            clients = [await lab.client() for _ in range(CLIENTS)]
            operator = await lab.client()
            semaphores = [Semaphore(zk, "/pool", LIMIT, layout=layout) for zk in clients]
            oracle = LeaseOracle(lab, layout)
            async with trio.open_nursery() as nursery:
                run = Run(lab, clients, operator, layout, semaphores, oracle, Trouble(lab, oracle), nursery)
                for step in schedule:
                    await run.take(step)
                await run.finish()
            return run

    return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


@pytest.mark.parametrize("layout", ["curator", "kazoo"])
def test_the_invariants_hold_under_any_schedule(layout: SemaphoreLayout) -> None:
    @settings(max_examples=EXAMPLES, suppress_health_check=[*HealthCheck])
    @given(STEPS)
    def check(schedule: list[Step[int]]) -> None:
        run = run_schedule(schedule, layout)
        event(f"{min(len(run.admitted), 5)} admissions or more, {run.oracle.most} leases at most")

    check()
