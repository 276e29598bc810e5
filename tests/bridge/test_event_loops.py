"""How an event loop of asyncio is woken by the client's loop."""

from __future__ import annotations

import asyncio
import gc
import select
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pyzk.aio.event_loop import EventLoopState
from pyzk.bridge.direct.tasks import Reading
from pyzk.server.storage.building import collector_paused

from .drivers import in_asyncio


@pytest.fixture(autouse=True)
def nothing_is_collected() -> Iterator[None]:
    """The collector would close files that other tests have left, between two looks."""
    with collector_paused():
        yield


def files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def called(home: EventLoopState, wake: Callable[[Callable[[], object]], object] | None = None) -> None:
    """Wait until the home has called a function that another thread has posted."""
    done = asyncio.Event()
    thread = threading.Thread(target=wake or home.post, args=(done.set,))
    thread.start()
    await done.wait()
    thread.join()


@in_asyncio
async def test_an_event_loop_has_one_state() -> None:
    loop = asyncio.get_running_loop()
    home = EventLoopState.of(loop)
    assert EventLoopState.of(loop) is home
    other = asyncio.new_event_loop()
    assert EventLoopState.of(other) is not home
    other.close()


@in_asyncio
async def test_clients_of_an_event_loop_share_a_wake_up() -> None:
    home, before = EventLoopState.of(asyncio.get_running_loop()), files()
    await called(home)
    assert files() == before, "without a client there is none"
    home.attach()
    assert files() == before + 2
    await called(home)
    assert home._wakeup is not None
    assert select.select([home._wakeup.fileno()], [], [], 0)[0] == [], "it was answered"
    home.attach()
    assert files() == before + 2
    home.detach()
    assert files() == before + 2
    await called(home)
    home.detach()
    assert files() == before
    await called(home)
    home.attach()
    assert files() == before + 2
    await called(home)
    home.detach()
    assert files() == before


@in_asyncio
async def test_what_was_posted_before_the_last_client_closed_is_called() -> None:
    home, done = EventLoopState.of(asyncio.get_running_loop()), []
    home.attach()
    home.post(done.append, 1)
    home.detach()
    await asyncio.sleep(0)
    assert done == [1]


@in_asyncio
async def test_a_wake_up_that_was_closed_just_now_is_not_needed() -> None:
    home = EventLoopState.of(asyncio.get_running_loop())
    home.attach()
    wakeup = home._wakeup
    assert wakeup is not None
    asyncio.get_running_loop().remove_reader(wakeup.fileno())
    wakeup.close()
    await called(home)
    home._wakeup = None
    home.detach()


@in_asyncio
async def test_an_answer_to_a_wake_up_that_is_gone_does_nothing() -> None:
    home, done = EventLoopState.of(asyncio.get_running_loop()), []
    home.attach()
    home.post(done.append, 1)
    wakeup, home._wakeup = home._wakeup, None
    home._answer_wakeup()
    assert done == []
    home._wakeup = wakeup
    home._answer_wakeup()
    assert done == [1]
    home.detach()


@in_asyncio
async def test_an_event_loop_that_watches_no_files_is_woken_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As that of Windows."""

    def add_reader(*args: object) -> None:
        raise NotImplementedError

    loop, before = asyncio.get_running_loop(), files()
    monkeypatch.setattr(loop, "add_reader", add_reader)
    home = EventLoopState.of(loop)
    home.attach()
    assert files() == before
    await called(home)
    home.detach()
    await called(home)


def test_nobody_is_woken_in_an_event_loop_that_was_closed() -> None:
    loop = asyncio.new_event_loop()
    home, done = EventLoopState.of(loop), []
    loop.close()
    home.post(done.append, 1)
    assert done == []
    del loop
    gc.collect()
    home.open()
    home.post(done.append, 2)
    assert done == [1]


def test_a_home_that_has_lost_its_event_loop_takes_clients() -> None:
    loop = asyncio.new_event_loop()
    home = EventLoopState(loop)
    loop.close()
    del loop
    gc.collect()
    assert home._loop() is None
    before = files()
    home.attach()
    assert files() == before
    home.detach()


@in_asyncio
async def test_calls_of_one_client_are_made_by_one_reader() -> None:
    home = EventLoopState.of(asyncio.get_running_loop())
    one: Any = object()
    other: Any = object()
    home.attach()
    home.attach()
    reading = home.direct(one)
    assert isinstance(reading, Reading)
    assert reading.loop is one
    assert home.direct(one) is reading
    home.detach()
    assert home.direct(one) is reading
    assert home.direct(other).loop is other
    reading = home.direct(other)
    home.detach()
    assert home.direct(other) is not reading, "no client was left"
    done: list[int] = []
    reading._post(lambda: done.append(1))
    await asyncio.sleep(0)
    assert done == [1], "it posts to this event loop"
