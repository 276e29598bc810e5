"""Random schedules of what users, operators and the network do to locks (recipe-rules.md D.14).

A schedule is a list of steps. Each is taken a moment after the one before, in virtual time; in the end
everything is let through again, holders let go, and whoever waits must get his turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import attrs
import trio
import trio.testing
from hypothesis import strategies as st

from pyzk.client import NoNodeError, ZooKeeper, ZooKeeperError
from pyzk.client.repeating import repeat
from pyzk.recipes import Grant, Lock, LockLost, RWLock

from ...support.lab import SESSION_TIMEOUT, Lab, open_lab
from ...support.oracle import Grants, Oracle
from ...support.simulated import LIBRARIES, SimulatedGrant, SimulatedLock
from ...support.trouble import Step, Trouble, schedules

CLIENTS = 6
PATIENCE = 40 * SESSION_TIMEOUT
PATH = "/lock"

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
    "delay",
    "restart",
    "operator delete",
    "foreign create",
    "cut off",
    "let through",
    "pass time",
)


def steps(kinds: Sequence[str]) -> st.SearchStrategy[list[Step[str]]]:
    """Schedules of steps that know the kind of lock to acquire."""
    return schedules(ACTIONS, CLIENTS, st.sampled_from(kinds))


@attrs.define(eq=False)
class Contest:
    """One task that wants a lock."""

    client: int
    kind: str
    scope: trio.CancelScope = attrs.Factory(trio.CancelScope)
    release: trio.Event = attrs.Factory(trio.Event)
    grant: Grant | SimulatedGrant | None = None
    excused: bool = False
    """Somebody has ended its hold behind its back: it cannot have known before the next one was granted."""


@attrs.define(eq=False)
class Run:
    """A schedule being carried out."""

    lab: Lab
    clients: list[ZooKeeper]
    namings: list[Any]
    locks: list[dict[str, Lock | SimulatedLock]]
    trouble: Trouble
    grants: Grants
    nursery: trio.Nursery
    contests: list[Contest] = attrs.Factory(list)
    inside: list[Contest] = attrs.Factory(list)

    # --- the clients -------------------------------------------------------------------------------------

    async def contend(self, contest: Contest) -> None:
        zk = self.clients[contest.client]
        lock = self.locks[contest.client][contest.kind]
        simulated = isinstance(lock, SimulatedLock)
        contest.excused = simulated  # nobody tells it of a loss
        with contest.scope, suppress(LockLost, *(ZooKeeperError,) * simulated):
            async with lock as grant:
                self.grants.add(str(contest.client), grant, zk.session.last_zxid)
                contest.grant = grant
                self._enter(contest)
                try:
                    await contest.release.wait()
                finally:
                    self.inside.remove(contest)
        self.contests.remove(contest)

    def _enter(self, contest: Contest) -> None:
        """I-9: whoever may have lost the lock has stopped before another begins."""
        for other in self.inside:
            both_read = contest.kind == other.kind == "read"
            assert both_read or other.excused, ("two at once", other, contest)
        self.inside.append(contest)

    # --- the steps ---------------------------------------------------------------------------------------

    async def take(self, step: Step[str]) -> None:
        zk = self.clients[step.who]
        own = [contest for contest in self.contests if contest.client == step.who]
        match step.action:
            case "acquire":
                if len(own) < 2:
                    contest = Contest(step.who, step.what)
                    self.contests.append(contest)
                    self.nursery.start_soon(self.contend, contest)
            case "release":
                for contest in own[:1]:
                    contest.release.set()
            case "cancel":
                for contest in own[-1:]:
                    contest.scope.cancel()
            case "operator delete":
                await self._delete(step.who)
            case "foreign create":  # a name that Go's contenders can read, and need not wait for
                self.lab.server.load({f"{PATH}/junk-__{2**40 + step.who}": b""})
            case "expire":
                if self.trouble.inject(zk, "expire"):
                    self._excuse(own)
            case "pass time":
                pass
            case trouble:
                self.trouble.inject(zk, trouble)
        await trio.sleep(step.pause)
        self._check_watches()

    def _excuse(self, contests: Sequence[Contest]) -> None:
        for contest in contests:
            contest.excused = True

    async def _delete(self, number: int) -> None:
        present = (path for path in self.lab.server.dump() if path.startswith(f"{PATH}/"))
        paths = self.trouble.oracle.in_order(present)
        if paths:
            path = paths[number % len(paths)]
            self._excuse([c for c in self.inside if c.grant is not None and path in c.grant.paths])
            with suppress(NoNodeError):
                await repeat(self.operator, lambda: self.operator.delete(path))

    @property
    def operator(self) -> ZooKeeper:
        return self.clients[CLIENTS]

    # --- what must hold ----------------------------------------------------------------------------------

    def _check_watches(self) -> None:
        """I-4: a contender watches its own znode, both of a bridge, and one that it waits for."""
        for number, zk in enumerate(self.clients[:CLIENTS]):
            contenders = sum(contest.client == number for contest in self.contests)
            most = 3 if self.namings[number] == "both" else 2
            assert zk.watch_count <= most * contenders + _JUST_ENDED, (number, zk.watch_count, contenders)

    async def finish(self) -> None:
        self.trouble.end(self.clients)
        for contest in self.contests:
            contest.release.set()
        # I-6: whoever was not cancelled gets it, and lets go at once.
        with trio.move_on_after(PATIENCE) as patience:
            while self.contests:
                await trio.sleep(1)
        assert not patience.cancelled_caught, ("no progress", self.contests, self.lab.server.format_tree())
        await self.trouble.calm(self.clients)
        # I-3, I-7: nothing is left.
        left = [path for path in self.lab.server.dump() if path.startswith(f"{PATH}/") and "junk" not in path]
        assert left == []
        self.grants.check()


_JUST_ENDED = 1  # a watch whose removal was begun in this moment


def run_schedule(schedule: Sequence[Step[str]], namings: Sequence[str]) -> Grants:
    """Carry out a schedule; raises AssertionError if anything did not hold.

    :param namings: of our locks, or :data:`.simulated.LIBRARIES`; the clients take turns.
    """

    async def main() -> Grants:
        async with open_lab() as lab:
            clients = [await lab.client() for _ in range(CLIENTS + 1)]
            await clients[-1].create(PATH)
            locks: list[dict[str, Lock | SimulatedLock]] = []
            of_clients: list[Any] = [namings[number % len(namings)] for number in range(len(clients))]
            for layout, zk in zip(of_clients, clients, strict=True):
                if layout in LIBRARIES:
                    simulated = SimulatedLock(zk, PATH, layout)
                    locks.append({"lock": simulated})
                    continue
                rw = RWLock(zk, PATH, layout=layout)
                locks.append({"lock": Lock(zk, PATH, layout=layout), "read": rw.read(), "write": rw.write()})
            oracle = Oracle(lab)
            async with trio.open_nursery() as nursery:
                run = Run(lab, clients, of_clients, locks, Trouble(lab, oracle), Grants(oracle), nursery)
                for step in schedule:
                    await run.take(step)
                await run.finish()
            return run.grants

    return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
