"""Parties and kept znodes on ours, on a real server and on a real ensemble."""

from __future__ import annotations

from contextlib import suppress

import pytest
import trio

from pyzk.client import NoNodeError, connect
from pyzk.recipes import Party, PersistentNode, TtlNode

from ...support.waiting import until
from ..ending import end_session
from .scene import Clients, children, servers, stay


@pytest.mark.parametrize("layout", ["kazoo", "kazoo-shallow", "curator-group"])
async def test_a_party(clients: Clients, layout: str) -> None:
    a, b, looker = (
        Party(zk, "/dir/party", id, layout=layout)  # type: ignore[arg-type]
        for zk, id in zip(clients, ["a", "b", ""], strict=True)
    )
    changes = looker.changes()
    async with trio.open_nursery() as nursery:
        assert await looker.members() == []
        one = stay(nursery, a)
        await one.entered()
        change = await anext(changes)
        assert ([member.id for member in change.joined], change.left) == (["a"], frozenset())
        async with b:
            change = await anext(changes)
            assert ([member.id for member in change.joined], change.left) == (["b"], frozenset())
            assert sorted(member.id for member in await looker.members()) == ["a", "b"]
        change = await anext(changes)
        assert (change.joined, [member.id for member in change.left]) == (frozenset(), ["b"])
        await one.leave()


async def test_a_node_that_stays(chroot: str, clients: Clients) -> None:
    other = clients[1]

    async def held(data: bytes) -> bool:
        with suppress(NoNodeError):
            return (await other.get("/dir/node"))[0] == data
        return False

    async with (
        connect(servers(chroot)[0], on_expired="new_session") as zk,
        PersistentNode(zk, "/dir/node", data=b"1") as node,
    ):
        await node.ready()
        await other.sync()
        await other.delete("/dir/node")
        await until(lambda: held(b"1"))
        await node.set_data(b"2")
        await until(lambda: held(b"2"))
        await end_session(chroot, zk)
        await other.sync()
        await until(lambda: held(b"2"))
        stat = await other.exists("/dir/node")
        assert stat is not None
        assert stat.ephemeralOwner == zk.session.id
        assert zk.session.generation == 2
    await other.sync()
    assert await other.exists("/dir/node") is None


async def test_a_node_that_outlives(clients: Clients) -> None:
    zk, other, _ = clients
    async with TtlNode(zk, "/dir/node", data=b"1", ttl=60) as node:
        await node.ready()
        await node.set_data(b"2")
        await other.sync()
        await other.delete("/dir/node", recursive=True)

        async def again() -> bool:
            stats = [await other.exists(path) for path in ("/dir/node", "/dir/node/touch")]
            return None not in stats

        await until(again)
    async with TtlNode(other, "/dir/node", data=b"3", ttl=60) as node:
        await node.ready()
        data, stat = await other.get("/dir/node")
        assert data == b"3"
        assert stat.ephemeralOwner in (0, -(1 << 56) + 60_000), "the TTL shows in the owner of real servers"
    assert await children(zk, "/dir/node") == ["touch"]
