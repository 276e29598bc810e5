"""TCP connections, and requests that are sent in the turn of their caller."""

from __future__ import annotations

import signal
import socket
import struct
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import ClassVar

import pytest
import trio

from pyzk.client import ConnectionLossError, Create, Sync, connect
from pyzk.client.tcp import TcpStream
from pyzk.server.testing import EmbeddedServer

MB = 1024 * 1024


@pytest.fixture
def embedded() -> Iterator[EmbeddedServer]:
    with EmbeddedServer() as server:
        yield server


@asynccontextmanager
async def pair() -> AsyncIterator[tuple[TcpStream, trio.SocketStream]]:
    """A connection: the client's side, and the server's."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener:
        ours = await TcpStream.open("127.0.0.1", listener.socket.getsockname()[1])
        async with ours, await listener.accept() as theirs:
            yield ours, theirs


# --- the stream --------------------------------------------------------------------------------------------


async def test_what_the_kernel_does_not_take_is_sent_when_it_can_be() -> None:
    data = bytes(range(256)) * (4 * MB // 256)
    async with pair() as (ours, theirs):
        assert 0 < ours.send_now(data) < len(data)
        assert ours.send_now(data) < len(data)
        first = await theirs.receive_some()
        assert first == data[: len(first)]
    async with pair() as (ours, theirs), trio.open_nursery() as nursery:
        nursery.start_soon(ours.send_all, data)
        received = bytearray()
        while len(received) < len(data):
            received += await theirs.receive_some()
        assert received == data


async def test_bytes_arrive_in_pieces_of_the_wanted_size() -> None:
    async with pair() as (ours, theirs):
        await theirs.send_all(b"abcde")
        assert await ours.receive_some(2) == b"ab"
        assert await ours.receive_some() == b"cde"
        await theirs.send_eof()
        assert await ours.receive_some() == b""


async def test_a_reset_is_a_broken_connection() -> None:
    async with pair() as (ours, theirs):
        theirs.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        theirs.socket.close()
        with pytest.raises(trio.BrokenResourceError, match="reset"):
            await ours.receive_some()
        with pytest.raises(trio.BrokenResourceError):
            await ours.send_all(b"x")


async def test_closing_ends_a_wait() -> None:
    async with pair() as (ours, _), trio.open_nursery() as nursery:

        async def read() -> None:
            with pytest.raises(trio.ClosedResourceError):
                await ours.receive_some()

        nursery.start_soon(read)
        await trio.testing.wait_all_tasks_blocked()
        assert ours.fileno() > 0
        await ours.aclose()
        assert ours.fileno() == -1
        await ours.aclose()


async def test_a_name_without_a_listener_is_an_os_error() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with pytest.raises(OSError, match="connect"):
            await TcpStream.open("127.0.0.1", unused.getsockname()[1])


class Fickle:
    """A socket that was said to be readable, and is not at first."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.reads: list[int] = []

    def recv(self, size: int) -> bytes:
        self.reads.append(size)
        if len(self.reads) == 1:
            raise BlockingIOError
        return self._sock.recv(size)

    def close(self) -> None:
        self._sock.close()


async def test_a_read_that_finds_nothing_waits_again() -> None:
    async with pair() as (ours, theirs):
        fickle = Fickle(ours._socket)
        ours._socket = fickle  # type: ignore[assignment]
        await theirs.send_all(b"abc")
        assert await ours.receive_some() == b"abc"
        assert fickle.reads == [64 * 1024] * 2
        await theirs.send_all(b"abc")
        assert await ours.receive_some(2) == b"ab"
        assert fickle.reads[2:] == [2]


async def test_each_method_is_a_checkpoint() -> None:
    async with pair() as (ours, theirs):
        for call in (
            lambda: ours.send_all(b"lost"),
            ours.receive_some,
            ours.wait_send_all_might_not_block,
        ):
            with trio.CancelScope() as scope:
                scope.cancel()
                await call()
            assert scope.cancelled_caught
        await ours.send_all(b"sent")
        assert await theirs.receive_some() == b"sent"
        await ours.wait_send_all_might_not_block()
        with trio.CancelScope() as scope:
            scope.cancel()
            await ours.aclose()
        assert scope.cancelled_caught
        assert ours.fileno() == -1, "it is closed all the same"


async def test_sockets_never_wait_whatever_the_default_is() -> None:
    socket.setdefaulttimeout(5.0)
    try:
        async with pair() as (ours, _):
            assert ours.plain_socket.getblocking() is False
            assert ours.plain_socket.gettimeout() == 0.0
            assert ours.plain_socket.fileno() == ours.fileno()
    finally:
        socket.setdefaulttimeout(None)


# --- requests ----------------------------------------------------------------------------------------------


class Hesitant(TcpStream):
    """A connection that takes no more than some bytes at once.

    :cvar at_once: how many, each time.
    """

    at_once: ClassVar[list[int]] = []

    def send_now(self, data: bytes | memoryview) -> int:
        return super().send_now(data[: self.at_once.pop(0)] if self.at_once else data)


@pytest.mark.parametrize("at_once", [[0], [0, 0, 0], [1], [7, 7], [30, 1, 100], [1000]])
async def test_what_is_not_sent_at_once_is_sent_first(embedded: EmbeddedServer, at_once: list[int]) -> None:
    async with connect(embedded.hosts, connector=Hesitant.open) as zk:
        for number in range(5):
            Hesitant.at_once[:] = at_once
            pending = [zk.submit(Create(f"/{number}-{n}", bytes(n))) for n in range(4)]
            assert [(await each.wait())[0] for each in pending] == [f"/{number}-{n}" for n in range(4)]
        assert zk.metrics.connections == 1
        assert zk.requests_in_flight == 0


async def test_requests_of_one_turn_go_out_together(embedded: EmbeddedServer) -> None:
    sends = []

    class Counted(TcpStream):
        def send_now(self, data: bytes | memoryview) -> int:
            sends.append(len(data))
            return super().send_now(data)

    async with connect(embedded.hosts, connector=Counted.open) as zk:
        for _ in range(5):
            sends.clear()
            async with trio.open_nursery() as nursery:
                for _ in range(50):
                    nursery.start_soon(zk.exists, "/")
            assert len(sends) <= 2, "the first may go ahead, where one request after another went before"
        sends.clear()
        pending = [zk.submit(Sync("/")) for _ in range(3)]
        assert len(sends) == 0, "many were in flight the last time"
        for each in pending:
            await each.wait()
        for _ in range(3):
            await zk.exists("/")
            pending = [zk.submit(Sync("/"))]
            assert pending[0].sent, "it is on its way before any other task runs"
            await pending[0].wait()


async def test_a_connection_that_is_found_broken_while_a_request_is_sent(embedded: EmbeddedServer) -> None:
    streams: list[TcpStream] = []

    async def open_stream(host: str, port: int) -> TcpStream:
        streams.append(await TcpStream.open(host, port))
        return streams[-1]

    async with connect(embedded.hosts, connector=open_stream) as zk:
        with socket.fromfd(streams[0].fileno(), socket.AF_INET, socket.SOCK_STREAM) as twin:
            twin.shutdown(socket.SHUT_RDWR)
        with pytest.raises(ConnectionLossError) as caught:
            await zk.create("/a")
        assert caught.value.sent
        await zk.session.wait_connected()
        assert await zk.create("/b") == "/b"
        assert await zk.exists("/a") is None


async def test_a_caller_that_is_cancelled_already_sends_nothing(embedded: EmbeddedServer) -> None:
    async with connect(embedded.hosts) as zk:
        for call in (lambda: zk.create("/a"), lambda: zk.get_and_watch("/")):
            with trio.CancelScope() as scope:
                scope.cancel()
                await call()
            assert scope.cancelled_caught
            assert zk.requests_in_flight == 0
        await zk.sync("/")
        assert await zk.exists("/a") is None
        assert zk.watch_count == 0


class Interrupted(TcpStream):
    """Ctrl-C comes while a request is being sent."""

    armed = False

    def send_now(self, data: bytes | memoryview) -> int:
        if Interrupted.armed:
            Interrupted.armed = False
            signal.raise_signal(signal.SIGINT)
        return super().send_now(data)


def test_ctrl_c_does_not_come_between_the_queue_and_the_connection(embedded: EmbeddedServer) -> None:
    async def main() -> None:
        async with connect(embedded.hosts, connector=Interrupted.open) as zk:
            Interrupted.armed = True
            with pytest.raises(KeyboardInterrupt):
                await zk.create("/a")
            assert await zk.create("/b") == "/b"
            assert await zk.exists("/a") is not None
            assert zk.metrics.connections == 1

    trio.run(main)
