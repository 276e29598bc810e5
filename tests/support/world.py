"""A server without sockets and clients without a network, with a clock that only tests move.

world = World(enforce_quota=True)       # the keywords of Settings
alice = world.connect()
alice.create("/a", b"data")             # sends the request, gives back its decoded Reply
world.pass_time(5.0)
alice.take_events()
"""

from __future__ import annotations

import base64
import hashlib
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import attrs

from pyzk.protocol import records as r
from pyzk.protocol.constants import AUTH_XID, SET_WATCHES_XID, WATCH_XID, KeeperState
from pyzk.protocol.framing import FrameBuffer, frame
from pyzk.protocol.jute import Record
from pyzk.protocol.multi import MultiResult, decode_results
from pyzk.protocol.operations import OpCode
from pyzk.protocol.paths import join, name
from pyzk.server.config.settings import Settings
from pyzk.server.core.tree import DataTree
from pyzk.server.core.txn import Create, Delete, Txn
from pyzk.server.net.service import Service

from .requests import RESPONSES, Requests
from .requests import check_op as check_op
from .requests import children_op as children_op
from .requests import create_op as create_op
from .requests import delete_op as delete_op
from .requests import get_op as get_op
from .requests import set_op as set_op

START = 1000.0
"""Where the monotonic clock of a world starts, in seconds: a multiple of every tick and bucket."""
EPOCH = 1_700_000_000.0  # the same moment in seconds since the epoch


@attrs.frozen
class Reply:
    """An ordinary reply; ``op`` is the op code of the request it answers."""

    xid: int
    zxid: int
    err: int
    body: bytes
    op: int = attrs.field(eq=False)

    @property
    def record(self) -> Any:
        """The decoded body, which must be nothing but the record of the operation."""
        record, end = RESPONSES[self.op].read(self.body)
        assert end == len(self.body)
        return record

    @property
    def results(self) -> list[MultiResult]:
        return decode_results(self.body)


@attrs.frozen
class Event:
    zxid: int
    type: int
    path: str | None


class World:
    """One service and its time.

    :ivar now: the monotonic time in seconds.
    :ivar txns: every transaction so far.
    """

    def __init__(
        self,
        *,
        now: float = START,
        epoch: float = EPOCH,
        random_bytes: Callable[[int], bytes] | None = None,
        **settings: Any,
    ) -> None:
        self.now = now
        passwords = itertools.count(1)
        self.service = Service(
            Settings(**{"initial_zxid": 0, **settings}),
            now=now,
            epoch=epoch,
            random_bytes=random_bytes or (lambda size: next(passwords).to_bytes(size)),
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
        return int(self.engine.wall_clock(self.now) * 1000)

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


class Peer(Requests[Reply]):
    """A client at the far end of one connection.

    :ivar connection: the server's end.
    :ivar handshake: the server's answer to the ConnectRequest.
    :ivar wakes: how often the connection has asked for its output to be taken.
    """

    def __init__(self, world: World, host: str, identities: Iterable[r.Id] = ()) -> None:
        self.world = world
        self.wakes = 0
        connection = world.service.accept((host, 40_000), world.now, self._wake, identities)
        assert connection is not None, "the service has refused the connection"
        self.connection = connection
        self.handshake: r.ConnectResponse | None = None
        self._incoming = FrameBuffer(2**31 - 1)
        self._inbox: deque[Reply | Event] = deque()
        self._events: list[Event] = []
        self._pending: deque[tuple[int, int]] = deque()  # (xid, op) of requests without a reply
        self._xids = itertools.count(1)

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
        return b"".join(output)

    def feed(self, data: bytes = b"") -> None:
        """Send bytes, and decode what the server answers."""
        self._incoming.feed(self.exchange(data))
        while payloads := self._incoming.take(1):
            if self.handshake is None:
                self.handshake = r.ConnectResponse.decode(payloads[0])
            else:
                self._inbox.append(self._decode(payloads[0]))

    def _decode(self, payload: bytes) -> Reply | Event:
        header, end = r.ReplyHeader.read(payload)
        if header.xid == WATCH_XID and not (self._pending and self._pending[0][0] == WATCH_XID):
            event = r.WatcherEvent.decode(payload, end)
            assert (header.err, event.state) == (0, KeeperState.SYNC_CONNECTED)
            return Event(header.zxid, event.type, event.path)
        _, op = self._pending.popleft()
        return Reply(header.xid, header.zxid, header.err, payload[end:], op)

    # --- handshake, requests, replies, events --------------------------------------------------------------

    def connect(
        self,
        *,
        timeout: int = 10_000,
        session_id: int = 0,
        password: bytes | None = bytes(16),
        last_zxid: int = 0,
    ) -> None:
        """Open or resume a session."""
        request = r.ConnectRequest(0, last_zxid, timeout, session_id, password).encode()
        self.feed(frame(request + b"\0"))

    def reconnect(self, host: str = "127.0.0.1") -> Peer:
        """Resume this session from another connection."""
        return self.world.connect(host, session_id=self.session_id, password=self.password)

    @property
    def session_id(self) -> int:
        assert self.handshake is not None
        return self.handshake.sessionId

    @property
    def password(self) -> bytes:
        assert self.handshake is not None
        assert self.handshake.passwd is not None
        return self.handshake.passwd

    def encode(self, op: int, request: Record | bytes = b"", xid: int | None = None) -> bytes:
        """The frame of a request whose reply will be expected."""
        xid = next(self._xids) if xid is None else xid
        self._pending.append((xid, op))
        return request_frame(xid, op, request)

    def send(self, op: int, request: Record | bytes = b"", xid: int | None = None) -> None:
        """Send a request without looking for its reply."""
        self.feed(self.encode(op, request, xid))

    def request(self, op: int, request: Record | bytes = b"", xid: int | None = None) -> Reply:
        """Send a request; gives back its reply, which must have come. Events before it are kept."""
        self.send(op, request, xid)
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

    # --- the operations ------------------------------------------------------------------------------------

    def auth(self, scheme: str | None, auth: bytes | None) -> Reply:
        return self.request(OpCode.AUTH, r.AuthPacket(0, scheme, auth), xid=AUTH_XID)

    def who_am_i(self) -> list[tuple[str | None, str | None]]:
        reply = self.request(OpCode.WHO_AM_I)
        return [(info.authScheme, info.user) for info in reply.record.clientInfo]

    def set_watches(self, zxid: int, *lists: Sequence[str | None] | None) -> Reply:
        """Data, exist and child watches; op 105 where persistent and recursive ones follow."""
        if len(lists) == 3:
            return self.request(OpCode.SET_WATCHES, r.SetWatches(zxid, *lists), xid=SET_WATCHES_XID)
        return self.request(OpCode.SET_WATCHES2, r.SetWatches2(zxid, *lists), xid=SET_WATCHES_XID)


def kinds(events: Sequence[Event]) -> list[tuple[int, str | None]]:
    """What the events are, and of what."""
    return [(event.type, event.path) for event in events]


def request_frame(xid: int, op: int, request: Record | bytes = b"") -> bytes:
    body = request if isinstance(request, bytes) else request.encode()
    return frame(r.RequestHeader(xid, op).encode() + body)


# --- effects, parts of a multi, ACLs -----------------------------------------------------------------------


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


def acl(perms: int, scheme: str | None = "world", identity: str | None = "anyone") -> r.ACL:
    return r.ACL(perms, r.Id(scheme, identity))


def digest_id(credentials: str, algorithm: str = "sha1") -> str:
    """The identity that ``user:password`` earns by digest (semantics.md section 8.4)."""
    digest = hashlib.new(algorithm, credentials.encode()).digest()
    return f"{credentials.partition(':')[0]}:{base64.b64encode(digest).decode()}"
