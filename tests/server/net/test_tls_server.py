"""Clients on the TLS port: the whole protocol, certificates as identities, and clients that misbehave."""

from __future__ import annotations

import gc
import logging
import re
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager, suppress
from typing import Any

import attrs
import pytest
import trio
import trio.testing
import trustme

from benchmarks import wire
from pyzk.protocol.constants import EventType, Perms
from pyzk.protocol.errors import NoAuthError
from pyzk.protocol.operations import OpCode
from pyzk.protocol.records import ACL, Id
from pyzk.server.net.clock import Clock
from pyzk.server.net.connection import Connection
from pyzk.server.net.server import Server
from pyzk.server.net.streams import _StreamLink

from ...support.network import served, wait_for_delivery
from ...support.wire import ClosedError, StreamClient, kinds

pytestmark = pytest.mark.trio


@pytest.fixture(scope="module")
def ca() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def server_context(ca: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("localhost", "127.0.0.1").configure_cert(context)
    ca.configure_trust(context)
    context.verify_mode = ssl.CERT_OPTIONAL
    return context


@pytest.fixture(scope="module")
def trusting(ca: trustme.CA) -> ssl.SSLContext:
    """A client without a certificate."""
    context = ssl.create_default_context()
    ca.configure_trust(context)
    return context


@pytest.fixture(scope="module")
def named(ca: trustme.CA) -> Callable[[str], ssl.SSLContext]:
    """Clients with a certificate for a common name."""

    def context_of(name: str) -> ssl.SSLContext:
        context = ssl.create_default_context()
        ca.configure_trust(context)
        ca.issue_cert(f"{name}.example", common_name=name, organization_name="pyzk").configure_cert(context)
        return context

    return context_of


@pytest.fixture
def secured(server_context: ssl.SSLContext) -> Callable[..., Any]:
    def start(**settings: Any) -> Any:
        return served(**{"secure_port": 0, "ssl_context": server_context, **settings})

    return start


def secure_address(server: Server) -> tuple[str, int]:
    assert server.secure_address is not None
    return server.secure_address


@asynccontextmanager
async def connected(server: Server, context: ssl.SSLContext) -> AsyncIterator[StreamClient]:
    host, port = secure_address(server)
    with trio.fail_after(10):
        stream = await trio.open_ssl_over_tcp_stream(host, port, ssl_context=context)
        try:
            yield StreamClient(stream)
        finally:
            await trio.aclose_forcefully(stream)


# --- the protocol -----------------------------------------------------------------------------------------


async def test_the_protocol(secured: Any, trusting: ssl.SSLContext) -> None:
    async with (
        secured() as server,
        connected(server, trusting) as client,
        connected(server, trusting) as other,
    ):
        await client.connect()
        await other.connect()
        assert (await client.create("/a", b"data")).err == 0
        assert (await other.get("/a", watch=True)).record.data == b"data"
        large = bytes(500_000)  # many TLS records
        assert (await client.set("/a", large, 0)).err == 0
        assert kinds([await other.next()]) == [(EventType.CHANGED, "/a")]
        assert (await other.get("/a")).record.data == large
        assert len(server.service.secure) == 2


async def test_a_session_expires(secured: Any, trusting: ssl.SSLContext) -> None:
    clock = Clock(frozen=True)  # no session is over before we are ready, however slow the machine
    async with (
        secured(clock=clock, tick_time=50, min_session_timeout=50) as server,
        connected(server, trusting) as client,
        connected(server, trusting) as other,
    ):
        await client.connect(timeout=1)
        assert client.handshake.timeout == 50
        await client.create("/e", flags=1)
        await other.connect()
        assert (await other.get("/e", watch=True)).err == 0
        clock.jump(0.2)
        clock.wake()
        assert kinds([await other.next()]) == [(EventType.DELETED, "/e")]
        with pytest.raises((ClosedError, trio.BrokenResourceError)):
            await client.next()


async def test_a_four_letter_word(secured: Any, trusting: ssl.SSLContext) -> None:
    async with secured() as server:
        with trio.fail_after(10):
            stream = await trio.open_ssl_over_tcp_stream(
                *secure_address(server), ssl_context=trusting, https_compatible=True
            )
            await stream.send_all(b"mntr")
            answered = b""
            while data := await stream.receive_some():
                answered += data
            await trio.aclose_forcefully(stream)
        assert b"zk_num_alive_connections\t1\n" in answered


async def test_the_port_speaks_tls_on_all_interfaces_too(secured: Any, trusting: ssl.SSLContext) -> None:
    async with secured(secure_host="0.0.0.0") as server:
        with trio.fail_after(10):
            port = secure_address(server)[1]
            stream = await trio.open_ssl_over_tcp_stream("127.0.0.1", port, ssl_context=trusting)
            await StreamClient(stream).connect()
            await trio.aclose_forcefully(stream)


# --- certificates as identities ---------------------------------------------------------------------------


async def test_a_certificate_is_an_identity(secured: Any, named: Any, trusting: ssl.SSLContext) -> None:
    async with (
        secured() as server,
        connected(server, named("alice")) as client,
        connected(server, named("bob")) as other,
        connected(server, trusting) as nobody,
    ):
        for each in (client, other, nobody):
            await each.connect()
        (_, address), (scheme, subject) = (await client.who_am_i()).identities
        assert (address, scheme) == ("127.0.0.1", "x509")
        assert subject is not None
        assert re.fullmatch(r"CN=alice,OU=[^,]+,O=pyzk", subject)
        assert [found[0] for found in (await nobody.who_am_i()).identities] == ["ip"]
        assert (await client.create("/a", acl=[ACL(Perms.ALL, Id("x509", subject))])).err == 0
        assert (await client.create("/b", acl=[ACL(Perms.ALL, Id("auth", ""))])).err == 0
        for path in ("/a", "/b"):
            assert (await client.get(path)).err == 0
            assert (await other.get(path)).err == NoAuthError.code
            assert (await nobody.get(path)).err == NoAuthError.code


async def test_a_certificate_can_be_the_super_users(secured: Any, named: Any) -> None:
    context = named("root")
    async with secured() as server, connected(server, context) as client:
        await client.connect()
        subject = dict((await client.who_am_i()).identities)["x509"]
    async with secured(x509_super_user=subject) as server, connected(server, context) as client:
        await client.connect()
        assert [found[0] for found in (await client.who_am_i()).identities] == ["ip", "x509", "super"]
        assert (await client.create("/a", acl=[ACL(Perms.ALL, Id("ip", "10.0.0.1"))])).err == 0
        assert (await client.get("/a")).err == 0


# --- clients that misbehave -------------------------------------------------------------------------------


@asynccontextmanager
async def nobody_is_harmed(
    secured: Any,
    trusting: ssl.SSLContext,
    caplog: pytest.LogCaptureFixture,
    line: str,
    *,
    impatient: bool = False,
) -> AsyncIterator[Server]:
    """A server with another client, who must not notice; and one line of the log about the one who does.

    :param impatient: whether the server waits for a handshake for 0.2 s only.
    """
    caplog.set_level(logging.INFO, "pyzk.server")
    # The clock's task gives up on the silent too, tick by tick: it must not be there first.
    async with secured(tick_time=3_600_000) as server, connected(server, trusting) as other:
        await other.connect()
        if impatient:  # not before: the other may need longer
            service = server.service
            service.settings = attrs.evolve(service.settings, sessionless_timeout=200)
        yield server
        assert (await other.create("/still-here")).err == 0
        assert len(server.service.connections) == 1
    told = [record.message for record in caplog.records if "closed, " in record.message]
    assert len(told) == 1
    assert line in told[0]


async def closed_by(server: Server, *said: bytes) -> None:
    """Connect, say something, and wait for the server to close."""
    with trio.fail_after(10):
        async with await trio.open_tcp_stream(*secure_address(server)) as stream:
            with suppress(trio.BrokenResourceError):  # it may close before all is said
                for data in said:
                    await stream.send_all(data)
                while await stream.receive_some():
                    pass


async def test_silence(secured: Any, trusting: ssl.SSLContext, caplog: pytest.LogCaptureFixture) -> None:
    line = "no TLS handshake within 0.2 s"
    async with nobody_is_harmed(secured, trusting, caplog, line, impatient=True) as server:
        await closed_by(server)


@pytest.mark.parametrize(
    "said", [b"ruok", b"GET / HTTP/1.1\r\n\r\n", bytes.fromhex("0000002d") + bytes(45), bytes(100_000)]
)
async def test_plain_text(
    secured: Any, trusting: ssl.SSLContext, caplog: pytest.LogCaptureFixture, said: bytes
) -> None:
    short = said == b"ruok"  # too short to be refused
    line = "no TLS handshake within 0.2 s" if short else "its TLS handshake failed"
    async with nobody_is_harmed(secured, trusting, caplog, line, impatient=short) as server:
        await closed_by(server, said)


def client_hello(context: ssl.SSLContext) -> bytes:
    outgoing = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("reset", [False, True])
async def test_gone_in_the_middle_of_the_handshake(
    secured: Any, trusting: ssl.SSLContext, caplog: pytest.LogCaptureFixture, share: float, reset: bool
) -> None:
    hello = client_hello(trusting)
    async with nobody_is_harmed(secured, trusting, caplog, "its TLS handshake failed") as server:
        stream = await trio.open_tcp_stream(*secure_address(server))
        await stream.send_all(hello[: int(len(hello) * share)])
        with trio.fail_after(10):
            while len(server.service.connections) < 2:
                await trio.lowlevel.checkpoint()
            if reset:
                stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            await stream.aclose()
            while len(server.service.connections) > 1:
                await trio.lowlevel.checkpoint()


async def test_reset_before_it_is_let_in(secured: Any, trusting: ssl.SSLContext) -> None:
    async with secured() as server:
        with socket.create_connection(secure_address(server)) as client:  # no other task runs meanwhile
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        async with connected(server, trusting) as other:
            await other.connect()


async def test_no_certificate_where_one_is_needed(
    server_context: ssl.SSLContext,
    secured: Any,
    named: Any,
    trusting: ssl.SSLContext,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server_context, "verify_mode", ssl.CERT_REQUIRED)
    line = "its TLS handshake failed: PEER_DID_NOT_RETURN_A_CERTIFICATE"
    async with nobody_is_harmed(secured, named("alice"), caplog, line) as server:
        with pytest.raises((ClosedError, trio.BrokenResourceError)):
            async with connected(server, trusting) as client:
                await client.connect()


# --- what a stall of the server must not cost -------------------------------------------------------------


class BlockingClient:
    """A TLS client whose :meth:`send` lets no task of the server run."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext) -> None:
        self.sock = sock
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")

    async def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        while True:
            try:
                return function(*arguments)
            except ssl.SSLWantReadError:
                self.sock.sendall(self._outgoing.read())
                await trio.lowlevel.wait_readable(self.sock)
                self._incoming.write(self.sock.recv(65536))

    async def open(self, timeout: int) -> None:
        await self.call(self._tls.do_handshake)
        self.send(wire.hello(timeout, read_only=None))
        assert len(await self.call(self._tls.read, 100)) == 40

    def send(self, data: bytes) -> None:
        self._tls.write(data)
        self.sock.sendall(self._outgoing.read())


@pytest.mark.parametrize("size", [8, 50_000])  # the latter: several TLS records, and what a socket takes
async def test_signs_of_life_that_have_arrived_count_after_a_stall(
    secured: Any, trusting: ssl.SSLContext, size: int
) -> None:
    clock = Clock(frozen=True)
    sign = wire.request(OpCode.PING, bytes(size - 8), -2)
    async with secured(clock=clock, tick_time=100) as server:
        with trio.fail_after(10), ExitStack() as sockets:
            clients = []
            for _ in range(10):
                sock = sockets.enter_context(socket.create_connection(secure_address(server), timeout=10))
                clients.append(BlockingClient(sock, trusting))
                await clients[-1].open(timeout=1000)
            for _ in range(10):  # trio runs the tasks of a round in one of two orders
                for client in clients:
                    client.send(sign)
                wait_for_delivery(*(client.sock for client in clients))
                clock.jump(1.2)
                clock.wake()
                await trio.testing.wait_all_tasks_blocked()
                assert len(server.service.engine.sessions) == len(clients)
            clock.jump(1.2)
            clock.wake()
            await trio.testing.wait_all_tasks_blocked()
            assert len(server.service.engine.sessions) == 0


# --- what is left of clients ------------------------------------------------------------------------------


@pytest.mark.parametrize("client", ["silent", "gone", "nonsense", "cut off", "closing its session"])
async def test_nothing_of_a_client_is_left_to_the_garbage_collector(
    secured: Any, trusting: ssl.SSLContext, caplog: pytest.LogCaptureFixture, client: str
) -> None:
    """In the command it looks at young objects only: what it does not find then stays for ever."""
    caplog.set_level(logging.CRITICAL, "pyzk.server")  # pytest keeps log records, and they their connections
    hello = client_hello(trusting)

    def come_and_go(address: tuple[str, int]) -> None:
        with socket.create_connection(address, timeout=10) as plain:
            if client == "silent":
                assert plain.recv(1) == b""
            elif client == "gone":
                plain.sendall(hello[:50])
            elif client == "nonsense":
                plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
                while plain.recv(100):
                    pass
            else:
                with trusting.wrap_socket(plain, server_hostname="localhost") as tls:
                    tls.sendall(wire.hello(10_000, read_only=None))
                    assert len(tls.recv(100)) == 40
                    if client == "closing its session":
                        tls.sendall(wire.request(OpCode.CLOSE_SESSION, xid=1))
                        assert len(tls.recv(100)) == 20

    def left() -> int:
        return sum(type(found) in (Connection, _StreamLink, trio.SSLStream) for found in gc.get_objects())

    async with secured(sessionless_timeout=100 if client == "silent" else 10_000) as server:
        before = left()
        gc.disable()
        try:
            for _ in range(3):
                await trio.to_thread.run_sync(come_and_go, secure_address(server))
            while server.service.connections:
                await trio.sleep(0.001)
            await trio.testing.wait_all_tasks_blocked()
            assert left() == before
        finally:
            gc.enable()
