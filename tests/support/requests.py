"""Every request by name, for the clients of the tests: they only have to know how to send one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from pyzk.protocol import records as r
from pyzk.protocol.constants import PING_XID
from pyzk.protocol.jute import Record
from pyzk.protocol.multi import MultiOp, encode_multi
from pyzk.protocol.operations import OpCode

Reply = TypeVar("Reply")

RESPONSES = {op.value: op.response for op in OpCode if op.response is not None}
"""What a reply's body holds, by the op it answers."""


class Requests(Generic[Reply]):
    def request(self, op: int, request: Record | bytes = b"", xid: int | None = None) -> Reply:
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
    ) -> Reply:
        """Op 21 where a ``ttl`` is given."""
        if ttl is None:
            return self.request(op, r.CreateRequest(path, data, acl, flags))
        return self.request(OpCode.CREATE_TTL, r.CreateTTLRequest(path, data, acl, flags, ttl))

    def delete(self, path: str | None, version: int = -1) -> Reply:
        return self.request(OpCode.DELETE, r.DeleteRequest(path, version))

    def exists(self, path: str | None, watch: bool = False) -> Reply:
        return self.request(OpCode.EXISTS, r.ExistsRequest(path, watch))

    def get(self, path: str | None, watch: bool = False) -> Reply:
        return self.request(OpCode.GET_DATA, r.GetDataRequest(path, watch))

    def set(self, path: str | None, data: bytes | None, version: int = -1) -> Reply:
        return self.request(OpCode.SET_DATA, r.SetDataRequest(path, data, version))

    def get_acl(self, path: str | None) -> Reply:
        return self.request(OpCode.GET_ACL, r.GetACLRequest(path))

    def set_acl(self, path: str | None, acl: Sequence[r.ACL] | None, version: int = -1) -> Reply:
        return self.request(OpCode.SET_ACL, r.SetACLRequest(path, acl, version))

    def children(self, path: str | None, watch: bool = False) -> Reply:
        return self.request(OpCode.GET_CHILDREN, r.GetChildrenRequest(path, watch))

    def children2(self, path: str | None, watch: bool = False) -> Reply:
        return self.request(OpCode.GET_CHILDREN2, r.GetChildren2Request(path, watch))

    def sync(self, path: str | None) -> Reply:
        return self.request(OpCode.SYNC, r.SyncRequest(path))

    def ping(self) -> Reply:
        return self.request(OpCode.PING, xid=PING_XID)

    def multi(self, *ops: MultiOp, op: int = OpCode.MULTI) -> Reply:
        return self.request(op, encode_multi(ops))

    def ephemerals(self, prefix: str | None = None) -> Reply:
        return self.request(OpCode.GET_EPHEMERALS, r.GetEphemeralsRequest(prefix))

    def count_descendants(self, path: str | None) -> Reply:
        return self.request(OpCode.GET_ALL_CHILDREN_NUMBER, r.GetAllChildrenNumberRequest(path))

    def add_watch(self, path: str | None, mode: int) -> Reply:
        return self.request(OpCode.ADD_WATCH, r.AddWatchRequest(path, mode))

    def check_watches(self, path: str | None, kind: int) -> Reply:
        return self.request(OpCode.CHECK_WATCHES, r.CheckWatchesRequest(path, kind))

    def remove_watches(self, path: str | None, kind: int) -> Reply:
        return self.request(OpCode.REMOVE_WATCHES, r.RemoveWatchesRequest(path, kind))

    def close_session(self) -> Reply:
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
