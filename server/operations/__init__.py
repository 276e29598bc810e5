"""What clients can ask for: the table of contents of the server (wire.md section 8).

Each operation is a function ``(engine, client, request)`` that returns the body of the reply, already
encoded, or raises the error that is the reply. Those without a record of their own get the whole frame.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...protocol import records
from ...protocol.constants import OpCode
from . import multi, reads, watching, writes
from .multi import RefusedRead

__all__ = ["OPERATIONS", "WRITES", "RefusedRead"]

_Reader = Callable[[bytes, int], tuple[Any, int]]
_Method = Callable[[Any, Any, Any], bytes]

_TABLE: dict[OpCode, tuple[_Reader | None, _Method, bool]] = {
    # how the request is read, what does it, whether it takes a zxid
    OpCode.CREATE: (records.CreateRequest.read, writes.create, True),
    OpCode.CREATE2: (records.CreateRequest.read, writes.create2, True),
    OpCode.CREATE_CONTAINER: (records.CreateRequest.read, writes.create_container, True),
    OpCode.CREATE_TTL: (records.CreateTTLRequest.read, writes.create_ttl, True),
    OpCode.DELETE: (records.DeleteRequest.read, writes.delete, True),
    OpCode.SET_DATA: (records.SetDataRequest.read, writes.set_data, True),
    OpCode.SET_ACL: (records.SetACLRequest.read, writes.set_acl, True),
    OpCode.RECONFIG: (records.ReconfigRequest.read, writes.reconfig, True),
    OpCode.CLOSE_SESSION: (None, writes.close_session, True),
    OpCode.MULTI: (None, multi.multi, True),
    OpCode.MULTI_READ: (None, multi.multi_read, False),
    OpCode.EXISTS: (records.ExistsRequest.read, reads.exists, False),
    OpCode.GET_DATA: (records.GetDataRequest.read, reads.get_data, False),
    OpCode.GET_CHILDREN: (records.GetChildrenRequest.read, reads.get_children, False),
    OpCode.GET_CHILDREN2: (records.GetChildren2Request.read, reads.get_children2, False),
    OpCode.GET_ALL_CHILDREN_NUMBER: (
        records.GetAllChildrenNumberRequest.read,
        reads.get_all_children_number,
        False,
    ),
    OpCode.GET_EPHEMERALS: (records.GetEphemeralsRequest.read, reads.get_ephemerals, False),
    OpCode.GET_ACL: (records.GetACLRequest.read, reads.get_acl, False),
    OpCode.SYNC: (records.SyncRequest.read, reads.sync, False),
    OpCode.PING: (None, reads.ping, False),
    OpCode.WHO_AM_I: (None, reads.who_am_i, False),
    OpCode.ADD_WATCH: (records.AddWatchRequest.read, watching.add_watch, False),
    OpCode.CHECK_WATCHES: (records.CheckWatchesRequest.read, watching.check_watches, False),
    OpCode.REMOVE_WATCHES: (records.RemoveWatchesRequest.read, watching.remove_watches, False),
    OpCode.SET_WATCHES: (records.SetWatches.read, watching.set_watches, False),
    OpCode.SET_WATCHES2: (records.SetWatches2.read, watching.set_watches2, False),
}

OPERATIONS = {op.value: entry for op, entry in _TABLE.items()}
"""By op code. What is not here is unknown to clients; auth and sasl are the connection's own affair."""
WRITES = frozenset(op for op, (_, _, takes_zxid) in OPERATIONS.items() if takes_zxid)
