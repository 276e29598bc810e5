"""Our parties and persistent nodes and Apache Curator's at one path (recipe-rules.md B.10, D.11)."""

from __future__ import annotations

import pytest
import trio

from pyzk.client import NodeExistsError, connect
from pyzk.recipes.membership.party import Party
from pyzk.recipes.membership.persistent_node import PersistentNode
from pyzk.recipes.membership.ttl_node import TtlNode
from pyzk.server.testing import EmbeddedServer

from ....support.waiting import until
from .process import CuratorProcess, Remote


async def their_members(group: Remote, expected: list[str]) -> None:
    """Wait until Curator sees these, by way of its cache."""

    async def seen() -> bool:
        return bool(await group("members") == expected)

    await until(seen)


async def test_a_group_of_both(hosts: str, curator: CuratorProcess) -> None:
    async with connect(hosts) as zk, curator.client(hosts) as client:
        party = Party(zk, "/group", "ours", data=b"1", layout="curator-group")
        changes = party.changes()
        async with party:
            assert {member.id for member in (await anext(changes)).joined} == {"ours"}
            theirs = await client.make("group", "/group", "theirs", b"2")
            await theirs("start")
            assert {member.id for member in (await anext(changes)).joined} == {"theirs"}
            assert [(member.id, member.data) for member in await party.members()] == [
                ("ours", b"1"),
                ("theirs", b"2"),
            ]
            await their_members(theirs, ["ours", "theirs"])
            assert await theirs("data", "ours") == b"1"
        await their_members(theirs, ["theirs"])
        assert {member.id for member in (await anext(changes)).left} == {"ours"}
        await theirs("close")
        assert {member.id for member in (await anext(changes)).left} == {"theirs"}


async def test_curators_session_expires(server: EmbeddedServer, curator: CuratorProcess) -> None:
    """It leaves, and joins again."""
    async with connect(server.hosts) as zk, curator.client(server.hosts) as client:
        theirs = await client.make("group", "/group", "theirs", b"")
        await theirs("start")
        changes = Party(zk, "/group", layout="curator-group").changes()
        await anext(changes)
        # Until we have seen it leave: whoever comes back before that has never been away.
        with server.fault(op="create", path="/group/theirs", action="delay", seconds=3600) as fault:
            server.expire(client.session)
            assert {member.id for member in (await anext(changes)).left} == {"theirs"}
            await trio.to_thread.run_sync(fault.wait)
            server.clock.advance(3600, keep_alive=True)
            assert {member.id for member in (await anext(changes)).joined} == {"theirs"}


async def test_our_session_expires(server: EmbeddedServer, curator: CuratorProcess) -> None:
    async with (
        connect(server.hosts, on_expired="new_session") as zk,
        curator.client(server.hosts) as client,
        Party(zk, "/group", "ours", layout="curator-group"),
    ):
        theirs = await client.make("group", "/group", "theirs", b"")
        await theirs("start")
        await their_members(theirs, ["ours", "theirs"])
        before = zk.session.id
        server.expire(before)
        await until(lambda: server.dump("/group", form="nodes").get("/group/ours"))
        await their_members(theirs, ["ours", "theirs"])
        assert server.dump("/group", form="nodes")["/group/ours"].owner not in (before, client.session)


async def test_we_do_not_take_curators_node_for_ours(server: EmbeddedServer, curator: CuratorProcess) -> None:
    """But wait until it is gone. Curator writes to ours, and leaves it to us."""
    async with connect(server.hosts) as zk, curator.client(server.hosts) as client:
        theirs = await client.make("persistent_node", "/node", "EPHEMERAL", b"theirs")
        await theirs("start")
        with pytest.raises(NodeExistsError):
            async with PersistentNode(zk, "/node", data=b"ours", conflict="raise") as ours:
                await ours.ready()
        async with PersistentNode(zk, "/node", data=b"ours") as ours:
            await until(lambda: [s for s in server.sessions() if s.id == zk.session.id and s.watches])
            assert server.dump(form="nodes")["/node"].owner == client.session
            await theirs("close")
            await ours.ready()
            assert await zk.get("/node") == (b"ours", await zk.exists("/node"))

            again = await client.make("persistent_node", "/node", "EPHEMERAL", b"theirs")
            assert await again("start") is True
            data, stat = await zk.get("/node")
            assert (data, stat.ephemeralOwner) == (b"theirs", zk.session.id)
            await ours.set_data(b"ours again")
            assert (await zk.get("/node"))[0] == b"ours again"


async def test_each_brings_a_deleted_node_back(server: EmbeddedServer, curator: CuratorProcess) -> None:
    """Whoever is faster; the other lets it be."""
    async with connect(server.hosts) as zk, curator.client(server.hosts) as client:
        async with PersistentNode(zk, "/node", data=b"same") as ours:
            await ours.ready()
            theirs = await client.make("persistent_node", "/node", "EPHEMERAL", b"same")
            await theirs("start")
            for _ in range(3):
                gone = server.dump(form="nodes")["/node"]
                await zk.delete("/node")
                await until(lambda: "/node" in server.dump())
                assert gone.data == b"same"
            owner = server.dump(form="nodes")["/node"].owner
            assert owner in (zk.session.id, client.session)
        # Theirs stays or comes back once ours is gone.
        await until(lambda: (node := server.dump(form="nodes").get("/node")) and node.owner == client.session)


async def test_a_ttl_node(server: EmbeddedServer, curator: CuratorProcess) -> None:
    """Either keeps the other's in being. Curator's is a container, of which only the child has a TTL."""
    async with connect(server.hosts) as zk, curator.client(server.hosts) as client:
        theirs = await client.make("ttl_node", "/node", 300, b"theirs")
        assert await theirs("start") is True
        await until(lambda: "/node/touch" in server.dump())
        nodes = server.dump("/node", form="nodes")
        assert {path: (node.kind, node.ttl, node.data) for path, node in nodes.items()} == {
            "/node": ("container", 0, b"theirs"),
            "/node/touch": ("ttl", 300, await client.remote("default_data")),
        }
        await theirs("close")
        async with TtlNode(zk, "/node", data=b"ours", ttl=0.3) as ours:
            await ours.ready()
            await touched(server)
            assert server.dump()["/node"] == b"ours"
        await zk.delete("/node", recursive=True)

        async with TtlNode(zk, "/node", data=b"ours", ttl=0.3) as ours:
            await ours.ready()
            assert list(server.dump("/node")) == ["/node", "/node/touch"]
        again = await client.make("ttl_node", "/node", 300, b"theirs")
        await again("start")
        await touched(server)
        assert server.dump()["/node"] == b"theirs"


async def touched(server: EmbeddedServer) -> None:
    """Wait until the TTL node is touched once more."""
    count = len(server.history(kind="request", op="set_data", path="/node/touch"))
    await until(lambda: len(server.history(kind="request", op="set_data", path="/node/touch")) > count)
