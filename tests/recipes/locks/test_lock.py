"""The lock as its users see it. What goes wrong is in test_lock_faults.py, all of it at once in
test_property_lock.py."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from pyzk.client import NoNodeError, SetData, ZooKeeper
from pyzk.recipes import (
    ContenderKind,
    Deadlock,
    Grant,
    Lock,
    LockLost,
    LockRegistry,
    LockRevoked,
    LossReason,
    SequenceExhausted,
    WouldBlock,
    revoke,
)
from pyzk.recipes.locks.role import DEFAULT_KINDS

from ...support.lab import Lab


async def hold_for(lock: Lock, seconds: float, order: list[str], name: str) -> None:
    async with lock:
        order.append(name)
        await trio.sleep(seconds)


async def test_five_contenders_get_it_in_order(autojump_clock: MockClock, lab: Lab) -> None:
    order: list[str] = []
    async with trio.open_nursery() as nursery:
        for name in "abcde":
            nursery.start_soon(hold_for, Lock(await lab.client(), "/lock"), 1, order, name)
            await trio.sleep(0.1)
    assert order == list("abcde")
    assert lab.server.dump("/lock") == {"/lock": b""}
    assert lab.watch_count == 0


async def test_tasks_of_one_client_exclude_each_other(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    lock = Lock(zk, "/lock")
    order: list[str] = []
    async with trio.open_nursery() as nursery:
        for name in "abc":
            nursery.start_soon(hold_for, lock, 1, order, name)
    assert sorted(order) == list("abc")
    assert trio.current_time() >= 3


@pytest.mark.parametrize("parents", ["container", "persistent"])
async def test_a_directory_without_contenders_goes_unless_it_is_to_stay(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, parents: Any
) -> None:
    async with Lock(zk, "/a/b/lock", parents=parents):
        pass
    await trio.sleep(300)
    assert ("/a" in lab.server.dump()) == (parents == "persistent")


async def test_an_uncontended_lock_costs_three_requests_and_one_for_the_monitor(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    await zk.create("/lock")
    for monitor, expected in [(False, 3), (True, 4)]:
        before = lab.requests(zk)
        async with Lock(zk, "/lock", monitor=monitor):
            pass
        cost = lab.requests(zk) - before
        assert cost.total() == expected, cost


async def test_the_token_is_the_czxid_and_grows(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    tokens = []
    for _ in range(3):
        async with Lock(zk, "/lock") as grant:
            stat = await zk.exists(grant.path)
            assert stat is not None
            assert grant.token == stat.czxid
            tokens.append(grant.token)
        await zk.delete("/lock")  # the numbers in the names start again
        assert grant.sequence == 0
    assert tokens == sorted(set(tokens))


async def test_a_fence_keeps_a_former_holder_from_writing(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    await zk.create("/guarded")
    async with Lock(zk, "/lock") as grant:
        await zk.multi([grant.fence(), SetData("/guarded", b"mine")])
    with pytest.raises(NoNodeError):
        await zk.multi([grant.fence(), SetData("/guarded", b"late")])
    assert (await zk.get("/guarded"))[0] == b"mine"


@pytest.mark.parametrize("n", [1, 2, 20])
@pytest.mark.parametrize(
    ("options", "own"),
    [({}, 1), ({"monitor": False}, 0), ({"layout": "both"}, 2)],
)
async def test_what_it_costs(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, options: dict[str, Any], own: int, n: int
) -> None:
    """What the documentation says: ``own`` is how many znodes of its own a contender reads and watches."""
    clients = [await lab.client(session_timeout=100) for _ in range(n)]
    await zk.create("/lock")

    async def use(zk: ZooKeeper) -> None:
        async with Lock(zk, "/lock", **options):
            await trio.sleep(10)

    async with trio.open_nursery() as nursery:
        for client in clients:
            nursery.start_soon(use, client)
            await trio.sleep(0.1)
    await trio.sleep(1)
    requests = sum(lab.requests(client).total() for client in clients)
    events = sum(client.event_count for client in clients)
    assert (requests, events) == ((5 + own) * n - 2, (1 + own) * n - 1)


async def test_nowait(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    other = await lab.client()
    async with Lock(zk, "/lock").nowait() as grant:
        assert not grant.lost.is_set()
        before = lab.requests(other)
        with pytest.raises(WouldBlock, match="/lock"):
            async with Lock(other, "/lock").nowait():
                pytest.fail("it is not free")
        assert lab.requests(other) - before == {"create2": 1, "get_children": 1, "delete": 1}
        assert lab.watch_count == 1, "the holder's own"
    async with Lock(other, "/lock").nowait():
        pass


async def test_cancelling_a_wait_leaves_nothing(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    other = await lab.client()
    async with Lock(zk, "/lock"):
        with trio.move_on_after(5) as scope:
            async with Lock(other, "/lock"):
                pytest.fail("it is not free")
        assert scope.cancelled_caught
        assert len(await zk.get_children("/lock")) == 1
        assert lab.watch_count == 1, "the holder's own"
        assert other.watch_count == 0


async def test_a_waiter_that_dies_wakes_only_its_successor(autojump_clock: MockClock, lab: Lab) -> None:
    clients = [await lab.client() for _ in range(5)]
    order: list[str] = []
    async with trio.open_nursery() as nursery:
        for name, zk in zip("abcde", clients, strict=True):
            nursery.start_soon(hold_for, Lock(zk, "/lock"), 100, order, name)
            await trio.sleep(0.1)
        events = [zk.event_count for zk in clients]
        lab.server.expire(clients[2].session.id)
        await trio.sleep(1)
        woken = [zk.event_count - before for zk, before in zip(clients, events, strict=True)]
        assert woken == [0, 0, 0, 1, 0]
    assert order == list("abdec"), "it stands at the end of the queue again"


async def test_a_reentrant_lock_is_released_with_its_last_block(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    lock = Lock(zk, "/lock", reentrant=True)
    async with lock as outer:
        async with lock as inner:
            assert inner is outer
        assert await lock.is_locked()
        assert not outer.released
    assert not await lock.is_locked()


async def test_a_grant_that_another_task_released_is_not_entered_again(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    """Either the block is entered in time, and the lock kept, or it is acquired anew."""
    for _ in range(20):  # in either order
        lock = Lock(zk, "/lock", reentrant=True)
        first = await lock.acquire()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(first.release)
            second = await lock.acquire()
        await second.verify()
        assert [f"/lock/{name}" for name in await zk.get_children("/lock")] == [second.path]
        await second.release()


async def test_reentrancy_is_the_task_s_own(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    lock = Lock(zk, "/lock", reentrant=True)
    order: list[str] = []
    async with trio.open_nursery() as nursery, lock:
        nursery.start_soon(hold_for, lock, 0, order, "child")
        await trio.sleep(10)
        assert order == []
    assert order == ["child"]


async def test_a_plain_lock_says_that_the_task_would_wait_for_itself(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    lock = Lock(zk, "/lock")
    async with lock:
        with pytest.raises(Deadlock, match="/lock"):
            await lock.acquire()
    async with lock:
        pass


async def test_the_manual_form(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    lock = Lock(zk, "/lock")
    grant = await lock.acquire()
    with grant.scope():
        await grant.verify()
        assert grant.deadline() > trio.current_time()
    await grant.release()
    await grant.release()
    assert not await lock.is_locked()


async def test_nothing_relies_on_what_was_released(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    lock = Lock(zk, "/lock", local_queue=True, max_handoffs=1)
    async with trio.open_nursery() as nursery:
        grant = await lock.acquire()
        nursery.start_soon(hold_for, lock, 1, [], "")
        await trio.sleep(0.5)
        await grant.release()  # to the other task
        with pytest.raises(LockLost) as caught, grant.scope():
            pytest.fail("it is the other's")
        assert caught.value.reason is LossReason.RELEASED
        with pytest.raises(LockLost):
            await grant.verify()


async def test_contenders(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    other = await lab.client()
    assert await Lock(zk, "/lock").contenders() == []
    async with Lock(zk, "/lock", data=b"first"), trio.open_nursery() as nursery:
        nursery.start_soon(hold_for, Lock(other, "/lock", data=b"second", layout="kazoo"), 0, [], "")
        await trio.sleep(1)
        found = await Lock(zk, "/lock").contenders()
        assert [contender.data for contender in found] == [b"first", b"second"]
        assert [contender.kind for contender in found] == [
            ContenderKind.CURATOR_LOCK,
            ContenderKind.KAZOO_LOCK,
        ]
        assert [c.stat.ephemeralOwner for c in found] == [zk.session.id, other.session.id]
        nursery.cancel_scope.cancel()


async def test_statistics(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    lock = Lock(zk, "/lock")
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(hold_for, lock, 1, [], "")
        await trio.sleep(0.5)
        now = lock.statistics()
        assert (now.holding, now.waiting, now.acquired) == (1, 2, 1)
    assert lock.statistics().acquired == 3


async def test_a_registry_has_a_lock_for_any_key(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    registry = LockRegistry(zk, "/locks")
    keys = ["user/7", "user", "..", ".", "%2F", "ä b"]
    for key in keys:
        async with registry[key]:
            with pytest.raises(Deadlock):
                await registry[key].acquire()
    assert len({registry[key].path for key in keys}) == len(keys)
    assert all(registry[key].path.count("/") == 2 for key in keys)


# --- asking for it back -----------------------------------------------------------------------------------


async def test_a_holder_can_be_asked_for_it(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    asked = []
    lock = Lock(zk, "/lock", on_revoke=asked.append)
    async with lock as grant:
        await zk.set(grant.path, b"something else")
        await trio.sleep(1)
        assert asked == []
        [contender] = await lock.contenders()
        await revoke(zk, contender)
        await grant.revoked.wait()
        assert asked == [grant]


async def test_a_holder_can_be_stopped_by_it(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    other = await lab.client()
    lock = Lock(zk, "/lock", on_revoke="cancel")
    with pytest.raises(LockRevoked) as caught:
        async with lock:
            [contender] = await Lock(other, "/lock").contenders()
            await revoke(other, contender)
            await trio.sleep_forever()
    assert isinstance(caught.value, LockLost), "one error to catch"
    assert caught.value.reason is LossReason.REVOKED
    await revoke(other, contender)
    assert not await lock.is_locked()


async def test_a_grant_says_what_it_is(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    grant = await Lock(zk, "/lock").acquire()
    name = f"Grant {grant.path}, token {grant.token}"
    assert repr(grant) == f"<{name}, held by 0x{zk.session.id:x}>"
    await grant.release()
    assert repr(grant) == f"<{name}, released by 0x{grant.session_id:x}>"


async def test_what_an_on_revoke_function_raises_comes_out_of_the_block(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    def fail(grant: Grant) -> None:
        raise ZeroDivisionError

    other = await lab.client()
    with pytest.raises(ZeroDivisionError):
        async with Lock(zk, "/lock", on_revoke=fail) as grant:
            await revoke(other, grant.path)
            await trio.sleep_forever()
    assert await zk.get_children("/lock") == [], "the client is none the worse for it"


async def test_a_lock_that_is_asked_for_is_not_passed_on(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    other = await lab.client()
    lock = Lock(zk, "/lock", local_queue=True, max_handoffs=1)
    order: list[str] = []
    async with trio.open_nursery() as nursery, lock as grant:
        nursery.start_soon(hold_for, lock, 1, order, "ours")
        nursery.start_soon(hold_for, Lock(other, "/lock"), 1, order, "the other's")
        await trio.sleep(1)
        await revoke(other, grant.path)
        await grant.revoked.wait()
    assert order == ["the other's", "ours"]


async def test_a_waiter_is_asked_once_it_holds(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    other = await lab.client()
    async with trio.open_nursery() as nursery:

        async def waiter() -> None:
            with pytest.raises(LockRevoked):
                async with Lock(other, "/lock", on_revoke="cancel"):
                    await trio.sleep_forever()

        async with Lock(zk, "/lock") as grant:
            nursery.start_soon(waiter)
            await trio.sleep(1)
            _, contender = await Lock(zk, "/lock").contenders()
            await revoke(zk, contender)
            await trio.sleep(1)
            assert not grant.lost.is_set()
            assert len(await zk.get_children("/lock")) == 2


# --- the local queue --------------------------------------------------------------------------------------


async def test_a_local_queue_needs_one_znode(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    lock = Lock(zk, "/lock", local_queue=True)
    order: list[str] = []
    async with trio.open_nursery() as nursery:
        for name in "abcdef":
            nursery.start_soon(hold_for, lock, 1, order, name)
            await trio.sleep(0.01)
            assert len(await zk.get_children("/lock")) <= 1
    assert order == list("abcdef")
    assert lab.requests(zk)["create2"] == 6 + 1, "the first one found no parent"


async def test_a_lock_is_passed_on_so_many_times(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    lock = Lock(zk, "/lock", local_queue=True, max_handoffs=2)
    other = await lab.client()
    order: list[str] = []
    async with trio.open_nursery() as nursery:
        for name in "abcd":
            nursery.start_soon(hold_for, lock, 1, order, name)
            await trio.sleep(0.01)
        nursery.start_soon(hold_for, Lock(other, "/lock"), 1, order, "other")
    assert order == ["a", "b", "c", "other", "d"]
    assert lock.statistics().handed_on == 2


async def test_what_is_passed_on_keeps_its_token(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    lock = Lock(zk, "/lock", local_queue=True, max_handoffs=1)
    tokens = []

    async def use() -> None:
        async with lock as grant:
            await trio.sleep(1)
            await grant.verify()
            tokens.append(grant.token)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(use)
        nursery.start_soon(use)
    assert len(set(tokens)) == 1
    assert lab.server.dump("/lock") == {"/lock": b""}


async def test_a_local_waiter_that_gives_up_hinders_nobody(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    lock = Lock(zk, "/lock", local_queue=True, max_handoffs=5)
    order: list[str] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hold_for, lock, 2, order, "a")
        await trio.sleep(0.1)
        with trio.move_on_after(1):
            await lock.acquire()
        with pytest.raises(WouldBlock):
            await lock.acquire(wait=False)
        nursery.start_soon(hold_for, lock, 1, order, "b")
    assert order == ["a", "b"]
    async with lock:
        pass


# --- others on the same path ------------------------------------------------------------------------------


async def test_ours_queue_behind_every_known_kind(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    other = await lab.client()
    await zk.create("/lock")
    hex32 = "0123456789abcdef" * 2
    prefixes = {
        ContenderKind.CURATOR_LOCK: f"_c_{hex32}-lock-",
        ContenderKind.CURATOR_READ: f"_c_{hex32}-__READ__",
        ContenderKind.CURATOR_WRITE: f"_c_{hex32}-__WRIT__",
        ContenderKind.KAZOO_LOCK: f"{hex32}__lock__",
        ContenderKind.KAZOO_READ: f"{hex32}__rlock__",
        ContenderKind.AIOZK_LOCK: f"lock-{hex32}-",
        ContenderKind.AIOZK_READ: f"read-{hex32}-",
        ContenderKind.AIOZK_WRITE: f"write-{hex32}-",
        ContenderKind.AIOZK_CANDIDATE: f"candidate-{hex32}-",
        ContenderKind.ZOOKEEPER_LOCK: "x-12345-",
        ContenderKind.ZOOKEEPER_CANDIDATE: "n_",
    }
    assert prefixes.keys() == DEFAULT_KINDS
    for kind, prefix in prefixes.items():
        path = await other.create(f"/lock/{prefix}", ephemeral=True, sequential=True)
        with pytest.raises(WouldBlock):
            await Lock(zk, "/lock").acquire(wait=False)
        async with Lock(zk, "/lock", recognise=DEFAULT_KINDS - {kind}).nowait():
            pass
        await other.delete(path)


async def test_foreign_children_are_ignored_with_one_warning(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ["0", "-x", "zzz"]:
        await zk.create(f"/lock/{name}", make_parents=True)
    lock = Lock(zk, "/lock")
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            async with lock:
                pass
    assert len(caplog.records) == 1
    assert "/lock" in caplog.text


async def test_a_contender_that_does_not_see_ours_is_pointed_out(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        async with Lock(zk, "/lock", layout="kazoo"):
            with pytest.raises(WouldBlock):
                await Lock(await lab.client(), "/lock").acquire(wait=False)
    assert 'layout="both"' in caplog.text


async def test_a_bridge_is_one_grant(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    async with Lock(zk, "/lock", layout="both") as grant:
        stats = [await zk.exists(path) for path in grant.paths]
        assert len(stats) == 2
        assert {stat.czxid for stat in stats if stat} == {grant.token}
        for layout in ["curator", "kazoo", "both"]:
            with pytest.raises(WouldBlock):
                await Lock(zk, "/lock", layout=layout).acquire(wait=False)  # type: ignore[arg-type]
    assert lab.server.dump("/lock") == {"/lock": b""}


async def test_numbers_that_have_run_out_are_refused(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    lab.count_children("/lock", 2147483646)
    async with Lock(zk, "/lock") as grant:
        assert grant.sequence == 2147483646, "the last one"
    for _ in range(2):
        with pytest.raises(SequenceExhausted, match="/lock"):
            await Lock(zk, "/lock").acquire()
    assert await zk.get_children("/lock") == []


async def test_equal_numbers_are_refused(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    await zk.create(f"/lock/{'ab' * 16}__lock__0000000001", make_parents=True)
    with pytest.raises(SequenceExhausted):
        async with Lock(zk, "/lock", monitor=False):
            pytest.fail("who of the two is first?")
    assert len(await zk.get_children("/lock")) == 1


def test_handoffs_need_a_queue() -> None:
    with pytest.raises(ValueError, match="local_queue"):
        Lock(None, "/lock", max_handoffs=1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "option",
    [
        {"layout": "bridge"},
        {"parents": "tree"},
        {"suspended": "never"},
        {"on_session_loss": "retry"},
        {"on_revoke": "stop"},
    ],
)
def test_a_mistyped_option_is_refused(option: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(option.values()))):
        Lock(None, "/lock", **option)  # type: ignore[arg-type]
