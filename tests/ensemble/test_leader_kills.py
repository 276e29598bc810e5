"""Writers and readers on a real ensemble while its leader is killed and restarted, again and again."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import attrs
import trio

from pyzk.client import (
    BadVersionError,
    ConnectionLossError,
    Missed,
    SessionState,
    ZooKeeper,
    connect,
)

from ..support.real import Ensemble
from ..support.waiting import PATIENCE
from .history import Fate, History, Read, Write, violations

PATHS = ("/r0", "/r1", "/r2")
CLIENTS = 6
ROUNDS = 6
PROGRESS = 30
"""How many operations every client has to complete between two blows."""
SESSION_TIMEOUT = 40.0
"""Seconds: real servers may need several elections, and meanwhile serve nobody."""
PACE = 0.004
"""Seconds between two operations of a client, so that the history stays readable."""


@attrs.define
class Run:
    """What the clients have done so far."""

    history: History = attrs.Factory(History)
    completed: Counter[int] = attrs.Factory(Counter)
    logged: dict[str, Fate] = attrs.Factory(dict)
    """Entries of the log, by their data, which is unique."""
    values: itertools.count[int] = attrs.Factory(itertools.count)
    progress: trio.Event = attrs.Factory(trio.Event)

    def note(self, client: int) -> None:
        self.completed[client] += 1
        self.progress.set()
        self.progress = trio.Event()

    async def wait_for_progress(self) -> None:
        """Every client has completed some more operations."""
        goal = {client: self.completed[client] + PROGRESS for client in range(CLIENTS)}
        with trio.fail_after(PATIENCE):
            while any(self.completed[client] < count for client, count in goal.items()):
                await self.progress.wait()


def fate_of(error: Exception) -> Fate:
    if isinstance(error, ConnectionLossError):
        return "unknown" if error.sent else "unsent"
    assert isinstance(error, BadVersionError)
    return "refused"


async def work(zk: ZooKeeper, number: int, run: Run) -> None:
    """Read, write, compare and set, and append to the log, for ever."""
    rng = random.Random(number)
    versions = dict.fromkeys(PATHS, 0)
    while True:
        path = rng.choice(PATHS)
        match rng.choice(["read", "read", "sync", "set", "set", "compare", "log"]):
            case "read":
                await read(zk, number, path, run, versions)
            case "sync":
                synced = trio.current_time()
                try:
                    await zk.sync(path)
                except ConnectionLossError:
                    continue
                await read(zk, number, path, run, versions, synced)
            case "set":
                await write(zk, number, path, run, -1)
            case "compare":
                await write(zk, number, path, run, versions[path])
            case "log":
                value = f"{number}:{next(run.values)}"
                run.logged[value] = "unknown"
                try:
                    await zk.create("/log/e-", value.encode(), sequential=True)
                    run.logged[value] = "done"
                except ConnectionLossError as error:
                    run.logged[value] = fate_of(error)
        run.note(number)
        await trio.sleep(PACE)


async def read(
    zk: ZooKeeper, number: int, path: str, run: Run, versions: dict[str, int], synced: float | None = None
) -> None:
    begun = trio.current_time()
    try:
        data, stat = await zk.get(path)
    except ConnectionLossError:
        return
    versions[path] = stat.version
    run.history.reads.append(
        Read(
            number,
            path,
            data or b"",
            begun,
            trio.current_time(),
            stat.version,
            stat.mzxid,
            synced,
            zk.session.last_zxid,
        )
    )


async def write(zk: ZooKeeper, number: int, path: str, run: Run, version: int) -> None:
    value = f"{number}:{next(run.values)}".encode()
    begun = trio.current_time()
    fate: Fate = "unknown"  # and that it stays when the test is over before the reply is there
    written, zxid = -1, 0
    try:
        stat = await zk.set(path, value, version=version)
        fate, written, zxid = "done", stat.version, stat.mzxid
    except (ConnectionLossError, BadVersionError) as error:
        fate = fate_of(error)
    finally:
        run.history.writes.append(Write(number, path, value, begun, trio.current_time(), fate, written, zxid))


async def mirror(zk: ZooKeeper, mirrored: dict[str, int], task_status: trio.TaskStatus[None]) -> None:
    """Follow every znode by a lasting watch, reading again whenever it speaks."""
    async with zk.watch("/", recursive=True) as events:
        task_status.started()
        async for event in events:
            for path in PATHS if isinstance(event, Missed) else (event.path,):
                if path in PATHS:
                    try:
                        _, stat = await zk.get(path)
                    except ConnectionLossError:
                        continue  # a Missed will follow
                    assert stat.version >= mirrored[path], "the view went back"
                    mirrored[path] = stat.version


async def guard(zk: ZooKeeper) -> None:
    """The session must live, and its lease never be longer than the truth."""
    generation, session_id = zk.session.generation, zk.session.id
    while True:
        state = await zk.session.wait_change()
        assert state in (SessionState.CONNECTED, SessionState.SUSPENDED)
        assert (zk.session.generation, zk.session.id) == (generation, session_id)


async def test_nothing_acknowledged_is_lost_while_leaders_die(ensemble: Ensemble) -> None:
    run = Run()
    mirrored = dict.fromkeys(PATHS, 0)
    async with connect(ensemble.hosts, session_timeout=SESSION_TIMEOUT) as judge:
        await judge.create("/log")
        for path in PATHS:
            await judge.create(path)
        async with trio.open_nursery() as nursery:
            clients: list[ZooKeeper] = []

            async def live(number: int, task_status: trio.TaskStatus[None]) -> None:
                async with connect(ensemble.hosts, session_timeout=SESSION_TIMEOUT) as zk:
                    clients.append(zk)
                    await zk.create(f"/alive-{number}", ephemeral=True)
                    async with trio.open_nursery() as inner:
                        inner.start_soon(guard, zk)
                        inner.start_soon(work, zk, number, run)
                        if number == 0:
                            await inner.start(mirror, zk, mirrored)
                        task_status.started()

            for number in range(CLIENTS):
                await nursery.start(live, number)
            for _ in range(ROUNDS):
                await run.wait_for_progress()
                leader = await trio.to_thread.run_sync(ensemble.leader)
                await trio.to_thread.run_sync(leader.kill)
                await run.wait_for_progress()
                leader.start()
                await trio.to_thread.run_sync(ensemble.wait_until_whole)
            await run.wait_for_progress()

            await judge.sync("/")
            for number in range(CLIENTS):
                assert await judge.exists(f"/alive-{number}") is not None, "a session was lost"
            assert sum(zk.metrics.connections for zk in clients) > CLIENTS, "nobody noticed anything"
            nursery.cancel_scope.cancel()

        final = []
        for path in PATHS:
            synced = trio.current_time()
            await judge.sync(path)
            data, stat = await judge.get(path)
            final.append(
                Read(-1, path, data or b"", synced, trio.current_time(), stat.version, stat.mzxid, synced)
            )
        log = [
            ((await judge.get(f"/log/{name}"))[0] or b"").decode()
            for name in sorted(await judge.get_children("/log"))
        ]

    fates = Counter(write.fate for write in run.history.writes)
    assert fates["done"] > 100
    assert fates["unknown"] > 0, "no reply was ever lost: the blows missed"
    assert list(violations(run.history, final)) == []
    entries = Counter(log)
    for value, fate in run.logged.items():
        assert entries[value] <= 1, "an entry was written twice"
        if fate != "unknown":
            assert entries[value] == (fate == "done"), (value, fate)
    for client in range(CLIENTS):
        own = [int(value.partition(":")[2]) for value in log if value.startswith(f"{client}:")]
        assert (
            len(own) > 2 * ROUNDS
        )  # one operation of seven is an entry; each client has had 30 between two blows
        assert own == sorted(own), "a client's writes came out of order"
    assert all(0 < mirrored[read.path] <= read.version for read in final)


async def test_a_frozen_server_is_left_for_another(ensemble: Ensemble) -> None:
    """A server that stands still keeps its connections: only the read deadline gets a client away."""
    # A third of the timeout is left to come to another server, and the machine may stand still meanwhile.
    async with connect(ensemble.hosts, session_timeout=15) as zk:
        await zk.create("/mine", ephemeral=True)
        peers = {node.port: node for node in ensemble.nodes}
        node = peers[_port_of(zk)]
        node.pause()
        try:
            assert await zk.session.wait_change() is SessionState.SUSPENDED
            with trio.fail_after(30):
                stat = await zk.exists("/mine")
            assert stat is not None
            assert zk.session.generation == 1
        finally:
            node.resume()


def _port_of(zk: ZooKeeper) -> int:
    assert zk.server is not None
    return zk.server.port
