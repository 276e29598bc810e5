"""Scenarios for common recipes. A scenario tests whether the user's own lock, queue or other recipe works
correctly.

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
"""The seconds of virtual time after a fault in which a recipe must begin to work again."""


async def _clients(lab: Lab, count: int) -> list[ZooKeeper]:
    return [await lab.client(chr(ord("a") + n)) for n in range(count)]


def lock(
    make: Callable[[ZooKeeper], AbstractAsyncContextManager[object]], *, clients: int = 2, most: int = 1
) -> Scenario:
    """Test that at most ``most`` clients are inside at once, and that each client comes in.

    The scenario is for locks, semaphores, latches and elections.

    :param make: a function that returns the context manager of a client, for ``async with``.
    :param clients: the number of clients.
    :param most: how many clients may be inside at once.
    """

    async def scenario(lab: Lab) -> None:
        async def work(zk: ZooKeeper) -> None:
            async with make(zk), lab.inside("the lock", most):
                pass

        await lab.together(*(partial(work, zk) for zk in await _clients(lab, clients)))

    return scenario


def latch(make: Callable[[ZooKeeper], AbstractAsyncContextManager[object]], *, clients: int = 2) -> Scenario:
    """Test that at most one client leads at a time, and that each client leads once.

    :param make: a function that returns the context manager of a client, for ``async with``.
    :param clients: the number of clients.
    """
    return lock(make, clients=clients)


def counter(
    add: Callable[[ZooKeeper], Awaitable[object]],
    read: Callable[[ZooKeeper], Awaitable[int]],
    *,
    clients: int = 2,
) -> Scenario:
    """Test that the sum is the number of clients after each client has added 1.

    :param add: a function that adds 1. An error of the function is a finding, unless the error says that the
        session has ended.
    :param read: a function that returns the sum.
    :param clients: the number of clients.
    """

    from ...recipes.base.running import steady

    async def scenario(lab: Lab) -> None:
        everybody = await _clients(lab, clients)
        await lab.together(*(partial(add, zk) for zk in everybody))
        first = everybody[0]
        await steady(first, first.sync)  # the server of the first client may lag
        value = await read(first)
        assert value == clients, f"{clients} clients have added 1 each, but the sum is {value}"

    return scenario


def queue(
    put: Callable[[ZooKeeper, bytes], Awaitable[object]],
    take: Callable[[ZooKeeper], Awaitable[bytes]],
    *,
    items: Sequence[bytes] = (b"first", b"second"),
) -> Scenario:
    """Test a queue: one client puts items, another client takes them, and each item is taken once.

    :param put: a function that puts an item into the queue.
    :param take: a function that waits for an item, and takes the item out of the queue.
    :param items: the items.
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
    """Test a barrier: no client passes before all clients have come, and then all clients pass.

    If a client has lost its session, the others may stay outside.

    :param make: a function that returns the context manager of a client, for ``async with``.
    :param clients: the number of clients.
    """

    async def scenario(lab: Lab) -> None:
        coming: set[int] = set()

        async def work(number: int, zk: ZooKeeper) -> None:
            coming.add(number)
            with trio.move_on_after(_PATIENCE) as patience:
                async with make(zk):
                    assert len(coming) == clients, f"inside when {len(coming)} of {clients} have come"
                    await lab.point()
            assert lab.gave_up or not patience.cancelled_caught, (
                "all clients have come, but one client does not come in"
            )

        await lab.together(*(partial(work, n, zk) for n, zk in enumerate(await _clients(lab, clients))))

    return scenario


def registration(register: Callable[[ZooKeeper], Awaitable[object]], path: str) -> Scenario:
    """Test a registration: some time after any fault, each living client has its ephemeral znode again.

    :param register: a function that registers the client and returns, or that keeps the client registered
        until it is cancelled.
    :param path: the path of the znode; or the path of its parent, if the recipe chooses the name.
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
                assert own, f"the client lives, but has no znode at {path}"
                nursery.cancel_scope.cancel()

        await lab.together(work)

    return scenario


def configuration_watch(
    follow: Callable[[ZooKeeper, Callable[[bytes], None]], Awaitable[object]],
    path: str,
    *,
    values: Sequence[bytes] = (b"1", b"2", b"3"),
) -> Scenario:
    """Test that a client that follows a znode receives its last value.

    :param follow: a function that follows ``path`` until it is cancelled, and calls its second argument with
        each value.
    :param path: the path of the znode.
    :param values: the values of the znode, from the first to the last.
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
        assert known[0] == now, f"the follower has the value {known[0]!r}, but the znode has {now!r}"

    return scenario
