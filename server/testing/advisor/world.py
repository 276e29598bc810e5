"""The connected sessions with their watches and ephemerals. The module derives them from the history
alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, TypeAlias

import attrs

from ....protocol.errors import NoNodeError
from ..describe import Asked
from ..history import Entry
from .table import MOST, Table

READS: Final = frozenset({"get_data", "exists", "get_children"})
WatchKey: TypeAlias = tuple[str, str]
"""A one-shot watch: ``data`` or ``child``, and a path."""
Place: TypeAlias = tuple[int, int]
"""The number of a server, and the number of a connection to this server."""


@attrs.frozen(kw_only=True)
class Exchange:
    """A request and its outcome.

    :ivar time: the time of the reply or of the lost connection, in seconds on the server's clock since its
        start.
    :ivar server: the number of the server in an ensemble; 0 for a single server.
    :ivar began: the number of the request's entry in the history.
    :ivar ended: the number of the entry that ended the exchange.
    :ivar zxid: the zxid of the reply. For a write, this is the zxid of the write itself. For a read, this is
        the last zxid that the server had applied.
    :ivar asked: the operations of the request; a multi has several.
    :ivar err: the error code of the reply. For a refused multi it is the error code of the refused operation.
        None if the connection ended before the reply.
    :ivar refused: the refused operation, which has the error code.
    :ivar size: the size of the request, in bytes.
    :ivar reply_size: the size of the reply, in bytes.
    :ivar answer: a hash of the reply. Two replies with the same content have the same hash.
    :ivar created: the path of a new znode.
    """

    time: float
    op: str
    asked: Sequence[Asked]
    err: int | None
    size: int
    server: int = 0
    began: int = 0
    ended: int = 0
    zxid: int = 0
    refused: Asked | None = None
    reply_size: int = 0
    answer: int = 0
    created: str | None = None

    @property
    def done(self) -> Sequence[Asked]:
        """The operations that have succeeded: all operations of the request, or none."""
        return self.asked if self.err == 0 else ()


@attrs.define
class Client:
    """A session.

    :ivar host: the address of the client, without the port.
    :ivar began: when the session began, in seconds on the server's clock since its start.
    :ivar connection: the connection of the session; None while it has no connection.
    :ivar left: when the last connection ended; None while the session has a connection.
    :ivar steered: whether the test has cut the client off, or has affected a message of the client.
    :ivar requests: the number of the session's requests, without pings.
    :ivar armed: the one-shot watches that have not fired. The value is how often the watch was set since the
        last event of its znode.
    :ivar fired: how many of the session's watches have fired.
    :ivar events: the number of events that were sent to the session.
    :ivar owned: the kinds of the session's ephemerals, by path.
    :ivar below: how many ephemerals of each kind the session has, by their parent znode.
    """

    id: int = 0
    host: str = ""
    began: float = 0.0
    timeout: float = 0.0
    connection: Place | None = None
    left: float | None = None
    steered: bool = False
    requests: int = 0
    armed: dict[WatchKey, int] = attrs.field(factory=lambda: Table(int))
    fired: int = 0
    events: int = 0
    owned: Table[str, str] = attrs.field(factory=lambda: Table[str, str](str))
    below: Table[str, Counter[str]] = attrs.field(factory=lambda: Table[str, Counter[str]](Counter))

    def own(self, path: str, kind: str) -> None:
        self.owned[path] = kind
        self.below[parent_of(path)][kind] += 1

    def disown(self, path: str) -> None:
        parent, kind = parent_of(path), self.owned.pop(path, None)
        if kind is not None:
            self.below[parent][kind] -= 1
            if not self.below[parent].total():
                del self.below[parent]


def place_of(entry: Entry) -> Place:
    return entry.server, entry.connection


def parent_of(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def is_claim(asked: Asked) -> bool:
    """Return whether an operation creates a znode that must be new: an ephemeral, or a znode with data.

    A parent without data may exist already, because it does not matter who has created the parent.
    """
    return asked.op == "create" and ("ephemeral" in asked.kind or not asked.empty)


def watch_key(asked: Asked, err: int | None) -> WatchKey | None:
    """Return the one-shot watch that an operation has set; None if the operation has set no watch."""
    if not asked.watch or asked.op not in READS:
        return None
    if err == 0 or (asked.op == "exists" and err == NoNodeError.code):
        return "child" if asked.op == "get_children" else "data", asked.path
    return None


def fired_by(entry: Entry) -> list[WatchKey]:
    """List the watches that end with an event."""
    path = entry.path or ""
    kinds = {"deleted": ("data", "child"), "children changed": ("child",)}
    return [(kind, path) for kind in kinds.get(entry.facts.step, ("data",))]


class World:
    """The connected sessions, and the owners of ephemerals.

    :param max_buffer: ``jute.maxbuffer`` of the server, in bytes.
    :ivar clients: the live sessions, by id.
    :ivar owners: the owners of the ephemerals, by path.
    """

    def __init__(self, max_buffer: int) -> None:
        self.max_buffer = max_buffer
        self.clients: Table[int, Client] = Table(Client)
        self.owners: Table[str, int] = Table(int, 10 * MOST)

    def client(self, session: int) -> Client:
        client = self.clients[session]
        client.id = session
        return client

    def begin(self, entry: Entry) -> None:
        """A session begins."""
        client = self.client(entry.session)
        client.began, client.timeout = entry.time, entry.facts.timeout

    def attach(self, entry: Entry) -> None:
        """Note that a connection has its session."""
        client = self.client(entry.session)
        client.connection, client.left = place_of(entry), None
        client.host = entry.client.rpartition(":")[0]
        client.armed.clear()

    def leave(self, entry: Entry) -> None:
        """Note that a connection is over."""
        client = self.clients.get(entry.session)
        if client is not None and client.connection == place_of(entry):
            client.connection, client.left = None, entry.time
            client.armed.clear()

    def steer(self, session: int) -> None:
        """Note that the test has affected a session by a control. The session 0 means all sessions."""
        for client in [self.client(session)] if session else self.clients.values():
            client.steered = True

    def exchange(self, client: Client, exchange: Exchange) -> None:
        client.requests += exchange.op != "close_session"
        for asked in exchange.asked:
            key = watch_key(asked, exchange.err)
            if key is not None:
                client.armed[key] += 1
        for asked in exchange.done:
            if asked.op == "create" and "ephemeral" in asked.kind:
                path = exchange.created or asked.path
                client.own(path, asked.kind)
                self.owners[path] = client.id
            elif asked.op == "delete":
                self._forget(asked.path)
            elif asked.op == "remove_watches":
                for kind in ("data", "child"):
                    client.armed.pop((kind, asked.path), None)

    def _forget(self, path: str) -> None:
        owner = self.owners.pop(path, None)
        if owner is not None and owner in self.clients:
            self.clients[owner].disown(path)

    def event(self, client: Client, entry: Entry) -> None:
        client.events += 1
        for key in fired_by(entry):
            if client.armed.pop(key, None):
                client.fired += 1
        for kind in (
            "data",
            "child",
        ):  # a client reads a znode again after its event, and may set both watches
            if (kind, entry.path) in client.armed:
                client.armed[kind, entry.path or ""] = 1

    def end(self, client: Client) -> None:
        """Note that a session is over."""
        for path in client.owned:
            if self.owners.get(path) == client.id:
                del self.owners[path]
        self.clients.pop(client.id, None)
