"""Whatever happens, a cache ends as the tree does, and its events tell how (recipe-rules.md I-14)."""

from __future__ import annotations

from contextlib import nullcontext, suppress

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from pyzk.client import SessionState, UnimplementedError, ZooKeeper, ZooKeeperError
from pyzk.recipes.caches.cache import Cache
from pyzk.recipes.caches.events import CacheEventType

from ...support.lab import Lab, open_lab
from .replay import Replay

pytestmark = pytest.mark.row("I-14")
ROOT = "/r"
PATHS = [ROOT, "/r/a", "/r/b", "/r/a/x", "/r/a/y", "/r/b/x", "/r/a/x/k", "/other"]
FAULTS = ["cut off", "let through", "disconnect", "expire", "restart", "empty"]
writes = st.tuples(st.sampled_from(["create", "set", "delete", "replace"]), st.sampled_from(PATHS))
faults = st.sampled_from(FAULTS).map(lambda fault: (fault, ""))


# 0 is no time at all: what comes next finds the client busy with what came before.
pauses = st.sampled_from([0.0, 0.0, 0.05, 1.0, 5.0, 30.0])


steps = st.lists(st.tuples(st.one_of(writes, writes, faults), pauses), max_size=40)


async def write(zk: ZooKeeper, kind: str, path: str) -> None:
    with suppress(ZooKeeperError):
        if kind in ("delete", "replace"):
            await zk.delete(path, recursive=True)
        if kind in ("create", "replace"):
            await zk.create(path, b"created")
        if kind == "set":
            await zk.set(path, b"set")


def spoil(lab: Lab, zk: ZooKeeper, fault: str) -> None:
    session = zk.session.id
    known = any(info.id == session for info in lab.server.sessions())
    if fault == "let through":
        lab.let_through(zk)
    elif fault == "restart":
        lab.server.restart(keep_data=True)
    elif fault == "empty":
        lab.server.restart(keep_data=False)
    elif not known:
        pass
    elif fault == "expire":
        lab.server.expire(session)
    elif fault == "disconnect":
        lab.server.disconnect(session)
    elif zk.session.state is SessionState.CONNECTED:
        lab.cut_off(zk)


@given(
    populated=st.booleans(),
    script=steps,
    depth=st.sampled_from([0, 1, None]),
    one_shots=st.booleans(),
    reconnects=st.booleans(),
)
def test_it_ends_as_the_tree_does(
    populated: bool,
    script: list[tuple[tuple[str, str], float]],
    depth: int | None,
    one_shots: bool,
    reconnects: bool,
) -> None:
    async def main() -> None:
        async with open_lab() as lab:
            fault = lab.server.fault(
                op="add_watch", action="error", error=UnimplementedError, times=None, required=False
            )
            with fault if one_shots else nullcontext():
                await run(lab)

    async def run(lab: Lab) -> None:
        if populated:
            lab.server.load(dict.fromkeys(PATHS, b"loaded"))
        zk, writer = await lab.client(), await lab.client(session_timeout=100)
        quick = Replay(emptied=("empty", "") in [action for action, _ in script])
        slow = Replay(quick.emptied)
        async with trio.open_nursery() as nursery, Cache(zk, ROOT, depth) as cache:
            late = cache.events()
            nursery.start_soon(quick.follow, cache.events())
            for (kind, path), pause in script:
                if path:
                    await write(writer, kind, path)
                else:
                    spoil(lab, zk, kind)
                if pause:
                    await trio.sleep(pause)
            lab.let_through(zk)
            if reconnects:
                await trio.sleep(60)
                lab.server.disconnect(zk.session.id)
                await zk.session.wait_change()
                await trio.lowlevel.checkpoint()
                await trio.lowlevel.checkpoint()
                await cache.synced()
            else:
                await trio.sleep(120)
                assert cache.is_synced
            expected = {
                path: data
                for path, data in lab.server.dump().items()
                if (path + "/").startswith(ROOT + "/") and (depth is None or path.count("/") <= 1 + depth)
            }
            assert {path: node.data for path, node in cache.nodes.items()} == expected
            assert all(cache._names.values()), "nothing is kept of parents that are gone"
            for path, node in cache.nodes.items():
                below = [other for other in expected if other.rpartition("/")[0] == path]
                assert cache.children(path) == sorted(other.rpartition("/")[2] for other in below)
                stat = await zk.exists(path)
                assert stat is not None
                assert (stat.czxid, stat.mzxid) == (node.stat.czxid, node.stat.mzxid)
            await trio.sleep(1)
            nursery.start_soon(slow.follow, late)
            await trio.sleep(1)
            for replay in (quick, slow):
                assert replay.nodes.keys() == cache.nodes.keys()
                assert all(node.same_as(cache[path]) for path, node in replay.nodes.items())
                assert all(node.data == cache[path].data for path, node in replay.nodes.items())
                assert replay.state is CacheEventType.SYNCED
        await trio.sleep(1)
        assert (zk.watch_count, lab.watch_count) == (0, 0)

    trio.run(main, clock=MockClock(autojump_threshold=0))
