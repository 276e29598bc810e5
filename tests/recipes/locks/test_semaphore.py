"""The semaphore as its users see it (recipe-rules.md D.5)."""

from __future__ import annotations

import logging
import re

import pytest
import trio
from trio.testing import MockClock

from pyzk.client import SetData, ZooKeeper
from pyzk.recipes import ForeignLayout, InconsistentLimit, LockLost, WouldBlock
from pyzk.recipes.codecs import INT32, MalformedValue
from pyzk.recipes.locks.semaphore import Semaphore
from pyzk.recipes.locks.semaphore_layouts import SemaphoreLayout
from pyzk.recipes.shared_value import SharedValue

from ...support.lab import Lab
from .semaphores import LEASES, both_layouts, children, free


class Users:
    """Tasks that each take some leases, and keep them until they are told to let go."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.admitted: list[str] = []
        self._nursery = nursery
        self._leave: dict[str, trio.Event] = {}

    async def come(self, name: str, semaphore: Semaphore, count: int = 1) -> None:
        """Begin to acquire, and wait until that has led to something."""
        self._leave[name] = trio.Event()
        self._nursery.start_soon(self._use, name, semaphore, count)
        await trio.sleep(0.1)

    async def _use(self, name: str, semaphore: Semaphore, count: int) -> None:
        async with semaphore.acquire_many(count):
            self.admitted.append(name)
            await self._leave[name].wait()

    async def leave(self, name: str) -> None:
        self._leave[name].set()
        await trio.sleep(0.1)


@both_layouts
async def test_as_many_as_the_limit_are_admitted_in_order(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, layout: SemaphoreLayout
) -> None:
    clients = [await lab.client() for _ in range(5)]
    async with trio.open_nursery() as nursery:
        users = Users(nursery)
        for name, client in zip("abcde", clients, strict=True):
            await users.come(name, Semaphore(client, "/pool", 2, layout=layout))
        assert users.admitted == ["a", "b"]
        assert len(children(lab, LEASES[layout])) == 2
        await users.leave("b")
        assert users.admitted == ["a", "b", "c"]
        await users.leave("a")
        await users.leave("c")
        assert users.admitted == ["a", "b", "c", "d", "e"]
        await users.leave("d")
        await users.leave("e")
    await free(lab, layout, *clients)


async def test_curators_layout(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    async with Semaphore(zk, "/pool", 1, data=b"me") as lease, trio.open_nursery() as nursery:
        users = Users(nursery)
        await users.come("waits", Semaphore(zk, "/pool", 1))
        uuid = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
        assert re.fullmatch(rf"/pool/leases/_c_{uuid}-lease-0000000000", lease.path)
        [gate] = children(lab, "/pool/locks")
        assert re.fullmatch(rf"/pool/locks/_c_{uuid}-lock-0000000001", gate)
        assert lab.server.dump()[lease.path] == b"me"
        kinds = {path: node.kind for path, node in lab.server.dump(form="nodes").items()}
        assert [kinds[path] for path in ("/pool", "/pool/leases", "/pool/locks")] == ["container"] * 3
        nursery.cancel_scope.cancel()


async def test_kazoos_layout(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    async with Semaphore(zk, "/pool", 1, layout="kazoo", data=b"me") as lease, trio.open_nursery() as nursery:
        users = Users(nursery)
        await users.come("waits", Semaphore(zk, "/pool", 1, layout="kazoo"))
        assert re.fullmatch(r"/pool/[0-9a-f]{32}", lease.path)
        [gate] = children(lab, "/pool-__lock__")
        assert re.fullmatch(r"/pool-__lock__/[0-9a-f]{32}__lock__0000000001", gate)
        assert lab.server.dump()[lease.path] == b"me"
        assert lab.server.dump()["/pool"] == b"1"
        assert lab.server.dump(form="nodes")["/pool"].kind == "persistent", "or the limit would go with it"
        nursery.cancel_scope.cancel()


@both_layouts
async def test_what_it_costs(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, layout: SemaphoreLayout
) -> None:
    semaphore = Semaphore(zk, "/pool", 2, layout=layout)
    async with semaphore:
        pass
    before, events = lab.requests(zk), zk.event_count
    async with semaphore:
        pass
    cost = lab.requests(zk) - before
    reads = 2 if layout == "curator" else 3
    assert cost == {"create2": 1, "get_children": 2, "get_data": reads, "multi": 1, "delete": 2}
    assert zk.event_count - events <= 3, "the own creation, and the two own deletions"


@both_layouts
async def test_only_the_waiter_at_the_gate_watches_the_leases(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, layout: SemaphoreLayout
) -> None:
    """A freed lease wakes one, however many wait."""
    clients = [await lab.client() for _ in range(5)]
    async with trio.open_nursery() as nursery:
        users = Users(nursery)
        await users.come("holder", Semaphore(zk, "/pool", 1, layout=layout))
        for client in clients:
            await users.come(str(id(client)), Semaphore(client, "/pool", 1, layout=layout))
        watching = [s for s in lab.server.sessions() if LEASES[layout] in s.watches]
        assert [session.id for session in watching] == [clients[0].session.id]
        before = [client.event_count for client in clients]
        await users.leave("holder")
        woken = [client.event_count - b for client, b in zip(clients, before, strict=True)]
        assert woken[2:] == [0, 0, 0]
        assert woken[0] > 0
        assert woken[1] > 0, "the next one at the gate"
        nursery.cancel_scope.cancel()


@both_layouts
async def test_a_lease_has_a_token_and_a_fence(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, layout: SemaphoreLayout
) -> None:
    semaphore = Semaphore(zk, "/pool", 2, layout=layout)
    async with semaphore as first, semaphore as second:
        assert first.token < second.token
        stat = await zk.exists(first.path)
        assert stat is not None
        assert first.token == stat.czxid
        assert first.waited >= 0
        assert first.retries == 0
        await first.verify()
        await zk.multi([second.fence(), SetData("/", b"guarded")])
    assert first.released


@both_layouts
async def test_several_are_had_together_or_not_at_all(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, layout: SemaphoreLayout
) -> None:
    semaphore = Semaphore(zk, "/pool", 3, layout=layout)
    async with trio.open_nursery() as nursery:
        users = Users(nursery)
        await users.come("one", semaphore)
        await users.come("three", semaphore, 3)
        await users.come("another one", semaphore)
        assert users.admitted == ["one"], "who wants many is not overtaken"
        assert len(children(lab, LEASES[layout])) == 1
        await users.leave("one")
        assert users.admitted == ["one", "three"]
        assert len(children(lab, LEASES[layout])) == 3
        await users.leave("three")
        assert users.admitted == ["one", "three", "another one"]
        await users.leave("another one")
    await free(lab, layout, zk)


@pytest.mark.row("E-36")
@both_layouts
async def test_two_that_want_two_of_two_do_not_block_each_other(
    autojump_clock: MockClock, lab: Lab, layout: SemaphoreLayout
) -> None:
    clients = [await lab.client() for _ in range(2)]
    rounds = 0

    async def use(zk: ZooKeeper) -> None:
        nonlocal rounds
        for _ in range(5):
            async with Semaphore(zk, "/pool", 2, layout=layout).acquire_many(2):
                rounds += 1

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            for zk in clients:
                nursery.start_soon(use, zk)
    assert rounds == 10
    await free(lab, layout, *clients)


@pytest.mark.row("E-36")
@both_layouts
async def test_whichever_lease_is_returned_goes_to_the_next(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, layout: SemaphoreLayout
) -> None:
    for leaving in ("a", "b", "c"):
        async with trio.open_nursery() as nursery:
            users = Users(nursery)
            for name in ("a", "b", "c", "next"):
                await users.come(name, Semaphore(zk, "/pool", 3, layout=layout))
            await users.leave(leaving)
            assert users.admitted[-1] == "next"
            nursery.cancel_scope.cancel()
        await free(lab, layout, zk)


async def test_leases_had_together_are_returned_one_by_one(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    semaphore = Semaphore(zk, "/pool", 2)
    async with semaphore.acquire_many(2) as leases:
        assert len({lease.path for lease in leases}) == 2
        assert len({lease.token for lease in leases}) == 1
        with pytest.raises(WouldBlock):
            await semaphore.acquire(wait=False)
        await leases[0].release()
        async with semaphore.nowait():
            assert len(await semaphore.holders()) == 2
    await free(lab, "curator", zk)


async def test_the_manual_form(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    lease = await Semaphore(zk, "/pool", 1).acquire()
    with lease.scope():
        await trio.sleep(1)
    await lease.release()
    await free(lab, "curator", zk)


@both_layouts
async def test_nowait(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, layout: SemaphoreLayout) -> None:
    semaphore = Semaphore(zk, "/pool", 2, layout=layout)
    async with semaphore.nowait():
        with pytest.raises(WouldBlock):
            async with semaphore.acquire_many(2, wait=False):
                raise AssertionError
        async with semaphore.nowait():
            with pytest.raises(WouldBlock):
                await semaphore.acquire(wait=False)
    await free(lab, layout, zk)


@both_layouts
async def test_holders(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, layout: SemaphoreLayout) -> None:
    other = await lab.client()
    semaphore = Semaphore(zk, "/pool", 3, layout=layout, data=b"first")
    assert await semaphore.holders() == []
    async with semaphore as first, Semaphore(other, "/pool", 3, layout=layout, data=b"second") as second:
        holders = await semaphore.holders()
        assert [holder.path for holder in holders] == [first.path, second.path]
        assert [holder.data for holder in holders] == [b"first", b"second"]
        assert [holder.stat.ephemeralOwner for holder in holders] == [zk.session.id, other.session.id]
        assert [holder.stat.czxid for holder in holders] == [first.token, second.token]


# --- the limit ----------------------------------------------------------------------------------------------


async def test_a_limit_that_is_shared_takes_effect_while_somebody_waits(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    limit = SharedValue(zk, "/limit", codec=INT32)
    await limit.set(1)
    clients = [await lab.client() for _ in range(4)]
    async with trio.open_nursery() as nursery:
        users = Users(nursery)
        for name, client in zip("abcd", clients, strict=True):
            source = SharedValue(client, "/limit", codec=INT32)
            await users.come(name, Semaphore(client, "/pool", 99, limit_source=source))
        assert users.admitted == ["a"]
        await limit.set(3)
        await trio.sleep(1)
        assert users.admitted == ["a", "b", "c"]

        await limit.set(1)  # nobody is thrown out
        await trio.sleep(1)
        assert len(children(lab, "/pool/leases")) == 3
        await users.leave("a")
        await users.leave("b")
        assert users.admitted == ["a", "b", "c"]
        await users.leave("c")
        assert users.admitted == ["a", "b", "c", "d"]
        await users.leave("d")
    await free(lab, "curator", zk, *clients)


async def test_several_can_be_waited_for_that_are_not_there_yet(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    limit = SharedValue(zk, "/limit", codec=INT32)
    async with trio.open_nursery() as nursery:
        users = Users(nursery)
        await users.come("two", Semaphore(zk, "/pool", 1, limit_source=limit), 2)
        assert users.admitted == []
        await limit.set(2)
        await trio.sleep(1)
        assert users.admitted == ["two"]
        await users.leave("two")
    await free(lab, "curator", zk)


async def test_a_limit_that_is_no_number_is_raised_in_those_who_wait(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    limit = SharedValue(zk, "/limit", codec=INT32)
    semaphore = Semaphore(zk, "/pool", 1, limit_source=limit)
    async with semaphore, trio.open_nursery() as nursery:

        async def spoil() -> None:
            await trio.sleep(1)
            await zk.set("/limit", b"too many")

        await limit.set(1)
        nursery.start_soon(spoil)
        with pytest.raises(MalformedValue):
            await semaphore.acquire()
    await free(lab, "curator", zk)


def test_limits_that_make_no_sense() -> None:
    zk: ZooKeeper = None  # type: ignore[assignment]
    with pytest.raises(ValueError, match="limit must be at least 1, not 0"):
        Semaphore(zk, "/pool", 0)
    with pytest.raises(ValueError, match="can never be acquired"):
        Semaphore(zk, "/pool", 2).acquire_many(3)
    with pytest.raises(ValueError, match="count must be at least 1, not 0"):
        Semaphore(zk, "/pool", 2).acquire_many(0)
    with pytest.raises(ValueError, match="the limit is fixed; leave out limit_source"):
        Semaphore(zk, "/pool", 2, layout="kazoo", limit_source=SharedValue(zk, "/limit", codec=INT32))


async def test_the_stored_limit_must_be_the_same(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    async with Semaphore(zk, "/pool", 2, layout="kazoo"):
        with pytest.raises(InconsistentLimit) as caught:
            await Semaphore(zk, "/pool", 3, layout="kazoo").acquire()
    assert (caught.value.stored, caught.value.given) == (2, 3)
    await free(lab, "kazoo", zk)
    with pytest.raises(InconsistentLimit):
        await Semaphore(zk, "/pool", 3, layout="kazoo").acquire(wait=False)


async def test_a_limit_that_another_has_not_stored_yet_is_stored(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    await zk.create("/pool")  # as kazoo does first
    async with Semaphore(zk, "/pool", 2, layout="kazoo"):
        assert lab.server.dump()["/pool"] == b"2"


@pytest.mark.parametrize("op", ["create", "set_data", "get_data"])
@pytest.mark.parametrize("when", ["before", "after"])
async def test_storing_the_limit_survives_a_lost_connection(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, op: str, when: str
) -> None:
    if op == "set_data":
        await zk.create("/pool")
    with lab.server.fault(op=op, path="/pool", when=when, action="disconnect"):  # type: ignore[arg-type]
        async with Semaphore(zk, "/pool", 2, layout="kazoo"):
            assert lab.server.dump()["/pool"] == b"2"


async def test_two_clients_store_the_limit_at_the_same_time(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    """One is overtaken between reading that there is none and storing his own."""
    await zk.create("/pool")
    other = await lab.client()
    results: list[object] = []

    async def use(client: ZooKeeper, limit: int) -> None:
        try:
            async with Semaphore(client, "/pool", limit, layout="kazoo"):
                results.append(limit)
        except InconsistentLimit as error:
            results.append((error.stored, error.given))

    async with trio.open_nursery() as nursery:
        with lab.server.fault(op="set_data", session=zk.session.id, action="delay", seconds=1):
            nursery.start_soon(use, zk, 2)
            await trio.sleep(0.5)
            await use(other, 3)
            await trio.sleep(1)
    assert results == [3, (3, 2)]


async def test_data_that_is_no_limit_is_left_alone(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, caplog: pytest.LogCaptureFixture
) -> None:
    await zk.create("/pool", b"printers")
    semaphore = Semaphore(zk, "/pool", 2, layout="kazoo")
    for _ in range(2):
        async with semaphore:
            assert lab.server.dump()["/pool"] == b"printers"
    assert [record.getMessage() for record in caplog.records] == [
        "/pool holds b'printers', which is no limit of leases; ignoring it"
    ]


async def test_data_that_is_no_limit_is_not_logged_in_full(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, caplog: pytest.LogCaptureFixture
) -> None:
    await zk.create("/pool", b"p" * 100_000)
    async with Semaphore(zk, "/pool", 2, layout="kazoo"):
        pass
    assert len(caplog.records[0].getMessage()) < 200


# --- strangers ----------------------------------------------------------------------------------------------


async def test_strangers_take_no_lease_of_curators_layout(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, caplog: pytest.LogCaptureFixture
) -> None:
    lab.server.load({f"/pool/leases/{'0' * 32}": b"", "/pool/leases/junk": b""})
    semaphore = Semaphore(zk, "/pool", 1)
    for _ in range(2):
        async with semaphore:
            assert len(await semaphore.holders()) == 1
    foreign = ForeignLayout("/pool/leases", ["0" * 32, "junk"])
    assert [record.getMessage() for record in caplog.records] == [f"{foreign}; they are ignored"]


async def test_strangers_take_leases_of_kazoos_layout(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, caplog: pytest.LogCaptureFixture
) -> None:
    lab.server.load({"/pool/locks": b"", "/pool": b"2"})
    semaphore = Semaphore(zk, "/pool", 2, layout="kazoo")
    async with semaphore:
        with pytest.raises(WouldBlock):
            await semaphore.acquire(wait=False)
        assert len(await semaphore.holders()) == 2
    foreign = ForeignLayout("/pool", ["locks"])
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (logging.WARNING, f"{foreign}; they count as leases")
    ]


async def test_a_lost_lease_cancels_the_body(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    async with Semaphore(zk, "/pool", 2) as kept:
        with pytest.raises(LockLost) as caught:
            async with Semaphore(zk, "/pool", 2).acquire_many(1) as [lease]:
                await zk.delete(lease.path)
                await trio.sleep_forever()
        assert caught.value.path == lease.path
        assert not kept.lost.is_set()
    await free(lab, "curator", zk)
