"""Whatever is lost on the way, what follows the tree ends as the tree does (recipe-rules.md I-14).

Subtrees come and go in bursts, while connections break at any moment of it: between two events, in the midst
of the reads that follow them, of the sync, of the walk, of the watches that are armed again. Pauses count
steps of the scheduler as well as seconds, so that the next thing finds the clients busy.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any

import attrs
import pytest
import trio
from hypothesis import Phase, given, note, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from pyzk.client import Create, Delete, SetData, UnimplementedError, ZooKeeper, ZooKeeperError
from pyzk.recipes import Party, watch_children, watch_node
from pyzk.recipes.caches.cache import Cache, ChildrenCache, NodeCache, TreeCache

from ...support.lab import Lab, open_lab
from .replay import Replay

pytestmark = pytest.mark.row("I-14")

ROOT = "/r"
PATHS = [ROOT, "/r/a", "/r/a/x", "/r/a/x/k", "/r/a/y", "/r/b", "/r/b/x"]
READS = ("sync", "get_data", "get_children", "exists", "add_watch", "set_watches")
FOLLOWERS = 2
QUIET = 60.0
"""Seconds in which all is well, before anything is compared."""


@attrs.frozen
class Step:
    """
    :ivar path: what is written, or whose read is spoiled.
    :ivar who: number of the client.
    :ivar spins: how many steps of the scheduler pass until the next step.
    :ivar pause: seconds that pass then.
    """

    action: str
    path: str = ROOT
    who: int = 0
    op: str = "sync"
    spins: int = 0
    pause: float = 0.0


WRITES = ("plant", "fell", "replant", "create", "set", "set", "delete")
CUTS = (*["disconnect"] * 8, "cut off", "let through", "expire", "restart")
SPOILS: dict[str, dict[str, Any]] = {
    "drop before": {"when": "before", "action": "disconnect"},
    "drop after": {"when": "after", "action": "disconnect"},
    "wait before": {"when": "before", "action": "delay", "seconds": 0.2},
    "wait after": {"when": "after", "action": "delay", "seconds": 0.2},
    "silence": {"when": "after", "action": "drop_reply"},
}

ACTIONS = (WRITES, WRITES, CUTS, tuple(SPOILS))
SPINS = (0, 0, 1, 2, 3, 5, 8, 13)
PAUSES = (*[0.0] * 8, 0.1, 1.0, 9.0)


def schedule(rng: random.Random) -> list[Step]:
    """Lists that hypothesis makes up are too short and too regular: little goes wrong in them."""

    def step() -> Step:
        action, path, who = rng.choice(rng.choice(ACTIONS)), rng.choice(PATHS), rng.randrange(FOLLOWERS)
        return Step(action, path, who, rng.choice(READS), rng.choice(SPINS), rng.choice(PAUSES))

    return [step() for _ in range(rng.randint(1, 40))]


@attrs.define
class Run:
    """A schedule being carried out."""

    lab: Lab
    writer: ZooKeeper
    followers: list[ZooKeeper]
    faults: ExitStack

    async def take(self, step: Step) -> None:
        if step.action in WRITES:
            self.write(step.action, step.path)
        else:
            self.spoil(step)
        for _ in range(step.spins):
            await trio.lowlevel.checkpoint()
        if step.pause:
            await trio.sleep(step.pause)

    def write(self, kind: str, path: str) -> None:
        """Submit a burst of writes, and wait for none of them."""
        below = [each for each in PATHS if (each + "/").startswith(path + "/")]
        operations: list[Any] = []
        if kind in ("fell", "replant"):
            operations += [Delete(each) for each in reversed(below)]
        if kind in ("plant", "replant"):
            operations += [Create(each, kind.encode()) for each in below]
        single = {"create": Create(path, b"created"), "set": SetData(path, b"set"), "delete": Delete(path)}
        operations += [single[kind]] if kind in single else []
        for operation in operations:
            self.writer.submit(operation)

    def spoil(self, step: Step) -> None:
        zk, server = self.followers[step.who], self.lab.server
        session = zk.session.id
        if step.action == "let through":
            self.lab.let_through(zk)
        elif step.action == "restart":
            server.restart(keep_data=True)
        elif all(known.id != session for known in server.sessions()):
            pass
        elif step.action == "expire":
            server.expire(session)
        elif step.action == "disconnect":
            server.disconnect(session)
        elif step.action == "cut off":
            self.lab.cut_off(zk)
        else:
            fault = server.fault(op=step.op, session=session, required=False, **SPOILS[step.action])
            self.faults.enter_context(fault)

    async def finish(self) -> None:
        self.faults.close()
        for zk in self.followers:
            self.lab.let_through(zk)
        await trio.sleep(QUIET)

    async def check_cache(self, cache: Cache, replay: Replay) -> None:
        assert cache.is_synced
        depth = {NodeCache: 0, ChildrenCache: 1}.get(type(cache), len(PATHS))
        expected = {
            path: data
            for path, data in self.lab.server.dump().items()
            if (path + "/").startswith(cache.path + "/") and path[len(cache.path) :].count("/") <= depth
        }
        assert {path: node.data for path, node in cache.nodes.items()} == expected, cache
        for path, node in cache.nodes.items():
            stat = await self.writer.exists(path)
            assert stat is not None
            assert (stat.czxid, stat.mzxid) == (node.stat.czxid, node.stat.mzxid)
            names = [other.rpartition("/") for other in expected]
            assert cache.children(path) == sorted(name for parent, _, name in names if parent == path)
        assert replay.nodes.keys() == cache.nodes.keys()
        assert all(node.same_as(cache[path]) for path, node in replay.nodes.items())


@attrs.define
class Last:
    """The last value that an iterator has given."""

    value: Any = None

    async def follow(self, values: AsyncIterator[Any]) -> None:
        async for self.value in values:
            pass


@attrs.define
class Members:
    """The names of the members, put together from the changes."""

    names: set[str] = attrs.Factory(set)

    async def follow(self, party: Party) -> None:
        async for change in party.changes():
            left, joined = ({member.name for member in side} for side in (change.left, change.joined))
            assert left <= self.names
            self.names -= left
            assert not joined & self.names
            self.names |= joined


async def carry_out(script: Sequence[Step], populated: bool, buffer: int) -> None:
    async with open_lab(tick_time=1000) as lab, trio.open_nursery() as nursery:
        if populated:
            lab.server.load(dict.fromkeys(PATHS, b"loaded"))
        writer = await lab.client(session_timeout=100)
        first, second = followers = [await lab.client() for _ in range(FOLLOWERS)]
        first.watch = partial(first.watch, buffer=buffer)  # type: ignore[method-assign]
        with ExitStack() as faults:
            faults.enter_context(  # the second has one-shot watches alone
                lab.server.fault(
                    op="add_watch",
                    session=second.session.id,
                    action="error",
                    error=UnimplementedError,
                    times=None,
                    required=False,
                )
            )
            run = Run(lab, writer, followers, faults)
            caches = [
                TreeCache(first, ROOT),
                NodeCache(first, ROOT),
                ChildrenCache(first, "/r/a"),
                TreeCache(second, ROOT),
            ]
            replays = [Replay(emptied=False) for _ in caches]
            names, node, members = Last(), Last(), Members()
            # In the client's tasks: a cache that fails ends the test, as does what follows it
            start: Callable[..., Awaitable[None]] = nursery.start
            for cache, replay in zip(caches, replays, strict=True):
                await start(keep, cache, replay)
            nursery.start_soon(names.follow, watch_children(second, "/r/a"))
            nursery.start_soon(node.follow, watch_node(second, "/r/a/x"))
            nursery.start_soon(members.follow, Party(first, "/r/a", "me", layout="curator-group"))
            for step in script:
                await run.take(step)
            await run.finish()
            for cache, replay in zip(caches, replays, strict=True):
                await run.check_cache(cache, replay)
        with suppress(ZooKeeperError):
            data, stat = await writer.get("/r/a/x")
            assert (node.value[0], node.value[1].mzxid) == (data, stat.mzxid)
        tree = lab.server.dump()
        assert (node.value == (None, None)) == ("/r/a/x" not in tree)
        children = sorted({"x", "y"} & {path[len("/r/a/") :] for path in tree if path.startswith("/r/a/")})
        assert names.value == (children if "/r/a" in tree else None)
        assert sorted(members.names) == children, (members, children)
        nursery.cancel_scope.cancel()


async def keep(cache: Cache, replay: Replay, task_status: trio.TaskStatus[None]) -> None:
    async with cache:
        task_status.started()
        await replay.follow(cache.events())


@settings(  # type: ignore[union-attr]
    max_examples=3 * settings.default.max_examples, phases=[Phase.explicit, Phase.generate]
)
@given(seed=st.integers(0, 2**32))
def test_what_follows_ends_as_the_tree_does(seed: int) -> None:
    rng = random.Random(seed)
    script, populated, buffer = schedule(rng), rng.random() < 0.5, rng.choice([1, 2, 1024])
    note(f"{populated=}, {buffer=}, {script=}")
    trio.run(carry_out, script, populated, buffer, clock=MockClock(autojump_threshold=0))
