"""What breaks the programs of docs/found.md, tried on our recipes with trio, threads, asyncio.

The lock that waits for itself, the leader that takes its key back, and the counter and the double barrier are
in test_packages.py and test_recipes.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import attrs
import pytest
import trio

import pyzk.aio
import pyzk.blocking
import pyzk.client
import pyzk.recipes
from pyzk.client import BadVersionError
from pyzk.server.sweep import Lab, sweep
from pyzk.server.sweep.threads.lab import ThreadLab

LONG = 1e6  # seconds: a budget that no machine uses up


class Awaited:
    """An object of ``pyzk.blocking`` whose methods are called like those of the other packages."""

    def __init__(self, real: Any) -> None:
        self.real = real

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.real, name)
        return (lambda *args, **options: Awaited(found(*args, **options))) if callable(found) else found

    def __await__(self) -> Any:
        yield from ()
        return self.real

    async def __aenter__(self) -> Awaited:
        return Awaited(self.real.__enter__())

    async def __aexit__(self, *exception: object) -> Any:
        return self.real.__exit__(*exception)


@attrs.frozen
class Api:
    """
    :ivar recipes: the module of the recipes.
    :ivar zk: the client, for calls; ``real`` for recipes.
    """

    recipes: Any
    zk: Any
    real: Any
    sleep: Callable[[float], Awaitable[object]]
    lab: Lab | ThreadLab
    seen: list[bytes]

    def __getattr__(self, name: str) -> Any:
        return partial(getattr(self.recipes, name), self.real)


Work = Callable[[Api], Awaitable[object]]


@attrs.frozen
class Mechanism:
    """
    :ivar works: what each client does.
    :ivar seen: what they have seen at the end, in any order.
    """

    works: Sequence[Work]
    faults: Sequence[str]
    seen: Sequence[bytes] = ()
    tree: dict[str, str] = attrs.Factory(dict)

    def in_trio(self) -> Any:
        async def scenario(lab: Lab) -> None:
            seen: list[bytes] = []
            lab.server.load(self.tree)
            clients = [await lab.client(name) for name in self._names]
            apis = [Api(pyzk.recipes, zk, zk, trio.sleep, lab, seen) for zk in clients]
            await lab.together(*(partial(work, api) for work, api in self._parts(apis)))
            self._check(seen)

        return scenario

    def in_threads(self) -> Any:
        def scenario(lab: ThreadLab) -> None:
            seen: list[bytes] = []
            lab.server.load(self.tree)
            clients = [lab.blocking(name) for name in self._names]
            recipes, sleep = Awaited(pyzk.blocking), _sleep_in_thread
            apis = [Api(recipes, Awaited(zk), zk, sleep, lab, seen) for zk in clients]
            lab.together(*(partial(_at_once, work, api) for work, api in self._parts(apis)))
            self._check(seen)

        return scenario

    def in_event_loops(self) -> Any:
        def scenario(lab: ThreadLab) -> None:
            seen: list[bytes] = []
            lab.server.load(self.tree)

            async def main(work: Work, hosts: str) -> None:
                async with pyzk.aio.connect(hosts, session_timeout=10.0, on_expired="new_session") as zk:
                    await work(Api(pyzk.aio, zk, zk, asyncio.sleep, lab, seen))

            hosts = [lab.hosts(name) for name in self._names]
            lab.together(
                *(partial(_run, main, work, each) for work, each in zip(self.works, hosts, strict=True))
            )
            self._check(seen)

        return scenario

    @property
    def _names(self) -> Sequence[str]:
        return "ab"[: len(self.works)]

    def _parts(self, apis: list[Api]) -> zip[tuple[Work, Api]]:
        return zip(self.works, apis, strict=True)

    def _check(self, seen: list[bytes]) -> None:
        assert sorted(seen) == sorted(self.seen)


async def _sleep_in_thread(seconds: float) -> None:
    import time

    time.sleep(seconds)


def _at_once(work: Work, api: Api) -> None:
    """Run a coroutine that never waits."""
    with suppress(StopIteration):
        work(api).__await__().send(None)  # type: ignore[attr-defined]
        raise AssertionError("it waits for an event loop")


def _run(main: Callable[..., Any], *args: object) -> None:
    asyncio.run(main(*args))


async def put(api: Api) -> None:
    await api.Queue("/queue").put(b"job")


async def take(api: Api) -> None:
    item = await api.Queue("/queue").get()
    api.seen.append(item.data)


async def claim(api: Api) -> None:
    async with api.ClaimQueue("/queue").claim() as item:
        api.seen.append(item.data)


async def put_to_claim(api: Api) -> None:
    await api.ClaimQueue("/queue").put(b"job")


async def meet(api: Api) -> None:
    api.seen.append(b"came")
    async with api.DoubleBarrier("/barrier", 2):
        assert len(api.seen) == 2, "a member is inside alone"


async def lead(api: Api) -> None:
    async with api.LeaderLatch("/latch") as latch:
        await latch.wait_leader()
        await api.zk.exists("/work")
        await api.sleep(30)
        await latch.wait_leader()
        api.seen.append(b"leads")


async def register(api: Api) -> None:
    async with api.PersistentNode("/me"):
        await api.sleep(60)
        api.seen.extend([b"registered"] * ("/me" in api.lab.server.dump()))


async def write_over_version_0(api: Api) -> None:
    with suppress(BadVersionError):
        await api.zk.set("/key", b"mine", version=0)
        api.seen.append(b"written")


FAULTS = ["reply-lost", "cut-after"]
ITEM = {"/queue/entries/entry-100-0000000000": "job", "/queue/taken": ""}
MECHANISMS = {
    "an item is lost, or not seen": Mechanism([put, take], FAULTS, [b"job"]),
    "a claimed item is nobody's": Mechanism([claim], FAULTS, [b"job"], ITEM),
    "an item is put while a consumer waits": Mechanism([put_to_claim, claim], ["cut-after"], [b"job"]),
    "a member of a barrier is inside alone": Mechanism([meet] * 2, ["lost", *FAULTS], [b"came"] * 2),
    "a latch never leads again": Mechanism([lead], [*FAULTS, "restart-empty"], [b"leads"]),
    "a registration is lost": Mechanism([register], [*FAULTS, "ghost", "restart-empty"], [b"registered"]),
    "two write over version 0": Mechanism([write_over_version_0] * 2, [], [b"written"], {"/key": ""}),
}


@pytest.mark.parametrize("api", ["in_trio", "in_threads", "in_event_loops"])
@pytest.mark.parametrize("name", MECHANISMS)
def test_it_does_not_break_ours(name: str, api: str) -> None:
    mechanism = MECHANISMS[name]
    scenario = getattr(mechanism, api)()
    orders: Any = None if mechanism.faults else "all"
    report = sweep(scenario, faults=mechanism.faults, orders=orders, budget=LONG)
    assert report.results.cells == report.results.all_cells
    assert report.results.cells >= 2 or report.results.orders >= 2
