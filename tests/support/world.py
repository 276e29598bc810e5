"""A server without sockets and clients without a network, with a clock that only tests move.

world = World(enforce_quota=True)       # the keywords of Settings
alice = world.connect()
alice.create("/a", b"data")             # sends the request, gives back its decoded Reply
world.pass_time(5.0)
alice.take_events()
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from benchmarks.wire import hello
from pyzk.protocol import records as r
from pyzk.protocol.jute import Record
from pyzk.protocol.paths import join, name
from pyzk.server.config.settings import Settings
from pyzk.server.core.tree import DataTree
from pyzk.server.core.txn import Create, Delete, Txn
from pyzk.server.monitoring.four_letter_words import answer
from pyzk.server.net.service import Service
from pyzk.server.storage.storage import Storage

from .wire import Event, Handshake, Reply, Wire

START = 1000.0
"""Where the monotonic clock of a world starts, in seconds: a multiple of every tick and bucket."""
EPOCH = 1_700_000_000.0  # the same moment in seconds since the epoch


class World:
    """One service and its time.

    :ivar now: the monotonic time in seconds.
    :param data: a directory that keeps the data.
    :ivar storage: None without ``data``.
    :ivar txns: every transaction so far.
    """

    storage: Storage | None = None

    def __init__(
        self,
        *,
        now: float = START,
        epoch: float = EPOCH,
        random_bytes: Callable[[int], bytes] | None = None,
        data: Path | None = None,
        **settings: Any,
    ) -> None:
        self.now = now
        passwords = itertools.count(1)
        known = Settings(**{"initial_zxid": 0, **settings})
        storage = None
        if data is not None:
            self.storage = storage = Storage(data, known)
            storage.load()
        self.service = Service(
            known,
            storage=storage,
            now=now,
            epoch=epoch,
            random_bytes=random_bytes or (lambda size: next(passwords).to_bytes(size)),
            answer_word=answer,
        )
        self.engine = self.service.engine
        self.tree = self.engine.tree
        self.txns: list[Txn] = []
        self.engine.on_txn = self.txns.append

    @property
    def zxid(self) -> int:
        return self.engine.zxid

    @property
    def epoch_ms(self) -> int:
        """The wall-clock time in ms."""
        return self.engine.wall_clock(self.service.at(self.now))

    def pass_time(self, seconds: float) -> None:
        """Let time pass, and whatever falls due in it happen."""
        self.now += seconds
        self.service.advance(self.now)

    def open(self, host: str = "127.0.0.1", identities: Iterable[r.Id] = ()) -> Peer:
        """A connection that has said nothing yet."""
        return Peer(self, host, identities)

    def connect(self, host: str = "127.0.0.1", **handshake: Any) -> Peer:
        """A connection with a session; the keywords of :meth:`Peer.connect`."""
        peer = self.open(host)
        peer.connect(**handshake)
        return peer


class Peer(Wire[Reply]):
    """A client at the far end of one connection.

    :ivar connection: the server's end.
    :ivar wakes: how often the connection has asked for its output to be taken.
    """

    def __init__(self, world: World, host: str, identities: Iterable[r.Id] = ()) -> None:
        super().__init__()
        self.world = world
        self.wakes = 0
        connection = world.service.accept((host, 40_000), world.now, self._wake, identities)
        assert connection is not None, "the service has refused the connection"
        self.connection = connection
        self._inbox: deque[Reply | Event] = deque()
        self._events: list[Event] = []

    def _wake(self) -> None:
        self.wakes += 1

    # --- bytes ---------------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether the server has decided to end the connection."""
        return self.connection.close_expected

    def exchange(self, data: bytes = b"", *, short: bool = True) -> bytes:
        """Send bytes; gives back those the server answers. Takes the turns that a transport would.

        :param short: by the short way where there is one, as plain TCP clients are served.
        """
        connection = self.connection
        output = []
        if data and short:
            output.append(connection.exchange(data, self.world.now))
        elif data:
            connection.receive_data(data, self.world.now)
        output.append(connection.data_to_send())
        while connection.has_work:
            connection.proceed(self.world.now)
            output.append(connection.data_to_send())
        if connection.service.storage is not None:  # before a reply leaves, as the hub does it
            connection.service.storage.write_journal()
        return b"".join(output)

    def feed(self, data: bytes = b"") -> None:
        """Send bytes, and decode what the server answers."""
        self.receive_data(self.exchange(data))
        while (payload := self.take_frame()) is not None:
            if not isinstance(arrival := self.decode(payload), Handshake):
                self._inbox.append(arrival)

    # --- handshake, requests, replies, events --------------------------------------------------------------

    def connect(self, *, timeout: int = 10_000, **handshake: Any) -> None:
        """Open or resume a session; the keywords of :func:`benchmarks.wire.hello`."""
        self.feed(hello(timeout, **handshake))

    def reconnect(self, host: str = "127.0.0.1") -> Peer:
        """Resume this session from another connection."""
        return self.world.connect(host, session_id=self.session_id, password=self.password)

    def send(self, op: int, body: Record | bytes = b"", xid: int | None = None) -> None:
        """Send a request without looking for its reply."""
        self.feed(self.encode(op, body, xid))

    def request(self, op: int, body: Record | bytes = b"", xid: int | None = None) -> Reply:
        """Send a request; gives back its reply, which must have come. Events before it are kept."""
        self.send(op, body, xid)
        return self.reply()

    def reply(self) -> Reply:
        """The next reply; events before it are kept for :meth:`take_events`."""
        while self._inbox:
            arrival = self._inbox.popleft()
            if isinstance(arrival, Reply):
                return arrival
            self._events.append(arrival)
        raise AssertionError(f"no reply has come{'; the connection is closed' * self.closed}")

    def take_all(self) -> list[Reply | Event]:
        """Everything that has come and was not looked at yet, in its order."""
        self.feed()
        arrivals = [*self._events, *self._inbox]
        self._events.clear()
        self._inbox.clear()
        return arrivals

    def take_events(self) -> list[Event]:
        """The events that have come; nothing else may have."""
        arrivals = self.take_all()
        events = [arrival for arrival in arrivals if isinstance(arrival, Event)]
        assert events == arrivals
        return events


# --- effects -----------------------------------------------------------------------------------------------


def creation(
    path: str, data: bytes | None = b"", owner: int = 0, acl: tuple[r.ACL, ...] = r.OPEN_ACL
) -> Create:
    """What the preparation of a create comes to."""
    return Create(path=path, name=name(path), data=data, acl=acl, owner=owner)


def deletion(path: str) -> Delete:
    return Delete(path=path, name=name(path))


def set_create_counter(tree: DataTree, path: str, created: int) -> None:
    """As if so many children had been created below a znode, and deleted; nobody lives to see it happen."""
    child = join(path, "ever")
    tree.apply(creation(child), 1, 1)
    node = tree.nodes[path]
    assert node.children is not None
    node.children.created = created
    tree.apply(deletion(child), 1, 1)
