"""How the threads of callers and of the client wake each other."""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import os
import select
import socket
import threading
import weakref
from collections.abc import Callable, Iterator
from io import FileIO
from pathlib import Path
from typing import Any

import pytest
import uvloop

from pyzk.aio import NodeExistsError, PersistentNode, ZooKeeper, connect
from pyzk.aio.event_loop import EventLoopState
from pyzk.bridge import wakeups
from pyzk.bridge.wakeups import CallQueue, Waiter, Wakeup
from pyzk.client import ClosingError
from pyzk.server.storage.building import collector_paused
from pyzk.server.testing import EmbeddedServer

from ..support.waiting import wait_until

RUNS: list[Callable[[Any], Any]] = [asyncio.run, uvloop.run]


@pytest.fixture(autouse=True)
def nothing_is_collected() -> Iterator[None]:
    """The collector would close files that other tests have left, between two looks."""
    gc.collect()
    with collector_paused():
        yield


def files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


# --- mailboxes ---------------------------------------------------------------------------------------------


def test_many_posts_need_one_wake_up() -> None:
    wakes, done = [], []
    mailbox = CallQueue(lambda: wakes.append(1))
    for number in range(3):
        mailbox.post(done.append, number)
    assert wakes == [1]
    assert mailbox.is_woken is True
    mailbox.open()
    assert mailbox.is_woken is False
    assert done == [0, 1, 2]
    mailbox.post(done.append, 3)
    assert wakes == [1, 1]


def test_a_post_that_raises_keeps_nothing_from_the_others() -> None:
    wakes, done = [], []
    mailbox = CallQueue(lambda: wakes.append(1))

    def fail() -> None:
        raise KeyboardInterrupt

    for function in (fail, lambda: done.append(1)):
        mailbox.post(function)
    with pytest.raises(KeyboardInterrupt):
        mailbox.open()
    assert wakes == [1, 1]
    mailbox.open()
    assert done == [1]


def test_a_wake_up_that_fails_is_made_with_the_next_post() -> None:
    failures: list[BaseException] = [KeyboardInterrupt()]
    done: list[int] = []

    def wake() -> None:
        if failures:
            raise failures.pop()
        mailbox.open()

    mailbox = CallQueue(wake)
    with pytest.raises(KeyboardInterrupt):
        mailbox.post(done.append, 1)
    mailbox.post(done.append, 2)
    assert done == [1, 2]


def test_a_post_of_a_handler_that_comes_before_its_thread_has_woken_the_other_wakes_it() -> None:
    done: list[int] = []

    def wake() -> None:
        if not done:  # the handler of a signal comes here, and waits for what it has posted
            done.append(0)
            mailbox.post(done.append, 2)
            assert done == [0, 1, 2]
        mailbox.open()

    mailbox = CallQueue(wake)
    mailbox.post(done.append, 1)
    assert done == [0, 1, 2]


def test_a_mailbox_that_is_closed_takes_no_more() -> None:
    done: list[int] = []
    mailbox = CallQueue(lambda: None)
    mailbox.post(done.append, 1)
    mailbox.close()
    with pytest.raises(ClosingError):
        mailbox.post(done.append, 2)
    assert done == [1]


def test_a_closed_wake_up_says_so_and_rings_nowhere_else() -> None:
    wakeup = Wakeup()
    number = wakeup.fileno()
    wakeup.ring()
    wakeup.answer()
    wakeup.close()
    reader, writer = os.pipe()
    try:
        assert number in (reader, writer)  # the numbers are used again
        with pytest.raises(ClosingError):
            wakeup.ring()
        wakeup.close()
        os.set_blocking(reader, False)
        with pytest.raises(BlockingIOError):
            os.read(reader, 1)
    finally:
        os.close(reader)
        os.close(writer)


def test_an_interrupted_wake_up_leaves_no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(Wakeup):
        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, value)
            raise KeyboardInterrupt

    before = files()
    with pytest.raises(KeyboardInterrupt):
        Interrupted()
    assert files() == before


def test_a_wake_up_that_nobody_has_closed_leaves_no_files() -> None:
    before = files()
    for _ in range(3):
        Wakeup()
    assert files() == before


@pytest.mark.filterwarnings("error")
def test_a_wake_up_that_is_closed_while_a_thread_rings_it_closes_its_file_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else the thread would write into another file that has the same number by then."""
    before = files()
    open_files: list[int] = []

    def write(writer: Any, data: bytes) -> None:
        wakeup.close()  # as another thread does it, or the handler of a signal
        open_files.append(files() - before)
        FileIO.write(writer, data)

    wakeup = Wakeup()
    reader = os.dup(wakeup.fileno())
    monkeypatch.setattr(wakeups, "_write", write)
    wakeup.ring()
    assert open_files == [2], "the copy of the reader, and the writer"
    assert os.read(reader, 2) == b"\0"
    assert os.read(reader, 2) == b"", "no writer is left"
    os.close(reader)
    assert files() == before
    with pytest.raises(ClosingError):
        wakeup.ring()


def test_a_wake_up_that_was_rung_often_is_answered_once() -> None:
    def rung() -> bool:
        return bool(select.select([wakeup.fileno()], [], [], 0)[0])

    wakeup = Wakeup()
    for _ in range(wakeups._RINGS):
        wakeup.ring()
    assert rung()
    wakeup.answer()
    assert not rung()
    wakeup.ring()
    assert rung()
    wakeup.close()


def test_where_event_loops_wait_for_sockets_alone_a_bell_has_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    """On Windows."""
    spec = importlib.util.spec_from_file_location("pyzk.bridge.sockets", wakeups.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with monkeypatch.context() as patch:
        patch.setattr(os, "name", "nt")
        spec.loader.exec_module(module)
    before = files()
    wakeup = module.Wakeup()
    assert isinstance(wakeup._reader, socket.socket)
    wakeup.ring()
    assert select.select([wakeup.fileno()], [], [], 5)[0] == [wakeup.fileno()]
    wakeup.answer()
    assert select.select([wakeup.fileno()], [], [], 0)[0] == []
    wakeup.close()
    assert files() == before
    with pytest.raises(ClosingError, match="the client was closed"):
        wakeup.ring()


# --- waiters -----------------------------------------------------------------------------------------------


def test_the_first_answer_counts() -> None:
    waiter: Waiter[int] = Waiter()
    waiter.answer(5, None)
    waiter.answer(6, ValueError())
    for _ in range(2):
        waiter.pause()
        assert waiter.result() == 5
    assert waiter.wait() == 5


def test_an_error_is_raised_until_it_is_forgotten() -> None:
    waiter: Waiter[int] = Waiter()
    error = ValueError("no")
    assert not waiter.is_answer(error), "there is none yet"
    waiter.answer(0, error)
    waiter.pause()
    with pytest.raises(ValueError, match="no") as caught:
        waiter.result()
    assert caught.value is error
    assert waiter.is_answer(error) is True
    assert waiter.is_answer(ValueError("no")) is False
    waiter.forget()
    assert waiter.result() == 0
    assert waiter.is_answer(error) is False


def test_an_error_that_was_raised_is_in_no_cycle() -> None:
    def wait() -> weakref.ref[BaseException]:
        waiter: Waiter[int] = Waiter()
        waiter.answer(0, Refused())
        try:
            waiter.wait()
        except Refused as error:
            return weakref.ref(error)
        raise AssertionError

    assert wait()() is None, "the collector is off"


class Refused(Exception):
    """It can be referred to weakly."""


def test_a_thread_that_waits_for_ever_does_so_after_the_answer_too() -> None:
    class Lock:
        acquired = 0

        def acquire(self) -> None:
            self.acquired += 1
            if self.acquired == 3:
                raise SystemExit

    waiter: Any = Waiter()
    waiter.answer(1, None)
    waiter._lock = lock = Lock()
    with pytest.raises(SystemExit):
        waiter.pause_for_ever()
    assert lock.acquired == 3


# --- asyncio -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("run", RUNS)
def test_event_loops_that_have_ended_are_not_kept(server: EmbeddedServer, run: Callable[[Any], Any]) -> None:
    ended: list[weakref.ref[asyncio.AbstractEventLoop]] = []

    async def main() -> None:
        ended.append(weakref.ref(asyncio.get_running_loop()))
        async with connect(server.hosts) as zk:
            await zk.exists("/")

    run(main())
    gc.collect()
    before = files()
    for _ in range(5):
        run(main())
    gc.collect()
    wait_until(lambda: files() <= before)  # the server closes its sockets in a thread of its own
    assert [loop() for loop in ended] == [None] * 6


@pytest.mark.parametrize("run", RUNS)
def test_an_event_loop_is_woken_by_its_bell_while_it_has_a_client(
    server: EmbeddedServer, run: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """``call_soon_threadsafe`` costs more, and is for what comes afterwards."""

    async def main() -> None:
        home, rung = EventLoopState.of(asyncio.get_running_loop()), 0
        ring = Wakeup.ring

        def counted(wakeup: Wakeup) -> None:
            nonlocal rung
            rung += wakeup is home._wakeup
            ring(wakeup)

        monkeypatch.setattr(Wakeup, "ring", counted)

        async def answered_by_the_bell(zk: ZooKeeper) -> bool:
            while home.is_woken:  # a post that comes now needs no ring of its own
                await asyncio.sleep(0)
            before = rung
            await zk.sync("/")
            return rung > before

        assert home._wakeup is None
        async with connect(server.hosts) as first:
            async with connect(server.hosts) as second:
                assert await answered_by_the_bell(first)
                assert await answered_by_the_bell(second)
            assert await answered_by_the_bell(first), "one client is left"
        assert home._wakeup is None
        before, done = rung, asyncio.Event()
        home.post(done.set)
        await done.wait()
        assert rung == before

    run(main())


@pytest.mark.parametrize("run", RUNS)
def test_a_client_may_be_used_in_another_event_loop(
    server: EmbeddedServer, run: Callable[[Any], Any]
) -> None:
    async def main() -> None:
        async with connect(server.hosts) as zk:
            found = []

            async def ask() -> None:
                found.append(await asyncio.gather(*[zk.exists("/") for _ in range(10)]))

            thread = threading.Thread(target=lambda: asyncio.run(ask()))
            thread.start()
            for _ in range(10):
                assert await zk.exists("/") is not None
            await asyncio.to_thread(thread.join)
            assert None not in found[0]

    run(main())


def test_ctrl_c_in_one_task_keeps_no_answer_from_the_others(server: EmbeddedServer) -> None:
    """The answer wakes a task within the callback that wakes the others."""
    loop = asyncio.new_event_loop()
    answered: list[int] = []

    async def fail() -> None:
        await zk.sync("/")
        raise KeyboardInterrupt

    async def ask(number: int) -> None:
        await zk.sync("/")
        answered.append(number)

    block = connect(server.hosts)

    async def enter() -> Any:
        return await block.__aenter__()

    async def leave() -> None:
        await block.__aexit__(None, None, None)

    try:
        zk = loop.run_until_complete(enter())
        tasks = [
            loop.create_task(ask(1)),
            loop.create_task(fail()),
            *[loop.create_task(ask(n)) for n in (2, 3)],
        ]
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(asyncio.wait(tasks))
        loop.run_until_complete(asyncio.wait([tasks[0], *tasks[2:]]))
        assert sorted(answered) == [1, 2, 3]
        with pytest.raises(KeyboardInterrupt):
            tasks[1].result()
        loop.run_until_complete(leave())
    finally:
        loop.close()


@pytest.mark.parametrize("run", RUNS)
def test_a_block_that_ends_as_it_begins_raises_its_error(
    server: EmbeddedServer, run: Callable[[Any], Any]
) -> None:
    """The cancellation of the body may come before the task has begun with it."""

    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None
        async with connect(server.hosts) as zk:
            await zk.create("/held")
            for _ in range(50):
                with pytest.raises(NodeExistsError):
                    async with PersistentNode(zk, "/held", conflict="raise"):
                        await asyncio.sleep(10)
                assert task.cancelling() == 0

    run(main())
