"""Clients may take nearly all file descriptors, and neither the last ones nor those of other clients."""

from __future__ import annotations

import errno
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from benchmarks import wire
from pyzk.protocol import records as r
from pyzk.protocol.constants import FOUR_LETTER_WORDS
from pyzk.protocol.operations import OpCode
from pyzk.server.app import cli
from pyzk.server.monitoring import metrics
from pyzk.server.net import descriptors, leaving, listening
from pyzk.server.net.clock import Clock
from pyzk.server.net.listening import serve_clients

from ...support.network import served, talk
from ...support.waiting import PATIENCE
from ...support.world import Peer, World

HELLO = wire.hello(30_000)


_set_limit = resource.setrlimit  # a test replaces it


@pytest.fixture(autouse=True)
def limits_put_back() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    _set_limit(resource.RLIMIT_NOFILE, before)


@contextmanager
def process(files: int | tuple[int, int], *argv: str, **options: Any) -> Iterator[tuple[Any, int]]:
    """The command with so many files at most, as a process and a port."""
    limit = files if isinstance(files, tuple) else (files, files)

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)

    command = [sys.executable, "-m", "pyzk.server", "--port", "0", *argv]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, preexec_fn=limited, **options
    ) as server:
        try:
            yield server, int(server.stdout.readline().split()[4].rpartition(":")[2])
        finally:
            server.kill()


def connect(port: int, host: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), PATIENCE, (host, 0))


def ask(client: socket.socket, data: bytes) -> bytes:
    """What is answered until the server closes."""
    client.sendall(data)
    return b"".join(iter(lambda: client.recv(65536), b""))


def hello(client: socket.socket, request: bytes = HELLO) -> r.ConnectResponse:
    client.sendall(request)
    return r.ConnectResponse.decode(client.recv(1000)[4:])


# --- those that clients do not get ------------------------------------------------------------------------


def test_first_requests_of_their_kind_work_when_clients_have_all_descriptors(tmp_path: Path) -> None:
    """A module that is imported late, and /dev/fd, need one."""
    (tmp_path / "zoo.cfg").write_text("maxClientCnxns=0\n")
    with ExitStack() as stack, (tmp_path / "log").open("w") as log:
        config = str(tmp_path / "zoo.cfg")
        server, port = stack.enter_context(process(100, "--config", config, stderr=log))
        first = hello(stack.enter_context(connect(port)))
        asking = [stack.enter_context(connect(port)) for _ in range(8)]
        for _ in range(100):  # they wait in the end, in the queue of the kernel
            stack.enter_context(connect(port))
        end = time.monotonic() + PATIENCE
        while "clients must wait" not in (tmp_path / "log").read_text():
            assert server.poll() is None
            assert time.monotonic() < end
            time.sleep(0.01)
        resumed = hello(asking[0], wire.hello(30_000, first.sessionId, first.passwd))
        assert resumed.sessionId == first.sessionId
        hello(asking[1])
        asking[1].sendall(wire.request(OpCode.AUTH, r.AuthPacket(0, "digest", b"a:b"), -4))
        assert r.ReplyHeader.decode(asking[1].recv(1000)[4:]).err == 0
        assert ask(asking[2], b"envi").startswith(b"Environment:")
        assert b"zk_max_file_descriptor_count\t100\n" in ask(asking[3], b"mntr")
        assert "Traceback" not in (tmp_path / "log").read_text()
        server.send_signal(signal.SIGTERM)
        assert server.wait(PATIENCE) == 0


def test_clients_that_only_linger_keep_nobody_out() -> None:
    """Many that are refused and do not close their side, all of one address."""
    with ExitStack() as stack:
        server, port = stack.enter_context(process(256, stderr=subprocess.DEVNULL))
        for _ in range(600):
            stack.enter_context(connect(port)).sendall(b"XXXX")
        assert ask(stack.enter_context(connect(port, "127.0.0.2")), b"ruok") == b"imok"
        assert ask(stack.enter_context(connect(port)), b"ruok") == b"imok"
        assert len(os.listdir(f"/proc/{server.pid}/fd")) < 128


@pytest.mark.parametrize(("most", "hosts", "left"), [(3, 1, 3), (3, 2, 5), (9, 2, 5)])
async def test_how_many_linger(monkeypatch: pytest.MonkeyPatch, most: int, hosts: int, left: int) -> None:
    monkeypatch.setattr(leaving, "_MOST", 5)
    monkeypatch.setattr(leaving, "_MOST_PER_HOST", most)
    monkeypatch.setattr(leaving, "_LINGER", 1000.0)
    with ExitStack() as stack:
        async with served() as server:
            for host in range(hosts):
                for _ in range(8):
                    client = await trio.open_tcp_stream(*server.address, local_address=f"127.0.0.{1 + host}")
                    stack.callback(client.socket._sock.close)
                    await client.send_all(b"XXXX")
                    assert await client.receive_some(1) == b""
            assert len(server._hub._leaving.sockets) == len(server._hub._leaving.deadlines) == left
            assert await talk(server.address, b"ruok") == b"imok"


async def test_a_client_that_would_take_the_last_descriptors_is_closed_and_others_wait(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(clock=Clock(frozen=True)) as server:  # no tick comes by itself
        with monkeypatch.context() as patch:
            patch.setattr(descriptors, "limit", lambda: 0)
            patch.setattr(descriptors, "_SAFE", 0)
            assert await talk(server.address) == b""
            async with await trio.open_tcp_stream(*server.address) as waiting:
                with trio.move_on_after(0.01):
                    await waiting.receive_some(1)
                patch.undo()
                server.receive()  # as at the next tick
                await waiting.send_all(b"ruok")
                with trio.fail_after(PATIENCE):
                    assert await waiting.receive_some(4) == b"imok"
    [message] = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert message == f"new clients must wait: [Errno 24] Too many open files; {descriptors.REMEDY}"


async def test_a_shortage_is_told_once_and_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """On the ports of TLS and HTTP."""
    attempts = 0

    async def accept(listener: trio.SocketListener) -> trio.SocketStream:
        nonlocal attempts
        attempts += 1
        if attempts < 50:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        await trio.sleep_forever()
        raise AssertionError

    async def serve(stream: trio.SocketStream) -> None:
        raise AssertionError

    monkeypatch.setattr(trio.SocketListener, "accept", accept)
    monkeypatch.setattr(listening, "_REST", 0.001)
    with socket.create_server(("127.0.0.1", 0)) as listener, trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve_clients, listener, serve)
            while attempts < 50:
                await trio.sleep(0.001)
            nursery.cancel_scope.cancel()
    [record] = caplog.records
    assert record.levelname == "WARNING"
    assert not record.exc_info


# --- the limit --------------------------------------------------------------------------------------------


def test_the_limit_is_raised_at_the_start() -> None:
    with process((80, 120)) as (server, _):
        [line] = [x for x in Path(f"/proc/{server.pid}/limits").read_text().splitlines() if "open files" in x]
        assert line.split()[3:5] == ["120", "120"]


@pytest.mark.parametrize("files", [8, descriptors.LEAST - 1])
def test_too_low_a_limit_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], files: int
) -> None:
    monkeypatch.setattr(resource, "setrlimit", lambda which, limit: None)
    monkeypatch.setattr(resource, "getrlimit", lambda which: (files, files))
    assert cli.main(["--port", "0"]) == 2
    assert capsys.readouterr().err == (
        f"pyzk-server: only {files} files may be open at a time; raise the limit (ulimit -n) to 64 or more\n"
    )


def test_a_limit_that_cannot_be_raised_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(which: int, limit: tuple[int, int]) -> None:
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "setrlimit", refuse)
    descriptors.raise_limit()
    monkeypatch.setattr(resource, "getrlimit", lambda which: (resource.RLIM_INFINITY, 0))
    assert descriptors.limit() == sys.maxsize


# --- what an operator asks --------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "used"), [(errno.EMFILE, 1234), (errno.ENOENT, -1)])
def test_the_metrics_without_a_descriptor_to_spare(
    monkeypatch: pytest.MonkeyPatch, world: World, number: int, used: int
) -> None:
    def fail(path: str) -> list[str]:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "listdir", fail)
    monkeypatch.setattr(descriptors, "limit", lambda: 1234)
    found = dict(metrics.metrics(world.service, world.now))
    assert (found["open_file_descriptor_count"], found["max_file_descriptor_count"]) == (used, 1234)


def test_the_environment_without_a_working_directory(
    monkeypatch: pytest.MonkeyPatch, client: Peer, tmp_path: Path
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert b"user.dir=<NA>\n" in client.world.open().exchange(b"envi")


def test_what_is_imported_after_the_start() -> None:
    """Nothing but what would make an idle server much larger, and that fails as a whole or not at all."""
    code = """
import builtins, sys
from pyzk.server.app import cli
say, before = cli._say, set()
def ready(text):
    before.update(sys.modules)
    say(text)
cli._say = ready
cli.main(["--port", "0"])
print(*sorted(set(sys.modules) - before - set(sys.builtin_module_names)))
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        port = int(server.stdout.readline().split()[4].rpartition(":")[2])
        assert server.stdout.readline().startswith("HTTP at ")
        with ExitStack() as stack:
            for word in FOUR_LETTER_WORDS:
                ask(stack.enter_context(connect(port)), word + bytes(8))
            first = hello(stack.enter_context(connect(port)))
            client = stack.enter_context(connect(port))
            hello(client, wire.hello(30_000, first.sessionId, first.passwd))
            client.sendall(wire.request(OpCode.AUTH, r.AuthPacket(0, "digest", b"a:b"), -4))
            assert client.recv(100)
        server.terminate()
        assert set(server.stdout.read().split()) <= {"_hashlib", "_blake2", "_hmac", "hashlib", "hmac"}


def test_an_import_without_descriptors_fails_before_it_begins() -> None:
    code = """
import os, resource
from pyzk.server.app.lazy_imports import import_later
import_later("hashlib")
import hashlib
limit = resource.getrlimit(resource.RLIMIT_NOFILE)
for spare in 0, 1:
    resource.setrlimit(resource.RLIMIT_NOFILE, (3 + spare, limit[1]))
    try: hashlib.new("sha1")
    except OSError as error: print(error.strerror)
resource.setrlimit(resource.RLIMIT_NOFILE, limit)
print(hashlib.new("sha1").digest_size, hashlib.new("sha3_512").digest_size)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["Too many open files", "Too many open files", "20 64"]
    assert not done.stderr
