"""What the client logs of each change: the level, and every word."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from pyzk.client import AuthFailedError, Host, SessionState, StateChange
from pyzk.client.observer import Log

CONNECTING, CONNECTED, READ_ONLY, SUSPENDED, EXPIRED, CLOSED = (
    SessionState.CONNECTING,
    SessionState.CONNECTED,
    SessionState.CONNECTED_READ_ONLY,
    SessionState.SUSPENDED,
    SessionState.EXPIRED,
    SessionState.CLOSED,
)


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
            "INFO Connected to a:1 after 1.500 s without a connection: session 0xab goes on.",
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
            "session 0xab may go on.",
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
        (2.04, "The lease ends in 2.0 s, and with it what is held"),
        (0.0, "The lease ends in 0.0 s, and with it what is held"),
        (-3.5, "The lease ended 3.5 s ago, and with it what is held"),
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
