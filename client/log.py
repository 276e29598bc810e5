"""The log of the client: what happens to its session, one line each, by the logger ``pyzk.client``.

No password, credential or data of a znode is ever logged.
"""

from __future__ import annotations

import logging

import trio

from ..protocol.text import session_text
from .hosts import Host
from .machine import SessionState
from .observer import Observer, StateChange

logger = logging.getLogger(__package__)

_AGAIN_AFTER = 60.0
"""Seconds after which the failure of the same server is a warning again. In between it is for debugging:
while all servers are down, each of them fails about twice a second."""


class Log(Observer):
    """Logs what happens to one session.

    :param renews: whether a new session follows an expired one.
    """

    def __init__(self, *, renews: bool) -> None:
        self._renews = renews
        self._began = False
        self._quiet_until: dict[Host, float] = {}

    def state_changed(self, change: StateChange) -> None:
        """Log a new state."""
        name = f"session {session_text(change.session_id)}"
        match change.state:
            case SessionState.CONNECTED:
                self._quiet_until.clear()
                self._began = True
                if change.previous is SessionState.SUSPENDED:
                    text = "Connected to %s after %.3f s without a connection: %s goes on."
                elif change.generation > 1:
                    text = "Connected to %s after %.3f s: %s replaces the expired one."
                else:
                    text = "Connected to %s after %.3f s: %s begins."
                logger.info(text, change.server, change.seconds, name)
            case SessionState.CONNECTED_READ_ONLY:
                logger.warning(
                    "Connected to %s after %.3f s: it is read-only and refuses writes. Looking for another.",
                    *(change.server, change.seconds),
                )
            case SessionState.CONNECTING if change.previous is SessionState.CONNECTED_READ_ONLY:
                logger.warning(
                    "Lost the connection to %s, which was read-only (%s). Trying the next server.",
                    *(change.server, change.reason),
                )
            case SessionState.SUSPENDED:
                logger.warning(
                    "Lost the connection to %s after %.3f s (%s). Trying the next server; %s may go on.",
                    *(change.server, change.seconds, change.reason, name),
                )
            case SessionState.EXPIRED:
                then = "A new session follows." if self._renews else "The block of the client is cancelled."
                logger.error("The server has ended %s: its ephemeral znodes are gone. %s", name, then)
            case SessionState.CLOSED if change.error is not None:
                logger.error("The client gives up: %s (%s).", change.error, change.server)
            case SessionState.CLOSED:
                logger.info("Closed %s.", name if change.session_id else "without a session")

    def server_failed(self, server: Host, reason: str) -> None:
        """Log that an attempt has failed."""
        now = trio.current_time()
        if now < self._quiet_until.get(server, now):
            level = logging.DEBUG
        else:
            self._quiet_until[server] = now + _AGAIN_AFTER
            # Before the first session the error of connect says it, too.
            level = logging.WARNING if self._began else logging.INFO
        logger.log(level, "Not served by %s (%s). Trying the next server.", server, reason)

    def lease_short(self, seconds: float) -> None:
        """Log that the lease is nearly over."""
        logger.warning(
            "The lease %s %.1f s%s, and with it what is held: the leader of the servers has not answered. "
            "Check the connection and the load of the servers.",
            *(("ends in", seconds, "") if seconds > 0 else ("ended", -seconds, " ago")),
        )
