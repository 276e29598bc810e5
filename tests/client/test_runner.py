"""The shell around the session: bytes, broken connections, budgets, and the words of errors."""

from __future__ import annotations

import errno
import math
import os
import random
import ssl

import pytest
import trio
from trio.testing import MockClock, memory_stream_pair, wait_all_tasks_blocked

from pyzk.client import ConnectionLossError, GetData, SessionState, Sync, connect
from pyzk.client.hosts import Host, HostCycle
from pyzk.client.machine import SessionMachine
from pyzk.client.observer import Log, Reporter
from pyzk.client.registry import WatchRegistry
from pyzk.client.runner import Runner, _describe
from pyzk.client.session import Session
from pyzk.client.session_data import SessionData
from pyzk.protocol.constants import PING_XID
from pyzk.protocol.framing import frame
from pyzk.protocol.operations import OpCode
from pyzk.protocol.records import RequestHeader
from pyzk.server.testing import Controls

from .memory import client
from .tampered import TamperedStream

# --- the words of errors ----------------------------------------------------------------------------------


def caused(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


REFUSED = os.strerror(errno.ECONNREFUSED)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.ECONNREFUSED, "refused by a:1"), REFUSED),
        (OSError(-2, "Name not known"), "Name not known"),
        (OSError("no number"), "no number"),
        (OSError(), "OSError"),
        (ssl.SSLError(1, "bad certificate"), str(ssl.SSLError(1, "bad certificate"))),
        (caused(trio.BrokenResourceError("x"), OSError(errno.ECONNREFUSED, "y")), REFUSED),
        (ExceptionGroup("all", [OSError(errno.ECONNREFUSED, "a"), OSError("b")]), REFUSED),
        (caused(OSError("all"), ExceptionGroup("all", [OSError("first"), OSError("b")])), "first"),
        (trio.BrokenResourceError(), "BrokenResourceError"),
    ],
)
def test_the_cause_is_said_in_few_words(error: BaseException, words: str) -> None:
    assert _describe(error) == words


# --- budgets ----------------------------------------------------------------------------------------------


def runner_of(hosts: int, *, timeout: float = 12.0, connect_timeout: float = 100.0) -> Runner:
    machine = SessionMachine(SessionData(WatchRegistry(), timeout, timeout))
    return Runner(
        machine,
        Reporter(machine, Session(machine, renews=False), Log(renews=False), None),
        HostCycle([Host(f"h{n}", 1) for n in range(hosts)], random.Random(1)),
        None,  # type: ignore[arg-type]
        None,
        None,
        connect_timeout,
        False,
    )


async def budget(runner: Runner) -> float:
    await runner._prepare_round()
    return runner.machine.data.connect_budget


@pytest.mark.parametrize(
    ("hosts", "connect_timeout", "seconds"),
    [
        (1, 100, 12),
        (3, 100, 4),
        (3, 6, 2),
        (3, math.inf, 4),
        (30, 100, 0.5),
        (24, 100, 0.5),
        (23, 100, 12 / 23),
    ],
)
async def test_what_each_server_gets_before_the_first_session(
    hosts: int, connect_timeout: float, seconds: float
) -> None:
    assert await budget(runner_of(hosts, connect_timeout=connect_timeout)) == pytest.approx(seconds)


async def test_what_each_server_gets_after_a_lost_connection() -> None:
    """A quarter of the session timeout for all, then a half, then the whole of it."""
    runner = runner_of(2, connect_timeout=1)
    runner.machine.data.metrics.connections = 1
    found = []
    for _ in range(5):
        found.append(await budget(runner))
        for _ in range(2):
            runner.hosts.next()
    assert found == [1.5, 3, 6, 6, 6]
    runner.hosts.rounds = 5000
    assert await budget(runner) == 6, "an outage may be long"


@pytest.mark.parametrize(
    ("lack", "value"),
    [
        ("", None),
        ("read_only", False),
        ("session_id", 0),
        ("dismissed", False),
        ("state", None),
        ("close", None),
    ],
)
async def test_who_may_be_asked_for_a_read_only_session(lack: str, value: object) -> None:
    runner = runner_of(1)
    machine = runner.machine
    machine.data.read_only, machine.data.session_id, machine.dismissed = True, 5, True
    if lack in ("read_only", "session_id"):
        setattr(machine.data, lack, value)
    elif lack == "dismissed":
        machine.dismissed = False
    elif lack == "state":
        machine.state = SessionState.CONNECTED
    elif lack == "close":
        machine.close()
    assert runner._may_be_read_only is (lack == "")


# --- connections ------------------------------------------------------------------------------------------


class Broken(TamperedStream):
    """A connection that breaks as the test wants, when it is read.

    :cvar error: what is raised; None as long as all is well.
    """

    error: BaseException | None = None

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        with trio.CancelScope() as self.reading:
            data = await super().receive_some(max_bytes)
        if Broken.error is not None:
            error, Broken.error = Broken.error, None
            raise error
        return data


async def test_why_a_connection_has_broken(autojump_clock: MockClock, server: Controls) -> None:
    streams: list[Broken] = []

    async def open_stream(host: str, port: int) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        streams.append(Broken(server.open_stream(), lambda payload: [payload]))
        return streams[-1]

    async with connect("a", connector=open_stream) as zk:
        changes = zk.session.changes()
        Broken.error = caused(trio.BrokenResourceError(), OSError(errno.ECONNRESET, "x"))
        streams[-1].reading.cancel()
        change = await anext(changes)
        assert (change.state, change.reason) == (SessionState.SUSPENDED, os.strerror(errno.ECONNRESET))
        await zk.session.wait_connected()
        assert len(streams) == 2


class Noting(TamperedStream):
    """A connection that notes what was sent."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        super().__init__(stream, lambda payload: [payload])
        self.sent = b""

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        self.sent += data
        await super().send_all(data)


async def test_what_another_has_begun_is_sent_before_all_else(
    autojump_clock: MockClock, server: Controls
) -> None:
    """A direct caller of the connection has sent a part of a request."""
    streams: list[Noting] = []

    async def open_stream(host: str, port: int) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        streams.append(Noting(server.open_stream()))
        return streams[-1]

    async with connect("a", connector=open_stream) as zk:
        await zk.sync("/")
        before = len(streams[0].sent)
        ping = frame(RequestHeader(PING_XID, OpCode.PING).encode())
        zk._runner.go_on(ping)
        assert not zk._runner.is_idle
        pending = zk.submit(GetData("/"))
        await pending.wait()
        assert streams[0].sent[before:].startswith(ping)
        assert len(streams[0].sent) > before + len(ping)
        zk._runner.go_on(b"")
        await wait_all_tasks_blocked()
        assert zk._runner.is_idle
        assert zk.metrics.connections == 1


async def test_what_another_has_done_may_make_something_due_earlier(
    autojump_clock: MockClock, server: Controls
) -> None:
    async with client(server) as zk:
        runner = zk._runner
        assert runner._timer is not None
        runner._timer.deadline = math.inf
        runner.go_on(b"")
        assert runner._timer.deadline == runner.machine.next_deadline() < math.inf


async def test_a_server_that_never_shakes_hands_gives_no_connection(
    autojump_clock: MockClock,
) -> None:
    """Only then the handshake of ZooKeeper begins, which has a time of its own."""
    closed: list[trio.abc.Stream] = []

    class Silent(TamperedStream):
        async def aclose(self) -> None:
            closed.append(self)
            await super().aclose()

    theirs: list[trio.abc.Stream] = []

    async def open_stream(host: str, port: int) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        ours, other = memory_stream_pair()
        theirs.append(other)
        return Silent(ours, lambda payload: [payload])

    context = ssl.create_default_context()
    with pytest.raises(ConnectionLossError, match=r"a:2181: no connection within 5\.0 s"):
        async with connect(
            "a", connector=open_stream, ssl_context=context, connect_timeout=5.1, session_timeout=5
        ):
            raise AssertionError
    assert len(closed) == len(theirs) >= 1


@pytest.mark.parametrize("error", [UnicodeError("no such name"), trio.BrokenResourceError("gone")])
async def test_errors_of_a_connector_are_failed_attempts(
    autojump_clock: MockClock, server: Controls, error: Exception
) -> None:
    attempts = 0

    async def open_stream(host: str, port: int) -> trio.abc.Stream:
        nonlocal attempts
        await trio.lowlevel.checkpoint()
        attempts += 1
        if attempts < 3:
            raise error
        return server.open_stream()

    async with connect("a", connector=open_stream) as zk:
        assert attempts == 3
        assert zk._machine.why == str(error)
        assert zk._machine.peer == "a:2181"


async def test_a_connection_that_served_for_a_second_has_proved_good(
    autojump_clock: MockClock, server: Controls
) -> None:
    """Then the next failure counts as the first: there is no pause."""
    for seconds, rounds in ((1.0, 1), (0.99, 2)):
        async with client(server) as zk:
            await trio.sleep(seconds)
            server.disconnect_all()
            await zk.session.wait_change()
            await zk.session.wait_connected()
            assert zk._runner.hosts.rounds == rounds


async def test_requests_in_sequence_are_sent_in_the_turn_of_their_caller(
    autojump_clock: MockClock, server: Controls
) -> None:
    async with client(server) as zk:
        await zk.sync("/")
        pending = zk.submit(Sync("/"))
        assert pending.sent
        second = zk.submit(Sync("/"))
        assert not second.sent, "one is in flight"
        await second.wait()


async def test_the_timer_is_set_for_a_request_that_waits_for_a_connection(
    autojump_clock: MockClock, server: Controls
) -> None:
    """Nothing else would wake the client in time."""
    away = False

    async def open_stream(host: str, port: int) -> trio.abc.Stream:
        if away:
            await trio.sleep_forever()
        await trio.lowlevel.checkpoint()
        return server.open_stream()

    async with connect("a", connector=open_stream, session_timeout=4) as zk:
        away = True
        server.disconnect_all()
        await zk.session.wait_change()
        await trio.sleep(1)
        began = trio.current_time()
        with pytest.raises(ConnectionLossError, match="no connection within"):
            await zk.create("/a")
        assert trio.current_time() - began == pytest.approx(4)
