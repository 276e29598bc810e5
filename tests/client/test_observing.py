"""What the client tells of itself: its log, an observer, and the stream of state changes."""

from __future__ import annotations

import logging
from collections import Counter
from itertools import pairwise

import pytest
import trio
from trio.testing import MockClock

from pyzk.client import (
    AuthFailedError,
    ConnectionLossError,
    GetData,
    Host,
    NoNodeError,
    Observer,
    SessionState,
    SetData,
    StateChange,
    connect,
)
from pyzk.client.session import _MOST_UNREAD
from pyzk.server.testing import Controls

from .memory import SERVER, client

PASSWORD = "a secret of the user"
DATA = b"a secret of the znode"


class Recorder(Observer):
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.states: list[StateChange] = []
        self.failed: list[tuple[str, str]] = []
        self.short: list[float] = []
        self.requests: list[tuple[str, float, type[Exception] | None]] = []

    def state_changed(self, change: StateChange) -> None:
        self.states.append(change)

    def server_failed(self, server: Host, reason: str) -> None:
        self.failed.append((str(server), reason))

    def lease_short(self, seconds: float) -> None:
        self.short.append(seconds)

    def request_settled(self, operation: str, seconds: float, error: Exception | None) -> None:
        self.requests.append((operation, seconds, type(error) if error else None))


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The level and the first words of each line of the client's log."""
    return [
        f"{record.levelname} {' '.join(record.getMessage().split()[:4]).partition(' 0x')[0]}"
        for record in caplog.records
        if record.name == "pyzk.client"
    ]


# --- the log --------------------------------------------------------------------------------------------


async def test_the_life_of_a_session_is_logged(
    autojump_clock: MockClock, server: Controls, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "pyzk.client")
    auth = [("digest", f"user:{PASSWORD}")]
    async with client(server, on_expired="new_session", auth=auth) as zk:
        await zk.create("/a", DATA)
        password = zk.session.password
        server.disconnect_all()
        await zk.session.wait_change()
        await zk.session.wait_connected()
        server.expire(zk.session.id)
        await zk.session.expired.wait()
        await zk.session.wait_connected()
        first, second = zk.session.generation, zk.session.id
    assert first == 2
    assert lines(caplog) == [
        "INFO Connected to server:2181 after",
        "WARNING Lost the connection to",
        "INFO Connected to server:2181 after",
        "WARNING Lost the connection to",
        "ERROR The server has ended",
        "INFO Connected to server:2181 after",
        "INFO Closed session",
    ]
    assert f"session 0x{second:x} replaces the expired one" in caplog.text
    assert "continues" in caplog.text
    for secret in (PASSWORD, DATA.decode(), password.hex(), str(password)):
        assert secret not in caplog.text


async def test_servers_that_fail_are_named_once_a_minute(
    autojump_clock: MockClock, server: Controls, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "pyzk.client")
    away = False

    async def refuse(host: str, port: int) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        if away:
            raise ConnectionRefusedError(f"nobody at {host}")
        return server.open_stream()

    async with connect("a,b", connector=refuse, session_timeout=100) as zk:
        away = True
        server.disconnect_all()
        await trio.sleep(12)
        assert sorted(lines(caplog)) == [
            "WARNING Lost the connection to",
            "WARNING Not served by a:2181",
            "WARNING Not served by b:2181",
        ]
        assert "nobody at a" in caplog.text
        caplog.clear()
        await trio.sleep(60)
        assert len(lines(caplog)) == 2
        away = False
        await zk.session.wait_connected()


async def test_before_the_first_session_servers_that_fail_are_no_warning(
    autojump_clock: MockClock, server: Controls, caplog: pytest.LogCaptureFixture
) -> None:
    """The error of ``connect`` names them."""
    caplog.set_level(logging.INFO, "pyzk.client")
    attempts = 0

    async def refuse_twice(host: str, port: int) -> trio.abc.Stream:
        nonlocal attempts
        attempts += 1
        if attempts < 3:
            raise ConnectionRefusedError("not yet")
        return server.open_stream()

    async with connect("a", connector=refuse_twice):
        assert lines(caplog) == ["INFO Not served by a:2181", "INFO Connected to a:2181 after"]


async def test_a_refused_credential_is_logged_without_it(
    autojump_clock: MockClock, server: Controls, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(AuthFailedError):
        async with client(server, auth=[("unknown", PASSWORD)]):
            raise AssertionError
    assert lines(caplog) == ["ERROR The client gives up:"]
    assert "refused the unknown credential" in caplog.text
    assert PASSWORD not in caplog.text


async def test_a_lease_that_is_nearly_over_is_told_once(
    autojump_clock: MockClock, server: Controls, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = Recorder()
    async with client(server, session_timeout=10, observer=recorder) as zk:
        await trio.sleep(100)
        assert recorder.short == [], "nothing depends on it"
        stop = zk.keep_lease(lambda: None)
        await trio.sleep(100)
        assert recorder.short == [], "the leader answers"
        deadline = zk.session.lease_deadline()
        server.pause()
        await trio.sleep(9)
        assert recorder.short == [pytest.approx(2.0)]
        assert zk.session.lease_deadline() == deadline
        assert sum("The lease ends" in line for line in lines(caplog)) == 1
        stop()


# --- the observer ---------------------------------------------------------------------------------------


async def test_an_observer_learns_of_requests(autojump_clock: MockClock, server: Controls) -> None:
    recorder = Recorder()
    async with client(server, observer=recorder) as zk:
        await zk.create("/a", ttl=5)
        with pytest.raises(NoNodeError):
            await zk.get("/b")
        server.pause()
        pending = zk.submit(GetData("/a"))
        await trio.testing.wait_all_tasks_blocked()
        assert (zk.requests_in_flight, zk.requests_waiting) == (1, 0)
        await trio.sleep(2)
        server.resume()
        await pending.wait()
        assert zk.requests_in_flight == 0
    assert recorder.requests == [
        ("create", 0, None),
        ("get_data", 0, NoNodeError),
        ("get_data", pytest.approx(2), None),
    ]


async def test_requests_are_timed_from_the_call_on(autojump_clock: MockClock, server: Controls) -> None:
    recorder = Recorder()
    async with client(server, observer=recorder) as zk:
        await trio.sleep(3)
        server.pause()
        first = zk.submit(GetData("/"))
        await trio.sleep(1)
        second = zk.submit(GetData("/"))
        await trio.sleep(1)
        server.resume()
        await first.wait()
        await second.wait()
    assert [seconds for _, seconds, _ in recorder.requests] == pytest.approx([2, 1])


async def test_an_observer_learns_how_long_the_client_was_away(
    autojump_clock: MockClock, server: Controls
) -> None:
    recorder, away = Recorder(), False

    async def open_stream(host: str, port: int) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        if away:
            raise OSError("closed for the night")
        return server.open_stream()

    async with connect(SERVER, connector=open_stream, observer=recorder) as zk:
        away = True
        server.disconnect_all()
        await zk.session.wait_change()
        pending = zk.submit(GetData("/"))
        assert zk.requests_waiting == 1
        await trio.sleep(3)
        away = False
        await pending.wait()
        assert zk.metrics.connections == 2
        assert 3 <= zk.metrics.suspended <= 4
    states = [(change.previous, change.state) for change in recorder.states]
    assert states == [
        (SessionState.CONNECTING, SessionState.CONNECTED),
        (SessionState.CONNECTED, SessionState.SUSPENDED),
        (SessionState.SUSPENDED, SessionState.CONNECTED),
        (SessionState.CONNECTED, SessionState.CLOSED),
    ]
    assert recorder.states[2].seconds == zk.metrics.suspended
    assert {*recorder.failed} == {("server:2181", "closed for the night")}
    assert [operation for operation, *_ in recorder.requests] == ["get_data"]


async def test_an_observer_that_raises_harms_nobody(
    autojump_clock: MockClock, server: Controls, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Observer):
        def state_changed(self, change: StateChange) -> None:
            raise KeyError("state")

        def request_settled(self, operation: str, seconds: float, error: Exception | None) -> None:
            raise KeyError("request")

    async with client(server, observer=Broken()) as zk:
        await zk.create("/a")
    assert caplog.text.count("must not raise") == 3


async def test_without_an_observer_a_request_has_no_listener(
    autojump_clock: MockClock, server: Controls
) -> None:
    """So nothing is timed, and nothing is called."""
    counts = []
    for options in ({}, {"observer": Observer()}):
        async with client(server, **options) as zk:
            pending = zk.submit(GetData("/"))
            counts.append(len(pending._listeners))
            await pending.wait()
    assert counts == [0, 1]


# --- the stream -----------------------------------------------------------------------------------------


async def test_the_stream_has_every_change(autojump_clock: MockClock, server: Controls) -> None:
    """Also those that come and go while the reader does not run."""
    async with client(server, on_expired="new_session") as zk:
        changes = zk.session.changes()
        for _ in range(3):
            server.disconnect_all()
            await zk.session.wait_change()
            await zk.session.wait_connected()
        server.expire(zk.session.id)
        await zk.session.expired.wait()
        await zk.session.wait_connected()
    seen = [change async for change in changes]
    states = [change.state for change in seen]
    assert Counter(states) == {
        SessionState.SUSPENDED: 4,
        SessionState.CONNECTED: 4,
        SessionState.EXPIRED: 1,
        SessionState.CONNECTING: 1,
        SessionState.CLOSED: 1,
    }
    assert all(before.state is after.previous for before, after in pairwise(seen))
    assert [change.generation for change in seen] == [1] * 8 + [2] * 3
    assert [change async for change in zk.session.changes()] == [], "nothing follows"


async def test_a_reader_that_sleeps_for_too_long_is_told(autojump_clock: MockClock, server: Controls) -> None:
    async with client(server) as zk:
        changes = zk.session.changes()
        change = StateChange(SessionState.CONNECTED, SessionState.SUSPENDED, 1, 1, 1, 1, None, "", None)
        for _ in range(_MOST_UNREAD + 1):
            zk.session.note(change)
        read = 0
        with pytest.raises(BufferError, match=r"10,000 changes .* begin again with session.changes\(\)"):
            async for _ in changes:
                read += 1
        assert read == _MOST_UNREAD


async def test_a_stream_that_nobody_reads_is_forgotten(autojump_clock: MockClock, server: Controls) -> None:
    async with client(server) as zk:
        for _ in range(10):
            zk.session.changes()
        assert len(zk.session._streams) == 0


async def test_losses_name_the_server(autojump_clock: MockClock, server: Controls) -> None:
    async with client(server) as zk:
        pending = zk.submit(SetData("/", b""))
        server.pause()
        with pytest.raises(ConnectionLossError, match=r"lost \(server:2181: the server .*silent"):
            await pending.wait()
