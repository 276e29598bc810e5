"""What the client logs of each change: the level, and every word."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from pyzk.client import AuthFailedError, Host, Observer, SessionState, StateChange
from pyzk.client.observer import Log, Reporter
from pyzk.client.session import Session

from .scripted import SESSION, Script

CONNECTING, CONNECTED, READ_ONLY, SUSPENDED, EXPIRED, CLOSED = SessionState


def change(state: SessionState, previous: SessionState, **more: Any) -> StateChange:
    known: dict[str, Any] = {
        "seconds": 1.5,
        "at": 0.0,
        "session_id": 0xAB,
        "generation": 1,
        "server": Host("a", 1),
        "reason": "it was reset",
        "error": None,
    }
    return StateChange(state, previous, **{**known, **more})


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [f"{r.levelname} {r.getMessage()}" for r in caplog.records if r.name == "pyzk.client"]
    caplog.clear()
    return found


@pytest.mark.parametrize(
    ("made", "line"),
    [
        (change(CONNECTED, CONNECTING), "INFO Connected to a:1 after 1.500 s: session 0xab begins."),
        (
            change(CONNECTED, CONNECTING, generation=2),
            "INFO Connected to a:1 after 1.500 s: session 0xab replaces the expired one.",
        ),
        (
            change(CONNECTED, SUSPENDED, generation=2),
            "INFO Connected to a:1 after 1.500 s without a connection: session 0xab continues.",
        ),
        (
            change(READ_ONLY, SUSPENDED),
            "WARNING Connected to a:1 after 1.500 s: it is read-only and refuses writes. "
            "Looking for another.",
        ),
        (
            change(CONNECTING, READ_ONLY),
            "WARNING Lost the connection to a:1, which was read-only (it was reset). Trying the next server.",
        ),
        (
            change(SUSPENDED, CONNECTED),
            "WARNING Lost the connection to a:1 after 1.500 s (it was reset). Trying the next server; "
            "session 0xab may continue.",
        ),
        (
            change(EXPIRED, SUSPENDED),
            "ERROR The server has ended session 0xab: its ephemeral znodes are gone. "
            "The block of the client is cancelled.",
        ),
        (
            change(CLOSED, CONNECTING, error=AuthFailedError(None, "mine")),
            f"ERROR The client gives up: {AuthFailedError(None, 'mine')} (a:1).",
        ),
        (change(CLOSED, CONNECTED), "INFO Closed session 0xab."),
        (change(CLOSED, CONNECTING, session_id=0), "INFO Closed without a session."),
    ],
)
def test_a_change_is_one_line(made: StateChange, line: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "pyzk.client")
    Log(renews=False).state_changed(made)
    assert said(caplog) == [line]


def test_what_is_no_news_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The line of the expiry has said that a new session follows."""
    caplog.set_level(logging.DEBUG, "pyzk.client")
    log = Log(renews=True)
    log.state_changed(change(EXPIRED, SUSPENDED))
    log.state_changed(change(CONNECTING, EXPIRED))
    (line,) = said(caplog)
    assert line.endswith("A new session follows.")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (2.04, "The lease ends in 2.0 s, and locks and other holds end with the lease"),
        (0.0, "The lease ends in 0.0 s, and locks and other holds end with the lease"),
        (-3.5, "The lease ended 3.5 s ago, and locks and other holds end with the lease"),
    ],
)
def test_a_short_lease(seconds: float, words: str, caplog: pytest.LogCaptureFixture) -> None:
    Log(renews=False).lease_short(seconds)
    (line,) = said(caplog)
    assert line.startswith(f"WARNING {words}")


async def test_a_server_that_fails_is_a_warning_once_a_minute(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "pyzk.client")
    log = Log(renews=False)
    log.server_failed(Host("a", 1), "refused")
    assert said(caplog) == ["INFO Not served by a:1 (refused). Trying the next server."]
    log.state_changed(change(CONNECTED, CONNECTING))
    log.server_failed(Host("a", 1), "refused")
    log.server_failed(Host("b", 1), "refused")
    await trio.sleep(59.9)
    log.server_failed(Host("a", 1), "refused")
    await trio.sleep(0.1)
    log.server_failed(Host("a", 1), "refused")
    log.server_failed(Host("a", 1), "refused")
    levels = [line.split()[0] for line in said(caplog)]
    assert levels == ["INFO", "WARNING", "WARNING", "DEBUG", "WARNING", "DEBUG"]
    log.state_changed(change(CONNECTED, SUSPENDED))
    log.server_failed(Host("a", 1), "refused")
    assert said(caplog)[-1].split()[0] == "WARNING", "it has served since"


# --- the reporter -----------------------------------------------------------------------------------------


class Noting(Observer):
    """Notes what it is told."""

    def __init__(self) -> None:
        self.changes: list[StateChange] = []
        self.failed: list[tuple[Host, str]] = []
        self.short: list[float] = []

    def state_changed(self, change: StateChange) -> None:
        self.changes.append(change)

    def server_failed(self, server: Host, reason: str) -> None:
        self.failed.append((server, reason))

    def lease_short(self, seconds: float) -> None:
        self.short.append(seconds)


async def test_a_change_has_all_that_is_known_of_it(autojump_clock: MockClock) -> None:
    script = Script()
    machine, own, observer = script.machine, Noting(), Noting()
    session = Session(machine, renews=False)
    began = trio.current_time()
    reporter = Reporter(machine, session, own, observer)
    reporter.server = Host("a", 1)
    changes = session.changes()
    await trio.sleep(2)
    script.connect()
    await trio.sleep(3)
    script.lose()
    await trio.sleep(4)
    script.connect()
    await trio.sleep(5)
    script.lose()
    await trio.sleep(6)
    script.machine.give_up(error := AuthFailedError(None, "mine"))
    none, lost = "no attempt has ended yet", "the server closed the connection"
    found = [
        StateChange(CONNECTED, CONNECTING, 2, began + 2, SESSION, 1, Host("a", 1), none, None),
        StateChange(SUSPENDED, CONNECTED, 3, began + 5, SESSION, 1, Host("a", 1), lost, None),
        StateChange(CONNECTED, SUSPENDED, 4, began + 9, SESSION, 1, Host("a", 1), lost, None),
        StateChange(SUSPENDED, CONNECTED, 5, began + 14, SESSION, 1, Host("a", 1), lost, None),
        StateChange(CLOSED, SUSPENDED, 6, began + 20, SESSION, 1, Host("a", 1), lost, error),
    ]
    assert own.changes == observer.changes == found
    assert [change async for change in changes] == found
    assert machine.data.metrics.suspended == 4 + 6


async def test_what_else_is_passed_on(autojump_clock: MockClock, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Observer):
        def lease_short(self, seconds: float) -> None:
            raise LookupError("mine")

    script, own = Script(), Noting()
    reporter = Reporter(script.machine, Session(script.machine, renews=False), own, Broken())
    assert reporter.observer is not None
    assert reporter.server is None
    reporter.server_failed(Host("a", 1), "refused")
    assert own.failed == [(Host("a", 1), "refused")]
    script.machine.data.lease.deadline = trio.current_time() + 7
    script.machine.on_lease_short()
    assert own.short == [7]
    assert "must not raise" in caplog.text
    alone = Reporter(script.machine, Session(script.machine, renews=False), own, None)
    assert alone.observer is None
