"""The issues of real lock code with an unmodified client, through a real socket.

Run with ``-s`` to see the timelines.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import (
    CancelledError,
    ConnectionLoss,
    LockTimeout,
    NodeExistsError,
    OperationTimeoutError,
)

from pyzk.server.testing import EmbeddedServer

from ...support.waiting import wait_until

Connect = Callable[..., KazooClient]


@pytest.fixture(autouse=True)
def timeline(server: EmbeddedServer, request: pytest.FixtureRequest) -> Any:
    yield
    print(f"\n{request.node.name}\n{server.format_timeline()}")


def lock_nodes(server: EmbeddedServer) -> list[str]:
    return [path for path in server.dump() if path.startswith("/lock/")]


def test_lock_whose_create_loses_its_reply(server: EmbeddedServer, connect: Connect) -> None:
    """It must find the znode it has, and neither make a second one nor wait for itself."""
    client = connect(server)
    with server.fault("create", "/lock/*__lock__*", when="after"):
        lock = client.Lock("/lock", "me")
        assert lock.acquire(timeout=10)
    assert len(lock_nodes(server)) == 1
    lock.release()
    assert lock_nodes(server) == []


def test_lock_whose_create_is_lost(server: EmbeddedServer, connect: Connect) -> None:
    client = connect(server)
    with server.fault("create", "/lock/*__lock__*", when="before"):
        lock = client.Lock("/lock", "me")
        assert lock.acquire(timeout=10)
    assert len(lock_nodes(server)) == 1
    lock.release()
    assert lock_nodes(server) == []


def test_lock_whose_delete_loses_its_reply(server: EmbeddedServer, connect: Connect) -> None:
    """The lock is released, whatever its owner hears; another gets it."""
    holder, waiter = connect(server), connect(server)
    lock = holder.Lock("/lock", "holder")
    lock.acquire(timeout=10)
    other = waiter.Lock("/lock", "waiter")
    with server.fault("delete", "/lock/*", session=holder, when="after"):
        lock.release()
    assert other.acquire(timeout=10)
    other.release()
    assert lock_nodes(server) == []


def test_lock_holder_expires(server: EmbeddedServer, connect: Connect) -> None:
    holder, waiter = connect(server), connect(server)
    states: list[str] = []
    holder.add_listener(states.append)
    lock = holder.Lock("/lock", "holder")
    lock.acquire(timeout=10)
    other = waiter.Lock("/lock", "waiter")
    thread = threading.Thread(target=other.acquire, kwargs={"timeout": 20}, daemon=True)
    thread.start()
    wait_until(lambda: any(s.watches for s in server.sessions()))  # it waits for the holder's znode
    server.expire(holder)
    thread.join(20)
    assert other.is_acquired
    wait_until(lambda: KazooState.LOST in states)
    assert other.contenders() == ["waiter"]
    other.release()


def test_lock_waiter_whose_predecessor_expires(server: EmbeddedServer, connect: Connect) -> None:
    """Of three, the middle one goes: the last must go on waiting for the first, not take the lock."""
    first, middle, last = (connect(server) for _ in range(3))
    held = first.Lock("/lock", "first")
    held.acquire(timeout=10)
    waiting = []
    for n, (client, name) in enumerate(((middle, "middle"), (last, "last")), 1):
        lock = client.Lock("/lock", name)
        thread = threading.Thread(target=_acquire, args=(lock,), daemon=True)
        thread.start()
        waiting.append((lock, thread))
        wait_until(partial(lambda n: watchers(server) == n, n))
    server.refuse_connections()  # its client must not come back for the lock while we look
    server.expire(middle)
    wait_until(lambda: watchers(server) == 1 and len(lock_nodes(server)) == 2)
    lock, thread = waiting[1]
    assert not lock.is_acquired
    held.release()
    thread.join(20)
    assert lock.is_acquired
    lock.release()
    server.accept_connections()
    waiting[0][0].cancel()
    waiting[0][1].join(20)


def watchers(server: EmbeddedServer) -> int:
    return sum(bool(session.watches) for session in server.sessions())


def _acquire(lock: Any) -> None:
    with suppress(CancelledError, LockTimeout):
        lock.acquire(timeout=20)


def test_data_watch_across_disconnect(server: EmbeddedServer, connect: Connect) -> None:
    """A change that happens while the client is away must still be seen."""
    client, other = connect(server), connect(server)
    server.load({"/config": "1"})
    seen: list[bytes] = []
    client.DataWatch("/config", lambda data, stat: seen.append(data))
    assert seen == [b"1"]
    server.refuse_connections()
    server.disconnect(client)
    wait_until(lambda: client.state == KazooState.SUSPENDED)
    other.set("/config", b"2")
    server.accept_connections()
    wait_until(lambda: seen == [b"1", b"2"])
    other.set("/config", b"3")
    wait_until(lambda: seen == [b"1", b"2", b"3"])


def test_without_retries_a_lost_reply_is_an_honest_error(server: EmbeddedServer, connect: Connect) -> None:
    client = connect(server)
    with server.fault("create", "/a", when="after") as fault, pytest.raises(ConnectionLoss):
        client.create("/a")
    fault.wait()
    with pytest.raises(NodeExistsError):
        client.retry(client.create, "/a")


def test_an_injected_error_reaches_the_client(server: EmbeddedServer, connect: Connect) -> None:
    client = connect(server)
    with server.fault("set_data", "/a", action="error", error=-7):
        client.create("/a", b"1")
        with pytest.raises(OperationTimeoutError):
            client.set("/a", b"2")
    assert client.get("/a")[0] == b"1"


def test_a_fault_can_be_waited_for(server: EmbeddedServer, connect: Connect) -> None:
    client = connect(server)
    with server.fault("create", "/a", required=False) as fault:
        with pytest.raises(TimeoutError, match="create on /a never fired"):
            fault.wait(timeout=0.01)
        client.create_async("/a")
        fault.wait()
        assert fault.fired == 1


def test_a_restart_that_keeps_the_data(server: EmbeddedServer, connect: Connect) -> None:
    client = connect(server)
    client.create("/e", b"", ephemeral=True)
    session = client.client_id
    server.restart(keep_data=True)
    assert client.retry(client.exists, "/e")
    assert client.client_id == session


def test_a_restart_that_loses_the_data(server: EmbeddedServer, connect: Connect) -> None:
    client = connect(server)
    states: list[str] = []
    client.add_listener(states.append)
    client.create("/a")
    session = client.client_id
    server.restart(keep_data=False)
    wait_until(lambda: states[-1:] == [KazooState.CONNECTED] and client.client_id != session)
    assert KazooState.LOST in states
    assert client.retry(client.exists, "/a") is None


def test_a_hung_server(server: EmbeddedServer, connect: Connect) -> None:
    client = connect(server)
    server.pause()
    result = client.create_async("/a")
    assert not result.wait(0.05)
    assert server.dump() == {}
    server.resume()
    assert result.get(timeout=10) == "/a"


def test_a_delay_on_a_frozen_clock(connect: Connect) -> None:
    with EmbeddedServer(clock="frozen") as server:
        client = connect(server)
        with server.fault("create", "/a", action="delay", seconds=5) as fault:
            result = client.create_async("/a")
            fault.wait()
        assert not result.wait(0.02)
        server.clock.advance(5)
        assert result.get(timeout=10) == "/a"
        client.stop()
