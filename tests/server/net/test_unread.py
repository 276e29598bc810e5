"""Output that clients leave unread is bounded, of all of them together; who reads is disturbed by nobody."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from benchmarks import wire
from pyzk.protocol import records as r
from pyzk.protocol.constants import AddWatchMode
from pyzk.protocol.multi import encode_multi
from pyzk.protocol.operations import OpCode
from pyzk.server.net.connection import Connection
from pyzk.server.net.server import Server
from pyzk.server.net.unread import UnreadOutput

from ...support.network import served
from ...support.requests import get_op
from ...support.world import World

# --- the account -----------------------------------------------------------------------------------------


@pytest.fixture
def connections(world: World) -> list[Connection]:
    return [world.connect().connection for _ in range(5)]


def test_output_that_waits_is_counted(connections: list[Connection]) -> None:
    unread = UnreadOutput(1000)
    a, b, *_ = connections
    unread.note(a, 100, progress=True)
    unread.note(b, 200, progress=True)
    assert unread.total == 300
    unread.note(a, 50, progress=True)
    unread.grew(b, 7)
    assert unread.total == 257
    unread.forget(a)
    unread.forget(a)
    assert unread.total == 207
    unread.grew(a, 7)  # nothing is held for it: its events go out with the next turn
    assert unread.total == 207


def test_the_client_that_has_read_nothing_for_longest_is_closed_first(connections: list[Connection]) -> None:
    unread = UnreadOutput(1000)
    for connection in connections[:4]:
        unread.note(connection, 250, progress=True)
    unread.note(connections[0], 250, progress=True)
    unread.note(connections[1], 250, progress=False)
    unread.note(connections[4], 250, progress=True)
    assert [c.aborted for c in connections] == [False, True, False, False, False]
    assert unread.total == 1000
    unread.note(connections[1], 250, progress=False)  # the transport has not closed it yet
    assert unread.total == 1000


def test_a_client_with_little_unread_output_stays(connections: list[Connection]) -> None:
    unread = UnreadOutput(1000)
    for connection, size in zip(connections, (10, 10, 500, 400, 200), strict=True):
        unread.note(connection, size, progress=True)
    assert [c.aborted for c in connections] == [False, False, True, False, False]


def test_one_reply_may_be_larger_than_the_limit(connections: list[Connection]) -> None:
    unread = UnreadOutput(1000)
    unread.note(connections[0], 10, progress=True)
    unread.note(connections[1], 5000, progress=True)
    assert not any(c.aborted for c in connections)
    unread.note(connections[2], 6000, progress=True)
    assert [c.aborted for c in connections] == [False, True, False, False, False]


def test_events_count(world: World) -> None:
    reader, writer = world.connect(), world.connect()
    path = "/" + "n" * 200
    reader.add_watch(path, AddWatchMode.PERSISTENT)
    world.service.unread.note(reader.connection, 1, progress=True)
    writer.create(path)
    while reader.connection.waiting <= 300_000:
        writer.set(path, b"")
    assert 30_000 < world.service.unread.total < 300_000  # the first 256 KiB are not asked about


# --- over sockets ----------------------------------------------------------------------------------------

PART = 900_000  # bytes
PARTS = 10
REPLY = PART * PARTS
LIMIT = 3 * REPLY + PART
GREEDY = 8
READ_ALL = wire.request(OpCode.MULTI_READ, encode_multi([get_op("/large")] * PARTS), 1)


@asynccontextmanager
async def client(server: Server) -> AsyncIterator[trio.SocketStream]:
    """A client with a session whose socket takes little before it is read."""
    sock = trio.socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 10_000)
    await sock.connect(server.address)
    async with trio.SocketStream(sock) as stream:
        await stream.send_all(wire.hello(40_000, read_only=None))
        await receive(stream, 40)
        yield stream


async def receive(stream: trio.SocketStream, size: int) -> None:
    while size > 0:
        data = await stream.receive_some(min(size, 1_000_000))
        assert data, "closed by the server"
        size -= len(data)


@pytest.mark.trio
@pytest.mark.parametrize("has_hub", [True, False], ids=["hub", "tasks"])
async def test_a_client_that_reads_is_served_beside_those_that_do_not(
    monkeypatch: pytest.MonkeyPatch, has_hub: bool
) -> None:
    if not has_hub:
        monkeypatch.setattr("pyzk.server.net.server._HAS_HUB", False)
    totals = []
    note = UnreadOutput.note

    def watched(unread: UnreadOutput, connection: Connection, size: int, *, progress: bool) -> None:
        note(unread, connection, size, progress=progress)
        totals.append(unread.total)

    monkeypatch.setattr(UnreadOutput, "note", watched)
    async with served(max_unread=LIMIT) as server, trio.open_nursery() as nursery:
        with trio.fail_after(60):
            reader = await nursery.start(stay, client, server)
            create = r.CreateRequest("/large", bytes(PART), r.OPEN_ACL, 0)
            await reader.send_all(wire.request(OpCode.CREATE, create, 1))
            await receive(reader, 20 + 4 + len("/large"))
            for _ in range(GREEDY):
                greedy = await nursery.start(stay, client, server)
                await greedy.send_all(READ_ALL)
                await reader.send_all(READ_ALL)
                await receive(reader, REPLY)
            await trio.testing.wait_all_tasks_blocked()
            assert REPLY < max(totals) <= LIMIT + REPLY + 100_000
            assert len(server.service.connections) == 3, "the reader and two others"
            nursery.cancel_scope.cancel()


async def stay(
    make: Callable[[Server], AsyncIterator[trio.SocketStream]],
    server: Server,
    *,
    task_status: trio.TaskStatus[trio.SocketStream],
) -> None:
    async with make(server) as stream:
        task_status.started(stream)
        await trio.sleep_forever()


@pytest.mark.trio
@pytest.mark.parametrize("has_hub", [True, False], ids=["hub", "tasks"])
@pytest.mark.parametrize("ending", ["read", "closed", "session closed"])
async def test_output_that_is_gone_is_not_counted(
    monkeypatch: pytest.MonkeyPatch, has_hub: bool, ending: str
) -> None:
    if not has_hub:
        monkeypatch.setattr("pyzk.server.net.server._HAS_HUB", False)
    async with served() as server:
        with trio.fail_after(20):
            async with client(server) as stream:
                create = r.CreateRequest("/large", bytes(PART), r.OPEN_ACL, 0)
                await stream.send_all(wire.request(OpCode.CREATE, create, 1))
                await receive(stream, 20 + 4 + len("/large"))
                closing = wire.request(OpCode.CLOSE_SESSION, xid=2) if ending == "session closed" else b""
                await stream.send_all(READ_ALL + closing)
                unread = server.service.unread
                while unread.total < REPLY:
                    await trio.sleep(0.001)
                if ending != "closed":
                    await receive(stream, REPLY + len(closing))
            while unread.total or server.service.connections:
                await trio.sleep(0.001)
