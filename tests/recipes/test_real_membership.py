"""Caches, kept znodes and TTL znodes over TCP, on our server and on a real one."""

from __future__ import annotations

from pyzk.client import connect
from pyzk.recipes.caches.cache import TreeCache
from pyzk.recipes.membership.persistent_node import PersistentNode
from pyzk.recipes.membership.ttl_node import TtlNode

from .interop import until


async def test_a_cache_follows(hosts: str) -> None:
    async with connect(hosts) as zk, connect(hosts) as other, TreeCache(zk, "/app") as cache:
        await cache.synced()
        for path in ["/app", "/app/a", "/app/a/b"]:
            await other.create(path, b"1")
        await until(lambda: sorted(cache.nodes) == ["/app", "/app/a", "/app/a/b"])
        await other.delete("/app/a", recursive=True)
        await other.set("/app", b"2")
        await until(lambda: [(node.path, node.data) for node in cache.nodes.values()] == [("/app", b"2")])


async def test_a_kept_znode_comes_back(hosts: str) -> None:
    async with connect(hosts) as zk, connect(hosts) as other:
        async with PersistentNode(zk, "/app/node", b"data") as node:
            await node.ready()
            await other.delete("/app/node")
            await until(lambda: other.exists("/app/node"))
        await other.sync()
        assert await other.exists("/app/node") is None


async def test_a_ttl_znode_and_its_child_come_together(hosts: str) -> None:
    async with connect(hosts) as zk, TtlNode(zk, "/node", b"data", ttl=60) as node:
        await node.ready()
        parent, child = await zk.exists("/node"), await zk.exists("/node/touch")
        assert parent is not None
        assert child is not None
        assert parent.czxid == child.czxid
