"""What clients can ask for: the table of contents of the server (wire.md section 8).

Each operation is a function ``(engine, client, request)`` that returns the body of the reply, already
encoded, or raises the error that is the reply. The request is a tuple of what its record declares, in that
order: no object is made of it. Those without a record of their own get the whole frame. What may take long is
done in steps (:mod:`.long`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....protocol import records
from ....protocol.constants import OpCode
from ....protocol.jute import Record, fields_reader
from ..memory import reserve
from . import multi, reads, watching, writes
from .growth import grows
from .long import Steps, Unfinished
from .multi import RefusedRead

__all__ = [
    "KNOWN",
    "OPERATIONS",
    "WRITES",
    "RefusedRead",
    "Steps",
    "Unfinished",
    "UnknownOperation",
    "look_up",
]

_Reader = Callable[[bytes, int], Any]
_Method = Callable[[Any, Any, Any], bytes]
Operation = tuple[_Reader | None, _Method, bool]
"""What reads the request, what does it, whether it takes a zxid."""

_TABLE: dict[OpCode, tuple[type[Record] | None, _Method, bool]] = {
    # the request's record, what does it, whether it takes a zxid
    OpCode.CREATE: (records.CreateRequest, writes.create, True),
    OpCode.CREATE2: (records.CreateRequest, writes.create2, True),
    OpCode.CREATE_CONTAINER: (records.CreateRequest, writes.create_container, True),
    OpCode.CREATE_TTL: (records.CreateTTLRequest, writes.create_ttl, True),
    OpCode.DELETE: (records.DeleteRequest, writes.delete, True),
    OpCode.SET_DATA: (records.SetDataRequest, writes.set_data, True),
    OpCode.SET_ACL: (records.SetACLRequest, writes.set_acl, True),
    OpCode.RECONFIG: (records.ReconfigRequest, writes.reconfig, True),
    OpCode.CLOSE_SESSION: (None, writes.close_session, True),
    OpCode.MULTI: (None, multi.multi, True),
    OpCode.MULTI_READ: (None, multi.multi_read, False),
    OpCode.EXISTS: (records.ExistsRequest, reads.exists, False),
    OpCode.GET_DATA: (records.GetDataRequest, reads.get_data, False),
    OpCode.GET_CHILDREN: (records.GetChildrenRequest, reads.get_children, False),
    OpCode.GET_CHILDREN2: (records.GetChildren2Request, reads.get_children2, False),
    OpCode.GET_ALL_CHILDREN_NUMBER: (
        records.GetAllChildrenNumberRequest,
        reads.get_all_children_number,
        False,
    ),
    OpCode.GET_EPHEMERALS: (records.GetEphemeralsRequest, reads.get_ephemerals, False),
    OpCode.GET_ACL: (records.GetACLRequest, reads.get_acl, False),
    OpCode.SYNC: (records.SyncRequest, reads.sync, False),
    OpCode.PING: (None, reads.ping, False),
    OpCode.WHO_AM_I: (None, reads.who_am_i, False),
    OpCode.ADD_WATCH: (records.AddWatchRequest, watching.add_watch, False),
    OpCode.CHECK_WATCHES: (records.CheckWatchesRequest, watching.check_watches, False),
    OpCode.REMOVE_WATCHES: (records.RemoveWatchesRequest, watching.remove_watches, False),
    OpCode.SET_WATCHES: (records.SetWatches, watching.set_watches, False),
    OpCode.SET_WATCHES2: (records.SetWatches2, watching.set_watches2, False),
}

_BY_CODE = {op.value: entry for op, entry in _TABLE.items()}
KNOWN = frozenset(_BY_CODE)
WRITES = frozenset(op for op, (_, _, takes_zxid) in _BY_CODE.items() if takes_zxid)


OPERATIONS: dict[int, Operation] = {}
"""By op code, those that were asked for already: others are entered by :func:`look_up`. Auth and sasl are the
connection's own affair. Empty while memory is short: then each request passes :func:`look_up`."""
reserve.when_short(OPERATIONS.clear)
_READERS: dict[int, _Reader | None] = {}  # compiled already


class UnknownOperation(Exception):
    """The op code is not one that clients may send: answered with -6, then the connection closes."""


def look_up(op: int) -> Operation:
    """Enter an operation in :data:`OPERATIONS`, its request's reader compiled.

    :raises UnknownOperation: there is none.
    """
    try:
        cls, method, takes_zxid = _BY_CODE[op]
    except KeyError:
        raise UnknownOperation from None
    if op not in _READERS:
        _READERS[op] = fields_reader(cls) if cls else None
    read = _READERS[op]
    if reserve.short:
        return _reader_while_short(op, read), method, takes_zxid
    OPERATIONS[op] = read, method, takes_zxid
    return OPERATIONS[op]


def _reader_while_short(op: int, read: _Reader | None) -> _Reader:
    """Make a reader that raises :class:`MemoryError` for a request that makes the server grow."""

    def read_unless_growing(frame: bytes, pos: int) -> Any:
        if grows(op, frame) and reserve.is_still_short():
            raise MemoryError("memory is short")
        return read(frame, pos) if read is not None else frame

    return read_unless_growing
