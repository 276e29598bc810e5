"""The znode is there for as long as the block lasts, whatever happens, and is gone after it."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from pyzk.client import (
    ACL,
    ClosingError,
    Create,
    CreateMode,
    Delete,
    Id,
    NoAuthError,
    NodeExistsError,
    Perms,
    ZooKeeper,
)
from pyzk.recipes.membership.persistent_node import PersistentNode

from ...support.lab import Lab

LOCKED = [ACL(Perms.READ, Id("world", "anyone"))]
MODES = [CreateMode.EPHEMERAL, CreateMode.PERSISTENT]


async def owner(zk: ZooKeeper, path: str) -> int | None:
    stat = await zk.exists(path)
    return None if stat is None else stat.ephemeralOwner


@pytest.mark.parametrize("mode", MODES)
async def test_it_is_there_for_the_length_of_the_block(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, mode: CreateMode
) -> None:
    async with PersistentNode(zk, "/a/b/node", data=b"data", mode=mode) as node:
        await node.ready()
        assert lab.server.dump()["/a/b/node"] == b"data"
        assert await owner(zk, "/a/b/node") == (zk.session.id if mode is CreateMode.EPHEMERAL else 0)
    assert "/a/b/node" not in lab.server.dump()
    assert (zk.watch_count, lab.watch_count) == (0, 0)


@pytest.mark.row("F15")
@pytest.mark.parametrize("mode", MODES)
async def test_it_is_created_again_when_it_is_deleted(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, mode: CreateMode
) -> None:
    async with PersistentNode(zk, "/node", data=b"data", mode=mode) as node:
        await node.ready()
        for _ in range(3):  # not only after the first event (trap E-45)
            await zk.delete("/node")
            await trio.sleep(1)
            assert lab.server.dump()["/node"] == b"data"


@pytest.mark.row("F8")
async def test_it_is_created_again_in_the_next_session(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    async with PersistentNode(zk, "/node", data=b"data") as node:
        await node.ready()
        lab.server.expire(zk.session.id)
        assert "/node" not in lab.server.dump()
        await zk.session.expired.wait()
        lab.server.refuse_connections()
        await trio.sleep(1)
        with trio.move_on_after(5) as patience:
            await node.ready()
        assert patience.cancelled_caught, "there is no new session yet"
        lab.server.accept_connections()
        await node.ready()
        assert await owner(zk, "/node") == zk.session.id


@pytest.mark.row("F14")
async def test_it_is_created_again_after_a_partition(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    other = await lab.client()
    async with PersistentNode(zk, "/node", data=b"data") as node:
        await node.ready()
        lab.cut_off(zk)
        await trio.sleep(30)
        assert await owner(other, "/node") is None
        lab.let_through(zk)
        await trio.sleep(5)
        assert await owner(other, "/node") == zk.session.id


@pytest.mark.row("F10")
async def test_a_restarted_server_changes_nothing(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    async with PersistentNode(zk, "/node", data=b"data") as node:
        await node.ready()
        before = await zk.exists("/node")
        lab.server.restart(keep_data=True)
        await trio.sleep(5)
        after = await zk.exists("/node")
        assert before is not None
        assert after is not None
        assert before.czxid == after.czxid


@pytest.mark.row("F11")
@pytest.mark.parametrize("mode", MODES)
async def test_it_is_created_again_on_an_emptied_server(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, mode: CreateMode
) -> None:
    async with PersistentNode(zk, "/a/node", data=b"data", mode=mode) as node:
        await node.ready()
        lab.server.restart(keep_data=False)
        await trio.sleep(60)
        assert lab.server.dump()["/a/node"] == b"data"


@pytest.mark.row("F17")
async def test_its_parent_is_created_again(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    async with PersistentNode(zk, "/a/node") as node:
        await node.ready()
        await zk.delete("/a", recursive=True)
        await trio.sleep(1)
        assert "/a/node" in lab.server.dump()


@pytest.mark.row("F1", "F2")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_lost_connection_while_it_is_created(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, mode: CreateMode, when: str
) -> None:
    await zk.create("/a")
    with lab.server.fault(op="create", path="/a/node", when=when, action="disconnect"):  # type: ignore[arg-type]
        async with PersistentNode(zk, "/a/node", data=b"data", mode=mode) as node:
            await node.ready()
            assert lab.server.dump()["/a/node"] == b"data"
    assert "/a/node" not in lab.server.dump()


@pytest.mark.row("F6")
async def test_a_session_that_expires_while_it_is_created(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    with lab.server.fault(op="create", path="/node", when="before", action="drop_reply"):
        async with PersistentNode(zk, "/node", data=b"data") as node:
            await trio.sleep(1)
            lab.server.expire(zk.session.id)
            await node.ready()
            assert await owner(zk, "/node") == zk.session.id


@pytest.mark.row("F4", "F5")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_lost_connection_while_it_is_deleted(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, mode: CreateMode, when: str
) -> None:
    with lab.server.fault(op="delete", path="/node", when=when, action="disconnect"):  # type: ignore[arg-type]
        async with PersistentNode(zk, "/node", data=b"data", mode=mode) as node:
            await node.ready()
        await trio.sleep(2)
    assert "/node" not in lab.server.dump()


@pytest.mark.row("F9")
@pytest.mark.parametrize("mode", MODES)
async def test_the_block_is_left_while_cut_off(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, mode: CreateMode
) -> None:
    async with PersistentNode(zk, "/node", data=b"data", mode=mode) as node:
        await node.ready()
        lab.cut_off(zk)
        await trio.sleep(30)
        before = trio.current_time()
    assert trio.current_time() == before, "there is nothing to wait for"
    lab.let_through(zk)
    await trio.sleep(5)
    assert zk.session.generation == 2
    assert "/node" not in lab.server.dump(), "deleted in the next session if need be"


@pytest.mark.row("F9")
async def test_the_block_is_left_as_the_session_expires(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    async with PersistentNode(zk, "/node", data=b"data") as node:
        await node.ready()
        lab.server.expire(zk.session.id)
    await trio.sleep(5)
    assert "/node" not in lab.server.dump()


@pytest.mark.row("F20")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("op", ["create", "exists"])
@pytest.mark.parametrize("tenths", range(0, 30, 5))
async def test_a_cancelled_block_leaves_nothing(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, mode: CreateMode, op: str, tenths: int
) -> None:
    await zk.create("/a")
    fault = lab.server.fault(op=op, path="/a/node", when="after", action="delay", seconds=1, required=False)
    with fault, trio.move_on_after(tenths / 10):
        async with PersistentNode(zk, "/a/node", data=b"data", mode=mode) as node:
            await node.ready()
            await trio.sleep_forever()
    await trio.sleep(3)
    await zk.cleanup.idle()
    assert "/a/node" not in lab.server.dump()
    assert (zk.watch_count, lab.watch_count) == (0, 0)


@pytest.mark.row("F21")
async def test_what_the_server_refuses_ends_the_block(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    await zk.create("/a", acl=LOCKED)
    with pytest.raises(NoAuthError):
        async with PersistentNode(zk, "/a/node"):
            await trio.sleep_forever()
    assert (await zk.exists("/a")) is not None, "the client lives"


async def test_a_znode_that_may_not_be_deleted(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    await zk.create("/a")
    with pytest.raises(NoAuthError):
        async with PersistentNode(zk, "/a/node") as node:
            await node.ready()
            await zk.set_acl("/a", LOCKED)


async def test_the_users_exception_comes_out_as_it_is(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    with pytest.raises(ValueError, match="mine") as caught:
        async with PersistentNode(zk, "/node") as node:
            await node.ready()
            raise ValueError("mine")
    assert not hasattr(caught.value, "__notes__")
    assert "/node" not in lab.server.dump()


async def test_the_users_exception_comes_before_ours(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    await zk.create("/a", acl=LOCKED)
    with pytest.raises(ValueError, match="mine") as caught:
        async with PersistentNode(zk, "/a/node"):
            try:
                await trio.sleep_forever()
            finally:
                raise ValueError("mine")
    assert any("NoAuthError" in note for note in caught.value.__notes__)


async def test_the_client_closes(autojump_clock: MockClock, lab: Lab) -> None:
    raised = []

    async def keep(own: ZooKeeper, task_status: trio.TaskStatus[None]) -> None:
        try:
            async with PersistentNode(own, "/node") as node:
                await node.ready()
                task_status.started()
                await trio.sleep_forever()
        except ClosingError as error:
            raised.append(error)

    async with trio.open_nursery() as nursery, lab.connect() as own:
        await nursery.start(keep, own)
    assert len(raised) == 1
    with pytest.raises(ClosingError):
        async with PersistentNode(own, "/node"):
            pass


# --- data ------------------------------------------------------------------------------------------------


async def test_data_are_changed(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    async with PersistentNode(zk, "/node", data=b"old") as node:
        await node.set_data(b"new")
        assert lab.server.dump()["/node"] == b"new"
        await zk.delete("/node")
        await trio.sleep(1)
        assert lab.server.dump()["/node"] == b"new"


@pytest.mark.row("E-45")
async def test_data_are_changed_while_cut_off(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    async with PersistentNode(zk, "/node", data=b"old") as node:
        await node.ready()
        lab.cut_off(zk)
        with trio.move_on_after(30) as patience:
            await node.set_data(b"new")
        assert patience.cancelled_caught
        lab.let_through(zk)
        await trio.sleep(5)
        assert lab.server.dump()["/node"] == b"new"


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_lost_connection_while_data_are_changed(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, when: str
) -> None:
    async with PersistentNode(zk, "/node", data=b"old") as node:
        await node.ready()
        with lab.server.fault(op="set_data", when=when, action="disconnect"):  # type: ignore[arg-type]
            await node.set_data(b"new")
        assert lab.server.dump()["/node"] == b"new"


async def test_what_others_write_is_left_alone(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    other = await lab.client()
    async with PersistentNode(zk, "/node", data=b"ours") as node:
        await node.ready()
        await other.set("/node", b"theirs")
        await trio.sleep(1)
        assert lab.server.dump()["/node"] == b"theirs"


# --- conflicts -------------------------------------------------------------------------------------------


async def test_it_waits_for_another_owner(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    other = await lab.client()
    await other.create("/node", b"theirs", ephemeral=True)
    async with PersistentNode(zk, "/node", data=b"ours") as node:
        with trio.move_on_after(5) as patience:
            await node.ready()
        assert patience.cancelled_caught
        creates = lab.requests(zk)["create2"]
        await other.set("/node", b"changed")
        await trio.sleep(1)
        assert lab.requests(zk)["create2"] == creates, "a change is no reason to try (trap E-63)"
        await other.delete("/node")
        await node.ready()
        assert lab.server.dump()["/node"] == b"ours"


async def test_one_who_gives_up_leaves_the_others_znode(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    async with PersistentNode(zk, "/node", data=b"first") as first:
        await first.ready()
        async with PersistentNode(zk, "/node", data=b"second"):  # in the same session, even
            await trio.sleep(5)
        assert lab.server.dump()["/node"] == b"first"
        assert lab.server.history(kind="request", op="delete") == []


@pytest.mark.parametrize("same_session", [False, True])
async def test_one_that_another_has_put_in_its_place(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, same_session: bool
) -> None:
    other = zk if same_session else await lab.client()
    replace = [Delete("/node"), Create("/node", b"theirs", ephemeral=True)]
    async with PersistentNode(zk, "/node", data=b"ours") as node:
        await node.ready()
        await other.multi(replace)
        with trio.move_on_after(5) as patience:
            await node.set_data(b"new")
        assert patience.cancelled_caught
        assert lab.server.dump()["/node"] == b"theirs"
        await other.delete("/node")
        await node.ready()
        await trio.sleep(1)
        assert lab.server.dump()["/node"] == b"new"


async def test_what_another_has_put_in_its_place_is_not_deleted(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    other = await lab.client()
    async with PersistentNode(zk, "/node", data=b"ours") as node:
        await node.ready()
        lab.cut_off(zk)
        await other.multi([Delete("/node"), Create("/node", b"theirs", ephemeral=True)])
    lab.let_through(zk)
    await trio.sleep(30)
    await zk.cleanup.idle()
    assert lab.server.dump()["/node"] == b"theirs"


async def test_takeover_replaces_the_znode_of_another(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    other = await lab.client()
    await other.create("/node", b"theirs", ephemeral=True)
    async with PersistentNode(zk, "/node", data=b"ours", conflict="takeover") as node:
        await node.ready()
        assert await owner(zk, "/node") == zk.session.id, "created, not just written"
        assert lab.server.dump()["/node"] == b"ours"


async def test_on_request_a_znode_of_another_is_an_error(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    other = await lab.client()
    await other.create("/node", b"theirs", ephemeral=True)
    with pytest.raises(NodeExistsError):
        async with PersistentNode(zk, "/node", data=b"ours", conflict="raise"):
            await trio.sleep_forever()
    assert lab.server.dump()["/node"] == b"theirs"


@pytest.mark.row("E-04", "E-45")
async def test_a_znode_of_an_earlier_session_is_not_taken_for_ours(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    earlier = await lab.client()
    await earlier.create("/node", b"old", ephemeral=True)
    node = PersistentNode(zk, "/node", data=b"new", conflict="raise")
    node._sessions.add(earlier.session.id)  # a follower that lags behind may still show it
    async with node:
        await node.ready()
        lab.server.expire(earlier.session.id)
        await trio.sleep(5)
        assert await owner(zk, "/node") == zk.session.id


async def test_a_persistent_znode_that_is_there_is_taken_over(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    await zk.create("/node", b"left over")
    async with PersistentNode(
        zk, "/node", data=b"ours", mode=CreateMode.PERSISTENT, conflict="raise"
    ) as node:
        await node.ready()
        assert lab.server.dump()["/node"] == b"ours"
    assert "/node" not in lab.server.dump()


# --- the rest --------------------------------------------------------------------------------------------


@pytest.mark.row("E-45")
async def test_a_sequential_one_keeps_its_number(  # and its name does not grow
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    await zk.create("/a")
    mode = CreateMode.EPHEMERAL_SEQUENTIAL
    with lab.server.fault(op="create", path="/a/*", when="after", action="disconnect"):
        async with PersistentNode(zk, "/a/node-", data=b"data", mode=mode) as node:
            await node.ready()
            path = node.path
            assert path.startswith("/a/_c_")
            assert path.endswith("-node-0000000000")
            await zk.delete(path)
            await trio.sleep(1)
            lab.server.expire(zk.session.id)
            await trio.sleep(5)
            assert await zk.get_children("/a") == [path.removeprefix("/a/")]
    assert await zk.get_children("/a") == []


async def test_it_cannot_be_entered_twice(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    node = PersistentNode(zk, "/node")
    async with node:
        with pytest.raises(RuntimeError):
            async with node:
                pass
        await node.ready()
    async with node:
        await node.ready()
    with pytest.raises(RuntimeError):
        await node.ready()


async def test_tasks_that_wait_for_the_znode_are_told_of_the_end(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    await zk.create("/node")
    told = []

    async def wait(node: PersistentNode) -> None:
        with pytest.raises(RuntimeError):
            await node.ready()
        told.append(node)

    async with trio.open_nursery() as nursery, PersistentNode(zk, "/node") as node:
        nursery.start_soon(wait, node)
        await trio.sleep(1)
    assert told == [node]


async def test_what_cannot_be_kept() -> None:
    with pytest.raises(ValueError, match="CONTAINER"):
        PersistentNode(None, "/node", data=b"", mode=CreateMode.CONTAINER)  # type: ignore[arg-type]
