"""Several locks at once (recipe-rules.md D.6; trap E-58)."""

from __future__ import annotations

import logging

import pytest
import trio
from trio.testing import MockClock

from pyzk.client import ACL, Id, NoAuthError, Perms, SetData, ZooKeeper
from pyzk.recipes import Deadlock, Lock, LockLost, LossReason, RWLock, WouldBlock
from pyzk.recipes.locks.multi_lock import MultiLock
from pyzk.recipes.locks.semaphore import Semaphore
from pyzk.recipes.locks.single_node import SingleNodeLock

from ...support.lab import TICK, Lab

EVERYBODY = Id("world", "anyone")


def owned(lab: Lab, zk: ZooKeeper) -> list[str]:
    """The locks that a client holds, or waits for, in the order in which it came to them."""
    [session] = [session for session in lab.server.sessions() if session.id == zk.session.id]
    return [path.rpartition("/")[0] for path in session.ephemerals]


async def free(lab: Lab, *clients: ZooKeeper) -> None:
    for zk in clients:
        await zk.cleanup.idle()
    await trio.sleep(TICK)
    assert all(session.ephemerals == () for session in lab.server.sessions())
    assert lab.watch_count == 0
    assert all(zk.watch_count == 0 for zk in clients)


async def test_all_are_held(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    other = await lab.client()
    b, a = Lock(zk, "/b"), Lock(zk, "/a")
    async with MultiLock([b, a]) as (of_b, of_a):
        assert of_a.path.startswith("/a/")
        assert of_b.path.startswith("/b/")
        assert of_a.token < of_b.token, "the order of paths"
        for path in ("/a", "/b"):
            with pytest.raises(WouldBlock):
                await Lock(other, path).acquire(wait=False)
        await zk.multi([of_a.fence(), of_b.fence(), SetData("/", b"moved")])
    await free(lab, zk, other)


async def test_members_of_every_kind(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    members = [
        Semaphore(zk, "/d", 2),
        RWLock(zk, "/b").read(),
        SingleNodeLock(zk, "/c/lock"),
        RWLock(zk, "/a").write(),
        Semaphore(zk, "/b", 1),
    ]
    async with MultiLock(members) as grants:
        assert owned(lab, zk) == ["/a", "/b", "/b/leases", "/c", "/d/leases"]
        assert [grant.path.split("/")[1] for grant in grants] == ["d", "b", "c", "a", "b"]
        async with Lock(zk, "/e"):
            pass
    await free(lab, zk)


async def test_opposite_orders_do_not_block_each_other(autojump_clock: MockClock, lab: Lab) -> None:
    clients = [await lab.client() for _ in range(2)]
    rounds = 0

    async def use(zk: ZooKeeper, paths: str) -> None:
        nonlocal rounds
        for _ in range(5):
            async with MultiLock([Lock(zk, f"/{path}") for path in paths]):
                rounds += 1
                await trio.sleep(0.1)

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(use, clients[0], "abc")
            nursery.start_soon(use, clients[1], "cba")
    assert rounds == 10
    await free(lab, *clients)


async def test_the_first_failure_ends_it(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    await zk.create("/b", acl=[ACL(Perms.ALL & ~Perms.CREATE, EVERYBODY)])
    with pytest.raises(NoAuthError):
        async with MultiLock([Lock(zk, "/c"), Lock(zk, "/b"), Lock(zk, "/a")]):
            raise AssertionError
    created = {entry.path for entry in lab.server.history(kind="request", op="create")}
    assert any(path.startswith("/a/") for path in created)
    assert not any(path.startswith("/c") for path in created), "the others are not even tried"
    await free(lab, zk)


async def test_nowait(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    other = await lab.client()
    both = MultiLock([Lock(zk, "/a"), Lock(zk, "/b")])
    async with Lock(other, "/b"):
        with pytest.raises(WouldBlock):
            await both.acquire(wait=False)
        async with Lock(other, "/a").nowait():
            pass
    async with both.nowait() as grants:
        assert len(grants) == 2
    await free(lab, zk, other)


async def test_the_manual_form(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    grants = await MultiLock([Lock(zk, "/a"), Lock(zk, "/b")]).acquire()
    with grants.scope():
        await trio.sleep(1)
    await grants.release()
    await free(lab, zk)


@pytest.mark.parametrize("lost", [0, 1, 2])
async def test_the_loss_of_any_cancels_the_body(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, lost: int
) -> None:
    with pytest.raises(LockLost) as caught:
        async with MultiLock([Lock(zk, path) for path in ("/a", "/b", "/c")]) as grants:
            await zk.delete(grants[lost].path)
            await trio.sleep_forever()
    assert (caught.value.path, caught.value.reason) == (grants[lost].path, LossReason.NODE_DELETED)
    assert [grant.lost.is_set() for grant in grants] == [i == lost for i in range(3)]
    await free(lab, zk)


async def test_the_loss_of_all_is_one_error(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    with pytest.raises(LockLost) as caught:
        async with MultiLock([Lock(zk, "/a"), Lock(zk, "/b")]) as grants:
            lab.server.expire(zk.session.id)
            await trio.sleep_forever()
    assert caught.value.path == grants[1].path
    assert any("/a/" in note for note in caught.value.__notes__)
    await zk.session.wait_connected()
    await free(lab, zk)


async def test_a_loss_while_waiting_for_the_next_ends_the_wait(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    other = await lab.client()
    async with Lock(other, "/b"), trio.open_nursery() as nursery:

        async def delete() -> None:
            await trio.sleep(1)
            [name] = await zk.get_children("/a")
            await zk.delete(f"/a/{name}")

        nursery.start_soon(delete)
        with pytest.raises(LockLost) as caught:
            await MultiLock([Lock(zk, "/a"), Lock(zk, "/b")]).acquire()
        assert caught.value.path.startswith("/a/")
        assert owned(lab, zk) == []
    await free(lab, zk, other)


@pytest.mark.parametrize("seconds", [0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5])
async def test_cancelled_at_every_step(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, seconds: float
) -> None:
    await zk.create("/a")
    await zk.create("/b")
    with lab.server.fault(session=zk.session.id, when="after", action="delay", seconds=1, times=None):
        with trio.move_on_after(seconds) as scope:
            async with MultiLock([Lock(zk, "/a"), Lock(zk, "/b")]):
                await trio.sleep_forever()
        assert scope.cancelled_caught
    await trio.sleep(5)
    await free(lab, zk)


async def test_they_are_released_in_reverse_whatever_goes_wrong(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, caplog: pytest.LogCaptureFixture
) -> None:
    for path in ("/a", "/c"):
        await zk.create(path, acl=[ACL(Perms.ALL & ~Perms.DELETE, EVERYBODY)])
    with caplog.at_level(logging.CRITICAL), pytest.raises(NoAuthError) as caught:
        async with MultiLock([Lock(zk, path) for path in ("/c", "/b", "/a")]):
            pass
    assert str(caught.value.path).startswith("/c/")
    [note] = caught.value.__notes__
    assert "/a/" in note
    deleted = [entry.path for entry in lab.server.history(kind="request", op="delete")]
    assert [path[:2] for path in deleted] == ["/c", "/b", "/a"]
    assert owned(lab, zk) == ["/a", "/c"]


async def test_what_cannot_be_released_does_not_hide_why_it_had_to_be(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, caplog: pytest.LogCaptureFixture
) -> None:
    await zk.create("/a", acl=[ACL(Perms.ALL & ~Perms.DELETE, EVERYBODY)])
    other = await lab.client()
    async with Lock(other, "/b"):
        with caplog.at_level(logging.CRITICAL), pytest.raises(WouldBlock) as caught:
            await MultiLock([Lock(zk, "/a"), Lock(zk, "/b")]).acquire(wait=False)
    assert any("NoAuthError" in note for note in caught.value.__notes__)


async def test_the_manual_release_says_what_was_lost(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    grants = await MultiLock([Lock(zk, "/a"), Lock(zk, "/b")]).acquire()
    await zk.delete(grants[0].path)
    await grants[0].lost.wait()
    with pytest.raises(LockLost) as caught:
        await grants.release()
    assert caught.value.path == grants[0].path
    await free(lab, zk)


async def test_the_own_exception_of_the_body_comes_out_as_it_is(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    with pytest.raises(ZeroDivisionError):
        async with MultiLock([Lock(zk, "/a"), Lock(zk, "/b")]):
            raise ZeroDivisionError
    await free(lab, zk)


async def test_one_at_a_path(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    for pair in (
        [Lock(zk, "/a"), Lock(zk, "/a")],
        [RWLock(zk, "/a").read(), RWLock(zk, "/a").write()],
        [Semaphore(zk, "/a", 2), Semaphore(zk, "/a", 2)],
    ):
        with pytest.raises(ValueError, match="would wait for the other"):
            MultiLock(pair)


async def test_one_that_the_task_holds_already(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    lock = Lock(zk, "/b")
    async with lock:
        with pytest.raises(Deadlock):
            await MultiLock([Lock(zk, "/a"), lock]).acquire()
        assert owned(lab, zk) == ["/b"]
    reentrant = Lock(zk, "/b", reentrant=True)
    async with reentrant, MultiLock([Lock(zk, "/a"), reentrant]):
        assert owned(lab, zk) == ["/b", "/a"]
    await free(lab, zk)
