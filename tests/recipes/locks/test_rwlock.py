"""Many readers or one writer, first come, first served."""

from __future__ import annotations

from itertools import groupby

import pytest
import trio
from trio.testing import MockClock

from pyzk.client import ZooKeeper
from pyzk.recipes import PARENT, PREDECESSOR, Deadlock, Lock, LockLost, LossReason, RWLock, WouldBlock, revoke
from pyzk.recipes.locks.role import LockLayout

from ...support.lab import Lab

NAMINGS = ["curator", "kazoo", "both"]


async def use(side: Lock, seconds: float, log: list[str], name: str) -> None:
    async with side:
        log.append(f"+{name}")
        await trio.sleep(seconds)
        log.append(f"-{name}")


@pytest.mark.parametrize("layout", NAMINGS)
async def test_readers_share_and_writers_do_not(
    autojump_clock: MockClock, lab: Lab, layout: LockLayout
) -> None:
    log: list[str] = []
    async with trio.open_nursery() as nursery:
        for name in ["r1", "r2", "w1", "r3", "w2", "r4", "r5"]:
            rw = RWLock(await lab.client(), "/rw", layout=layout)
            nursery.start_soon(use, rw.read() if name[0] == "r" else rw.write(), 10, log, name)
            await trio.sleep(0.1)
    together = ["".join(sorted(group)) for _, group in groupby(log, lambda entry: entry[0])]
    assert together == ["+r1+r2", "-r1-r2", "+w1", "-w1", "+r3", "-r3", "+w2", "-w2", "+r4+r5", "-r4-r5"]
    assert lab.server.dump("/rw") == {"/rw": b""}
    assert lab.watch_count == 0


async def test_a_release_wakes_only_the_readers_up_to_the_next_writer(
    autojump_clock: MockClock, lab: Lab
) -> None:
    names = ["w0", "r1", "r2", "r3", "w4", "r5"]
    clients = [await lab.client() for _ in names]
    log: list[str] = []
    async with trio.open_nursery() as nursery:
        for name, zk in zip(names, clients, strict=True):
            rw = RWLock(zk, "/rw", monitor=False)
            side = rw.read() if name[0] == "r" else rw.write()
            nursery.start_soon(use, side, 10, log, name)
            await trio.sleep(0.1)
        events = [zk.event_count for zk in clients]
        await trio.sleep(10)
        woken = [zk.event_count - before for zk, before in zip(clients, events, strict=True)]
        assert sorted(log[2:]) == ["+r1", "+r2", "+r3"]
        assert woken == [0, 1, 1, 1, 0, 0]


async def test_plain_locks_count_as_writers(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    other = await lab.client()
    async with Lock(zk, "/rw"):
        with pytest.raises(WouldBlock):
            await RWLock(other, "/rw").read().acquire(wait=False)
    async with RWLock(zk, "/rw").read():
        with pytest.raises(WouldBlock):
            await Lock(other, "/rw").acquire(wait=False)


@pytest.mark.parametrize("layout", NAMINGS)
async def test_a_writer_becomes_a_reader(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, layout: LockLayout
) -> None:
    other = await lab.client()
    rw, others = RWLock(zk, "/rw", layout=layout), RWLock(other, "/rw", layout=layout)
    log: list[str] = []
    async with trio.open_nursery() as nursery, rw.write() as grant:
        token, paths = grant.token, grant.paths
        nursery.start_soon(use, others.write(), 1, log, "w")
        await trio.sleep(1)
        async with grant.downgrade() as reading:
            assert reading.token == token
            assert [path[-10:] for path in reading.paths] == [path[-10:] for path in paths]
            assert all("READ" in path or "__rlock__" in path for path in reading.paths)
            await reading.verify()
            await trio.sleep(5)
            assert log == [], "the writer that waits must not get in"
        await trio.sleep(0.5)
        assert log == ["+w"], "behind the block nothing is held any more"
    assert lab.server.dump("/rw") == {"/rw": b""}
    assert lab.watch_count == 0


class _Deadlines(trio.abc.Instrument):
    """The deadline of a scope after each step of any task."""

    def __init__(self, scope: trio.CancelScope) -> None:
        self._scope = scope
        self.seen: set[float] = set()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self.seen.add(self._scope.deadline)


@pytest.mark.parametrize("layout", NAMINGS)
async def test_the_block_of_a_writer_ends_with_the_lease_at_every_step_of_a_downgrade(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, layout: LockLayout
) -> None:
    """The whole process may be stopped at any of them."""
    async with RWLock(zk, "/rw", layout=layout).write() as grant:
        with grant.scope() as scope:
            deadlines = _Deadlines(scope)
            trio.lowlevel.add_instrument(deadlines)
            async with grant.downgrade():
                trio.lowlevel.remove_instrument(deadlines)
                assert max(deadlines.seen) < trio.current_time() + zk.session.negotiated_timeout


async def test_readers_come_in_beside_a_downgraded_writer(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    other = await lab.client()
    async with RWLock(zk, "/rw").write() as grant, grant.downgrade():
        reading = await RWLock(other, "/rw").read().acquire(wait=False)
        await reading.release()


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("layout", NAMINGS)
async def test_a_downgrade_survives_a_lost_connection(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, layout: LockLayout, when: str
) -> None:
    async with RWLock(zk, "/rw", layout=layout).write() as grant:
        fault = lab.server.fault(op="multi", when=when, action="disconnect")  # type: ignore[arg-type]
        with fault:
            async with grant.downgrade() as reading:
                await reading.verify()
                assert sorted(await zk.get_children("/rw")) == sorted(p[4:] for p in reading.paths)
    assert await zk.get_children("/rw") == []


async def test_a_cancelled_downgrade_leaves_nothing(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    for delay in [0.0, 1.0, 3.0]:
        async with trio.open_nursery() as nursery:

            async def body(scope: trio.CancelScope = nursery.cancel_scope) -> None:
                async with RWLock(zk, "/rw").write() as grant:
                    with lab.server.fault(op="multi", when="after", action="delay", seconds=2):
                        async with grant.downgrade():
                            await trio.sleep_forever()

            nursery.start_soon(body)
            await trio.sleep(delay + 0.5)
            nursery.cancel_scope.cancel()
        await trio.sleep(5)
        await zk.cleanup.idle()
        assert await zk.get_children("/rw") == []
        assert lab.watch_count == 0


async def test_a_downgraded_reader_can_be_lost(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    other = await lab.client()
    with pytest.raises(LockLost) as caught:
        async with RWLock(zk, "/rw").write() as grant, grant.downgrade() as reading:
            await other.delete(reading.path)
            await trio.sleep_forever()
    assert caught.value.reason is LossReason.NODE_DELETED


async def test_a_reader_cannot_become_a_writer(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    rw = RWLock(zk, "/rw", reentrant=True)
    async with rw.read():
        with pytest.raises(Deadlock, match="reader"):
            await rw.write().acquire()


async def test_a_writer_may_read_and_write_again(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    rw = RWLock(zk, "/rw", reentrant=True)
    async with rw.write() as grant:
        async with rw.read() as reading, rw.write() as writing:
            assert reading is grant
            assert writing is grant
        assert len(await zk.get_children("/rw")) == 1
        async with rw.read():
            with pytest.raises(Deadlock):
                async with grant.downgrade():
                    pytest.fail("it is held twice")
    async with rw.read(), rw.read():
        assert len(await zk.get_children("/rw")) == 1
    assert await zk.get_children("/rw") == []


def test_it_has_no_local_queue() -> None:
    with pytest.raises(TypeError, match="local_queue"):
        RWLock(None, "/rw", local_queue=True)  # type: ignore[arg-type]


async def test_a_writer_becomes_a_reader_only_once(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    async with RWLock(zk, "/rw").write() as grant, grant.downgrade():
        with pytest.raises(Deadlock):
            async with grant.downgrade():
                pytest.fail("it is a reader already")
        await grant.verify()


@pytest.mark.parametrize("layout", NAMINGS)
async def test_a_downgrade_below_a_path_that_looks_like_a_writer(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, layout: LockLayout
) -> None:
    path = "/__lock__/__WRIT__"
    async with RWLock(zk, path, layout=layout).write() as grant, grant.downgrade() as reading:
        assert all(path.startswith("/__lock__/__WRIT__/") for path in reading.paths)
        await reading.verify()


@pytest.mark.parametrize("op", ["multi", "get_data"])
async def test_a_session_that_expires_during_a_downgrade(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, op: str
) -> None:
    async with trio.open_nursery() as nursery:

        async def expire() -> None:
            await trio.sleep(1)
            lab.server.expire(zk.session.id)

        with pytest.raises(LockLost) as caught:
            async with RWLock(zk, "/rw").write() as grant:
                with lab.server.fault(op=op, when="before", action="delay", seconds=5):
                    nursery.start_soon(expire)
                    async with grant.downgrade():
                        pytest.fail("it is lost")
    assert caught.value.reason is grant.reason is LossReason.SESSION_EXPIRED


async def test_a_reader_is_asked_for_it_while_it_still_becomes_one(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    other = await lab.client()
    async with trio.open_nursery() as nursery:

        async def ask() -> None:
            await trio.sleep(1)
            [reader] = await RWLock(other, "/rw").read().contenders()
            await revoke(other, reader)

        async with RWLock(zk, "/rw").write() as grant:
            with lab.server.fault(
                op="get_data", session=zk.session.id, when="before", action="delay", seconds=2
            ):
                nursery.start_soon(ask)
                async with grant.downgrade() as reading:
                    with trio.fail_after(1):
                        await reading.revoked.wait()


async def test_the_naive_shared_lock_is_the_same_but_wakes_everybody(
    autojump_clock: MockClock, lab: Lab
) -> None:
    """S4-b beside S4-c of recipe-rules.md A.1: watch the parent, or the one that counts."""
    names = ["w0", "r1", "r2", "w3", "r4", "r5"]
    events = {}
    for strategy in (PARENT, PREDECESSOR):
        log: list[str] = []
        clients = [await lab.client() for _ in names]
        async with trio.open_nursery() as nursery:
            for name, zk in zip(names, clients, strict=True):
                rw = RWLock(zk, "/rw", strategy=strategy, monitor=False)
                nursery.start_soon(use, rw.read() if name[0] == "r" else rw.write(), 10, log, name)
                await trio.sleep(0.1)
        together = ["".join(sorted(group)) for _, group in groupby(log, lambda entry: entry[0])]
        assert together == ["+w0", "-w0", "+r1+r2", "-r1-r2", "+w3", "-w3", "+r4+r5", "-r4-r5"]
        events[strategy] = sum(zk.event_count for zk in clients)
        assert lab.watch_count == 0
    assert events[PREDECESSOR] <= len(names)
    assert events[PARENT] > 2 * events[PREDECESSOR]
