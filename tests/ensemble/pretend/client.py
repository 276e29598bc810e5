"""A client that carries the last zxid it has seen from server to server, as ZooKeeper's own clients do."""

from __future__ import annotations

import select
from typing import Any

from pyzk.protocol.jute import Record
from pyzk.server.testing import EmbeddedEnsemble

from ...support.requests import Requests
from ...support.wire import ClosedError, Event, Handshake, Reply, WireClient


class Client(WireClient):
    """
    :ivar seen: the last zxid that a reply has told.
    """

    def __init__(self, ensemble: EmbeddedEnsemble, server: int) -> None:
        super().__init__((ensemble[server].host, ensemble[server].port))
        self.ensemble = ensemble
        self.seen = 0
        self.later = _Later(self)

    def decode(self, payload: bytes) -> Handshake | Reply | Event:
        arrival = super().decode(payload)
        if isinstance(arrival, Reply):
            self.seen = max(self.seen, arrival.zxid)
        return arrival

    def arrivals(self) -> list[Reply | Event]:
        """All that has come since the last look; the servers have handled all that was sent."""
        self.ensemble.leader()
        arrivals: list[Reply | Event] = [*self.events]
        self.events.clear()
        while self._something_waits():
            arrival = self.receive()
            arrivals.append(arrival)
        return arrivals

    def _something_waits(self) -> bool:
        readable, _, _ = select.select([self.socket], [], [], 0)
        return bool(readable)

    @property
    def was_closed(self) -> bool:
        """Whether the server has closed the connection, without another byte."""
        self.ensemble.leader()
        return self._something_waits() and self.is_closed()

    def data(self, path: str) -> bytes:
        data: bytes = self.get(path).record.data
        return data


class _Later(Requests[None]):
    """Requests whose replies are awaited later, or not at all."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def request(self, op: int, body: Record | bytes = b"", xid: int | None = None) -> None:
        self._client.send(op, body, xid)


class Clients:
    """Makes clients at servers, and closes them all."""

    def __init__(self, ensemble: EmbeddedEnsemble) -> None:
        self.ensemble = ensemble
        self._clients: list[Client] = []

    def __call__(self, server: int, moved: Client | None = None, *, timeout: int = 10_000) -> Client:
        """A new session at a server; or that of another client, which knows what that one has seen.

        :raises ClosedError: the server has closed the connection instead of an answer.
        """
        client = self.asking(server, moved, timeout=timeout)
        client.receive_handshake()
        return client

    def asking(self, server: int, moved: Client | None = None, **handshake: Any) -> Client:
        """A client that has asked for a session and not heard yet."""
        client = Client(self.ensemble, server)
        self._clients.append(client)
        if moved is not None:
            handshake |= {"session_id": moved.session_id, "password": moved.password}
            handshake |= {"last_zxid": moved.seen}
            client.seen = moved.seen
        client.send_connect(**{"timeout": 10_000, **handshake})
        return client

    def is_refused(self, server: int, moved: Client) -> bool:
        """Whether a server closes the connection of a client that wants to go on there."""
        try:
            self(server, moved)
        except ClosedError:
            return True
        return False

    def close(self) -> None:
        for client in self._clients:
            client.drop()
