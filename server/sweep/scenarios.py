"""Ready scenarios: they test whether the user's own lock, queue, counter ... does what it must.

    from pyzk.server.sweep import scenarios

    def test_my_lock():
        sweep(scenarios.lock(lambda zk: MyLock(zk, "/lock")))

Each function returns a scenario for :func:`pyzk.server.testing.sweep`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TYPE_CHECKING

import trio

from .lab import Lab
from .run import Scenario

if TYPE_CHECKING:
    from ...client import ZooKeeper

_PATIENCE = 120.0
"""Seconds of virtual time after which a disturbed recipe must work again."""


async def _clients(lab: Lab, count: int) -> list[ZooKeeper]:
    return [await lab.client(chr(ord("a") + n)) for n in range(count)]


def lock(
    make: Callable[[ZooKeeper], AbstractAsyncContextManager[object]], *, clients: int = 2, most: int = 1
) -> Scenario:
    """At most one client is inside, and each comes in. For locks, semaphores, latches and elections.

    :param make: returns what is entered and left by ``async with``.
    :param most: how many may be inside at once.
    """

    async def scenario(lab: Lab) -> None:
        async def work(zk: ZooKeeper) -> None:
            async with make(zk), lab.inside("the lock", most):
                pass

        await lab.together(*(partial(work, zk) for zk in await _clients(lab, clients)))

    return scenario


def latch(make: Callable[[ZooKeeper], AbstractAsyncContextManager[object]], *, clients: int = 2) -> Scenario:
    """At most one client leads, and each comes to lead."""
    return lock(make, clients=clients)


def counter(
    add: Callable[[ZooKeeper], Awaitable[object]],
    read: Callable[[ZooKeeper], Awaitable[int]],
    *,
    clients: int = 2,
) -> Scenario:
    """Each client adds 1 once: the sum is the number of clients.

    :param add: adds 1. An error is a finding, except one that says that the session has ended.
    """

    from ...recipes.base.running import steady

    async def scenario(lab: Lab) -> None:
        everybody = await _clients(lab, clients)
        await lab.together(*(partial(add, zk) for zk in everybody))
        first = everybody[0]
        await steady(first, first.sync)  # its server may lag behind
        value = await read(first)
        assert value == clients, f"{clients} clients have added 1 each, and it is {value}"

    return scenario


def queue(
    put: Callable[[ZooKeeper, bytes], Awaitable[object]],
    take: Callable[[ZooKeeper], Awaitable[bytes]],
    *,
    items: Sequence[bytes] = (b"first", b"second"),
) -> Scenario:
    """One client puts items, another one takes as many: each item comes once.

    :param take: waits for an item, and takes it out of the queue.
    """

    async def scenario(lab: Lab) -> None:
        producer, consumer = await _clients(lab, 2)
        taken: list[bytes] = []

        async def produce() -> None:
            for item in items:
                await put(producer, item)

        async def consume() -> None:
            with trio.move_on_after(_PATIENCE):
                while len(taken) < len(items):
                    taken.append(await take(consumer))
            assert lab.gave_up or len(taken) == len(items), f"items are missing; taken: {sorted(taken)}"

        await lab.together(produce, consume)
        assert Counter(taken) == Counter(items), f"put: {sorted(items)}; taken: {sorted(taken)}"

    return scenario


def barrier(
    make: Callable[[ZooKeeper], AbstractAsyncContextManager[object]], *, clients: int = 2
) -> Scenario:
    """Nobody is inside before all have come; and all come in, unless a client has lost its session.

    :param make: returns what is entered and left by ``async with``.
    """

    async def scenario(lab: Lab) -> None:
        coming: set[int] = set()

        async def work(number: int, zk: ZooKeeper) -> None:
            coming.add(number)
            with trio.move_on_after(_PATIENCE) as patience:
                async with make(zk):
                    assert len(coming) == clients, f"inside with {len(coming)} of {clients}"
                    await lab.point()
            assert lab.gave_up or not patience.cancelled_caught, "all have come, and one waits for ever"

        await lab.together(*(partial(work, n, zk) for n, zk in enumerate(await _clients(lab, clients))))

    return scenario


def registration(register: Callable[[ZooKeeper], Awaitable[object]], path: str) -> Scenario:
    """A client that lives is registered: a while after any fault its ephemeral znode is there, and its own.

    :param register: registers, and returns when that is done; or runs for as long as it keeps registering,
        and then it is cancelled.
    :param path: of the znode, or of its parent if its name is the recipe's affair.
    """

    async def scenario(lab: Lab) -> None:
        zk = await lab.client("a")

        async def work() -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(register, zk)
                await trio.sleep(_PATIENCE)
                own = [
                    found
                    for found, node in lab.server.dump(form="nodes").items()
                    if node.owner == zk.session.id and (found == path or found.startswith(f"{path}/"))
                ]
                assert own, f"the client lives, and has no znode at {path}"
                nursery.cancel_scope.cancel()

        await lab.together(work)

    return scenario


def configuration_watch(
    follow: Callable[[ZooKeeper, Callable[[bytes], None]], Awaitable[object]],
    path: str,
    *,
    values: Sequence[bytes] = (b"1", b"2", b"3"),
) -> Scenario:
    """A client that follows a znode comes to know its last value.

    :param follow: follows ``path`` until it is cancelled, and calls the function with each value.
    :param values: the values that the znode gets; it begins with the first.
    """

    async def scenario(lab: Lab) -> None:
        writer, follower = await _clients(lab, 2)
        await writer.create(path, values[0], make_parents=True)
        known = [b""]

        async def write() -> None:
            for value in values[1:]:
                await writer.set(path, value)

        async def read() -> None:
            with trio.move_on_after(_PATIENCE):
                await follow(follower, lambda value: known.__setitem__(0, value))

        await lab.together(write, read)
        now = lab.server.dump()[path]
        assert known[0] == now, f"the follower believes {known[0]!r}, and it is {now!r}"

    return scenario
