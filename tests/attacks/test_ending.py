"""Nothing that a client does ends the process."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from benchmarks import servers, wire
from benchmarks.wire import BenchmarkError
from pyzk.protocol import records as r
from pyzk.protocol.operations import OpCode

from .target import MB, attacked, size, under

WORDS = (b"envi", b"mntr", b"conf", b"cons", b"dump", b"stat", b"srvr", b"wchs", b"wchc", b"wchp")


def test_words_without_a_working_directory(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    with attacked(under('cd "$1"', folder)) as server:
        shutil.rmtree(folder)
        for word in WORDS:
            assert server.word(word), word


def test_no_descriptors_left() -> None:
    """What is asked for the first time must not need a descriptor, such as that of a file to import."""
    limit = 64
    with attacked(under(f"ulimit -n {limit}")) as server:
        left = server.client()
        session = left.session
        left.drop()
        waiting = [server.connect() for _ in WORDS]
        newcomer, resuming, shy = (server.connect() for _ in range(3))
        server.bystander.ask(wire.get("/bystander"))  # by now all have been let in
        flood = [server.connect() for _ in range(limit)]
        server.bystander.ask(wire.get("/bystander"))
        newcomer.sendall(wire.hello(10_000))
        assert newcomer.recv(100)
        digest = r.AuthPacket(0, "digest", b"user:password")
        newcomer.sendall(wire.request(OpCode.AUTH, digest, xid=-4))
        assert newcomer.recv(100)
        resuming.sendall(wire.hello(10_000, *session))
        assert resuming.recv(100)
        server.bystander.ask(wire.get("/bystander"))
        for sock, word in zip(waiting, WORDS, strict=True):
            sock.sendall(word)
            assert sock.recv(100), word
        shy.sendall(b"\xff\xff\xff\xff")
        assert not shy.recv(100)
        server.reset(*flood)
        server.until(server.lets_in, "nobody is let in after the others have left")


def test_connections_that_stay_open_behind_our_close() -> None:
    """By default no single address can use up all descriptors; others are served meanwhile."""
    limit = 256
    with attacked(under(f"ulimit -n {limit}"), maxClientCnxns=60) as server:
        socks = []
        for _ in range(2 * limit):
            with contextlib.suppress(OSError):  # it may be refused
                socks.append(server.connect())
                socks[-1].sendall(b"XXXX")
        server.bystander.ask(wire.get("/bystander"))
        assert server.descriptors() < limit - 50
        other = socket.create_connection(server.server.address, 10, ("127.0.0.2", 0))
        other.sendall(wire.hello(10_000))
        assert len(other.recv(100)) >= 36, "another address is served"
        other.close()
        server.reset(*socks)


def test_out_of_memory() -> None:
    """Whoever asks for more than there is gets an error, or is disconnected; the others are served again."""
    with attacked(tracebacks=1000) as server:
        statm = Path(f"/proc/{server.server.pid}/statm").read_text()
        used = int(statm.split()[0]) * os.sysconf("SC_PAGE_SIZE")
        greedy = server.client()
        _, hard = resource.prlimit(server.server.pid, resource.RLIMIT_AS)
        resource.prlimit(server.server.pid, resource.RLIMIT_AS, (used + 40 * MB, hard))
        with contextlib.suppress(OSError, BenchmarkError):
            for n in range(200):
                greedy.ask(wire.create(f"/large{n}", bytes(MB)))
        with contextlib.suppress(OSError, BenchmarkError):
            for client in server.clients(10):
                client.socket.sendall(wire.create("/larger", bytes(MB)))
        resource.prlimit(server.server.pid, resource.RLIMIT_AS, (hard, hard))


@pytest.mark.parametrize("output", ["full", "closed"])
def test_no_place_for_the_readiness_line(output: str) -> None:
    """A disk that is full; a pipe whose reader has gone."""
    if output == "full":
        out = os.open("/dev/full", os.O_WRONLY)
    else:
        reader, out = os.pipe()
        os.close(reader)
    try:
        done = subprocess.run(
            [*servers.OURS, "--port", "0"],
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
            timeout=20,
            check=False,
        )
    finally:
        os.close(out)
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr


# --- what always held ------------------------------------------------------------------------------------


def test_half_open_handshakes() -> None:
    with attacked() as server, server.costs_at_most(size(200_000, 2_000_000)):
        half = wire.hello(10_000)[:20]
        servers.raise_file_limit(4096)
        for _ in range(size(2, 20)):
            socks = [server.connect() for _ in range(500)]
            for sock in socks:
                sock.sendall(half)
            server.bystander.ask(wire.get("/bystander"))
            server.reset(*socks)


@pytest.mark.parametrize(
    "said",
    [b"", wire.hello(10_000)[:7], wire.hello(10_000), b"ruok", b"GET / HTTP/1.1"],
    ids=["nothing", "half a handshake", "a handshake", "a word", "HTTP"],
)
def test_connections_that_are_reset(said: bytes) -> None:
    with attacked() as server:
        for _ in range(size(400, 20_000)):
            sock = server.connect()
            sock.sendall(said)
            server.reset(sock)


def test_slow_loris() -> None:
    """A byte at a time: of a handshake, of a request, of a word, of an HTTP request."""
    with attacked(**{"admin.enableServer": "true", "admin.serverPort": 0}) as server:
        clients = [server.client().socket for _ in range(20)]
        strangers = [server.connect() for _ in range(20)]
        browsers = [server.connect(server.server.others["admin"]) for _ in range(20)]
        request, http = wire.create("/slow"), b"GET /commands/ruok HTTP/1.1\r\nHost: localhost\r\n\r\n"
        for n in range(30):
            for socks, said in ((clients, request), (strangers, wire.hello(10_000)), (browsers, http)):
                for sock in socks:
                    sock.sendall(said[n : n + 1])
            server.bystander.ask(wire.get("/bystander"))
        for sock in clients:
            sock.sendall(request[30:])
            assert sock.recv(100)


@pytest.mark.parametrize(
    "junk",
    [
        b"\xff\xff\xff\xff",
        b"\x7f\xff\xff\xff",
        bytes(4),
        bytes(44),
        b"\0\0\0\x2c" + b"\xff" * 44,
        b"\0" * 70_000,
    ],
    ids=["negative", "huge", "empty", "zeros", "ones", "long"],
)
def test_what_is_no_handshake(junk: bytes) -> None:
    with attacked() as server:
        for _ in range(size(200, 5_000)):
            sock = server.connect()
            with contextlib.suppress(OSError):
                sock.sendall(junk)
            sock.close()
