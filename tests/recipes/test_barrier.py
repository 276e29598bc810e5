"""The barrier holds everybody up until it is lifted, whatever happens to connections and sessions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio
from trio.testing import MockClock

from pyzk.client import ACL, ClosingError, Id, NoAuthError, Perms, ZooKeeper
from pyzk.recipes.barrier import Barrier

from ..support.lab import Lab

PATH = "/barriers/one"


class Waiter:
    """A task that waits."""

    def __init__(self, nursery: trio.Nursery, barrier: Barrier) -> None:
        self.through = False
        self.error: Exception | None = None
        nursery.start_soon(self._run, barrier)

    async def _run(self, barrier: Barrier) -> None:
        try:
            await barrier.wait()
        except ClosingError as error:
            self.error = error
        else:
            self.through = True


async def test_everybody_waits_until_it_is_lifted(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    barrier = Barrier(zk, PATH)
    await barrier.create()
    async with trio.open_nursery() as nursery:
        waiters = [Waiter(nursery, barrier), Waiter(nursery, Barrier(await lab.client(), PATH))]
        await trio.sleep(100)
        assert [waiter.through for waiter in waiters] == [False, False]
        assert await barrier.remove() is True
    assert [waiter.through for waiter in waiters] == [True, True]
    await trio.sleep(1)
    assert lab.watch_count == 0


async def test_it_is_a_plain_persistent_znode(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    await Barrier(zk, PATH).create()
    node = lab.server.dump(form="nodes")[PATH]
    assert (node.data, node.kind) == (b"", "persistent")
    assert lab.server.dump(form="nodes")["/barriers"].kind == "container"


async def test_where_there_is_none_nobody_waits(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    barrier = Barrier(zk, PATH)
    await barrier.wait()
    assert await barrier.remove() is False
    assert lab.watch_count == 0


async def test_putting_it_up_twice_is_no_error(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    barrier = Barrier(zk, PATH)
    await barrier.create()
    await barrier.create()
    assert await barrier.remove() is True
    assert await barrier.remove() is False


@pytest.mark.row("E-23")
async def test_other_changes_do_not_lift_it(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    barrier, other = Barrier(zk, PATH), await lab.client()
    await barrier.create()
    async with trio.open_nursery() as nursery:
        waiter = Waiter(nursery, barrier)
        for disturb in (other.set(PATH, b"x"), other.create(f"{PATH}/child"), other.delete(f"{PATH}/child")):
            await disturb
            await trio.sleep(1)
        lab.server.disconnect(zk.session.id)
        await trio.sleep(1)
        assert not waiter.through
        await other.delete(PATH)
    assert waiter.through


Trouble = Callable[[Lab, ZooKeeper, Awaitable[object]], Awaitable[None]]


async def dropped(lab: Lab, zk: ZooKeeper, lift: Awaitable[object]) -> None:
    lab.server.disconnect(zk.session.id)
    await trio.sleep(5)
    await lift


async def lifted_meanwhile(lab: Lab, zk: ZooKeeper, lift: Awaitable[object]) -> None:
    lab.cut_off(zk)
    await lift
    await trio.sleep(3)
    lab.let_through(zk)


async def expired(lab: Lab, zk: ZooKeeper, lift: Awaitable[object]) -> None:
    lab.server.expire(zk.session.id)
    await trio.sleep(5)
    await lift


async def lifted_after_expiry(lab: Lab, zk: ZooKeeper, lift: Awaitable[object]) -> None:
    lab.cut_off(zk)
    await trio.sleep(60)
    await lift
    lab.let_through(zk)


async def restarted(lab: Lab, zk: ZooKeeper, lift: Awaitable[object]) -> None:
    lab.server.restart(keep_data=True)
    await trio.sleep(5)
    await lift


@pytest.mark.row("E-18", "F7", "F10", "F14")
@pytest.mark.parametrize("trouble", [dropped, lifted_meanwhile, expired, lifted_after_expiry, restarted])
async def test_waiting_goes_on(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, trouble: Trouble) -> None:
    barrier, other = Barrier(zk, PATH), Barrier(await lab.client(), PATH)
    await barrier.create()
    async with trio.open_nursery() as nursery:
        waiter = Waiter(nursery, barrier)
        await trio.sleep(1)
        await trouble(lab, zk, other.remove())
        await trio.sleep(20)
        assert waiter.through


@pytest.mark.row("F11")
async def test_data_that_was_lost_lifts_it(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    barrier = Barrier(zk, PATH)
    await barrier.create()
    async with trio.open_nursery() as nursery:
        waiter = Waiter(nursery, barrier)
        await trio.sleep(1)
        lab.server.restart(keep_data=False)
    assert waiter.through


@pytest.mark.row("F1", "F2", "F4", "F5")
@pytest.mark.parametrize("when", ["before", "after"])
async def test_lost_connections(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, when: str) -> None:
    barrier = Barrier(zk, PATH)
    with lab.server.fault(op="create", path=PATH, when=when, action="disconnect"):  # type: ignore[arg-type]
        await barrier.create()
    assert PATH in lab.server.dump()
    with lab.server.fault(op="delete", path=PATH, when=when, action="disconnect"):  # type: ignore[arg-type]
        assert await barrier.remove() is True
    assert PATH not in lab.server.dump()


@pytest.mark.row("F20")
async def test_a_cancelled_wait_leaves_no_watch(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    barrier = Barrier(zk, PATH)
    await barrier.create()
    for seconds in (0, 0.5, 2):
        with (
            lab.server.fault(op="exists", when="after", action="delay", seconds=1, required=False),
            trio.move_on_after(seconds) as scope,
        ):
            await barrier.wait()
        assert scope.cancelled_caught
        await trio.sleep(3)
        assert (lab.watch_count, zk.watch_count) == (0, 0)


@pytest.mark.row("F21")
async def test_what_is_not_allowed_is_said_at_once(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    await zk.create("/closed", acl=[ACL(Perms.READ, Id("world", "anyone"))])
    with pytest.raises(NoAuthError):
        await Barrier(zk, "/closed/barrier").create()


@pytest.mark.row("E-59")
async def test_a_closed_client_does_not_wait(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    await Barrier(zk, PATH).create()
    async with trio.open_nursery() as nursery, lab.connect() as own:
        waiter = Waiter(nursery, Barrier(own, PATH))
        await trio.sleep(1)
    assert isinstance(waiter.error, ClosingError)
    with pytest.raises(ClosingError):
        await Barrier(own, PATH).wait()
