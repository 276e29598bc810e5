"""What nobody foresaw ends the connection, the timer or the task that it happens in, with one traceback."""

from __future__ import annotations

import logging
import resource
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import trio
import trio.testing

from benchmarks import wire
from pyzk.protocol import records as r
from pyzk.protocol.constants import AddWatchMode
from pyzk.protocol.operations import OpCode
from pyzk.server.core.failures import ran_out
from pyzk.server.core.watches import Notification
from pyzk.server.core.znode import Children, Znode
from pyzk.server.monitoring import four_letter_words
from pyzk.server.net.connection import Connection
from pyzk.server.net.gate import Gate
from pyzk.server.net.hub import Hub
from pyzk.server.net.listening import serve_clients
from pyzk.server.net.server import Server
from pyzk.server.net.service import Service

from ...support.network import served, talk
from ...support.requests import create_op, set_op
from ...support.waiting import PATIENCE
from ...support.world import Peer, World

HELLO = wire.hello(30_000, read_only=None)
PING = wire.request(OpCode.PING, xid=-2)
WELCOME, PONG = 40, 20  # bytes

UNFORESEEN = [RuntimeError("a bug"), MemoryError(), OSError(24, "Too many open files")]


def raises(error: BaseException) -> Callable[..., Any]:
    def fail(*args: Any, **kwargs: Any) -> Any:
        raise error

    return fail


Connect: TypeAlias = Callable[[Server], Awaitable[trio.SocketStream]]


@pytest.fixture
async def connected() -> AsyncIterator[Connect]:
    """Opens a connection with a session; all are closed at the end."""
    streams: list[trio.SocketStream] = []

    async def connect(server: Server) -> trio.SocketStream:
        streams.append(stream := await trio.open_tcp_stream(*server.address))
        await stream.send_all(HELLO)
        await receive(stream, WELCOME)
        return stream

    yield connect
    for stream in streams:
        await trio.aclose_forcefully(stream)


async def receive(stream: trio.SocketStream, size: int) -> None:
    with trio.fail_after(PATIENCE):
        while size:
            data = await stream.receive_some(size)
            assert data, "the connection is closed"
            size -= len(data)


async def is_served(stream: trio.SocketStream) -> None:
    await stream.send_all(PING)
    await receive(stream, PONG)


async def is_closed(stream: trio.SocketStream) -> None:
    with trio.fail_after(PATIENCE):
        try:
            while await stream.receive_some(1000):
                pass
        except trio.BrokenResourceError:
            pass


def connections(server: Server) -> list[Connection]:
    return list(server.service.connections)


# --- a connection -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", UNFORESEEN, ids=repr)
@pytest.mark.parametrize("method", ["exchange", "receive_eof", "data_to_send", "proceed"])
async def test_an_error_ends_the_connection_that_is_served(
    monkeypatch: pytest.MonkeyPatch, connected: Connect, tracebacks: list[str], method: str, error: Exception
) -> None:
    async with served() as server:
        first, other = await connected(server), await connected(server)
        monkeypatch.setattr(connections(server)[0], method, raises(error))
        await first.send_all(PING * 40)
        if method == "receive_eof":
            await first.send_eof()
        await is_closed(first)
        await is_served(other)
        assert len(tracebacks) == 1
        assert len(server.service.connections) == 1
        assert len(server._hub._links) == 1
        assert not server._hub._busy


async def test_an_error_in_an_event_ends_the_watchers_connection_only(
    monkeypatch: pytest.MonkeyPatch, connected: Connect, tracebacks: list[str]
) -> None:
    """While the answers of a turn go out, any connection may be the one that fails."""
    async with served() as server:
        watcher, writer = await connected(server), await connected(server)
        watch = wire.request(OpCode.ADD_WATCH, r.AddWatchRequest("/", AddWatchMode.PERSISTENT_RECURSIVE), 1)
        await watcher.send_all(watch)
        await receive(watcher, PONG + 4)
        monkeypatch.setattr(connections(server)[0], "data_to_send", raises(RuntimeError("a bug")))
        await writer.send_all(wire.request(OpCode.CREATE, r.CreateRequest("/a", b"", r.OPEN_ACL, 0), 1))
        await receive(writer, PONG + 6)
        await is_closed(watcher)
        await is_served(writer)
        assert len(tracebacks) == 1
        assert not server.service.engine.watches.count()


async def test_a_watcher_that_cannot_be_told_keeps_no_event_from_the_others(
    monkeypatch: pytest.MonkeyPatch, tracebacks: list[str]
) -> None:
    world = World()
    watchers, writer = [world.connect() for _ in range(3)], world.connect()
    for watcher in watchers:
        watcher.exists("/a", watch=True)
    monkeypatch.setattr(watchers[0].connection, "notify", raises(MemoryError()))
    assert writer.create("/a").err == 0
    assert [watcher.closed for watcher in watchers] == [True, False, False]
    assert [len(watcher.take_events()) for watcher in watchers[1:]] == [1, 1]
    assert len(tracebacks) == 1


@pytest.mark.parametrize("error", UNFORESEEN, ids=repr)
async def test_an_error_ends_the_handshake(
    monkeypatch: pytest.MonkeyPatch, connected: Connect, tracebacks: list[str], error: Exception
) -> None:
    async with served() as server:
        other = await connected(server)
        with monkeypatch.context() as patch:
            patch.setattr(server.service.engine, "connect", raises(error))
            assert await talk(server.address, HELLO) == b""
        await is_served(other)
        await is_served(await connected(server))
        assert len(tracebacks) == 1


@pytest.mark.parametrize("error", UNFORESEEN, ids=repr)
@pytest.mark.parametrize("alone", [True, False])
async def test_a_write_that_fails_has_no_answer(
    monkeypatch: pytest.MonkeyPatch, connected: Connect, tracebacks: list[str], error: Exception, alone: bool
) -> None:
    """Any answer would say whether it was done, which nobody knows."""
    async with served() as server:
        first, other = await connected(server), await connected(server)
        monkeypatch.setattr(server.service.engine.tree, "change", raises(error))
        create = wire.request(OpCode.CREATE, r.CreateRequest("/a", b"", r.OPEN_ACL, 0), 1)
        await first.send_all(create if alone else create * 2)
        with trio.fail_after(PATIENCE):
            assert await first.receive_some(1000) == b""
        await is_served(other)
        assert len(tracebacks) == 1


class Full(Children):
    """Has no memory for one more."""

    def __setitem__(self, name: str, node: Znode) -> None:
        raise MemoryError


@pytest.mark.parametrize("place", ["children", "owner"])
@pytest.mark.parametrize("in_multi", [True, False])
def test_a_znode_without_memory_for_it_is_not_there_at_all(
    world: World, client: Peer, place: str, in_multi: bool
) -> None:
    client.create("/a")
    client.create("/a/b")
    parent = world.tree.nodes["/a"]
    stat, owned, count = parent.stat(), dict(world.tree.ephemerals), len(world.tree)
    children = parent.children
    assert children is not None
    with pytest.MonkeyPatch.context() as patch:
        if place == "children":
            full = Full(0)
            for name in Children.__slots__:
                setattr(full, name, getattr(children, name))
            full.update(children)
            patch.setattr(parent, "children", full)
        else:
            patch.setattr(world.tree, "_own", raises(MemoryError()))
        ops = [set_op("/a/b", b"new"), create_op("/a/c", flags=1)]
        with pytest.raises(MemoryError):
            client.multi(*ops) if in_multi else client.create("/a/c", flags=1)
    assert world.tree.nodes["/a"].stat() == stat
    assert (world.tree.ephemerals, len(world.tree)) == (owned, count)
    assert list(children) == ["b"]
    assert world.tree.nodes["/a/b"].data == b""
    again = world.connect()
    assert again.multi(create_op("/a/c", flags=1)).err == 0


def test_a_watcher_that_cannot_be_told_is_closed(
    monkeypatch: pytest.MonkeyPatch, world: World, client: Peer, tracebacks: list[str]
) -> None:
    """Its watch is gone, and it would wait for ever."""
    watcher = world.connect()
    watcher.exists("/a", watch=True)
    monkeypatch.setattr(Notification, "frame", property(raises(MemoryError())))
    assert client.create("/a").err == 0
    assert watcher.closed
    assert len(tracebacks) == 1


def test_an_effect_that_fails_loses_no_event_of_those_before_it(
    monkeypatch: pytest.MonkeyPatch, world: World, client: Peer
) -> None:
    watcher = world.connect()
    watcher.exists("/a", watch=True)
    watcher.exists("/b", watch=True)
    created = world.engine.watches.created
    calls = iter([created, raises(MemoryError())])
    monkeypatch.setattr(world.engine.watches, "created", lambda *paths: next(calls)(*paths))
    with pytest.raises(MemoryError):
        client.multi(create_op("/a"), create_op("/b"))
    assert [event.path for event in watcher.take_events()] == ["/a"]


async def test_an_error_ends_a_four_letter_word(
    monkeypatch: pytest.MonkeyPatch, tracebacks: list[str]
) -> None:
    async with served() as server:
        monkeypatch.setitem(four_letter_words._ANSWERS, "ruok", raises(RuntimeError("a bug")))
        assert await talk(server.address, b"ruok") == b""
        assert (await talk(server.address, b"isro")) == b"rw"
        assert len(tracebacks) == 1


async def test_an_error_ends_the_client_that_is_accepted(
    monkeypatch: pytest.MonkeyPatch, connected: Connect, tracebacks: list[str]
) -> None:
    async with served() as server:
        other = await connected(server)
        with monkeypatch.context() as patch:
            patch.setattr(server.service, "accept", raises(RuntimeError("a bug")))
            async with await trio.open_tcp_stream(*server.address) as client:
                await is_closed(client)
        await is_served(other)
        await is_served(await connected(server))
        assert len(tracebacks) == 1


async def test_a_client_that_cannot_be_polled_is_closed(
    monkeypatch: pytest.MonkeyPatch, connected: Connect, tracebacks: list[str]
) -> None:
    class Full:
        def __init__(self, poller: Any) -> None:
            self.register = raises(OSError(28, "No space left on device"))  # max_user_watches
            self.poll, self.fileno, self.close = poller.poll, poller.fileno, poller.close

    async with served() as server:
        other, hub = await connected(server), server._hub
        with monkeypatch.context() as patch:
            patch.setattr(hub, "_poller", Full(hub._poller))
            async with await trio.open_tcp_stream(*server.address) as client:
                await is_closed(client)
        await is_served(other)
        await is_served(await connected(server))
        assert len(tracebacks) == 1
        assert len(server.service.connections) == 2


async def test_an_error_ends_a_client_that_is_leaving(
    monkeypatch: pytest.MonkeyPatch, connected: Connect, tracebacks: list[str]
) -> None:
    async with served() as server:
        other = await connected(server)
        monkeypatch.setattr(server._hub, "_drain", raises(MemoryError()))
        assert await talk(server.address, b"XXXX") == b""
        await is_served(other)
        assert len(tracebacks) == 1
        assert not server._hub._leaving.sockets
        assert not server._hub._leaving.deadlines


async def test_a_turn_that_fails_as_a_whole_is_followed_by_others(
    monkeypatch: pytest.MonkeyPatch,
    connected: Connect,
    tracebacks: list[str],
    autojump_clock: trio.testing.MockClock,
) -> None:
    turn, failures = Hub.turn, [OSError(24, "Too many open files"), RuntimeError("a bug")]

    def fail_twice(hub: Hub, wait: float) -> bool:
        if failures:
            raise failures.pop()
        return turn(hub, wait)

    monkeypatch.setattr(Hub, "turn", fail_twice)
    async with served() as server:
        client = await connected(server)
        await is_served(client)
    assert len(tracebacks) == 2


async def test_memory_that_runs_out_in_a_turn_as_a_whole_ends_the_server(
    monkeypatch: pytest.MonkeyPatch, connected: Connect
) -> None:
    """No client is to blame, and the next turn would fail likewise."""

    async def serve() -> None:
        async with served() as server:
            client = await connected(server)
            monkeypatch.setattr(Hub, "turn", raises(MemoryError()))
            await client.send_all(PING)
            await trio.sleep_forever()

    with pytest.raises(ExceptionGroup) as info:
        await serve()
    assert ran_out(info.value)


async def test_an_error_while_a_connection_is_ended_goes_no_further(
    connected: Connect, tracebacks: list[str]
) -> None:
    class Broken(Gate):
        def closed(self, connection: Connection, reason: str) -> None:
            raise RuntimeError("another bug")

    async with served() as server:
        server.service.gate = Broken()
        first, other = await connected(server), await connected(server)
        await first.aclose()
        await is_served(other)
        assert len(tracebacks) == 1
        assert len(server.service.connections) == len(server._hub._links) == 1


async def test_an_error_ends_the_stream_of_one_client(
    monkeypatch: pytest.MonkeyPatch, connected: Connect, tracebacks: list[str]
) -> None:
    monkeypatch.setattr("pyzk.server.net.server._HAS_HUB", False)
    async with served() as server:
        first, other = await connected(server), await connected(server)
        monkeypatch.setattr(connections(server)[0], "receive_data", raises(RuntimeError("a bug")))
        await first.send_all(PING)
        await is_closed(first)
        await is_served(other)
        assert len(tracebacks) == 1
        assert len(server.service.connections) == 1


def test_a_connection_whose_end_fails_at_first_counts_no_longer(
    monkeypatch: pytest.MonkeyPatch, world: World, client: Peer, tracebacks: list[str]
) -> None:
    def fail_once(*args: Any) -> None:
        monkeypatch.undo()
        raise MemoryError

    monkeypatch.setattr(world.service, "closed", fail_once)
    try:
        client.connection.receive_eof()
    except MemoryError:
        client.connection.fail()
    assert not world.service.connections
    assert len(tracebacks) == 1


# --- a task for each client -------------------------------------------------------------------------------


async def test_an_error_ends_the_task_of_one_client(tracebacks: list[str]) -> None:
    async def serve(stream: trio.SocketStream) -> None:
        async with stream:
            if await stream.receive_some(1) == b"!":
                raise RuntimeError("a bug")
            await stream.send_all(b"well")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        address = listener.getsockname()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve_clients, listener, serve)
            assert await talk(address, b"!") == b""
            assert await talk(address, b".") == b"well"
            nursery.cancel_scope.cancel()
    assert len(tracebacks) == 1


# --- what falls due ---------------------------------------------------------------------------------------


def test_a_timer_that_fails_keeps_no_other_from_its_time(world: World, tracebacks: list[str]) -> None:
    called: list[int] = []
    world.service.call_at(world.now + 1, raises(RuntimeError("a bug")))
    world.service.call_at(world.now + 1, lambda: called.append(1))
    world.service.call_at(world.now + 2, lambda: called.append(2))
    world.pass_time(2)
    assert called == [1, 2]
    assert len(tracebacks) == 1


@pytest.mark.parametrize("place", ["change", "fire", "on_txn", "abort"])
def test_a_session_that_expires_badly_keeps_no_other_from_it(
    monkeypatch: pytest.MonkeyPatch, world: World, tracebacks: list[str], place: str
) -> None:
    peers = [world.connect(timeout=4000) for _ in range(3)]
    for number, peer in enumerate(peers):
        peer.create(f"/{number}", flags=1)
        peer.create(f"/{number}-too", flags=1)
    failures = [MemoryError()]
    owner = {"change": world.tree, "fire": world.engine, "on_txn": world.engine, "abort": peers[0].connection}

    def fail_once(*args: Any, **kwargs: Any) -> Any:
        if failures:
            raise failures.pop()
        return method(*args, **kwargs)

    method = getattr(owner[place], place)
    monkeypatch.setattr(owner[place], place, fail_once)
    world.pass_time(20)
    assert len(tracebacks) == 1
    assert not len(world.engine.sessions)
    assert [peer.closed for peer in peers] == [place != "abort", True, True]
    assert not {"/0-too", "/1", "/1-too", "/2", "/2-too"} & world.tree.nodes.keys()
    assert world.service.next_deadline() > world.now


@pytest.mark.parametrize("place", ["_reap", "prepare"])
def test_a_container_that_cannot_be_deleted_is_not_tried_all_the_time(
    monkeypatch: pytest.MonkeyPatch, world: World, client: Peer, tracebacks: list[str], place: str
) -> None:
    for path in ("/c", "/d"):
        client.create(path, op=OpCode.CREATE_CONTAINER)
        client.create(f"{path}/child")
        client.delete(f"{path}/child")
    if place == "_reap":
        monkeypatch.setattr(world.engine, "_reap", raises(RuntimeError("a bug")))
    else:
        monkeypatch.setattr(world.engine.reaper, "_look", raises(RuntimeError("a bug")))
    for _ in range(65):
        world.pass_time(1)
        client.ping()
    assert len(tracebacks) == (2 if place == "_reap" else 1)
    assert world.service.next_deadline() > world.now


def test_a_silent_client_that_cannot_be_closed_keeps_no_other_waiting(
    monkeypatch: pytest.MonkeyPatch, world: World, tracebacks: list[str]
) -> None:
    silent = [world.open() for _ in range(2)]
    monkeypatch.setattr(silent[0].connection, "abort", raises(RuntimeError("a bug")))
    world.pass_time(30)
    assert [peer.closed for peer in silent] == [True, True]
    assert len(tracebacks) == 1
    assert world.service.next_deadline() > world.now


@pytest.mark.parametrize("method", ["advance", "next_deadline"])
async def test_what_falls_due_goes_on_at_the_next_tick(
    monkeypatch: pytest.MonkeyPatch,
    tracebacks: list[str],
    autojump_clock: trio.testing.MockClock,
    method: str,
) -> None:
    calls = 0

    def fail(service: Service, *args: Any) -> Any:
        nonlocal calls
        calls += 1
        raise RuntimeError("a bug")

    async with served(tick_time=1000) as server:
        await trio.testing.wait_all_tasks_blocked()
        with monkeypatch.context() as patch:
            patch.setattr(Service, method, fail)
            await trio.sleep(5)
            assert 4 <= calls <= 6
        called: list[int] = []
        server.service.call_at(server.clock.now() + 3, lambda: called.append(1))
        await trio.sleep(4.5)
        assert called == [1]
    assert len(tracebacks) == calls


def test_the_log_itself_may_fail(
    monkeypatch: pytest.MonkeyPatch, world: World, client: Peer, tracebacks: list[str]
) -> None:
    monkeypatch.setattr(logging.Logger, "exception", raises(MemoryError()))
    world.service.call_at(world.now + 1, raises(RuntimeError("a bug")))
    client.connection.fail()
    world.pass_time(1)
    assert client.closed


# --- a process without memory -----------------------------------------------------------------------------


def test_a_request_that_gets_no_memory_ends_its_own_connection(tmp_path: Path) -> None:
    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (400 * 2**20, 400 * 2**20))

    def connect(port: int) -> socket.socket:
        client = socket.create_connection(("127.0.0.1", port), PATIENCE)
        client.sendall(HELLO)
        assert len(client.recv(WELCOME, socket.MSG_WAITALL)) == WELCOME
        return client

    command = [sys.executable, "-m", "pyzk.server", "--port", "0"]
    with (tmp_path / "log").open("w") as log, ExitStack() as stack:
        server = stack.enter_context(
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, preexec_fn=limited)
        )
        stack.callback(server.kill)
        assert server.stdout is not None
        port = int(server.stdout.readline().split()[4].rpartition(":")[2])
        other, greedy = stack.enter_context(connect(port)), stack.enter_context(connect(port))
        for number in range(1000):
            request = r.CreateRequest(f"/{number}", bytes(1_000_000), r.OPEN_ACL, 0)
            try:
                greedy.sendall(wire.request(OpCode.CREATE, request, 1))
                if not greedy.recv(1000):
                    break
            except ConnectionError:
                break
        other.sendall(wire.request(OpCode.DELETE, r.DeleteRequest("/1", -1), 1))
        reply = other.recv(1000)
        assert r.ReplyHeader.decode(reply[4:]).err == 0
        stack.enter_context(connect(port)).sendall(PING)
        server.terminate()
        assert server.wait(PATIENCE) == 0
    said = (tmp_path / "log").read_text()
    assert "memory ran out" in said
    assert "this is a bug" not in said
