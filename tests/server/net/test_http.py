"""The small HTTP server: framing, bad requests, time and size limits, and the admin server behind it."""

from __future__ import annotations

import gc
import socket
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
import trio

from benchmarks import wire
from pyzk.protocol import records as r
from pyzk.server.monitoring.server import MonitoredServer
from pyzk.server.net import http
from pyzk.server.net.http import Answer, HttpServer, Request, Response
from pyzk.server.net.unread import UnreadOutput

from ...support.network import served, talk

pytestmark = pytest.mark.trio

CLOSE = b"host: localhost\r\nconnection: close\r\n\r\n"
OPERATORS = (r.ACL(31, r.Id("world", "anyone")), r.ACL(31, r.Id("ip", "127.0.0.1")))
RUOK_REQUEST = b"GET /commands/ruok HTTP/1.1\r\nhost: localhost\r\n\r\n"
RUOK = b'{"command": "ruok", "error": null}'


def admin_address(server: MonitoredServer) -> tuple[str, int]:
    assert server.admin_address is not None
    return server.admin_address


@asynccontextmanager
async def answering(
    answer: Answer, timeout: float = 5.0, unread: UnreadOutput | None = None, most: int = 64 * 1024
) -> AsyncIterator[tuple[str, int]]:
    """The address of a server that gives these answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        async with trio.open_nursery() as nursery:
            http = HttpServer(answer, timeout, unread or UnreadOutput(2**30), lambda request: most)
            nursery.start_soon(http.listen, listener)
            yield listener.getsockname()
            nursery.cancel_scope.cancel()


async def test_a_command_over_http() -> None:
    async with served(admin_port=0) as server:
        answered = await talk(admin_address(server), b"GET /commands/ruok HTTP/1.1\r\n" + CLOSE)
        head, _, body = answered.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b"\r\ncontent-type: application/json\r\n" in head
        assert b"\r\ncontent-length: %d\r\n" % len(RUOK) in head
        assert body == RUOK


async def test_connections_are_kept_alive_and_requests_may_be_sent_ahead() -> None:
    async with served(admin_port=0) as server:
        request = b"GET /commands/ruok HTTP/1.1\r\nhost: localhost\r\n\r\n"
        head = b"HEAD /commands/ruok HTTP/1.1\r\n" + CLOSE
        answered = await talk(admin_address(server), request * 2, request[:20], request[20:] + head)
        assert answered.count(b"200 OK") == 4
        assert answered.count(RUOK) == 3


async def test_a_client_that_closes_its_side_is_answered() -> None:
    async with served(admin_port=0) as server:
        address = admin_address(server)
        answered = await talk(
            address, b"GET /commands/ruok HTTP/1.1\r\nhost: localhost\r\n\r\n", half_close=True
        )
        assert answered.endswith(RUOK)
        assert (await talk(address, b"GET /commands/ruok HTTP/1.0\r\n\r\n")).endswith(RUOK)
        assert await talk(address, half_close=True) == b""


async def test_a_body_is_asked_for() -> None:
    async with served(admin_port=0) as server:
        server.service.engine.tree.nodes["/"].acl = OPERATORS
        request = (
            b"POST /commands/shed HTTP/1.1\r\nauthorization: ip\r\nexpect: 100-continue\r\n"
            b"content-length: 17\r\n"
        )
        with trio.fail_after(10):
            async with await trio.open_tcp_stream(*admin_address(server)) as stream:
                await stream.send_all(request + CLOSE)
                assert (await stream.receive_some()).startswith(b"HTTP/1.1 100 ")
                await stream.send_all(b'{"percentage": 0}')
                assert b"200 OK" in await stream.receive_some()


async def test_shedding_reaches_the_clients_at_once() -> None:
    async with served(admin_port=0) as server:
        server.service.engine.tree.nodes["/"].acl = OPERATORS
        with trio.fail_after(10):
            async with await trio.open_tcp_stream(*server.address) as client:
                await client.send_all(wire.hello(10_000))
                await client.receive_some()
                body = b"POST /commands/shed HTTP/1.1\r\nauthorization: ip\r\ncontent-length: 19\r\n" + CLOSE
                assert b'"connections_shed": 1' in await talk(
                    admin_address(server), body + b'{"percentage": 100}'
                )
                assert await client.receive_some() == b""


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"nonsense\r\n\r\n", b"400"),
        (b"\x00\x00\x00\x2d\x00\x00\x00\x00\x00\x00\r\n\r\n", b"400"),
        (b"GET /commands HTTP/1.1\r\n\r\n", b"400"),  # no host
        (b"GET /commands HTTP/1.1\r\nhost: localhost\r\nx: " + b"y" * 20_000, b"431"),
        (
            b"POST /commands HTTP/1.1\r\nhost: localhost\r\ncontent-length: 70000\r\n\r\n" + bytes(70_000),
            b"413",
        ),
        (b"POST /commands HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", b"400"),
    ],
)
async def test_a_bad_request(sent: bytes, status: bytes, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "pyzk.server")
    async with served(admin_port=0) as server:
        answered = await talk(admin_address(server), sent)
        assert answered.split()[1] == status
        assert answered.count(b"HTTP/1.1") == 1
    (told,) = [record for record in caplog.records if "HTTP from" in record.message]
    assert (told.levelname, told.message[:28]) == ("WARNING", "HTTP from 127.0.0.1: refused")
    assert told.message[30:], "the reason"


async def test_a_broken_request_after_a_head_gets_its_answer_with_a_body() -> None:
    async with served(admin_port=0) as server:
        request = b"HEAD /commands/ruok HTTP/1.1\r\nhost: localhost\r\n\r\nnonsense\r\n\r\n"
        assert (await talk(admin_address(server), request)).endswith(b"400 Bad Request\n")


@asynccontextmanager
async def said_at_once(address: tuple[str, int], said: bytes) -> AsyncIterator[trio.SocketStream]:
    """A client whose words are there when it is let in: no other task runs meanwhile. So they come in time,
    however short that is and however slow the machine."""
    client = socket.create_connection(address)
    client.sendall(said)
    with trio.fail_after(10):
        async with trio.SocketStream(trio.socket.from_stdlib_socket(client)) as stream:
            yield stream


@pytest.mark.parametrize(
    ("said", "lines"),
    [
        (b"", 0),  # a connection that was kept for later, and is not needed
        (b"GET /comm", 1),
        (b"POST /commands HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\nx", 1),
    ],
)
async def test_a_client_that_goes_silent_is_given_up(
    said: bytes, lines: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "pyzk.server")
    async with (
        served(admin_port=0, admin_idle_timeout=50) as server,
        said_at_once(admin_address(server), said) as stream,
    ):
        assert await stream.receive_some() == b""
    told = [record.message for record in caplog.records if "HTTP from" in record.message]
    assert told == ["HTTP from 127.0.0.1: closed, no whole request and answer within 0.05 s"] * lines


async def test_a_client_that_does_not_read_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    large = Response(200, bytes(20_000_000))
    served: list[Request] = []
    given_up = trio.Event()

    def answer(request: Request) -> Response:
        served.append(request)
        return large

    monkeypatch.setattr(http.logger, "warning", lambda *args: given_up.set())
    async with (
        answering(answer, timeout=0.5) as address,
        said_at_once(address, b"GET / HTTP/1.1\r\n" + CLOSE),
    ):
        with trio.fail_after(30):
            await given_up.wait()
    assert len(served) == 1


async def test_other_tasks_run_between_the_requests_of_many_clients() -> None:
    rounds, seen = 0, []

    def answer(request: Request) -> Response:
        seen.append(rounds)
        return Response(200)

    async def count_rounds() -> None:
        nonlocal rounds
        while True:
            await trio.lowlevel.checkpoint()
            rounds += 1

    async with AsyncExitStack() as stack:
        address = await stack.enter_async_context(answering(answer, timeout=30))
        clients = [
            await stack.enter_async_context(said_at_once(address, b"GET / HTTP/1.1\r\n" + CLOSE))
            for _ in range(10)
        ]
        nursery = await stack.enter_async_context(trio.open_nursery())
        nursery.start_soon(count_rounds)
        for client in clients:
            assert (await client.receive_some()).startswith(b"HTTP/1.1 200")
        nursery.cancel_scope.cancel()
    assert len(seen) == 10
    # in each round one answer, before or after the counter: two of them may have the same number
    assert max(seen.count(number) for number in seen) <= 2


async def test_other_tasks_run_while_a_long_answer_is_made() -> None:
    rounds = 0

    def pieces() -> Iterator[bytes]:
        nonlocal rounds
        for number in range(50):
            assert rounds >= number - 1
            yield b"x" * 10

    async def count_rounds() -> None:
        nonlocal rounds
        while True:
            rounds += 1
            await trio.lowlevel.checkpoint()

    async with (
        answering(lambda request: Response(200, b"first", rest=pieces())) as address,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(count_rounds)
        answered = await talk(address, b"GET / HTTP/1.1\r\n" + CLOSE)
        assert rounds >= 50
        nursery.cancel_scope.cancel()
    assert b"\r\ncontent-length: 505\r\n" in answered
    assert answered.endswith(b"first" + b"x" * 500)


async def test_nobody_is_kept_out_by_clients_that_make_no_request(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(http, "_MAX_CLIENTS", 2)
    async with served(admin_port=0) as server:
        address = admin_address(server)
        with trio.fail_after(10):
            async with (
                await trio.open_tcp_stream(*address) as second,
                await trio.open_tcp_stream(*address) as first,
            ):
                await second.send_all(RUOK_REQUEST)  # that it made one is to its credit: the other one goes
                assert (await second.receive_some()).endswith(RUOK)
                await first.send_all(b"GET /comm")
                await second.send_all(b"GET /comm")
                for _ in range(3):
                    assert (await talk(address, b"GET /commands/ruok HTTP/1.1\r\n" + CLOSE)).endswith(RUOK)
                assert await first.receive_some() == b""
                await second.send_all(b"ands/ruok HTTP/1.1\r\n" + CLOSE)
                assert (await second.receive_some()).endswith(RUOK)
    told = [record.message for record in caplog.records if "HTTP clients" in record.message]
    assert told
    assert "such as 127.0.0.1; closing those idle for longest" in told[0]


async def test_a_client_that_is_being_answered_gives_way_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "_MAX_CLIENTS", 2)
    large = 20_000_000

    def answer(request: Request) -> Response:
        return Response(200, bytes(large) if request.path == "/large" else b"small")

    async with answering(answer) as address:
        with trio.fail_after(10):
            async with await trio.open_tcp_stream(*address) as slow:
                await slow.send_all(b"GET /large HTTP/1.1\r\n" + CLOSE)
                received = len(await slow.receive_some())
                for _ in range(4):
                    async with await trio.open_tcp_stream(*address):
                        assert (await talk(address, b"GET / HTTP/1.1\r\n" + CLOSE)).endswith(b"small")
                while data := await slow.receive_some():
                    received += len(data)
        assert received > large


async def test_answers_that_are_not_read_are_counted() -> None:
    size = 20_000_000
    unread = UnreadOutput(2 * size + size // 2)
    large = b"GET / HTTP/1.1\r\n" + CLOSE
    patience = 60.0  # seconds: a machine that is busy takes its time for so many bytes
    async with answering(lambda request: Response(200, bytes(size)), patience, unread) as address:
        with trio.fail_after(patience):
            async with AsyncExitStack() as clients:
                silent = []
                for _ in range(4):
                    stream = await clients.enter_async_context(await trio.open_tcp_stream(*address))
                    await stream.send_all(large)
                    assert await stream.receive_some(1)
                    silent.append(stream)
                assert 2 * size < unread.total < 2 * size + size // 2
                assert len(await talk(address, large)) > size, "who reads is served"
            while unread.total:
                await trio.sleep(0.001)


async def test_a_client_that_is_gone_already() -> None:
    async with served(admin_port=0) as server:
        address = admin_address(server)
        with socket.create_connection(address) as client:  # no other task has run when it is reset
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        assert (await talk(address, b"GET /commands/ruok HTTP/1.1\r\n" + CLOSE)).endswith(RUOK)


class BugError(Exception):
    pass


class GoesAway(trio.abc.Stream):
    """A client that goes away when the first piece of its answer has been sent."""

    def __init__(self) -> None:
        self.received = [RUOK_REQUEST]
        self.pieces = 0

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        if not self.received:
            await trio.sleep_forever()
        return self.received.pop()

    async def send_all(self, data: object) -> None:
        await trio.lowlevel.checkpoint()
        self.pieces += 1
        if self.pieces > 1:
            raise trio.BrokenResourceError

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


async def test_a_client_that_goes_away_as_its_stream_ends(caplog: pytest.LogCaptureFixture) -> None:
    async def stream(send: http.Send) -> None:
        await send(b"x")

    client = GoesAway()
    server = HttpServer(lambda request: Response(200, stream=stream), 5.0, UnreadOutput(2**30))
    await server.serve(client, "127.0.0.1")
    assert client.pieces == 2, "the end of the answer has not reached it"
    assert [record.message for record in caplog.records if record.levelname != "DEBUG"] == []


async def test_a_bug_is_answered_with_500(monkeypatch: pytest.MonkeyPatch) -> None:
    logged: list[str] = []
    monkeypatch.setattr(http.logger, "exception", lambda message, *args: logged.append(message % args))

    def broken(request: Request) -> Response:
        raise BugError

    async with answering(broken) as address:
        answered = await talk(address, b"GET /a?b HTTP/1.1\r\n" + CLOSE)
    assert answered.endswith(b"500 Internal Server Error\n")
    assert logged == ["GET /a failed; this is a bug of the server"]


async def test_a_bug_half_way_is_answered_with_500_too(monkeypatch: pytest.MonkeyPatch) -> None:
    logged: list[str] = []
    monkeypatch.setattr(http.logger, "exception", lambda message, *args: logged.append(message % args))

    def broken() -> Iterator[bytes]:
        yield b"x"
        raise BugError

    async with answering(lambda request: Response(200, b"first", rest=broken())) as address:
        answered = await talk(address, b"GET /a HTTP/1.1\r\n" + CLOSE)
    assert answered.endswith(b"500 Internal Server Error\n")
    assert logged == ["GET /a failed; this is a bug of the server"]


@pytest.mark.parametrize(
    "said", [b"", b"GET /comm", b"nonsense\r\n\r\n", RUOK_REQUEST, b"GET / HTTP/1.1\r\n" + CLOSE]
)
async def test_nothing_of_a_client_is_left_to_the_garbage_collector(said: bytes) -> None:
    """In the command it looks at young objects only: what it does not find then stays for ever."""

    def left() -> int:
        return sum(type(found) is http._Exchange for found in gc.get_objects())

    async with served(admin_port=0) as server:
        gc.collect()
        before = left()
        gc.disable()
        try:
            for _ in range(3):
                await talk(admin_address(server), said, half_close=True)
            with trio.fail_after(10):
                while left() != before:
                    await trio.sleep(0.001)
        finally:
            gc.enable()


async def test_a_long_answer_stays_in_its_pieces_and_is_counted_as_a_whole() -> None:
    """Joined, it would take twice the memory, and some 50 ms of all others for each 100 MB."""
    size, count = 2**20, 40
    unread = UnreadOutput(2**30)

    def answer(request: Request) -> Response:
        return Response(200, b"", {}, (bytes([number]) * size for number in range(count)))

    async with answering(answer, 30.0, unread) as address:
        tracemalloc.start()
        try:
            async with await trio.open_tcp_stream(*address) as stream:
                await stream.send_all(b"GET / HTTP/1.1\r\n" + CLOSE)
                with trio.fail_after(30):
                    while not unread.total:
                        await trio.lowlevel.checkpoint()
                    assert unread.total > (count - 8) * size, "none of it is read yet"
                    answered = b""
                    while data := await stream.receive_some(2**16):
                        answered = (answered + data)[-4 * 2**16 :]
                assert answered.endswith(bytes([count - 1]) * 2**16)
                _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 1.5 * count * size
        assert unread.total == 0


@pytest.mark.parametrize(
    ("size", "count", "status"), [(1, 60_000, b"413"), (1, 2000, b"200"), (128, 20_000, b"200")]
)
async def test_a_body_in_very_small_chunks_is_refused(size: int, count: int, status: bytes) -> None:
    """Each takes as long as a large one: 600,000 of them took 2 s."""
    taken = []

    def answer(request: Request) -> Response:
        taken.append(len(request.body))
        return Response(200)

    chunk = b"%x\r\n" % size + b"x" * size + b"\r\n"
    head = b"POST / HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n"
    async with answering(answer, 30.0, most=2**24) as address:
        answered = await talk(address, head + chunk * count + b"0\r\n\r\n")
    assert answered.split()[1] == status
    assert taken == ([size * count] if status == b"200" else [])
