"""Peers that are silent, speak another protocol, say too much, or cannot be trusted: each ends in a clear
exception in bounded time."""

from __future__ import annotations

import random
import socket
import ssl
import struct
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import trio
import trustme
from trio.testing import MockClock

from pyzk.client import (
    Check,
    ConnectionLossError,
    Create,
    Delete,
    EventType,
    GetChildren,
    GetData,
    MarshallingError,
    Missed,
    SetData,
    WatchEvent,
    ZooKeeper,
    ZooKeeperError,
    connect,
)
from pyzk.client.runner import Connector
from pyzk.protocol.constants import AUTH_XID, WATCH_XID
from pyzk.protocol.framing import frame
from pyzk.protocol.multi import MultiResult, encode_results
from pyzk.protocol.operations import OpCode
from pyzk.protocol.records import ConnectResponse, ReplyHeader, WatcherEvent
from pyzk.server.testing import Controls, open_server

from .memory import SERVER, client
from .tampered import tampered

Peer = Callable[[trio.abc.Stream], Awaitable[None]]


@asynccontextmanager
async def peer(behaviour: Peer) -> AsyncIterator[Connector]:
    """Gives a connector to something that behaves badly."""

    async def behave(stream: trio.abc.Stream) -> None:
        with suppress(trio.BrokenResourceError):
            await behaviour(stream)

    async with trio.open_nursery() as nursery:

        async def connector(host: str, port: int) -> trio.abc.Stream:
            await trio.lowlevel.checkpoint()
            ours, theirs = trio.testing.memory_stream_pair()
            nursery.start_soon(behave, theirs)
            return ours

        yield connector
        nursery.cancel_scope.cancel()


async def silent(stream: trio.abc.Stream) -> None:
    await trio.sleep_forever()


async def deaf(stream: trio.abc.Stream) -> None:
    await stream.aclose()


async def http(stream: trio.abc.Stream) -> None:
    await stream.receive_some()
    await stream.send_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    await trio.sleep_forever()


async def babble(stream: trio.abc.Stream) -> None:
    while True:
        await stream.send_all(b"\0\0\0\x08garbage!")
        await trio.sleep(0.01)


async def trickle(stream: trio.abc.Stream) -> None:
    """A frame that never ends, a byte every second."""
    await stream.send_all(b"\0\0\0\x25")
    for _ in range(20):
        await trio.sleep(1)
        await stream.send_all(b"\0")
    await trio.sleep_forever()


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        (silent, "no answer to the handshake within 4.0 s"),
        (deaf, "closed the connection|Connection"),
        (http, "does not speak ZooKeeper"),
        (babble, "broke the protocol"),
        (trickle, "no answer to the handshake within 4.0 s"),
    ],
)
async def test_a_peer_that_is_no_server(autojump_clock: MockClock, behaviour: Peer, message: str) -> None:
    started = trio.current_time()
    async with peer(behaviour) as connector:
        with pytest.raises(ConnectionLossError, match=message) as caught:
            async with connect(SERVER, connector=connector, session_timeout=4, connect_timeout=6):
                raise AssertionError("there is no session")
    assert not caught.value.sent
    assert trio.current_time() - started == pytest.approx(6)


async def test_a_bad_peer_among_good_ones_is_passed_over(autojump_clock: MockClock, server: Controls) -> None:
    async with peer(http) as bad:

        async def connector(host: str, port: int) -> trio.abc.Stream:
            return server.open_stream() if host == "good" else await bad(host, port)

        async with connect("bad,good", connector=connector) as zk:
            for _ in range(5):
                server.disconnect_all()
                await zk.get("/")


async def welcome(stream: trio.abc.Stream) -> None:
    await stream.receive_some()
    await stream.send_all(frame(ConnectResponse(0, 4000, 7, bytes(16)).encode() + b"\0"))


async def huge_reply(stream: trio.abc.Stream) -> None:
    await welcome(stream)
    await stream.receive_some()
    await stream.send_all(struct.pack(">i", 2**30))
    await trio.sleep_forever()


async def test_a_reply_above_the_limit(autojump_clock: MockClock) -> None:
    async with peer(huge_reply) as connector, connect(SERVER, connector=connector, close_grace=0) as zk:
        with pytest.raises(MarshallingError, match="1,073,741,824 bytes; reply_limit is 67,108,864"):
            await zk.get("/")


async def never_reads(stream: trio.abc.Stream) -> None:
    """It keeps sending events, but takes nothing off the line."""
    await welcome(stream)
    event = struct.pack(">iqi", -1, -1, 0) + struct.pack(">iii", 1, 3, 2) + b"/a"
    while True:
        await stream.send_all(frame(event))
        await trio.sleep(0.5)


class Stuck(trio.abc.Stream):
    """A stream whose sending blocks once the handshake is through, as when the buffers are full."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._sends = 0

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        return await self._stream.receive_some(max_bytes)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        self._sends += 1
        if self._sends > 1:
            await trio.sleep_forever()
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        await self._stream.aclose()


async def test_a_write_that_blocks_for_ever(autojump_clock: MockClock) -> None:
    async with peer(never_reads) as inner:

        async def connector(host: str, port: int) -> trio.abc.Stream:
            return Stuck(await inner(host, port))

        async with connect(SERVER, connector=connector, session_timeout=4, close_grace=0) as zk:
            started = trio.current_time()
            with pytest.raises(ConnectionLossError, match=r"acknowledged nothing for 4\.0 s") as caught:
                await zk.set("/a", b"x")
            assert trio.current_time() - started <= 4.1
            assert caught.value.sent


async def moody(stream: trio.abc.Stream) -> None:
    """A handshake that leaves a session timeout of 1 ms."""
    await stream.receive_some()
    await stream.send_all(frame(ConnectResponse(0, 1, 7, bytes(16)).encode() + b"\0"))
    await trio.sleep_forever()


async def test_a_session_timeout_of_next_to_nothing_costs_a_few_attempts_a_second(
    autojump_clock: MockClock,
) -> None:
    attempts = 0

    async with peer(moody) as inner:

        async def connector(host: str, port: int) -> trio.abc.Stream:
            nonlocal attempts
            attempts += 1
            return await inner(host, port)

        async with connect(SERVER, connector=connector, close_grace=0) as zk:
            await trio.sleep(60)
            assert zk.metrics.connections == attempts
    assert attempts < 200


def event(path: str, type: int = EventType.CREATED) -> bytes:
    return ReplyHeader(WATCH_XID, -1, 0).encode() + WatcherEvent(type, 3, path).encode()


async def test_an_event_of_a_relative_path_ends_the_connection_and_not_the_block(
    autojump_clock: MockClock, server: Controls, caplog: pytest.LogCaptureFixture
) -> None:
    tampering = False

    def tamper(payload: bytes) -> list[bytes]:
        return [event("no-slash"), payload] if tampering else [payload]

    async with (
        client(server, connector=tampered(server, tamper)) as zk,
        zk.watch("/", recursive=True) as events,
    ):
        await zk.create("/a")
        assert isinstance(await anext(events), WatchEvent)
        tampering = True
        pending = zk.submit(SetData("/a", b"x"))
        await zk.session.wait_change()
        tampering = False
        with pytest.raises(ConnectionLossError, match="without a leading slash"):
            await pending.wait()
        assert isinstance(await anext(events), Missed)
        assert (await zk.get("/a"))[0] == b"x"
        assert zk.session.generation == 1
    assert [record.getMessage().partition(" (")[0] for record in caplog.records] == [
        f"Lost the connection to {SERVER} after 0.000 s"
    ]


async def test_results_of_another_kind(autojump_clock: MockClock, server: Controls) -> None:
    tampering = False
    other = encode_results([MultiResult(OpCode.DELETE, 0, None)])

    def tamper(payload: bytes) -> list[bytes]:
        return [payload[:16] + other] if tampering else [payload]

    async with client(server, connector=tampered(server, tamper)) as zk:
        await zk.create("/a")
        tampering = True
        with pytest.raises(MarshallingError, match="a result of type 2 for SetData"):
            await zk.multi([SetData("/a", b"x")])
        tampering = False
        assert (await zk.get("/a"))[0] == b"x"
        assert zk.metrics.connections == 2


PATHS = ("", "x", "/", "//", "/n", "/n/x", "n/", "/\0")
NUMBERS = (-(2**31), -124, -8, -6, -4, -2, -1, 0, 1, 4, 5, 1000, 2**31 - 1)


def after_an_accident(payload: bytes, rng: random.Random) -> list[bytes]:
    """A frame of the server after an accident."""
    if rng.random() < 0.9:
        return [payload]
    position, data = rng.randrange(len(payload) - 3), bytearray(payload)
    match rng.randrange(8):
        case 0:
            data[position] ^= 1 << rng.randrange(8)
        case 1:
            del data[position:]
        case 2:
            data += rng.randbytes(rng.randrange(40))
        case 3:
            data[position : position + 4] = struct.pack(">i", rng.choice(NUMBERS))
        case 4:
            data[16:] = rng.randbytes(len(data[16:]))
        case 5:
            return [payload, payload]
        case 6:
            return [event(rng.choice(PATHS), rng.randrange(-2, 8)), payload]
        case 7:
            return [rng.randbytes(rng.randrange(60)), payload]
    return [bytes(data)]


def with_zxid_of(payload: bytes, frame: bytes) -> bytes:
    """Keep a frame from raising the last zxid of the client: all servers would then refuse it, rightly."""
    zxids = [int.from_bytes(each[4:12], signed=True) for each in (payload, frame)]
    return frame if zxids[1] <= zxids[0] else frame[:4] + payload[4:12] + frame[12:]


@pytest.mark.parametrize("seed", range(4))
async def test_whatever_a_server_sends_calls_end_with_errors_of_the_protocol(
    autojump_clock: MockClock, server: Controls, caplog: pytest.LogCaptureFixture, seed: int
) -> None:
    rng = random.Random(seed)
    outcomes: Counter[str] = Counter()

    async def follow(zk: ZooKeeper, recursive: bool) -> None:
        while True:
            try:
                async with zk.watch("/n", recursive=recursive) as events:
                    async for each in events:
                        outcomes[type(each).__name__] += 1
            except ZooKeeperError:
                await trio.sleep(0.5)

    calls: list[Callable[[ZooKeeper], Awaitable[object]]] = [
        lambda zk: zk.ensure_path("/n/x"),
        lambda zk: zk.create("/n/s", b"x" * 50, sequential=True),
        lambda zk: zk.get_and_watch("/n"),
        lambda zk: zk.exists_and_watch("/n/q"),
        lambda zk: zk.get_children_and_stat("/n"),
        lambda zk: zk.get_acl("/n"),
        lambda zk: zk.set("/n", b"z"),
        lambda zk: zk.multi([Check("/n"), Create("/n/m"), SetData("/n/m", b""), Delete("/n/m")]),
        lambda zk: zk.multi_read([GetData("/n"), GetChildren("/n"), GetData("/nowhere")]),
        lambda zk: zk.sync(),
        lambda zk: zk.who_am_i(),
        lambda zk: zk.get_ephemerals("/"),
        lambda zk: zk.get_all_children_number("/"),
        lambda zk: zk.add_auth("digest", "a:b"),
        lambda zk: zk.get_config(),
        lambda zk: zk.delete("/n/x"),
    ]

    def tamper(payload: bytes) -> list[bytes]:
        if payload.startswith(AUTH_XID.to_bytes(4, "big", signed=True)):
            return [payload]  # an identity that is refused ends the client
        return [with_zxid_of(payload, frame) for frame in after_an_accident(payload, rng)]

    options: dict[str, Any] = {"on_expired": "new_session", "session_timeout": 4, "connect_timeout": 600}
    options["connector"] = tampered(server, tamper)
    async with client(server, "server/app", **options) as zk, trio.open_nursery() as nursery:
        nursery.start_soon(follow, zk, True)
        nursery.start_soon(follow, zk, False)
        for turn in range(480):
            with trio.move_on_after(20):  # a reply may have been lost
                try:
                    await calls[turn % len(calls)](zk)
                    outcomes["ok"] += 1
                except ZooKeeperError as error:
                    outcomes[type(error).__name__] += 1
                    await trio.sleep(0.5)
        nursery.cancel_scope.cancel()
    assert {"ok", "WatchEvent", "Missed", "ConnectionLossError"} <= outcomes.keys()
    assert outcomes["ok"] > 300
    ours = [record for record in caplog.records if record.name.startswith("pyzk.client")]
    assert {record.name for record in ours} == {"pyzk.client"}, "connections are lost, and nothing else"
    assert {record.message.partition(" ")[0] for record in ours} <= {"Lost", "Not", "The"}


# --- TLS, over real sockets -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@asynccontextmanager
async def tls_server(authority: trustme.CA, name: str = "127.0.0.1") -> AsyncIterator[str]:
    """Our server behind a TLS listener; gives its address."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    async with open_server(tick_time=100, secure_port=0, ssl_context=context) as server:
        yield f"127.0.0.1:{server.secure_port}"


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


async def test_tls(authority: trustme.CA) -> None:
    async with tls_server(authority) as server, connect(server, ssl_context=trusting(authority)) as zk:
        async with zk.watch("/", recursive=True) as events:
            await zk.create("/a", bytes(500_000))
            event = await anext(events)
            assert isinstance(event, WatchEvent)
            assert (event.type, event.path) == (EventType.CREATED, "/a")
        assert (await zk.get("/a"))[0] == bytes(500_000)


def hurry(clock: MockClock) -> None:
    """Have the clock jump to the end of a wait, once no socket has had anything to say for a while: it takes
    the machine as long as it takes to find out that it cannot connect."""
    clock.autojump_threshold = 0.1


async def test_a_certificate_of_somebody_else(autojump_clock: MockClock, authority: trustme.CA) -> None:
    hurry(autojump_clock)
    async with tls_server(authority) as server:
        with pytest.raises(ConnectionLossError, match="CERTIFICATE_VERIFY_FAILED"):
            async with connect(server, ssl_context=ssl.create_default_context(), connect_timeout=1.5):
                pass


async def test_a_certificate_for_another_name(autojump_clock: MockClock, authority: trustme.CA) -> None:
    hurry(autojump_clock)
    async with tls_server(authority, "elsewhere.example") as server:
        with pytest.raises(ConnectionLossError, match="CERTIFICATE_VERIFY_FAILED"):
            async with connect(server, ssl_context=trusting(authority), connect_timeout=1.5):
                pass


async def test_plain_text_to_a_tls_server(autojump_clock: MockClock, authority: trustme.CA) -> None:
    hurry(autojump_clock)
    async with tls_server(authority) as server:
        with pytest.raises(ConnectionLossError, match=r"does not speak ZooKeeper|closed|reset"):
            async with connect(server, connect_timeout=1.5):
                pass


async def test_tls_to_a_plain_server(
    autojump_clock: MockClock, server: Controls, authority: trustme.CA
) -> None:
    with pytest.raises(ConnectionLossError):
        async with client(server, ssl_context=trusting(authority), connect_timeout=5):
            pass


async def test_a_real_socket_that_nobody_listens_on(autojump_clock: MockClock) -> None:
    hurry(autojump_clock)
    with socket.socket() as taken:  # so that nobody else gets the port
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(ConnectionLossError, match=rf"\(127\.0\.0\.1:{port}: Connection refused\)"):
            async with connect(f"127.0.0.1:{port}", connect_timeout=1):
                pass
