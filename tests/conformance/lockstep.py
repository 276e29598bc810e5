"""Two servers, one script: whatever is asked of ours is asked of the real one, and the answers compared.

Only what must differ is taken out before comparing: times, session ids, passwords, the order of children, and
where the counting of zxids began.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import attrs

from pyzk.protocol import records as r
from pyzk.protocol.constants import AUTH_XID, PING_XID, SET_WATCHES_XID
from pyzk.protocol.jute import Record
from pyzk.protocol.operations import OpCode

from ..support.requests import RESPONSES
from ..support.wire import Event, Reply, WireClient
from .known_differences import differs
from .servers import SUPER_CREDENTIALS, Server

FIXED_XIDS = {
    OpCode.PING: PING_XID,
    OpCode.AUTH: AUTH_XID,
    OpCode.SET_WATCHES: SET_WATCHES_XID,
    OpCode.SET_WATCHES2: SET_WATCHES_XID,
}


@attrs.define(eq=False)
class Side:
    """What is particular to one of the two servers."""

    server: Server
    base: int = 0  # the zxid at which the script began
    sessions: dict[int, int] = attrs.field(factory=dict)  # session id -> its number in the script

    def connect(self, **handshake: Any) -> WireClient:
        client = WireClient((self.server.host, self.server.port))
        client.connect(**handshake)
        return client

    def zxid(self, zxid: int) -> int:
        return zxid if zxid <= 0 else zxid - self.base

    def plain(self, value: Any) -> Any:
        """A decoded value without what must differ."""
        if isinstance(value, r.Stat):
            owner = value.ephemeralOwner
            zxids = [self.zxid(zxid) for zxid in (value.czxid, value.mzxid, value.pzxid)]
            versions = (value.version, value.cversion, value.aversion)
            return (*zxids, *versions, owner and self.sessions[owner], value.dataLength, value.numChildren)
        if isinstance(value, tuple):
            return sorted((self.plain(item) for item in value), key=repr)
        if isinstance(value, Record) or attrs.has(type(value)):
            return {name: self.plain(getattr(value, name)) for name in type(value).__match_args__}
        return value

    def reply(self, reply: Reply) -> Any:
        body: Any = reply.body
        if reply.op in (OpCode.MULTI, OpCode.MULTI_READ) and reply.body:
            body = [self.plain(result) for result in reply.results]
        elif reply.op in RESPONSES and reply.body:
            body = self.plain(reply.record)
        return reply.xid, reply.err, self.zxid(reply.zxid), body

    def event(self, event: Event) -> tuple[int, int, str | None]:
        return event.type, event.state, event.path


@attrs.define(eq=False)
class Twin:
    """One connection of the script: the same to both servers."""

    clients: tuple[WireClient, WireClient]
    session: int
    modes: dict[str, str] = attrs.field(factory=dict)  # path -> what sort of watch this connection has there


class Lockstep:
    """The two servers and the connections to them. Everything raises AssertionError where they disagree."""

    def __init__(self, ours: Server, real: Server) -> None:
        self.sides = (Side(ours), Side(real))
        self.twins: list[Twin] = []
        self.broken = False  # whether the two have parted: nothing they do from then on can be compared
        self._sessions = 0
        self.admin = self.open()
        self.request(self.admin, OpCode.AUTH, r.AuthPacket(0, "digest", SUPER_CREDENTIALS.encode()))
        for side, client in zip(self.sides, self.admin.clients, strict=True):
            side.base = client.ping().zxid

    def differs(self, name: str) -> bool:
        """Whether the real server has the old behaviour of a known difference."""
        return differs(name, self.sides[1].server)

    @contextlib.contextmanager
    def _agreeing(self) -> Iterator[None]:
        """Whatever fails inside, the two have parted."""
        self.broken = True
        yield
        self.broken = False

    # --- connections ---------------------------------------------------------------------------------------

    def open(self) -> Twin:
        """A new session."""
        with self._agreeing():
            return self._open()

    def _open(self) -> Twin:
        clients = [side.connect() for side in self.sides]
        for side, client in zip(self.sides, clients, strict=True):
            side.sessions[client.session_id] = self._sessions
        twin = Twin((clients[0], clients[1]), self._sessions)
        self._sessions += 1
        self.twins.append(twin)
        self.settle()
        return twin

    def reattach(self, twin: Twin, *, lose_first: bool) -> None:
        """Move a session to a new connection, with the old one lost before or taken over."""
        with self._agreeing():
            clients = []
            for side, old in zip(self.sides, twin.clients, strict=True):
                if lose_first:
                    # Wait for the server to notice, or the real one may forget the new connection instead.
                    old.socket.shutdown(socket.SHUT_WR)
                    assert old.is_closed()
                new = side.connect(session_id=old.session_id, password=old.password)
                assert new.session_id == old.session_id
                assert lose_first or old.is_closed()
                old.drop()
                clients.append(new)
            twin.clients = (clients[0], clients[1])
            twin.modes.clear()
            self.settle()

    def close_session(self, twin: Twin) -> None:
        """In which order a session's ephemerals go is unspecified, and so is the order of the events."""
        with self._agreeing():
            self.twins.remove(twin)
            replies, events = [], []
            for side, client in zip(self.sides, twin.clients, strict=True):
                replies.append(side.reply(client.close_session()))
                events.append(sorted(side.event(event) for event in client.events))
                assert client.is_closed()
                client.drop()
            assert replies[0] == replies[1]
            assert events[0] == events[1]
            self.settle(in_order=False)

    # --- requests ------------------------------------------------------------------------------------------

    def request(self, twin: Twin, op: OpCode, request: Record | bytes = b"") -> Reply:
        """Ask both, compare the replies and whatever events they led to anywhere; returns our reply."""
        for client in twin.clients:
            client.send(op, request, FIXED_XIDS.get(op))
        return self.compare_replies(twin)

    def compare_replies(self, twin: Twin, *, zxid: int | None = None) -> Reply:
        """Take the next reply from both.

        :param zxid: what the header of our events must carry; None: the zxid of our reply.
        """
        with self._agreeing():
            replies = [client.receive_reply() for client in twin.clients]
            ours, real = (side.reply(reply) for side, reply in zip(self.sides, replies, strict=True))
            assert ours == real, f"ours {ours}, real {real}"
            self.settle(zxid=replies[0].zxid if zxid is None else zxid)
            return replies[0]

    def settle(self, *, in_order: bool = True, zxid: int | None = None) -> None:
        """Compare the events of every connection: a ping's reply comes behind what was queued before it.

        :param zxid: what our events must carry in their header.
        """
        for twin in self.twins:
            for client in twin.clients:
                client.send(OpCode.PING, xid=PING_XID)
        for twin in self.twins:
            told = []
            for side, client in zip(self.sides, twin.clients, strict=True):
                client.receive_reply()
                events = [side.event(event) for event in client.events]
                told.append(events if in_order else sorted(events))
            assert told[0] == told[1], f"session {twin.session}: ours {told[0]}, real {told[1]}"
            if zxid is not None:
                assert {event.zxid for event in twin.clients[0].events} <= {zxid}
            for client in twin.clients:
                client.events.clear()

    # --- the end of a script -------------------------------------------------------------------------------

    def compare_trees(self, path: str) -> list[str]:
        """Compare a znode and all below it; returns their paths, children first."""
        for op, request in (
            (OpCode.GET_DATA, r.GetDataRequest(path, False)),
            (OpCode.GET_ACL, r.GetACLRequest(path)),
            (OpCode.GET_ALL_CHILDREN_NUMBER, r.GetAllChildrenNumberRequest(path)),
        ):
            if self.request(self.admin, op, request).err:
                return []
        children = self.request(self.admin, OpCode.GET_CHILDREN2, r.GetChildren2Request(path, False))
        paths = []
        for name in sorted(children.record.children):
            paths += self.compare_trees(f"{path}/{name}")
        return [*paths, path]

    def remove(self, paths: list[str]) -> None:
        for path in paths:
            self.request(self.admin, OpCode.DELETE, r.DeleteRequest(path, -1))

    def abandon(self) -> None:
        """Let go of every connection, in whatever state the script left it."""
        for twin in self.twins:
            for client in twin.clients:
                with contextlib.suppress(Exception):
                    client.send(OpCode.CLOSE_SESSION)
                    client.receive_rest()
                client.drop()
        self.twins.clear()
