"""Caches and watched znodes on ours, on a real server and on a real ensemble."""

from __future__ import annotations

import trio

from pyzk.recipes import CacheEventType, ChildrenCache, NodeCache, TreeCache, watch_children, watch_node

from ...support.waiting import until
from .scene import Clients


async def test_caches_follow(clients: Clients) -> None:
    zk, other, _ = clients
    await other.create("/app", b"0")
    await other.create("/app/a/b", b"1", make_parents=True)
    await zk.sync()
    async with (
        NodeCache(zk, "/app") as node,
        ChildrenCache(zk, "/app") as below,
        TreeCache(zk, "/app", selector=lambda path: not path.endswith("secret")) as tree,
    ):
        caches = (node, below, tree)
        for cache in caches:
            await cache.synced()
        assert [sorted(cache.nodes) for cache in caches] == [
            ["/app"],
            ["/app", "/app/a"],
            ["/app", "/app/a", "/app/a/b"],
        ]
        events = tree.events()
        kinds = [(event.type, event.path) for event in [await anext(events) for _ in range(4)]]
        assert sorted(path for kind, path in kinds if kind is CacheEventType.ADDED) == sorted(tree.nodes)
        assert kinds[-1] == (CacheEventType.SYNCED, "/app")
        await other.create("/app/secret/c", b"?", make_parents=True)
        await other.set("/app", b"2")
        await until(lambda: all(cache["/app"].data == b"2" for cache in caches))
        await other.delete("/app/a/b")
        await other.create("/app/a/b", b"3")
        await until(lambda: tree["/app/a/b"].data == b"3" if "/app/a/b" in tree else False)
        await other.delete("/app/a", recursive=True)
        await until(lambda: [len(cache.nodes) for cache in caches] == [1, 2, 1])
        assert below.children("/app") == ["secret"]
        held = {path: each.data for path, each in tree.nodes.items()}
    told: dict[str, bytes | None] = dict.fromkeys(path for _, path in kinds)
    async for event in events:
        if event.new is not None:
            told[event.path] = event.new.data
        elif event.type is CacheEventType.REMOVED:
            del told[event.path]
    assert told == held == {"/app": b"2"}


async def test_watching_a_znode_and_its_children(clients: Clients) -> None:
    zk, other, _ = clients
    nodes, names = watch_node(zk, "/a"), watch_children(zk, "/a")
    assert await anext(nodes) == (None, None)
    assert await anext(names) is None
    for data, child in ((b"1", "x"), (b"2", "y")):
        if data == b"1":
            await other.create("/a", data)
        else:
            await other.set("/a", data)
        found, stat = await anext(nodes)
        assert (found, stat.version if stat else None) == (data, int(data) - 1)
        await other.create(f"/a/{child}")
        with trio.fail_after(10):
            async for listed in names:
                if listed and child in listed:
                    break
    assert listed == ["x", "y"]
    await other.delete("/a", recursive=True)
    with trio.fail_after(10):
        async for _, stat in nodes:
            if stat is None:
                break
