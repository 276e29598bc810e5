"""Clients that come, go, stop, and begin a TLS handshake."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import signal
import socket
import ssl
import subprocess
import tempfile
import time
from collections.abc import Iterator

from pyzk.protocol.operations import OpCode

from .. import wire
from ..wire import BenchmarkError
from .case import case
from .scene import (
    LONG,
    MEGABYTE,
    NotHere,
    Scene,
    drain,
    get_op,
    portions,
    take_all,
    until,
)
from .states import crowd, owner, sessions


@case("close-crowd", 10_000, "N clients close their sessions at once", state=crowd, spoils=True)
def close_crowd(scene: Scene, size: int) -> Iterator[None]:
    yield
    for client in scene.kept["clients"]:
        client.socket.sendall(wire.CLOSE_SESSION)


@case("drop-crowd", 10_000, "N clients drop their connections at once", state=crowd, spoils=True)
def drop_crowd(scene: Scene, size: int) -> Iterator[None]:
    yield
    for client in scene.kept["clients"]:
        client.socket.shutdown(socket.SHUT_RDWR)  # the bystander has it open too
    until(scene, lambda: wire.monitor(scene.server.address)["zk_num_alive_connections"] < size // 100)


@case("first-http", 1, "the first HTTP request of the server's life")
def first_http(scene: Scene, size: int) -> Iterator[None]:
    yield
    with socket.create_connection(scene.server.address) as client:
        client.sendall(b"GET /api/v1/server HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n")
        while client.recv(65536):
            pass


@case("expire-sessions", 100_000, "N sessions expire in one tick", state=sessions, spoils=True)
def expire_sessions(scene: Scene, size: int) -> Iterator[None]:
    there = wire.monitor(scene.server.address)["zk_global_sessions"]
    if there < size:
        raise BenchmarkError(f"{size - there:,} sessions have expired already: this machine is too slow")
    time.sleep(max(0.0, scene.kept["end"] - time.monotonic() - 2.0))
    yield
    until(scene, lambda: wire.monitor(scene.server.address)["zk_global_sessions"] < size // 100)


@case("close-ephemerals", 100_000, "a session with N ephemeral znodes is closed", transaction=True)
def close_ephemerals(scene: Scene, size: int) -> Iterator[None]:
    client = owner(scene, size)
    scene.elements = size
    yield
    client.ask(wire.CLOSE_SESSION)


@case("connect-flood", 5_000, "N clients connect at once")
def connect_flood(scene: Scene, size: int) -> Iterator[None]:
    yield
    scene.clients(size)


@case("half-open", 10_000, "N connections that say half a handshake, and are reset")
def half_open(scene: Scene, size: int) -> Iterator[None]:
    yield
    half = wire.hello(LONG)[:20]
    for count in portions(size, 1000):
        socks = [scene.connect() for _ in range(count)]
        for sock in socks:
            sock.sendall(half)
        scene.reset(*socks)


@case("stopped", 3_000, "N clients whose pings came while the server was stopped", quick=1500,
      tickTime=500, minSessionTimeout=3000)  # fmt: skip
def stopped(scene: Scene, size: int) -> Iterator[None]:
    clients = scene.clients(size, timeout=3000)
    ping = wire.request(OpCode.PING, xid=-2)
    for client in clients:
        client.socket.sendall(ping)
    take_all(clients, 20)
    yield
    os.kill(scene.server.pid, signal.SIGSTOP)
    try:
        for client in clients:
            client.socket.sendall(ping)
        time.sleep(4.5)
    finally:
        os.kill(scene.server.pid, signal.SIGCONT)
    lost = size - take_all(clients, 20)
    if lost:
        scene.trouble(f"{lost:,} of {size:,} sessions lost")


@case("unread", 55, "N clients ask for 32 MB each and do not read", quick=40, memory_each=10_000_000)
def unread(scene: Scene, size: int) -> Iterator[None]:
    scene.client().ask(wire.create("/large", bytes(MEGABYTE)))
    socks = [client.socket for client in scene.clients(size)]
    request = wire.multi_of([get_op("/large")] * 32, OpCode.MULTI_READ)
    yield
    for sock in socks:
        sock.sendall(request)


@case("stderr-unread", 5_000, "N refused connections while nobody reads the server's standard error",
      stderr=subprocess.PIPE)  # fmt: skip
def stderr_unread(scene: Scene, size: int) -> Iterator[None]:
    yield
    for _ in range(size):
        with scene.connect() as sock:
            sock.sendall(b"\xff\xff\xff\xffjunk")
            sock.recv(1)


# --- TLS ------------------------------------------------------------------------------------------------


@functools.cache
def tls_config() -> dict[str, object]:
    """What a server needs to speak TLS, with a certificate that is made once."""
    try:
        import trustme
    except ImportError:
        raise NotHere("trustme is not installed") from None
    pem = trustme.CA().issue_cert("127.0.0.1").private_key_and_cert_chain_pem.bytes()
    with tempfile.NamedTemporaryFile(prefix="benchmark-", suffix=".pem", delete=False) as file:
        file.write(pem)
    atexit.register(os.unlink, file.name)
    return {"secureClientPort": 0, "ssl.keyStore.location": file.name, "ssl.clientAuth": "none"}


def trusting() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _client_hello() -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        trusting().wrap_bio(incoming, outgoing).do_handshake()
    return outgoing.read()


@case("tls-unfinished", 3_000, "N TLS handshakes that are begun and not finished", quick=1000,
      memory_each=1500, tls=True)  # fmt: skip
def tls_unfinished(scene: Scene, size: int) -> Iterator[None]:
    hello = _client_hello()

    def attack(count: int) -> None:
        for portion in portions(count, 50):
            socks = [scene.connect(scene.server.others["secure"]) for _ in range(portion)]
            for sock in socks:
                sock.sendall(hello)
            for sock in socks:
                sock.recv(1 << 14)
                sock.close()

    attack(300)
    yield
    attack(size)


@case("tls-served", 1_000, "N TLS clients, one after the other", memory_each=1500, tls=True)
def tls_served(scene: Scene, size: int) -> Iterator[None]:
    context = trusting()

    def attack(count: int) -> None:
        for _ in range(count):
            with context.wrap_socket(scene.connect(scene.server.others["secure"])) as sock:
                sock.sendall(wire.hello(LONG))
                sock.recv(100)
                sock.sendall(wire.CLOSE_SESSION)
                drain(sock)

    attack(100)
    yield
    attack(size)
