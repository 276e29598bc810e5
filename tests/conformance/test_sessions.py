"""Ephemerals, closeSession, expiry and what keeps a session alive (semantics.md 7, 12)."""

from __future__ import annotations

import contextlib
import time

import pytest

from pyzk.protocol import records as r
from pyzk.protocol.constants import AUTH_XID
from pyzk.protocol.operations import OpCode

from ..support.waiting import PATIENCE, wait_until
from ..support.wire import ClosedError, Event, Reply, WireClient
from .conftest import Connect
from .known_differences import differs
from .servers import Server, four_letter_word

SHORT = 500
"""The least session timeout of the tests' configuration, ms; a tick is half of it."""


def test_ephemerals_belong_to_their_session(connect: Connect, client: WireClient, top: str) -> None:
    client.create(f"{top}/e", b"1", flags=1)
    other = connect()
    stat = other.exists(f"{top}/e").record.stat
    assert stat.ephemeralOwner == client.session_id
    assert other.set(f"{top}/e", b"2").record.stat.ephemeralOwner == client.session_id
    assert other.delete(f"{top}/e").err == 0
    assert list(client.ephemerals().record.ephemerals) == []


@pytest.mark.parametrize("count", [0, 1, 5])
def test_close_session_deletes_ephemerals_in_one_zxid(connect: Connect, top: str, count: int) -> None:
    # semantics.md 7 and 12.6
    owner, other = connect(), connect()
    for number in range(count):
        owner.create(f"{top}/p{number}")
        owner.create(f"{top}/p{number}/e", flags=1)
    owner.create(f"{top}/stays")
    before = other.ping().zxid
    closed = owner.close_session()
    assert (closed.err, closed.body, closed.zxid) == (0, b"", before + 1)
    assert other.ping().zxid == before + 1
    for number in range(count):
        stat = other.exists(f"{top}/p{number}").record.stat
        assert (stat.pzxid, stat.numChildren, stat.cversion) == (closed.zxid, 0, 2)
    assert other.exists(f"{top}/stays").err == 0


def test_the_closing_session_hears_of_its_own_ephemerals(
    server: Server, client: WireClient, top: str
) -> None:
    # wire.md section 7, rule 7: events, then the reply, then the end
    client.create(f"{top}/e", flags=1)
    client.get(f"{top}/e", watch=True)
    client.children(top, watch=True)
    client.send(OpCode.CLOSE_SESSION)
    arrivals = [client.receive() for _ in range(3)]
    reply = arrivals.pop()
    assert isinstance(reply, Reply)
    zxid = -1 if differs("notification-zxid", server) else reply.zxid
    assert arrivals == [Event(zxid, 2, f"{top}/e"), Event(zxid, 4, top)]
    assert client.is_closed()


def test_requests_behind_close_session_get_no_reply(
    server: Server, connect: Connect, client: WireClient, top: str
) -> None:
    # wire.md section 7, rule 7; now and then the real server refuses them before it closes
    client.send_together(
        (OpCode.CLOSE_SESSION, b"", 1), (OpCode.SET_DATA, r.SetDataRequest(top, b"too late", -1), 2)
    )
    assert client.receive_reply().op == OpCode.CLOSE_SESSION
    with contextlib.suppress(ClosedError):
        assert client.receive_reply().err in (-12, -112)
        assert server.kind == "real"
    assert connect().get(top).record.data == b""


def test_a_closed_session_cannot_be_resumed(connect: Connect, client: WireClient) -> None:
    # semantics.md 12.6
    client.close_session()
    assert connect(session_id=client.session_id, password=client.password).session_id == 0


def test_a_lost_connection_keeps_the_session(connect: Connect, client: WireClient, top: str) -> None:
    # semantics.md 7
    client.create(f"{top}/e", flags=1)
    client.drop()
    assert connect().exists(f"{top}/e").err == 0


def test_expiry_deletes_all_ephemerals_in_one_zxid(server: Server, connect: Connect, top: str) -> None:
    # semantics.md 12.3: not before the timeout
    watcher, owner = connect(), connect()
    for number in range(3):
        watcher.create(f"{top}/p{number}")
        owner.create(f"{top}/p{number}/e", flags=1)
        watcher.exists(f"{top}/p{number}/e", watch=True)
    before = watcher.ping().zxid
    touched = time.monotonic()
    owner = connect(timeout=SHORT, session_id=owner.session_id, password=owner.password)
    events = [watcher.wait_event() for _ in range(3)]
    assert time.monotonic() - touched > SHORT / 1000
    assert {(event.type, event.path) for event in events} == {(2, f"{top}/p{n}/e") for n in range(3)}
    assert watcher.ping().zxid == before + 1
    assert {watcher.exists(f"{top}/p{n}").record.stat.pzxid for n in range(3)} == {before + 1}
    assert owner.is_closed()  # without any packet
    assert connect(session_id=owner.session_id, password=owner.password).session_id == 0


def test_expiry_without_ephemerals_consumes_a_zxid(connect: Connect, client: WireClient) -> None:
    # semantics.md 2
    session = connect()
    before = client.ping().zxid
    connect(timeout=SHORT, session_id=session.session_id, password=session.password).drop()
    wait_until(lambda: client.ping().zxid == before + 1)


class Kept:
    """A session with a short timeout that is kept alive.

    Where we came too late to touch it, as on a machine that stood still, it may expire: then it begins anew.
    """

    def __init__(self, connect: Connect, op: OpCode, body: r.Record | bytes) -> None:
        self._connect, self._op, self._body = connect, op, body
        self.outlived = 0.0  # timeouts, in one life
        self._begin()

    def _begin(self) -> None:
        self._begun = self._touched = time.monotonic()
        self._client = self._connect(timeout=SHORT)

    def touch(self, name: str) -> None:
        now = time.monotonic()
        try:
            self._client.request(self._op, self._body)
        except (ClosedError, ConnectionError):
            assert time.monotonic() - self._touched > SHORT / 1000, name
            self._begin()
        else:
            self._touched = now
            self.outlived = max(self.outlived, (now - self._begun) * 1000 / SHORT)


def has_closed(client: WireClient) -> bool:
    """Whether the server has closed the connection by now. Whatever else came is thrown away."""
    client.socket.settimeout(0)
    try:
        return not client.socket.recv(65536)
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
    finally:
        client.socket.settimeout(PATIENCE)


TOUCHES = [
    ("ping", OpCode.PING, b""),
    ("read", OpCode.EXISTS, r.ExistsRequest("/", False)),
    ("refused read", OpCode.GET_DATA, r.GetDataRequest("/none", False)),
    ("write", OpCode.SYNC, r.SyncRequest("/")),
    ("refused write", OpCode.DELETE, r.DeleteRequest("/zookeeper", -1)),
    ("undecodable", OpCode.GET_DATA, b""),
    ("setWatches", OpCode.SET_WATCHES, r.SetWatches(0, [], [], [])),
]


def test_what_touches_a_session(connect: Connect) -> None:
    # semantics.md 12.4: each keeps its own session alive; auth, sasl and half a frame do not
    alive = {name: Kept(connect, op, body) for name, op, body in TOUCHES}
    auth, sasl, half = connect(timeout=SHORT), connect(timeout=SHORT), connect(timeout=SHORT)
    deaf = {"auth": auth, "sasl": sasl, "half a frame": half}
    half.send_bytes(b"\0\0\0\xff")
    deadline = time.monotonic() + 2 * PATIENCE
    while min(kept.outlived for kept in alive.values()) < 4 or not all(
        has_closed(client) for client in deaf.values()
    ):
        assert time.monotonic() < deadline
        for name, kept in alive.items():
            kept.touch(name)
        with contextlib.suppress(ConnectionError):  # closed by the expiry
            auth.socket.sendall(b"\0\0\0\x1d" + r.RequestHeader(AUTH_XID, OpCode.AUTH).encode()
                                + r.AuthPacket(0, "digest", b"u:p").encode())  # fmt: skip
        with contextlib.suppress(ConnectionError):
            sasl.send_frame(r.RequestHeader(1, OpCode.SASL).encode() + r.GetSASLRequest(b"").encode())
        with contextlib.suppress(ConnectionError):
            half.send_bytes(b"x")
        time.sleep(0.1)  # the pace of the touches, well below the timeout
    for name, client in deaf.items():
        assert connect(session_id=client.session_id, password=client.password).session_id == 0, name


def test_reattaching_renews_the_session_with_the_new_timeout(connect: Connect, client: WireClient) -> None:
    # semantics.md 12.3: the timeout of a touch is that of the current connection, up or down
    while True:
        begun = time.monotonic()
        short = connect(timeout=SHORT)
        long = connect(timeout=30_000, session_id=short.session_id, password=short.password)
        if long.session_id:
            break
        assert time.monotonic() - begun > SHORT / 1000  # we came too late, and it had expired
    renewed = connect(timeout=30_000)
    doomed = connect(timeout=SHORT, session_id=renewed.session_id, password=renewed.password)
    assert doomed.is_closed()  # the long timeout is forgotten
    assert long.ping().err == 0  # and the short one


def test_a_busy_session_outlives_many_timeouts(connect: Connect) -> None:
    busy = Kept(connect, OpCode.PING, b"")
    while busy.outlived < 3:
        busy.touch("ping")
        time.sleep(0.05)  # the pace of the touches


def test_dump_lists_sessions_and_ephemerals(server: Server, client: WireClient, top: str) -> None:
    # operator-surface.md 1.3: the server's view of the same
    client.create(f"{top}/e", flags=1)
    text = four_letter_word((server.host, server.port), b"dump").decode()
    assert f"0x{client.session_id:x}:\n\t{top}/e\n" in text
    client.close_session()
    assert client.is_closed()
    text = four_letter_word((server.host, server.port), b"dump").decode()
    assert f"{client.session_id:x}" not in text
