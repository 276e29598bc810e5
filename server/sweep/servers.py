"""The server of a run, or the ensemble of a run: the held messages, and the server to which a client
connects.

The rules:

1. In an ensemble, each client first connects to a follower. The clients choose the followers in turn. No
   client begins at the leader, so the loss of the leader is the same for all clients.
2. A client gets the addresses of all servers, and may shuffle them. So the server for an address is chosen
   only when the client tries the address. The first tried address leads to the server at which the client
   begins. The next addresses lead to the other followers, and the last address leads to the leader.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, Final

import attrs
import trio

from ..app.embedded import open_server
from ..app.embedded_ensemble import open_ensemble
from ..ensemble.errors import EnsembleError
from ..net.connection import Connection
from ..testing import shown
from ..testing.controls import Controls
from ..testing.controls.member import MemberControls
from ..testing.ensemble import LocalEnsemble
from ..testing.holding import HeldMessage, MessageKind
from ..testing.host import LocalServer
from ..testing.observers import Observer
from ..testing.running import Running

_KINDS: Final[Sequence[MessageKind]] = ("request", "reply", "event")
_FIRST_ZXID: Final = 1 << 32
"""The first zxid of an ensemble. Without this constant, the first zxid would come from the clock, and runs
would differ."""
_AFTERWARDS: Final = 30.0
"""The seconds in which an ensemble must end the sessions of lost clients."""
_BETWEEN: Final = 0.1
"""The seconds between two attempts to end the sessions of lost clients."""


def open_servers(
    settings: Mapping[str, Any], members: int | None
) -> AbstractAsyncContextManager[LocalServer | LocalEnsemble]:
    """Start the server of a run, or an ensemble.

    :param members: how many servers an ensemble has; None for a single server.
    """
    if members is None:
        return open_server(**settings, record=False)
    return open_ensemble(members, **settings, initial_zxid=_FIRST_ZXID, record=False)


@attrs.frozen(eq=False)
class Held:
    """A message that is held.

    :ivar server: the server that holds the message.
    """

    server: Controls
    message: HeldMessage
    connection: Connection

    def release(self) -> None:
        """Let the message pass."""
        self.server.release(self.message.number)

    def lose(self) -> None:
        """Lose the message."""
        self.server.lose(self.message.number)


class Servers:
    """The servers of a run.

    :param local: the controls of the server, or of the ensemble.
    :ivar ensemble: the controls of the ensemble; None for a single server.
    :ivar each: the controls of each server.
    :ivar hosts: the connect string of the server, or of all servers.
    :ivar whole: the controls of the server; in an ensemble, the controls of the server that has applied the
        most transactions.
    """

    def __init__(self, local: LocalServer | LocalEnsemble) -> None:
        self.ensemble = local if isinstance(local, LocalEnsemble) else None
        self.each: Sequence[Controls] = [local] if isinstance(local, LocalServer) else list(local)
        self.whole: Controls = local if isinstance(local, LocalServer) else _Newest(local, 1)
        self.hosts = local.hosts
        shown.forget(local.running)  # the report of the sweep shows what has happened
        self._holds: list[tuple[Controls, int]] = []
        self._begin: dict[str, int] = {}
        self._at: dict[tuple[str, object], Controls] = {}

    # --- what is held ------------------------------------------------------------------------------------

    def hold(self, observer: Observer) -> None:
        """Hold every request, reply and event from now on, and report every message to an observer."""
        for server in self.each:
            server.running.observe(observer)
            self._holds += [(server, server.hold(kind)) for kind in _KINDS]

    def stop_holding(self, observer: Observer) -> None:
        """Let all messages pass from now on."""
        holds, self._holds = self._holds, []
        for server, hold in holds:
            server.stop_holding(hold)
            server.running.unobserve(observer)

    def held(self) -> list[Held]:
        """List the held messages of each server, the oldest first."""
        return [
            Held(server, message, server.running.gate.connection_held(message.number))
            for server in self.each
            for message in server.running.gate.held()
        ]

    async def end_sessions(self) -> None:
        """End the sessions of lost clients. An ensemble may need time for the end of the sessions, for
        example because of an election."""
        with trio.move_on_after(_AFTERWARDS):
            while True:
                for session in self.whole.sessions():
                    with suppress(EnsembleError):  # no server leads
                        self.whole.expire(session.id)
                if not self.whole.sessions():
                    return
                await trio.sleep(_BETWEEN)

    # --- where clients connect ---------------------------------------------------------------------------

    def server_of(self, client: str, address: object) -> Controls:
        """Return the server that a client reaches at an address, by rule 2."""
        first = self._begin.setdefault(client, len(self._begin))
        if (client, address) not in self._at:
            *followers, leader = self.each
            tried = sum(one == client for one, _ in self._at)
            is_last = tried >= len(followers)
            self._at[client, address] = leader if is_last else followers[(first + tried) % len(followers)]
        return self._at[client, address]

    def open_stream(self, client: str, address: object = None) -> trio.abc.HalfCloseableStream:
        """Connect a client without a socket; return the client's end of the connection.

        :raises ConnectionRefusedError: the server is down.
        """
        server = self.server_of(client, address)
        if isinstance(server, MemberControls) and server.ensemble.role(server.number) == "down":
            raise ConnectionRefusedError("this server is down")
        return server.running.open_stream(client)


class _Newest(MemberControls):
    """The controls of the server that has applied the most transactions."""

    @property
    def running(self) -> Running:
        ensemble = self.ensemble.running
        newest = max(ensemble.host.ensemble.members.values(), key=lambda member: member.position)
        return ensemble.parts[newest.number]
