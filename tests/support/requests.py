"""Every request by name, for the clients of the tests: they only have to know how to send one."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from typing import Generic, TypeVar

from pyzk.protocol import records as r
from pyzk.protocol.constants import AUTH_XID, PING_XID, SET_WATCHES_XID
from pyzk.protocol.jute import Record
from pyzk.protocol.multi import MultiOp, encode_multi
from pyzk.protocol.operations import OpCode

Answer = TypeVar("Answer")

RESPONSES = {op.value: op.response for op in OpCode if op.response is not None}
"""What a reply's body holds, by the op it answers."""

NOT_SENT: list[str | None] = []
"""A list of watches that the older form of setWatches does not have."""


class Requests(Generic[Answer]):
    def request(self, op: int, body: Record | bytes = b"", xid: int | None = None) -> Answer:
        """Send one request and wait for its reply."""
        raise NotImplementedError

    def create(
        self,
        path: str | None,
        data: bytes | None = b"",
        acl: Sequence[r.ACL] | None = r.OPEN_ACL,
        flags: int = 0,
        *,
        op: int = OpCode.CREATE,
        ttl: int | None = None,
    ) -> Answer:
        """Op 21 where a ``ttl`` is given."""
        if ttl is None:
            return self.request(op, r.CreateRequest(path, data, acl, flags))
        return self.request(OpCode.CREATE_TTL, r.CreateTTLRequest(path, data, acl, flags, ttl))

    def delete(self, path: str | None, version: int = -1) -> Answer:
        return self.request(OpCode.DELETE, r.DeleteRequest(path, version))

    def exists(self, path: str | None, watch: bool = False) -> Answer:
        return self.request(OpCode.EXISTS, r.ExistsRequest(path, watch))

    def get(self, path: str | None, watch: bool = False) -> Answer:
        return self.request(OpCode.GET_DATA, r.GetDataRequest(path, watch))

    def set(self, path: str | None, data: bytes | None, version: int = -1) -> Answer:
        return self.request(OpCode.SET_DATA, r.SetDataRequest(path, data, version))

    def get_acl(self, path: str | None) -> Answer:
        return self.request(OpCode.GET_ACL, r.GetACLRequest(path))

    def set_acl(self, path: str | None, acl: Sequence[r.ACL] | None, version: int = -1) -> Answer:
        return self.request(OpCode.SET_ACL, r.SetACLRequest(path, acl, version))

    def children(self, path: str | None, watch: bool = False) -> Answer:
        return self.request(OpCode.GET_CHILDREN, r.GetChildrenRequest(path, watch))

    def children2(self, path: str | None, watch: bool = False) -> Answer:
        return self.request(OpCode.GET_CHILDREN2, r.GetChildren2Request(path, watch))

    def sync(self, path: str | None) -> Answer:
        return self.request(OpCode.SYNC, r.SyncRequest(path))

    def ping(self) -> Answer:
        return self.request(OpCode.PING, xid=PING_XID)

    def multi(self, *ops: MultiOp, op: int = OpCode.MULTI) -> Answer:
        return self.request(op, encode_multi(ops))

    def multi_read(self, *ops: MultiOp) -> Answer:
        return self.multi(*ops, op=OpCode.MULTI_READ)

    def ephemerals(self, prefix: str | None = None) -> Answer:
        return self.request(OpCode.GET_EPHEMERALS, r.GetEphemeralsRequest(prefix))

    def count_descendants(self, path: str | None) -> Answer:
        return self.request(OpCode.GET_ALL_CHILDREN_NUMBER, r.GetAllChildrenNumberRequest(path))

    def add_watch(self, path: str | None, mode: int) -> Answer:
        return self.request(OpCode.ADD_WATCH, r.AddWatchRequest(path, mode))

    def check_watches(self, path: str | None, kind: int) -> Answer:
        return self.request(OpCode.CHECK_WATCHES, r.CheckWatchesRequest(path, kind))

    def remove_watches(self, path: str | None, kind: int) -> Answer:
        return self.request(OpCode.REMOVE_WATCHES, r.RemoveWatchesRequest(path, kind))

    def set_watches(
        self,
        zxid: int,
        data: Sequence[str | None] | None = (),
        exist: Sequence[str | None] | None = (),
        child: Sequence[str | None] | None = (),
        persistent: Sequence[str | None] | None = NOT_SENT,
        recursive: Sequence[str | None] | None = NOT_SENT,
    ) -> Answer:
        """Op 101; op 105 where a list of persistent or recursive watches is given."""
        lists = [data, exist, child]
        if persistent is recursive is NOT_SENT:
            return self.request(OpCode.SET_WATCHES, r.SetWatches(zxid, *lists), xid=SET_WATCHES_XID)
        request = r.SetWatches2(zxid, *lists, persistent, recursive)
        return self.request(OpCode.SET_WATCHES2, request, xid=SET_WATCHES_XID)

    def auth(self, scheme: str | None, auth: bytes | str | None) -> Answer:
        data = auth.encode() if isinstance(auth, str) else auth
        return self.request(OpCode.AUTH, r.AuthPacket(0, scheme, data), xid=AUTH_XID)

    def who_am_i(self) -> Answer:
        return self.request(OpCode.WHO_AM_I)

    def reconfig(
        self,
        joining: str | None = None,
        leaving: str | None = None,
        new_members: str | None = None,
        from_config: int = -1,
    ) -> Answer:
        request = r.ReconfigRequest(joining, leaving, new_members, from_config)
        return self.request(OpCode.RECONFIG, request)

    def close_session(self) -> Answer:
        return self.request(OpCode.CLOSE_SESSION)


# --- parts of a multi --------------------------------------------------------------------------------------


def create_op(
    path: str | None,
    data: bytes | None = b"",
    acl: Sequence[r.ACL] | None = r.OPEN_ACL,
    flags: int = 0,
    op: int = OpCode.CREATE,
) -> MultiOp:
    return MultiOp(op, r.CreateRequest(path, data, acl, flags))


def delete_op(path: str | None, version: int = -1) -> MultiOp:
    return MultiOp(OpCode.DELETE, r.DeleteRequest(path, version))


def set_op(path: str | None, data: bytes | None, version: int = -1) -> MultiOp:
    return MultiOp(OpCode.SET_DATA, r.SetDataRequest(path, data, version))


def check_op(path: str | None, version: int = -1) -> MultiOp:
    return MultiOp(OpCode.CHECK, r.CheckVersionRequest(path, version))


def get_op(path: str | None, watch: bool = False) -> MultiOp:
    return MultiOp(OpCode.GET_DATA, r.GetDataRequest(path, watch))


def children_op(path: str | None, watch: bool = False) -> MultiOp:
    return MultiOp(OpCode.GET_CHILDREN, r.GetChildrenRequest(path, watch))


# --- ACLs --------------------------------------------------------------------------------------------------


def acl(perms: int, scheme: str | None = "world", identity: str | None = "anyone") -> r.ACL:
    return r.ACL(perms, r.Id(scheme, identity))


def digest_id(credentials: str, algorithm: str = "sha1") -> str:
    """The identity that ``user:password`` earns by digest (semantics.md section 8.4)."""
    digest = hashlib.new(algorithm, credentials.encode()).digest()
    return f"{credentials.partition(':')[0]}:{base64.b64encode(digest).decode()}"
