"""Leaders die one after the other with writes under way, and nothing is lost or doubled: what
``tests/ensemble`` holds of the trio client, with threads and with asyncio.
"""

from __future__ import annotations

import threading
import time
from collections import Counter as Tally
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import attrs
import pytest

from pyzk.server.testing import EmbeddedEnsemble

from ..support.waiting import wait_until
from .drivers import DRIVERS, Driver

KILLS = 3
PROGRESS = 3
"""How many steps further everybody has to come between two kills."""
MEANWHILE = 0.2
"""Seconds in which a write is under way, as a rule."""
PACE = 0.002
"""Seconds between two steps of one client."""

Work = Callable[[Any, Any], Awaitable[object]]


@pytest.fixture(
    params=[each for each in DRIVERS if each.name in ("blocking", "aio")], ids=lambda each: each.name
)
def face(request: pytest.FixtureRequest) -> Driver:
    chosen: Driver = request.param
    return chosen


@pytest.fixture
def ensemble() -> Iterator[EmbeddedEnsemble]:
    with EmbeddedEnsemble(3, extended_types=True) as ensemble:
        yield ensemble


@attrs.define
class Run:
    """Clients at work, each with a session of its own, while leaders die.

    :ivar steps: how far they have come, by name.
    :ivar over: they are to stop.
    """

    ensemble: EmbeddedEnsemble
    steps: Tally[str] = attrs.Factory(Tally)
    over: bool = False

    def drive(self, face: Driver, work: dict[str, Work]) -> None:
        """Let all work until the last leader has died, and everybody has come further behind that."""
        killer = threading.Thread(target=self._kill_leaders)

        async def body(api: Any) -> None:
            killer.start()
            await self._all_of(api, list(work.items()))

        self.steps.update(dict.fromkeys(work, 0))
        try:
            face.run(body)
        finally:
            self.over = True
            killer.join()

    async def _all_of(self, api: Any, work: list[tuple[str, Work]]) -> None:
        (name, first), *rest = work
        if rest:
            await api.both(lambda: self._live(api, name, first), lambda: self._all_of(api, rest))
        else:
            await self._live(api, name, first)

    async def _live(self, api: Any, name: str, work: Work) -> None:
        try:
            async with api.connect(self.ensemble.hosts, session_timeout=30) as zk:
                session = zk.session.id
                await zk.create(f"/{name}-is-alive", ephemeral=True)
                while not self.over:
                    await work(api, zk)
                    self.steps[name] += 1
                    await api.sleep(PACE)
                assert (zk.session.id, zk.session.generation) == (session, 1), "a session was lost"
                assert await api.repeat(zk, lambda: zk.exists(f"/{name}-is-alive")) is not None
                assert zk.metrics.connections > 1, f"{name} did not notice anything"
        finally:
            self.over = True

    def _kill_leaders(self) -> None:
        try:
            for number in range(KILLS):
                self._progress()
                self._kill_leader(number % 2)
            self._progress()
        finally:
            self.over = True

    def _kill_leader(self, is_applied: bool) -> None:
        """A leader dies with writes under way, which are applied or lost; the next one leads at once."""
        ensemble = self.ensemble
        leader = ensemble.leader()
        assert leader is not None
        ensemble.hold_acks() if is_applied else ensemble.hold_proposals()
        end = time.monotonic() + MEANWHILE
        while time.monotonic() < end and not any(map(ensemble.outstanding, ensemble.numbers)):
            time.sleep(0.001)
        ensemble.kill(leader)
        ensemble.elect()
        ensemble.start(leader)

    def _progress(self) -> None:
        goal = {name: steps + PROGRESS for name, steps in self.steps.items()}
        wait_until(lambda: self.over or all(self.steps[name] >= steps for name, steps in goal.items()), 60)


def test_nothing_acknowledged_is_lost(ensemble: EmbeddedEnsemble, face: Driver) -> None:
    fates: dict[str, str] = {}
    ensemble.load({"/log": ""})

    def writer(name: str) -> Work:
        async def write(api: Any, zk: Any) -> None:
            value = f"{name} {len(fates)}"
            fates[value] = "unknown"
            try:
                await zk.create("/log/e-", value.encode(), sequential=True)
                fates[value] = "done"
            except api.ConnectionLossError as error:
                fates[value] = "unknown" if error.sent else "unsent"

        return write

    Run(ensemble).drive(face, {name: writer(name) for name in "abcd"})
    tree = ensemble.dump("/log")
    log = [(data or b"").decode() for path, data in sorted(tree.items()) if path != "/log"]
    tally = Tally(fates.values())
    assert tally["done"] > 4 * KILLS * PROGRESS
    assert tally["unknown"] > 0, "no reply was ever lost: the kills missed"
    assert len(log) == len(set(log)), "an entry was written twice"
    for value, fate in fates.items():
        assert fate == "unknown" or (value in log) == (fate == "done"), (value, fate)
    for name in "abcd":
        own = [int(value.partition(" ")[2]) for value in log if value.startswith(name)]
        assert own == sorted(own), "writes of one client came out of order"


def test_never_two_holders(ensemble: EmbeddedEnsemble, face: Driver) -> None:
    inside: Tally[str] = Tally()
    most = {"lock": 1, "write": 1, "lease": 1, "leader": 1}
    ensemble.load({"/guarded": "0"})

    async def enter(api: Any, kind: str) -> None:
        inside[kind] += 1
        assert inside[kind] <= most[kind]
        await api.sleep(PACE)
        inside[kind] -= 1

    async def lock(api: Any, zk: Any) -> None:
        async with api.Lock(zk, "/lock") as grant:
            await enter(api, "lock")
            await api.repeat(zk, lambda: fenced(api, zk, grant))

    async def fenced(api: Any, zk: Any, grant: Any) -> None:
        """The znode holds the highest token: nobody writes with a lower one."""
        data, stat = await zk.get("/guarded")
        assert int(data) <= grant.token
        await zk.multi([*grant.fences(), api.SetData("/guarded", b"%d" % grant.token, stat.version)])

    async def write(api: Any, zk: Any) -> None:
        async with api.RWLock(zk, "/rw").write():
            await enter(api, "write")

    async def read(api: Any, zk: Any) -> None:
        async with api.RWLock(zk, "/rw").read():
            assert inside["write"] == 0

    async def lease(api: Any, zk: Any) -> None:
        async with api.Semaphore(zk, "/semaphore", 1):
            await enter(api, "lease")

    async def lead(api: Any, zk: Any) -> None:
        async with api.LeaderElection(zk, "/election").lead():
            await enter(api, "leader")

    work = {"read": read, "write": write}
    for number in (1, 2):
        work |= {f"lock{number}": lock, f"lease{number}": lease, f"lead{number}": lead}
    Run(ensemble).drive(face, work)
    assert inside == dict.fromkeys(most, 0)
    left = [path for path in ensemble.dump() if path[-10:].isdigit()]
    assert left == [], "somebody has left something behind"


def test_nothing_that_was_written_is_doubled(ensemble: EmbeddedEnsemble, face: Driver) -> None:
    added: list[int] = []
    put: list[bytes] = []
    ambiguous: list[bytes] = []
    taken: Tally[bytes] = Tally()

    async def add(api: Any, zk: Any) -> None:
        before, after = await api.Counter(zk, "/count", exactly_once=True).add(1)
        assert after == before + 1
        added.append(after)

    async def produce(api: Any, zk: Any) -> None:
        data = b"%d" % (len(put) + len(ambiguous))
        try:
            await api.Queue(zk, "/queue").put(data)
            put.append(data)
        except api.AmbiguousResult:
            ambiguous.append(data)

    async def consume(api: Any, zk: Any) -> None:
        async with api.Queue(zk, "/queue").claim() as item:
            taken[item.data] += 1

    Run(ensemble).drive(face, {"add1": add, "add2": add, "produce": produce, "consume": consume})
    assert sorted(added) == list(range(1, len(added) + 1))
    assert int.from_bytes(ensemble.dump("/count")["/count"] or b"") == len(added)
    waiting = [data for path, data in ensemble.dump("/queue").items() if path.startswith("/queue/") and data]
    assert set(taken.values()) == {1}
    assert {*put} <= {*taken, *waiting} <= {*put, *ambiguous}
