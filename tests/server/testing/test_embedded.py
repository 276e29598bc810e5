"""The server's life in its thread: starting, stopping, dying."""

from __future__ import annotations

import gc
import os
import signal
import socket
import ssl
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
import trustme
from kazoo.client import KazooClient

from benchmarks import wire
from pyzk.protocol.operations import OpCode
from pyzk.protocol.records import SetDataRequest
from pyzk.server.testing import EmbeddedServer, ServerDied, ServerStopped, UnknownSessionError

from ...support.waiting import wait_until

CYCLES = 1000 if os.environ.get("HYPOTHESIS_PROFILE") == "nightly" else 100


def test_starts_and_stops(connect: Callable[..., KazooClient]) -> None:
    server = EmbeddedServer()
    assert server.start() is server
    client = connect(server)
    client.create("/a", b"1")
    assert server.hosts == f"127.0.0.1:{server.port}"
    client.stop()
    server.stop()
    assert not [t for t in threading.enumerate() if t.name == "pyzk-server"]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(client.hosts[0][1])), timeout=5)


def test_stopping_twice_is_fine() -> None:
    server = EmbeddedServer().start()
    server.stop()
    server.stop()


def test_a_stopped_server_can_be_started_afresh() -> None:
    server = EmbeddedServer()
    with server:
        server.load({"a": "1"})
    with server:
        assert server.dump() == {}


def test_starting_twice_is_refused() -> None:
    with EmbeddedServer() as server, pytest.raises(RuntimeError, match="runs already"):
        server.start()


@pytest.mark.parametrize(
    "use",
    [
        lambda s: s.hosts,
        lambda s: s.sessions(),
        lambda s: s.clock.advance(1),
        lambda s: s.clock.now(),
        lambda s: s.expire(1),
        lambda s: s.dump(),
        lambda s: s.fault(op="create"),
        lambda s: s.format_timeline(),
        lambda s: s.restart(keep_data=True),
    ],
)
def test_use_before_start_and_after_stop(use: Callable[[EmbeddedServer], object]) -> None:
    server = EmbeddedServer()
    for _ in range(2):
        with pytest.raises(ServerStopped, match="not running"):
            use(server)
        server.start()
        server.stop()


def test_a_dead_server_tells_why() -> None:
    server = EmbeddedServer().start()
    _kill(server)
    for _ in range(2):
        with pytest.raises(ServerDied, match=r"(?s)has died.*in bug.*ZeroDivisionError: of the test"):
            server.sessions()
    with pytest.raises(ServerDied):
        server.stop()
    server.start()
    server.stop()


def test_a_dead_server_ends_a_with_block_with_its_error() -> None:
    with pytest.raises(ServerDied, match="ZeroDivisionError"), EmbeddedServer() as server:
        _kill(server)
    with pytest.raises(KeyError), EmbeddedServer() as server:
        _kill_and_fail(server)


def _kill_and_fail(server: EmbeddedServer) -> None:
    _kill(server)
    raise KeyError  # the body's own error says more


def _kill(server: EmbeddedServer) -> None:
    """As a bug in the clock of its run would."""

    async def bug(deadline: float) -> None:
        raise ZeroDivisionError("of the test")

    def plant() -> None:
        clock = server.running.clock
        clock.sleep_until = bug  # type: ignore[method-assign]
        clock.wake()

    server.run(plant)
    wait_until(lambda: server._error)


def test_an_error_in_a_control_is_the_callers_own(server: EmbeddedServer) -> None:
    with pytest.raises(ValueError, match="seconds must be from 0 to 1,000,000,000, not -1"):
        server.clock.advance(-1)
    with pytest.raises(ValueError, match="from 0 to 1,000,000,000, not nan"):
        server.clock.advance(float("nan"))
    assert server.sessions() == []


def test_bad_settings_are_refused_at_once() -> None:
    with pytest.raises(TypeError, match="no_such"):
        EmbeddedServer(no_such=1)
    with pytest.raises(ValueError, match="tick_time"):
        EmbeddedServer(tick_time=0)
    with pytest.raises(ValueError, match="clock"):
        EmbeddedServer(clock="still")  # type: ignore[arg-type]


def test_a_port_that_is_taken(server: EmbeddedServer) -> None:
    other = EmbeddedServer(port=server.port)
    with pytest.raises(OSError, match="in use"):
        other.start()
    with pytest.raises(ServerStopped):
        other.sessions()


def test_many_threads_may_call_at_once(server: EmbeddedServer) -> None:
    failures: list[BaseException] = []

    def work(n: int) -> None:
        try:
            for i in range(50):
                server.load({f"/t{n}/{i}": "x"})
                assert f"/t{n}/{i}" in server.dump()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not failures
    assert len(server.dump()) == 4 * 51


def test_tls_clients_are_in_the_tests_hands_too() -> None:
    authority = trustme.CA()
    served = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(served)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    with EmbeddedServer(secure_port=0, ssl_context=served) as server:
        plain = socket.create_connection(("127.0.0.1", server.secure_port or 0), timeout=10)
        with trusting.wrap_socket(plain, server_hostname="localhost") as sock:
            sock.sendall(wire.hello(10_000, read_only=None))
            assert len(sock.recv(100)) == 40
            server.pause()
            request = SetDataRequest("/", b"1", -1).encode()
            sock.sendall(wire.request(OpCode.SET_DATA, request, 1))
            sock.settimeout(0.05)
            with pytest.raises(TimeoutError):
                sock.recv(1)
            sock.settimeout(10)
            server.resume()
            assert len(sock.recv(200)) == 4 + 16 + 68
            [session] = server.sessions()
            assert session.connected
            server.expire(session)
            assert sock.recv(1) == b""
    with EmbeddedServer() as server:
        assert server.secure_port is None


def test_calls_that_wait_while_it_stops_do_not_hang() -> None:
    for _ in range(20):
        server = EmbeddedServer().start()
        outcomes: list[object] = []

        def ask(server: EmbeddedServer = server, outcomes: list[object] = outcomes) -> None:
            try:
                while True:
                    server.sessions()
            except ServerStopped as stopped:
                outcomes.append(stopped)

        thread = threading.Thread(target=ask)
        thread.start()
        server.stop()
        thread.join(10)
        assert not thread.is_alive()
        assert outcomes


@pytest.fixture
def fork() -> Iterator[Callable[[Callable[[], object]], int]]:
    """Run something in a fork of this process, and give its id; its exit status is 99 after an error."""
    children: list[int] = []

    def run(action: Callable[[], object]) -> int:
        child = os.fork()
        if not child:
            signal.alarm(20)
            try:
                action()
                os._exit(0)
            finally:
                os._exit(99)
        children.append(child)
        return child

    yield run
    for child in children:
        with suppress(ChildProcessError):  # the test has waited for it
            if os.waitpid(child, os.WNOHANG) == (0, 0):
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_call_in_a_fork_is_refused_at_once(
    server: EmbeddedServer, fork: Callable[[Callable[[], object]], int]
) -> None:
    def use_it() -> None:
        for use in (server.sessions, server.clock.now, server.dump, lambda: server.expire(1)):
            with pytest.raises(ServerStopped, match=f"runs in process {parent}.*start another server"):
                use()
        with socket.create_connection((server.host, server.port), timeout=10) as sock:
            sock.sendall(b"ruok")
            assert sock.recv(4) == b"imok"
        server.stop()
        with server:
            server.load({"a": "1"})
            assert server.dump() == {"/a": b"1"}

    parent = os.getpid()
    with server._lock:  # as another thread may have it just then
        child = fork(use_it)
    assert os.waitpid(child, 0)[1] == 0
    assert server.dump() == {}


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_clients_are_told_of_a_stop_while_a_fork_lives(fork: Callable[[Callable[[], object]], int]) -> None:
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    server = EmbeddedServer(secure_port=0, ssl_context=context, admin_port=0).start()
    ports = (server.port, server.secure_port or 0, server.run(_admin_port, server))
    with ExitStack() as sockets:

        def connect(port: int) -> socket.socket:
            return sockets.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))

        waiting = [connect(port) for port in ports]
        closing = connect(server.port)
        closing.sendall(wire.hello(10_000, read_only=None))
        assert len(closing.recv(40)) == 40
        fork(signal.pause)
        closing.sendall(wire.request(OpCode.CLOSE_SESSION, xid=1))
        assert len(closing.recv(20)) == 20
        assert closing.recv(1) == b""
        server.refuse_connections()
        assert connect(server.port).recv(1) == b""
        server.stop()
        for client in waiting:
            assert client.recv(1) == b""
        for port in ports:
            with pytest.raises(ConnectionRefusedError):
                connect(port)


def _admin_port(server: EmbeddedServer) -> int:
    address = server.running.server.admin_address
    assert address is not None
    return address[1]


def test_nothing_is_left_behind(connect: Callable[..., KazooClient]) -> None:
    """1,000 cycles in the nightly run, fewer otherwise."""

    def cycle() -> None:
        with EmbeddedServer() as server:
            server.load({"a": {"b": "1"}})
            with socket.create_connection(("127.0.0.1", server.port)) as sock:
                sock.sendall(b"ruok")
                assert sock.recv(4) == b"imok"

    def open_files() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    for _ in range(10):
        cycle()
    gc.collect()
    threads, files = set(threading.enumerate()), open_files()
    tracemalloc.start()
    try:
        for _ in range(10):  # the plugin keeps the last ones, for the report of a failure
            cycle()
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(CYCLES):
            cycle()
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert set(threading.enumerate()) <= threads  # those of others, such as trio's, may end meanwhile
    assert open_files() <= files
    assert grown < 50_000, f"{grown:,} bytes grew in {CYCLES} cycles"


def test_a_name_and_a_fresh_start(server: EmbeddedServer, connect: Callable[..., KazooClient]) -> None:
    server.name_session("worker")
    client = connect(server)
    client.create("/a", ephemeral=True)
    server.clock.freeze()
    assert server.clock.frozen
    assert "| worker" in server.format_timeline()
    server.name_session("boss", client)
    assert "| boss" in server.format_timeline()
    with pytest.raises(UnknownSessionError):
        server.name_session("nobody", 7)
    lost = client.client_id[0]
    server.reset()
    assert server.dump() == {}
    assert not server.clock.frozen
    assert server.clock.now() < 10
    wait_until(lambda: [info.id for info in server.sessions()] not in ([], [lost]), 10)
    assert "boss" not in server.format_timeline()
