"""The znode outlives its owner by its time, and no longer."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from pyzk.client import ACL, Id, NoAuthError, Perms, UnimplementedError, ZooKeeper
from pyzk.recipes.membership.ttl_node import TtlNode

from ...support.lab import Lab, open_lab

REAPED = 61.0
"""Seconds within which the server has looked for what has outlived its time."""


async def test_it_lives_as_long_as_its_owner(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    async with TtlNode(zk, "/a/node", data=b"data", ttl=10) as node:
        await node.ready()
        czxid = (await zk.get("/a/node"))[1].czxid
        await trio.sleep(500)
        data, stat = await zk.get("/a/node")
        assert (data, stat.czxid) == (b"data", czxid)
    assert await zk.exists("/a/node") is not None, "leaving the block deletes nothing"
    await trio.sleep(2 * (10 + REAPED))  # first the child, then the znode
    assert await zk.exists("/a/node") is None
    assert (zk.watch_count, lab.watch_count) == (0, 0)


async def test_it_outlives_the_session(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    async with TtlNode(zk, "/node", data=b"data", ttl=100) as node:
        await node.ready()
        lab.cut_off(zk)
        await trio.sleep(50)
        assert "/node" in lab.server.dump()
        lab.let_through(zk)
        await trio.sleep(500)
        assert "/node" in lab.server.dump(), "the next session goes on"
        assert zk.session.generation == 2


@pytest.mark.row("E-45")
async def test_both_znodes_are_created_together(  # CURATOR GH-1260
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    async with TtlNode(zk, "/node", ttl=10) as node:
        await node.ready()
        first, second = await zk.exists("/node"), await zk.exists("/node/touch")
        assert first is not None
        assert second is not None
        assert first.czxid == second.czxid
        nodes = lab.server.dump("/node", form="nodes")
        assert {node.kind for node in nodes.values()} == {"ttl"}
        assert {node.ttl for node in nodes.values()} == {10_000}


async def test_touching_is_all_it_costs(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    async with TtlNode(zk, "/node", ttl=10) as node:
        await node.ready()
        before = lab.requests(zk)
        await trio.sleep(101)
        assert lab.requests(zk) - before == {"set_data": 20}


@pytest.mark.row("F15")
@pytest.mark.parametrize("path", ["/node", "/node/touch"])
async def test_an_operator_deletes_it(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, path: str) -> None:
    async with TtlNode(zk, "/node", data=b"data", ttl=100) as node:
        await node.ready()
        await zk.delete(path, recursive=True)
        await trio.sleep(51)
        assert set(lab.server.dump()) == {"/node", "/node/touch"}
        await trio.sleep(500)
        assert set(lab.server.dump()) == {"/node", "/node/touch"}


@pytest.mark.row("F11", "F17")
async def test_an_emptied_server(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    async with TtlNode(zk, "/a/node", data=b"data", ttl=100) as node:
        await node.ready()
        lab.server.restart(keep_data=False)
        await trio.sleep(60)
        assert {"/a/node", "/a/node/touch"} <= set(lab.server.dump())


@pytest.mark.row("F1", "F2")
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_lost_connection_while_it_is_created(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, when: str
) -> None:
    with lab.server.fault(op="multi", when=when, action="disconnect"):  # type: ignore[arg-type]
        async with TtlNode(zk, "/node", data=b"data", ttl=10) as node:
            await node.ready()
            assert lab.server.dump() == {"/node": b"data", "/node/touch": b""}


async def test_one_that_is_there_is_taken_over(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    await zk.create("/node", b"old", ttl=10)  # as Curator leaves it behind, without the child
    async with TtlNode(zk, "/node", data=b"new", ttl=10) as node:
        await node.ready()
        assert lab.server.dump() == {"/node": b"new", "/node/touch": b""}
        await node.set_data(b"newer")
        assert lab.server.dump()["/node"] == b"newer"


@pytest.mark.row("F21")
async def test_what_the_server_refuses(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    await zk.create("/a", acl=[ACL(Perms.READ, Id("world", "anyone"))])
    with pytest.raises(NoAuthError):
        async with TtlNode(zk, "/a/node", ttl=10):
            await trio.sleep_forever()


async def test_a_server_that_does_not_allow_it(autojump_clock: MockClock) -> None:
    async with open_lab(extended_types=False) as lab:
        zk = await lab.client()
        with pytest.raises(UnimplementedError):
            async with TtlNode(zk, "/node", ttl=10):
                await trio.sleep_forever()
