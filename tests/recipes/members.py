"""Random schedules of what happens to members of a group, each of which is at work until it is stopped, and
holds something now and then (recipe-rules.md D.14)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

import attrs
import trio
import trio.testing
from hypothesis import strategies as st

from pyzk.client import ConnectionLossError, NoNodeError, ZooKeeper
from pyzk.recipes import Grant

from ..support.lab import SESSION_TIMEOUT, Lab, open_lab
from ..support.oracle import Grants, Oracle
from ..support.trouble import Step, Trouble, schedules

CLIENTS = 4
PATH = "/group"
PATIENCE = 40 * SESSION_TIMEOUT

ACTIONS = (
    "start",
    "start",
    "stop",
    "expire",
    "drop before",
    "drop after",
    "delay",
    "restart",
    "operator delete",
    "operator delete",
    "cut off",
    "cut off",
    "let through",
    "pass time",
)


SCHEDULES = schedules(ACTIONS, CLIENTS, st.booleans(), longest=25)
"""A step knows whether to take a client that holds something, instead of ``who``."""


@attrs.define(eq=False)
class Tenure:
    """Something is held.

    :ivar excused: somebody has ended it behind the holder's back, who cannot have known at once.
    """

    who: int
    what: str
    grant: Grant
    excused: bool = False


@attrs.define(eq=False)
class Scene:
    """A schedule being carried out.

    :ivar terms: how many times each client has held something.
    """

    lab: Lab
    clients: list[ZooKeeper]
    trouble: Trouble
    nursery: trio.Nursery
    work: Callable[[Scene, int], Awaitable[object]]
    tenures: list[Tenure] = attrs.Factory(list)
    terms: list[int] = attrs.Factory(lambda: [0] * CLIENTS)
    _grants: dict[str, Grants] = attrs.field(init=False)
    _at_work: dict[int, tuple[trio.CancelScope, trio.Event]] = attrs.Factory(dict)

    def __attrs_post_init__(self) -> None:
        self._grants = defaultdict(lambda: Grants(self.trouble.oracle))

    @property
    def at_work(self) -> set[int]:
        return set(self._at_work)

    @contextmanager
    def tenure(self, who: int, what: str, grant: Grant) -> Iterator[None]:
        """A block that holds something. Checks I-9: whoever may have lost it has stopped before."""
        self._grants[what].add(str(who), grant, self.clients[who].session.last_zxid)
        for other in self.tenures:
            assert other.excused or other.what != what, ("two at once", other, who)
        tenure = Tenure(who, what, grant)
        self.tenures.append(tenure)
        self.terms[who] += 1
        try:
            yield
        finally:
            self.tenures.remove(tenure)

    # --- the steps ---------------------------------------------------------------------------------------

    async def take(self, step: Step[bool]) -> None:
        who = step.who
        if step.what and self.tenures:
            who = self.tenures[step.who % len(self.tenures)].who
        zk = self.clients[who]
        match step.action:
            case "start":
                if who not in self._at_work:
                    self.start(who)
            case "stop":
                if who in self._at_work:
                    await self.stop(who)
            case "operator delete":
                await self._delete(step.who)
            case "expire":
                if self.trouble.inject(zk, "expire"):
                    self._excuse(lambda tenure: tenure.who == who)
            case "pass time":
                pass
            case trouble:
                self.trouble.inject(zk, trouble)
        await trio.sleep(step.pause)

    def start(self, who: int) -> None:
        scope, ended = self._at_work[who] = trio.CancelScope(), trio.Event()

        async def work() -> None:
            with scope:
                await self.work(self, who)
            ended.set()

        self.nursery.start_soon(work)

    async def stop(self, who: int) -> None:
        scope, ended = self._at_work.pop(who)
        scope.cancel()
        await ended.wait()

    def _excuse(self, concerned: Callable[[Tenure], bool]) -> None:
        for tenure in filter(concerned, self.tenures):
            tenure.excused = True

    async def _delete(self, number: int) -> None:
        paths = [path for path in self.ephemerals() if path.startswith(f"{PATH}/")]
        if paths:
            path = paths[number % len(paths)]
            self._excuse(lambda tenure: path in tenure.grant.paths)
            with suppress(NoNodeError, ConnectionLossError):
                await self.clients[CLIENTS].delete(path)

    def ephemerals(self) -> list[str]:
        tree = self.lab.server.dump(form="nodes")
        return self.trouble.oracle.in_order(p for p, node in tree.items() if node.kind == "ephemeral")

    # --- the end -----------------------------------------------------------------------------------------

    def heal(self) -> None:
        self.trouble.end(self.clients)

    async def until(self, condition: Callable[[], bool]) -> None:
        """I-6: it comes to pass."""
        with trio.move_on_after(PATIENCE):
            while not condition():
                await trio.sleep(1)
            return
        raise AssertionError(("no progress", self.tenures, self.lab.server.format_tree()))

    async def finish(self) -> None:
        """Nothing is left (I-3), and grants never overlapped and came in order (I-1, I-8)."""
        for who in self.at_work:
            await self.stop(who)
        await self.trouble.calm(self.clients)
        assert self.tenures == []
        assert self.ephemerals() == []
        for grants in self._grants.values():
            grants.check()


def run_schedule(
    schedule: Sequence[Step[bool]],
    work: Callable[[Scene, int], Awaitable[object]],
    in_the_end: Callable[[Scene], Awaitable[None]],
) -> list[int]:
    """Carry out a schedule; raises AssertionError if anything did not hold.

    Returns how many times each client has held something.

    :param work: what a member does, given its number, until it is cancelled.
    :param in_the_end: called once everything works again: what must come to pass then.
    """

    async def main() -> list[int]:
        async with open_lab() as lab:
            clients = [await lab.client() for _ in range(CLIENTS + 1)]
            async with trio.open_nursery() as nursery:
                scene = Scene(lab, clients, Trouble(lab, Oracle(lab)), nursery, work)
                for who in range(CLIENTS):
                    scene.start(who)
                for step in schedule:
                    await scene.take(step)
                scene.heal()
                await in_the_end(scene)
                await scene.finish()
                nursery.cancel_scope.cancel()
            return scene.terms

    return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
