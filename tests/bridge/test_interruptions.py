"""Interrupted at each point at which Python looks for signals: a thread that uses ``pyzk.blocking`` leaves
nothing behind, waits for nothing, and its next calls work.

The ordinary run takes a sample of the points of each kind; the nightly profile takes all.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

import pytest

from pyzk import blocking
from pyzk.blocking import threads, wrapper
from pyzk.bridge import direct, exits, loop, objects, wakeups, workers, wrapped
from pyzk.client import direct_connection, pending
from pyzk.server.storage.building import collector_paused
from pyzk.server.testing import EmbeddedServer

from ..support.signals import SIGNAL, Points
from ..support.waiting import wait_until

NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
STRIDE = 1 if NIGHTLY else 23
MOST = 20_000
"""More points than the longest use has."""
LEAST = 20
"""Fewer points than the shortest use has."""
SHORT = 0.02
"""Seconds that a call waits in vain."""

pytestmark = [
    # A finalizer, or the callback of a weak reference, swallows what a handler raises in it, and says so.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    # A call may be interrupted between the making of its coroutine and its first step.
    pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning"),
]

WRITTEN = [import_module(f"pyzk.blocking.{name}") for name in wrapped.MODULES]
DIRECT = (direct.threads, direct.calls, direct_connection, pending)
MODULES = (*WRITTEN, wrapper, threads, wakeups, exits, objects, *DIRECT, loop, workers)


class Stopped(BaseException):
    """Raised by the handler of the signal, as KeyboardInterrupt."""


class World:
    """:ivar zk: the client that is interrupted; ``other``: another one, which is not.
    :ivar taken: what the interrupted thread has got."""

    def __init__(self, server: EmbeddedServer, zk: Any, other: Any) -> None:
        self.server, self.zk, self.other = server, zk, other
        self.taken: list[Any] = []
        self.third: Any = None

    def open_third(self) -> None:
        """Open one more client, unless one is open. A thread of its own does that: the block of the client is
        not within the blocks of the caller."""
        if not self.is_third_open:
            self.third = blocking.connect(self.server.hosts)
            thread = threading.Thread(target=self.third.__enter__)
            thread.start()
            thread.join()

    @property
    def is_third_open(self) -> bool:
        return self.third is not None and not self.third._body.over


Use = Callable[[World], object]


def lock(world: World) -> None:
    with blocking.Lock(world.zk, "/r/lock") as grant:
        grant.check()


def lock_without_waiting(world: World) -> None:
    with blocking.Lock(world.zk, "/r/scope").nowait() as grant, grant.scope():
        pass


def reader_of_a_lock(world: World) -> None:
    with blocking.RWLock(world.zk, "/r/rw").read():
        pass


def several_locks(world: World) -> None:
    with blocking.MultiLock([blocking.Lock(world.zk, f"/r/many/{name}") for name in "ab"]):
        pass


def semaphore(world: World) -> None:
    with blocking.Semaphore(world.zk, "/r/semaphore", 2):
        pass


def election(world: World) -> None:
    with blocking.LeaderElection(world.zk, "/r/leader").lead():
        pass


def election_that_calls_back(world: World) -> None:
    class Done(Exception):
        pass

    def lead(term: Any) -> None:
        raise Done

    with suppress(Done):
        blocking.LeaderElection(world.zk, "/r/called").run(lead)


def queue(world: World) -> None:
    world.taken.append(blocking.Queue(world.zk, "/queue").get())


def claim(world: World) -> None:
    with blocking.ClaimQueue(world.zk, "/claims").claim():
        pass


def barrier(world: World) -> None:
    with blocking.DoubleBarrier(world.zk, "/r/barrier", 1):
        pass


def watch(world: World) -> None:
    with world.zk.get_and_watch("/")[2]:
        pass


def cache(world: World) -> None:
    with blocking.TreeCache(world.zk, "/r") as cache:
        cache.synced()


def connect(world: World) -> None:
    with blocking.connect(world.server.hosts) as zk:
        zk.create("/mine", ephemeral=True)


def calls(world: World) -> None:
    for _ in range(8):  # the last ones over a direct connection
        world.zk.set("/r", b"x")


def limit(world: World) -> None:
    with blocking.timeout(20) as limit:
        limit.reschedule(30)


def wait_for_a_lock(world: World) -> None:
    with blocking.timeout(SHORT), blocking.Lock(world.zk, "/taken"):
        raise AssertionError("two holders")


def wait_for_an_item(world: World) -> None:
    with blocking.timeout(SHORT):
        blocking.Queue(world.zk, "/empty").get()


def wait_for_a_barrier(world: World) -> None:
    with blocking.timeout(SHORT):
        blocking.Barrier(world.zk, "/closed").wait()


def wait_for_a_watch(world: World) -> None:
    with world.zk.exists_and_watch("/never")[1] as watch, blocking.timeout(SHORT):
        watch.wait()


def wait_for_an_event(world: World) -> None:
    world.zk.session.expired.wait(SHORT)


USES: list[Use] = [
    lock,
    lock_without_waiting,
    reader_of_a_lock,
    several_locks,
    semaphore,
    election,
    election_that_calls_back,
    queue,
    claim,
    barrier,
    watch,
    cache,
    connect,
    calls,
    limit,
    wait_for_a_lock,
    wait_for_an_item,
    wait_for_a_barrier,
    wait_for_a_watch,
    wait_for_an_event,
]


WATCHES: list[Use] = [watch, wait_for_a_watch]
"""A watch is armed before its block is entered. An interruption in between leaves it armed until it fires, as
a file that was opened stays open."""


@contextmanager
def handling(handler: Callable[..., object]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("the handlers of signals run in the main thread only")
    old = signal.signal(SIGNAL, handler)
    try:
        with collector_paused():  # the finalizers that it calls swallow what a handler raises
            yield
    finally:
        signal.signal(SIGNAL, old)


@contextmanager
def opened(server: EmbeddedServer) -> Iterator[tuple[World, Points]]:
    points = Points(MODULES)
    with points.open(), blocking.connect(server.hosts) as zk, blocking.connect(server.hosts) as other:
        for path in ("/r", "/queue", "/claims", "/empty", "/closed"):
            other.create(path)
        with blocking.Lock(other, "/taken"):
            yield World(server, zk, other), points


def prepare(use: Use, world: World) -> None:
    """Have an item there for those who take one."""
    if use is queue:
        blocking.Queue(world.other, "/queue").put(b"x")
    elif use is claim:
        blocking.ClaimQueue(world.other, "/claims").put(b"x")


def finish(use: Use, world: World) -> None:
    """Use it as it is to be used."""
    try:
        use(world)
    except TimeoutError:
        assert use.__name__.startswith("wait_for_")


def empty(world: World) -> None:
    """Delete the items that were left."""
    world.taken.clear()
    for path in ("/queue", "/claims"):
        for child in world.other.get_children(path):
            if world.other.exists(f"{path}/{child}").ephemeralOwner == 0 and child[-1].isdigit():
                world.other.delete(f"{path}/{child}")


def stop(number: int, frame: object) -> None:
    raise Stopped


@pytest.mark.parametrize("use", USES, ids=lambda use: use.__name__)
def test_interrupted_at_each_point(
    server: EmbeddedServer, use: Use, record_property: Callable[[str, object], None]
) -> None:
    stopped = 0
    with handling(stop), opened(server) as (world, points):
        zk, here = world.zk, threading.active_count()
        for _ in range(3):
            prepare(use, world)
            finish(use, world)
        world.taken.clear()
        empty(world)
        sessions = len(server.sessions())
        for number in range(1, MOST, STRIDE):
            prepare(use, world)
            try:
                points.run(number, lambda: finish(use, world))
            except Stopped as error:
                stopped += 1
                if use is queue:
                    notes = "".join(getattr(error, "__notes__", ()))
                    left = world.other.get_children("/queue")
                    assert left or world.taken or "returned" in notes, f"at {number} an item is gone"
            zk.sync()
            wait_until(lambda: not zk.get_ephemerals() and (use in WATCHES or zk.watch_count == 0))
            wait_until(lambda: len(server.sessions()) == sessions)
            assert len(threads._bodies.open) == 3, "the blocks of opened()"
            empty(world)
            prepare(use, world)
            with blocking.timeout(30):
                finish(use, world)
            if not points.happened:
                break
        else:
            raise AssertionError("more points are needed")
        assert number > LEAST
        assert stopped >= 0.9 * (number // STRIDE - 1), "only finalizers swallow it"
        assert zk.metrics.connections == 1
        wait_until(lambda: threading.active_count() <= here)
    record_property("points", number)
    print(f"{use.__name__}: {stopped} points")
    if use not in WATCHES:
        assert server.leaks() == []


def test_the_first_client_is_interrupted_at_each_point(server: EmbeddedServer) -> None:
    """The loop of the clients begins and ends meanwhile. No other thread waits for an interrupted one."""

    def use(hosts: str) -> None:
        with blocking.connect(hosts) as zk:
            zk.exists("/")

    def use_in_a_thread() -> None:
        thread = threading.Thread(target=use, args=(server.hosts,), daemon=True)
        thread.start()
        thread.join(30)
        assert not thread.is_alive(), f"another thread waits for what was interrupted at {number}"

    points, stopped = Points([loop, wakeups, threads]), 0
    with handling(stop), points.open():
        for _ in range(3):
            use(server.hosts)
        here = threading.active_count()
        for number in range(1, MOST, STRIDE):
            try:
                points.run(number, lambda: use(server.hosts))
            except Stopped:
                stopped += 1
            use_in_a_thread()
            wait_until(lambda: threading.active_count() <= here)
            assert loop._shared == {}
            if not points.happened:
                break
        else:
            raise AssertionError("more points are needed")
        assert stopped >= 0.9 * (number // STRIDE - 1), "only finalizers swallow it"
    print(f"{stopped} points")


def calls_the_client(world: World) -> None:
    with suppress(blocking.Interrupted):  # the limit that it finds itself in is over
        world.zk.exists("/")


def closes_another_client(world: World) -> None:
    with suppress(blocking.Interrupted):
        world.third.__exit__(None, None, None)


@pytest.mark.parametrize("use", USES, ids=lambda use: use.__name__)
@pytest.mark.parametrize("handles", [calls_the_client, closes_another_client])
def test_a_handler_uses_a_client_at_each_point(server: EmbeddedServer, use: Use, handles: Use) -> None:
    """It finds the client in the midst of anything that its thread does with it."""
    called = 0
    stuck: list[int] = []
    ended = threading.Event()

    def call(number: int, frame: object) -> None:
        nonlocal called
        called += 1
        handles(world)

    def rescue() -> None:
        seen = (-1, -1)
        while not ended.wait(20):
            if (called, at) == seen:
                stuck.append(at)
                loop._shared[os.getpid()]._wakeup.ring()
            seen = (called, at)

    at = 0
    with handling(call), opened(server) as (world, points):
        for _ in range(3):
            prepare(use, world)
            finish(use, world)
        rescuer = threading.Thread(target=rescue)
        rescuer.start()
        try:
            for at in range(1, MOST, STRIDE):
                before = called
                prepare(use, world)
                world.open_third()
                points.run(at, lambda: finish(use, world))
                if not points.happened:
                    break
                assert called == before + 1
            else:
                raise AssertionError("more points are needed")
        finally:
            ended.set()
            rescuer.join()
            if world.is_third_open:
                closes_another_client(world)
        empty(world)
    assert stuck == []
    assert called > LEAST // STRIDE
    print(f"{use.__name__}: {called} points")
    assert server.leaks() == []
