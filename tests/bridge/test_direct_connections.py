"""Calls over a direct connection: they do what calls of the loop do, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import attrs
import pytest

from pyzk import aio, blocking
from pyzk.bridge import direct
from pyzk.client import direct_connection, handoff, pending
from pyzk.client import request as requests
from pyzk.client.direct_connection import DirectConnection, Exchange
from pyzk.client.request import Request
from pyzk.protocol.records import GetDataResponse
from pyzk.server.testing import EmbeddedServer

from ..support.stopping import cannot_stop, stopped_at
from ..support.waiting import wait_until

NAMES = ("aio", "blocking")
TIMEOUT = 40.0
"""Seconds of a session whose loop sends no ping while a slow machine makes some hundred calls."""


@pytest.fixture(autouse=True)
def long_direct_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """A direct connection ends when the loop has something to do, also on a slow machine."""
    monkeypatch.setattr(handoff, "HANDOFF_TIME", 30)


@attrs.define
class Counted:
    """:ivar sent: how many requests were sent over direct connections."""

    sent: int = 0


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    counted, send = Counted(), DirectConnection.send

    def counting(direct: DirectConnection, request: Request[Any], adopt: Callable[[], object]) -> Exchange:
        exchange = send(direct, request, adopt)
        counted.sent += 1
        return exchange

    monkeypatch.setattr(DirectConnection, "send", counting)
    return counted


def direct_of(zk: Any) -> DirectConnection | None:
    return zk._trio.source.direct  # type: ignore[no-any-return]


def call_directly(zk: blocking.ZooKeeper) -> DirectConnection:
    """Call until the next call is made over a direct connection."""
    while direct_of(zk) is None:
        zk.exists("/")
        time.sleep(0.001)  # the loop comes to wait
    direct = direct_of(zk)
    assert direct is not None
    return direct


async def call_directly_aio(zk: aio.ZooKeeper) -> DirectConnection:
    while direct_of(zk) is None:
        await zk.exists("/")
        await asyncio.sleep(0.001)
    direct = direct_of(zk)
    assert direct is not None
    return direct


@pytest.fixture
def zk(server: EmbeddedServer) -> Iterator[blocking.ZooKeeper]:
    with blocking.connect(server.hosts, session_timeout=TIMEOUT) as zk:
        yield zk
        assert zk.metrics.connections == 1, "no connection was lost"


def run_aio(server: EmbeddedServer, main: Callable[[aio.ZooKeeper], Awaitable[None]]) -> None:
    async def opened() -> None:
        async with aio.connect(server.hosts, session_timeout=TIMEOUT) as zk:
            await main(zk)
            assert zk.metrics.connections == 1, "no connection was lost"

    asyncio.run(opened())


# --- threads ----------------------------------------------------------------------------------------------


def test_calls_in_sequence_are_made_over_direct_connections(zk: blocking.ZooKeeper, counted: Counted) -> None:
    call_directly(zk)
    counted.sent = 0
    before = zk.metrics.requests.total()
    call_directly(zk)
    for number in range(100):
        assert zk.set("/", b"%d" % number).version == number + 1
        assert zk.get("/")[0] == b"%d" % number
    assert counted.sent == 200
    assert zk.session.last_zxid == zk.get("/")[1].mzxid
    assert zk.metrics.requests.total() - before > 200


def test_what_a_direct_call_raises_and_returns(zk: blocking.ZooKeeper, counted: Counted) -> None:
    call_directly(zk)
    before = counted.sent
    with pytest.raises(blocking.NoNodeError) as caught:
        zk.get("/missing")
    assert caught.value.path == "/missing"
    assert zk.exists("/missing") is None
    with pytest.raises(blocking.BadArgumentsError):
        zk.get("missing")
    assert zk.create("/a/b/c", make_parents=True) == "/a/b/c"
    assert zk.get_children("/a") == ["b"]
    assert counted.sent - before == 8
    with pytest.raises(blocking.BadArgumentsError, match=r"jute\.maxbuffer"):
        zk.set("/a", b"x" * 2**20)
    zk.set("/a", b"x" * 500_000)
    assert zk.get("/a")[0] == b"x" * 500_000
    zk.delete("/a", recursive=True)
    assert zk.exists("/a") is None


def test_an_observer_sees_all_calls(server: EmbeddedServer, counted: Counted) -> None:
    class Observer(blocking.Observer):
        settled = 0

        def request_settled(self, operation: str, seconds: float, error: Exception | None) -> None:
            self.settled += operation == "get_data"

    observer = Observer()
    with blocking.connect(server.hosts, observer=observer) as zk:
        for _ in range(50):
            zk.get("/")
    assert observer.settled == 50
    assert not counted.sent


def test_a_second_thread_is_served_meanwhile(zk: blocking.ZooKeeper, server: EmbeddedServer) -> None:
    """The loop takes the connection back, with a request that is in flight."""
    call_directly(zk)
    server.hold("reply", op="get_data", times=1)
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(zk.create("/other")))

    def meanwhile() -> None:
        wait_until(server.held)
        thread.start()  # its reply comes behind the one that is held
        wait_until(lambda: zk.requests_in_flight == 2)
        server.release()

    helper = threading.Thread(target=meanwhile)
    helper.start()
    assert zk.get("/")[0] == b""
    helper.join()
    thread.join()
    assert results == ["/other"]


def test_many_threads(zk: blocking.ZooKeeper) -> None:
    zk.create("/count", b"0")

    def add(times: int) -> None:
        for _ in range(times):
            while True:
                data, stat = zk.get("/count")
                assert data is not None
                try:
                    zk.set("/count", b"%d" % (int(data) + 1), version=stat.version)
                except blocking.BadVersionError:
                    continue
                break
            time.sleep(0.0005)  # so that now one thread calls, and now another

    threads = [threading.Thread(target=add, args=(40,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert zk.get("/count")[0] == b"120"


def test_an_event_that_comes_with_a_reply(zk: blocking.ZooKeeper) -> None:
    for _ in range(20):
        _, watch = zk.exists_and_watch("/seen")
        call_directly(zk)
        zk.create("/seen")
        assert watch.event is not None, "events come before replies"
        zk.delete("/seen")


def test_an_event_while_nobody_calls(
    zk: blocking.ZooKeeper, server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handoff, "HANDOFF_TIME", direct_connection.HANDOFF_TIME)
    heard = threading.Event()
    _, watch = zk.exists_and_watch("/seen")

    def wait() -> None:
        watch.wait()
        heard.set()

    thread = threading.Thread(target=wait)
    thread.start()
    for _ in range(50):
        zk.exists("/")
    with blocking.connect(server.hosts) as other:
        other.create("/seen")
    assert heard.wait(5)
    thread.join()


def test_a_timeout_while_a_call_waits(zk: blocking.ZooKeeper, server: EmbeddedServer) -> None:
    with pytest.raises(TimeoutError), blocking.timeout(0.2):
        call_directly(zk)
        server.hold("reply", op="get_data", times=1)
        zk.get("/")
    server.release()
    assert zk.get("/")[0] == b""


def test_a_lost_lock_ends_a_call(zk: blocking.ZooKeeper, server: EmbeddedServer) -> None:
    with pytest.raises(blocking.LockLost), blocking.Lock(zk, "/lock") as grant:
        call_directly(zk)
        server.hold("reply", op="get_acl", times=1)

        def delete() -> None:
            wait_until(server.held)
            with blocking.connect(server.hosts) as other:
                other.delete(grant.path)
            wait_until(grant.lost.is_set)

        thread = threading.Thread(target=delete)
        thread.start()
        threading.Timer(0.3, server.release).start()
        try:
            while True:
                zk.get_acl("/")
        finally:
            thread.join()


def test_a_server_that_goes_away(server: EmbeddedServer) -> None:
    with blocking.connect(server.hosts) as zk:
        call_directly(zk)
        server.hold("reply", op="get_data", times=1)
        session = zk.session.id

        def disconnect() -> None:
            wait_until(server.held)
            server.disconnect(session)

        call_directly(zk)
        thread = threading.Thread(target=disconnect)
        thread.start()
        assert zk.get("/")[0] == b""  # a read is repeated
        thread.join()
        assert zk.metrics.connections == 2
        call_directly(zk)
        server.hold("reply", op="set_data", times=1)
        thread = threading.Thread(target=disconnect)
        thread.start()
        with pytest.raises(blocking.ConnectionLossError) as caught:
            zk.set("/", b"x")
        assert caught.value.sent
        thread.join()


def test_a_reply_that_does_not_decode_ends_the_connection(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with blocking.connect(server.hosts) as zk:
        call_directly(zk)

        def decode(*args: object) -> None:
            raise ValueError("no such record")

        with monkeypatch.context() as patch:
            patch.setattr(GetDataResponse, "decode", decode)
            patch.setattr(GetDataResponse, "decode_from", decode, raising=False)
            with pytest.raises(blocking.MarshallingError):
                zk.get("/")
        wait_until(lambda: zk.metrics.connections == 2)
        assert zk.get("/")[0] == b""


def test_the_handler_of_a_signal_calls_the_client(zk: blocking.ZooKeeper, server: EmbeddedServer) -> None:
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("the handlers of signals run in the main thread only")
    seen: list[Any] = []
    old = signal.signal(signal.SIGUSR1, lambda *_: seen.append(zk.create("/by-handler")))
    try:
        call_directly(zk)
        server.hold("reply", op="get_data", times=1)

        def interrupt() -> None:
            wait_until(server.held)
            os.kill(os.getpid(), signal.SIGUSR1)
            wait_until(lambda: zk.requests_in_flight == 2)
            server.release()

        thread = threading.Thread(target=interrupt)
        thread.start()
        assert zk.get("/")[0] == b""
        thread.join()
    finally:
        signal.signal(signal.SIGUSR1, old)
    assert seen == ["/by-handler"]


FILES = [module.__file__ for module in (direct_connection, direct.calls, direct.threads, pending, requests)]
STRIDE = 3
"""Instructions from one at which a call is stopped to the next: all of them would take several seconds."""


@cannot_stop
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")  # stopped before it began
def test_interrupted_before_any_instruction(zk: blocking.ZooKeeper) -> None:
    """As by Ctrl-C: the next calls work, on the same connection, and each request was sent at most once."""
    version = 0
    for number in range(1, 5000, STRIDE):
        call_directly(zk)
        stopped = stopped_at(number, FILES, lambda: zk.set("/", b"x"))
        now = zk.get("/")[1].version
        assert now - version in (0, 1)
        assert stopped or now - version == 1
        assert not pending.thread.taskless
        assert not pending.thread.sends
        version = now
        if not stopped:
            break
    assert number > 50 * STRIDE


# --- asyncio ----------------------------------------------------------------------------------------------


def test_tasks_make_calls_over_direct_connections(server: EmbeddedServer, counted: Counted) -> None:
    async def main(zk: aio.ZooKeeper) -> None:
        await call_directly_aio(zk)
        before = counted.sent
        for number in range(50):
            assert (await zk.set("/", b"%d" % number)).version == number + 1
            assert (await zk.get("/"))[0] == b"%d" % number
        with pytest.raises(aio.NoNodeError):
            await zk.get("/missing")
        with pytest.raises(aio.BadArgumentsError):
            await zk.get("missing")
        assert await zk.create("/a/b/c", make_parents=True) == "/a/b/c"
        assert counted.sent - before == 106
        await zk.set("/a", b"x" * 500_000)
        assert (await zk.get("/a"))[0] == b"x" * 500_000

    run_aio(server, main)


def test_tasks_at_the_same_time(server: EmbeddedServer) -> None:
    async def main(zk: aio.ZooKeeper) -> None:
        for _ in range(20):
            await call_directly_aio(zk)
            names = await asyncio.gather(*[zk.create("/n-", sequential=True) for _ in range(5)])
            assert len(set(names)) == 5

    run_aio(server, main)


def test_a_task_is_cancelled_while_its_call_is_under_way(server: EmbeddedServer) -> None:
    async def main(zk: aio.ZooKeeper) -> None:
        await call_directly_aio(zk)
        server.hold("reply", op="get_data", times=1)
        task = asyncio.create_task(zk.get("/"))
        await asyncio.to_thread(wait_until, server.held)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        server.release()
        for _ in range(20):
            await call_directly_aio(zk)
            task = asyncio.create_task(zk.create("/n-", sequential=True))
            await asyncio.sleep(0)
            task.cancel()  # and perhaps the reply is here already
            await asyncio.wait([task])
            assert (await zk.get("/"))[0] == b""

    run_aio(server, main)


def test_an_event_loop_that_is_blocked_keeps_nothing_from_others(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handoff, "HANDOFF_TIME", direct_connection.HANDOFF_TIME)

    async def main(zk: aio.ZooKeeper) -> None:
        for _ in range(10):
            await zk.exists("/")
        task = asyncio.create_task(zk.get("/"))
        await asyncio.sleep(0)
        wait_until(lambda: direct_of(zk) is None)  # blocks the event loop
        wait_until(lambda: zk.requests_in_flight == 0)
        assert (await task)[0] == b""

    run_aio(server, main)


def test_a_server_that_goes_away_from_an_event_loop(server: EmbeddedServer) -> None:
    async def main() -> None:
        async with aio.connect(server.hosts) as zk:
            for _ in range(3):
                await call_directly_aio(zk)
                server.disconnect(zk.session.id)
                assert (await zk.get("/"))[0] == b""

    asyncio.run(main())


@pytest.mark.parametrize("name", NAMES)
def test_direct_connections_leave_no_files(server: EmbeddedServer, name: str) -> None:
    def files() -> int:
        return len(os.listdir("/proc/self/fd"))

    def use() -> None:
        if name == "aio":

            async def main(zk: aio.ZooKeeper) -> None:
                for _ in range(5):
                    await call_directly_aio(zk)
                    await zk.get("/")
                    await zk.sync()

            run_aio(server, main)
        else:
            with blocking.connect(server.hosts) as zk:
                for _ in range(5):
                    call_directly(zk)
                    zk.get("/")

    use()
    wait_until(lambda: not server.sessions())
    before = files()
    for _ in range(3):
        use()
    wait_until(lambda: not server.sessions())
    wait_until(lambda: files() <= before)
