"""The hub's task and those that speak for it: nothing that was received may be forgotten."""

from __future__ import annotations

import itertools
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import Any

import pytest
import trio
import trio.testing

from benchmarks import wire
from pyzk.protocol import records as r
from pyzk.protocol.operations import OpCode
from pyzk.server.app.serve import make_server
from pyzk.server.config.settings import Settings
from pyzk.server.net.clock import Clock
from pyzk.server.net.server import Server

from ...support.waiting import PATIENCE
from ...support.world import creation

HELLO = wire.hello(30_000, read_only=None)
PING = wire.request(OpCode.PING, xid=-2)
PONG = 20
MANY = 1000


@asynccontextmanager
async def running(clock: Clock | None = None, **settings: Any) -> AsyncIterator[Server]:
    server = make_server(Settings(port=0, **settings), clock or Clock())
    async with trio.open_nursery() as nursery:
        await nursery.start(server.run)
        yield server
        nursery.cancel_scope.cancel()


@contextmanager
def client_of(server: Server) -> Iterator[socket.socket]:
    """A blocking socket in this very task: between two of its calls nothing else runs."""
    with socket.create_connection(server.address) as client:
        client.settimeout(PATIENCE)
        client.sendall(HELLO)
        yield client


async def receive(client: socket.socket, size: int) -> int:
    client.setblocking(False)
    received = 0
    with trio.fail_after(PATIENCE):
        while received < size:
            await trio.lowlevel.wait_readable(client)
            received += len(client.recv(65536))
    return received


async def test_requests_that_another_task_left_over_are_handled() -> None:
    async with running() as server:
        with client_of(server) as client:
            await receive(client, 40)
            client.setblocking(True)
            client.sendall(PING * MANY)
            server.receive()  # as the clock's task does at each tick: more has come than fits into a turn
            assert await receive(client, MANY * PONG) == MANY * PONG


async def test_requests_held_while_frozen_are_handled_once_it_is_thawed() -> None:
    async with running() as server:
        with client_of(server) as client:
            await receive(client, 40)
            (connection,) = server.service.connections
            connection.freeze()
            server.flush()
            client.setblocking(True)
            client.sendall(PING * MANY)
            for _ in range(3):
                await trio.testing.wait_all_tasks_blocked()
            connection.thaw(server.clock.now())
            server.flush()
            assert await receive(client, MANY * PONG) == MANY * PONG


async def test_a_system_without_epoll_is_served_by_a_task_per_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyzk.server.net.server._HAS_HUB", False)
    async with running() as server:
        with client_of(server) as client:
            await receive(client, 40)
            client.setblocking(True)
            client.sendall(PING * MANY)
            assert await receive(client, MANY * PONG) == MANY * PONG


class Poller:
    """An epoll object that notes how long it was told to wait."""

    def __init__(self, poller: Any) -> None:
        self._poller = poller
        self.waits: set[float] = set()

    def poll(self, timeout: float, *more: int) -> list[tuple[int, int]]:
        self.waits.add(timeout)
        return self._poller.poll(timeout, *more)  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._poller, name)


@pytest.mark.parametrize("alone", [False, True])
async def test_only_the_hub_of_a_process_without_other_work_waits_itself(alone: bool) -> None:
    """Elsewhere the client may be a task of the same loop, and can send nothing while the hub waits."""
    async with running() as server:
        if alone:
            server.own_the_process()
        server._hub._poller = poller = Poller(server._hub._poller)
        with client_of(server) as client:
            await receive(client, 40)
            client.setblocking(True)
            client.sendall(PING * MANY)  # more than one turn: none of the turns for the rest may wait
            assert await receive(client, MANY * PONG) == MANY * PONG
            await trio.testing.wait_all_tasks_blocked()
            assert poller.waits == ({0, 0.001} if alone else {0})


async def test_a_hub_that_has_handed_over_a_client_lets_its_task_run(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as server:
        server.own_the_process()
        hub = server._hub
        hub._poller = poller = Poller(hub._poller)
        hand_over = hub._hand_over

        def handed_over(*client: Any) -> None:
            poller.waits.clear()
            hand_over(*client)

        monkeypatch.setattr(hub, "_hand_over", handed_over)
        with socket.create_connection(server.address) as client:
            client.sendall(b"GET /commands/ruok HTTP/1.0\r\n\r\n")
            assert await receive(client, 1)
        assert poller.waits == {0}


@pytest.mark.parametrize("keepalive", [False, True])
async def test_the_options_of_a_clients_socket(keepalive: bool) -> None:
    async with running(tcp_keepalive=keepalive) as server:
        with client_of(server) as client:
            await receive(client, 40)
            [link] = server._hub._links.values()
            assert link.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert bool(link.sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)) is keepalive
            assert link.sock.gettimeout() == 0


@pytest.mark.parametrize("before", [0, 1, 30, 3000])
@pytest.mark.parametrize("after", [0, 1, 30, 3000])
async def test_the_last_reply_arrives_before_the_end_whatever_else_was_sent(
    monkeypatch: pytest.MonkeyPatch, before: int, after: int
) -> None:
    """Closing while input is left unread would destroy it (wire.md, trap 13)."""
    monkeypatch.setattr("pyzk.server.net.leaving._LINGER", 1000.0)  # that it gives up must not help
    close = wire.request(OpCode.CLOSE_SESSION, xid=1)
    async with running() as server:
        with client_of(server) as client:
            await receive(client, 40)
            client.setblocking(True)
            client.sendall(PING * before + close + PING * after)
            assert await receive(client, PONG * (before + 1)) == PONG * (before + 1)
            with trio.fail_after(PATIENCE):
                await trio.lowlevel.wait_readable(client)
            assert client.recv(1) == b""
        hub = server._hub
        with trio.fail_after(PATIENCE):
            while hub._links or hub._leaving.sockets or hub._leaving.deadlines:
                await trio.sleep(0.001)


async def test_a_session_whose_time_runs_out_while_others_are_served_is_listened_to_first(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Its sign of life may have arrived meanwhile."""
    async with running(min_session_timeout=4000) as server:
        service = server.service
        connection = service.accept(("127.0.0.1", 1), server.clock.now(), lambda: None)
        assert connection is not None
        hello = wire.hello(4000, read_only=None)
        connection.receive_data(hello, server.clock.now())
        [session] = service.engine.sessions
        look, looks = server._hub.look, 0

        def slow_look(whole: bool) -> None:
            nonlocal looks
            looks += 1
            look(whole)
            if looks == 1:  # while this goes on the time of the session runs out, and a ping arrives
                autojump_clock.jump(30)
            elif looks == 2:
                connection.receive_data(PING, server.clock.now())

        server._hub.look = slow_look
        while looks < 3:
            await trio.sleep(1)
        assert not session.closed


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("closes", [True, False], ids=["sessions", "connections"])
async def test_a_crowd_that_goes_is_served_behind_others(
    monkeypatch: pytest.MonkeyPatch, whole: bool, closes: bool
) -> None:
    """Behind others; who closes a session does so before it expires. But a test may ask for all at once."""
    monkeypatch.setattr("pyzk.server.net.hub._MANY", 8)
    monkeypatch.setattr("pyzk.server.net.hub._BUSY", 0.0)  # one in each turn of the hub
    count = 50
    clock = Clock(frozen=True)
    async with running(clock) as server:
        with ExitStack() as stack:
            crowd = [stack.enter_context(client_of(server)) for _ in range(count)]
            bystander = stack.enter_context(client_of(server))
            for client in (*crowd, bystander):
                await receive(client, 40)
                client.setblocking(True)
            for client in crowd:
                client.sendall(wire.CLOSE_SESSION) if closes else client.shutdown(socket.SHUT_WR)
            bystander.sendall(PING)
            clock.jump(60)  # twice the timeout
            server.receive(whole)
            assert len(bystander.recv(PONG)) == PONG
            left = len(server.service.connections) - 1
            assert left == (0 if whole else count - 1)
            server.advance(clock.now())
            assert server.service.engine.stats.sessions_expired == (0 if closes else count)
            for client in crowd if closes else ():
                assert await receive(client, PONG) == PONG
            for client in crowd:
                client.setblocking(False)
                await trio.lowlevel.wait_readable(client)
                assert client.recv(1) == b""
            assert len(server.service.engine.sessions) == 1


@pytest.mark.parametrize("timer", [False, True], ids=["", "timer"])
@pytest.mark.parametrize("frozen", [False, True])
async def test_much_that_falls_due_at_once_is_done_bit_by_bit(
    autojump_clock: trio.testing.MockClock, frozen: bool, timer: bool
) -> None:
    """If a timer is due too, it comes when everything before it is done."""
    async with running(Clock(frozen=frozen), min_session_timeout=4000, max_client_connections=0) as server:
        service = server.service
        service.stopwatch = itertools.count(0.0, 1.0).__next__
        hello = wire.hello(4000, read_only=None)
        for port in range(100):
            connection = service.accept(("127.0.0.1", port), server.clock.now(), lambda: None)
            assert connection is not None
            connection.receive_data(hello, server.clock.now())
        look, left = server._hub.look, []

        def noting_look(whole: bool) -> None:
            left.append(len(service.engine.sessions))
            look(whole)

        server._hub.look = noting_look
        at_timer: list[int] = []
        if timer:
            service.call_at(server.clock.now() + 9, lambda: at_timer.append(len(service.engine.sessions)))
        if frozen:
            server.clock.jump(10)
            server.clock.wake()
        await trio.sleep(10)
        assert len(service.engine.sessions) == 0
        assert at_timer == [0] * timer
        seen = {*left, 0} if frozen else set(left)  # a frozen clock ends no tick after the last of them
        assert seen == set(range(101)), "all who are ready are served between two expired sessions"


@pytest.mark.parametrize("has_hub", [True, False], ids=["hub", "tasks"])
async def test_long_requests_and_answers_arrive_whole(monkeypatch: pytest.MonkeyPatch, has_hub: bool) -> None:
    monkeypatch.setattr("pyzk.server.net.server._HAS_HUB", has_hub)
    async with running() as server:
        service = server.service
        service.stopwatch = itertools.count(0.0, 1.0).__next__
        for path in ["/t", *(f"/t/n{number}" for number in range(5000))]:
            service.engine.tree.apply(creation(path), 1, 1)
        with client_of(server) as client:
            await receive(client, 40)
            client.setblocking(True)
            paths = [f"/watched{number}" for number in range(5000)]
            client.sendall(
                wire.request(OpCode.GET_ALL_CHILDREN_NUMBER, r.GetAllChildrenNumberRequest("/t"), 1)
                + wire.request(OpCode.SET_WATCHES, r.SetWatches(0, [], paths, []), -8)
                + wire.request(OpCode.GET_ALL_CHILDREN_NUMBER, r.GetAllChildrenNumberRequest("/t"), 2)
            )
            assert await receive(client, 24 + 20 + 24) == 24 + 20 + 24
            with socket.create_connection(server.address) as asker:
                asker.sendall(b"wchp")
                asker.shutdown(socket.SHUT_WR)  # as `echo wchp | nc` does
                said = b""
                asker.setblocking(False)
                with trio.fail_after(PATIENCE):
                    while True:
                        await trio.lowlevel.wait_readable(asker)
                        piece = asker.recv(65536)
                        if not piece:
                            break
                        said += piece
            assert said.count(b"\n\t0x") == 5000
