"""What goes wrong around calls over a direct connection."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pyzk import aio, blocking
from pyzk.client import MarshallingError
from pyzk.client.direct_connection import DirectConnection, Exchange
from pyzk.server.storage.building import collector_paused
from pyzk.server.testing import EmbeddedServer

from ..support.waiting import wait_until


def test_a_direct_call_does_not_overtake_one_that_the_loop_was_asked_for(
    server: EmbeddedServer,
) -> None:
    async def main() -> None:
        async with aio.connect(server.hosts) as zk:
            await zk.create("/node")
            for _ in range(60):  # about every fifth was overtaken
                for _ in range(4):
                    await zk.get("/node")
                deleted = asyncio.create_task(zk.delete("/node"))
                await asyncio.sleep(0)
                await zk.create("/node")
                await deleted

    asyncio.run(main())


@contextmanager
def no_file_descriptors() -> Iterator[None]:
    """Leave none that is free."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            os.dup(0)
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_calls_need_no_free_file_descriptor(server: EmbeddedServer) -> None:
    with blocking.connect(server.hosts) as zk:
        zk.create("/node")
        with no_file_descriptors():
            for _ in range(20):
                zk.get("/node")


def test_calls_of_asyncio_need_no_free_file_descriptor(server: EmbeddedServer) -> None:
    async def main() -> None:
        async with aio.connect(server.hosts) as zk:
            await zk.create("/node")
            with no_file_descriptors():
                for _ in range(20):
                    await zk.get("/node")

    asyncio.run(main())


def test_a_call_that_was_answered_while_the_client_closed_has_its_answer(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent, closed = threading.Event(), threading.Event()
    receive, outcomes = DirectConnection.receive, []

    def receive_late(direct: DirectConnection, exchange: Exchange) -> bytes | None:
        sent.set()
        closed.wait(5)
        return receive(direct, exchange)

    def write() -> None:
        try:
            while not sent.is_set():
                outcomes.append(zk.set("/node", b"data").version)
        except Exception as error:
            outcomes.append(error)

    monkeypatch.setattr(DirectConnection, "receive", receive_late)
    with blocking.connect(server.hosts) as zk:
        zk.create("/node")
        writer = threading.Thread(target=write)
        writer.start()
        assert sent.wait(5)
    closed.set()
    writer.join(5)
    assert outcomes == list(range(1, len(outcomes) + 1))
    assert server.dump()["/node"] == b"data"


def test_a_direct_connection_obeys_the_limit_of_replies(server: EmbeddedServer) -> None:
    with blocking.connect(server.hosts, reply_limit=1000) as zk:
        zk.create("/small", bytes(1000 - 88))  # what a reply has besides: a header, a length and the Stat
        zk.create("/large", bytes(1000 - 87))
        for _ in range(10):
            assert zk.get("/small")[1].dataLength == 912
        with pytest.raises(MarshallingError, match="reply_limit is 1,000"):
            zk.get("/large")


def test_a_signal_handler_that_calls_directly_wakes_the_call_that_it_interrupts(
    server: EmbeddedServer,
) -> None:
    def handle(*_: object) -> None:
        threading.Timer(0.02, server.stop_holding).start()
        for _ in range(10):
            zk.set("/other", b"")

    before = signal.signal(signal.SIGALRM, handle)
    try:
        with blocking.connect(server.hosts, session_timeout=60) as zk:
            for path in ("/node", "/other"):
                zk.create(path)
            for _ in range(5):
                zk.get("/node")
            server.hold(op="set_data", path="/node")
            signal.setitimer(signal.ITIMER_REAL, 0.005)
            assert zk.set("/node", b"data").version == 1
            assert server.history(op="ping") == [], "it did not wait until the client had something to send"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Refusing:
    """Offers a direct connection, and then does not hand over."""

    def hand_over(self) -> bool:
        return False

    def take_back(self) -> None:
        pass


def test_calls_are_answered_beside_a_client_that_does_not_hand_over(server: EmbeddedServer) -> None:
    with blocking.connect(server.hosts) as zk:
        loop = zk._loop  # type: ignore[attr-defined]
        for _ in range(3):
            loop.post(loop.sources.offers.setdefault, Refusing(), None)
            assert zk.exists("/node") is None


def test_a_signal_handler_that_closes_another_client_wakes_the_call_that_it_interrupts(
    server: EmbeddedServer,
) -> None:
    """The thread waits for a reply, or for the wake-up by which the loop takes the connection back. The
    wake-up lasts until the call is answered."""

    def handle(*_: object) -> None:
        threading.Timer(0.02, server.stop_holding).start()
        block.__exit__(None, None, None)

    block = blocking.connect(server.hosts)
    before = signal.signal(signal.SIGALRM, handle)
    try:
        with blocking.connect(server.hosts, session_timeout=60) as zk:
            block.__enter__()
            zk.create("/node")
            for _ in range(5):
                zk.get("/node")
            server.hold(op="set_data", path="/node")
            signal.setitimer(signal.ITIMER_REAL, 0.005)
            assert zk.set("/node", b"data").version == 1
            assert len(server.sessions()) == 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_threads_that_have_ended_keep_no_file_descriptors(server: EmbeddedServer) -> None:
    def use(count: int) -> int:
        for _ in range(count):
            with blocking.connect(server.hosts) as zk:
                thread = threading.Thread(target=lambda zk=zk: [zk.exists("/") for _ in range(30)])
                thread.start()
                thread.join()
        wait_until(lambda: not server.sessions())
        return files()

    def files() -> int:
        return len(os.listdir("/proc/self/fd"))

    gc.collect()
    with collector_paused():
        before = use(2)
        use(3)
        wait_until(lambda: files() <= before)  # the server closes its sockets in a thread of its own
