"""Caches, kept znodes, TTL znodes and reconnects over TCP, on our server and on a real one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import trio

from pyzk.client import SessionState, ZooKeeper, connect
from pyzk.client.tcp import TcpStream
from pyzk.protocol.operations import OpCode
from pyzk.recipes import Lock
from pyzk.recipes.caches.cache import TreeCache
from pyzk.recipes.membership.persistent_node import PersistentNode
from pyzk.recipes.membership.ttl_node import TtlNode

from ...support.lines import cut
from ...support.waiting import PATIENCE, until


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
        # With 1 s, a server that is late deletes the znode after the end of the block.
        async with PersistentNode(zk, "/app/node", data=b"data", cleanup_grace=PATIENCE) as node:
            await node.ready()
            await other.delete("/app/node")
            await until(lambda: other.exists("/app/node"))
        await other.sync()
        assert await other.exists("/app/node") is None


async def test_a_ttl_znode_and_its_child_come_together(hosts: str) -> None:
    async with connect(hosts) as zk, TtlNode(zk, "/node", data=b"data", ttl=60) as node:
        await node.ready()
        parent, child = await zk.exists("/node"), await zk.exists("/node/touch")
        assert parent is not None
        assert child is not None
        assert parent.czxid == child.czxid


class Line:
    """A client's way to the server, which can be cut."""

    def __init__(self) -> None:
        self._whole = trio.Event()
        self._whole.set()
        self._streams: list[TcpStream] = []

    async def connect(self, host: str, port: int) -> TcpStream:
        await self._whole.wait()
        stream = await TcpStream.open(host, port)
        self._streams.append(stream)
        return stream

    @asynccontextmanager
    async def cut(self, zk: ZooKeeper) -> AsyncIterator[None]:
        """The client has no connection while the block runs. Then it has one again."""
        self._whole = trio.Event()
        for stream in self._streams:
            cut(stream)
        await until(lambda: zk.session.state is SessionState.SUSPENDED)
        yield
        self._whole.set()
        await zk.session.wait_connected()
        await zk.sync()  # behind the answer to the arming of the watches


async def test_a_waiter_asks_only_when_its_predecessor_has_changed(hosts: str) -> None:
    line, name = Line(), f"/x/{'0' * 32}__lock__0000000000"
    async with connect(hosts, connector=line.connect) as zk, connect(hosts) as other:
        await other.create("/x")
        await other.create(name)  # whoever it is, with the first of all numbers
        granted = trio.Event()

        async def contend() -> None:
            async with Lock(zk, "/x"):
                granted.set()

        def lists() -> int:
            return zk.metrics.requests[OpCode.GET_CHILDREN]

        async def asks(change: Callable[[], Awaitable[object]], times: int) -> None:
            before = lists()
            async with line.cut(zk):
                await change()
            await until(lambda: lists() >= before + times)
            await trio.sleep(0.1)  # for one that is too many
            assert lists() == before + times

        async def create_again() -> None:
            await other.delete(name)
            await other.create(name)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(contend)
            await until(lambda: zk.watch_count == 2)
            await asks(trio.lowlevel.checkpoint, 0)
            await asks(partial(other.create, "/x/x-1-0000000009"), 0)
            await asks(create_again, 1)
            assert not granted.is_set()
            await asks(partial(other.delete, name), 1)
            await until(granted.is_set)
