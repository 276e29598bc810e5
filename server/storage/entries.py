"""The entries of a log, encoded one by one where their transactions happen (files.md section 3).

An entry is encoded while a client waits, so the most frequent ones, a setData, and the create and delete of a
znode that is open to everybody, take one :class:`struct.Struct` each: of the lengths of the path and of the
data, kept for the next entry of these lengths. That costs half of what packing and joining the fields
costs. All others are encoded by the records of :mod:`pyzk.protocol.files.txnlog`.

Of a request only its first bytes are used, the number that the client has given it: behind them may be
anything that a decoder overlooks.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

from ...protocol.files.txnlog import (
    CloseSessionTxn,
    CreateContainerTxn,
    CreateSessionTxn,
    CreateTTLTxn,
    CreateTxn,
    SetACLTxn,
)
from ...protocol.operations import OpCode
from ...protocol.records import OPEN_ACL
from ..core.txn import (
    AnyEffect,
    Applied,
    Check,
    CloseSession,
    Create,
    CreateSession,
    Delete,
    Effect,
    Refused,
    SetACL,
    SetData,
)
from ..core.znode import CONTAINER_OWNER, MAX_TTL

HEADER: Final = "q4sqqi"
"""A TxnHeader: the session, the number of the request, zxid, time in ms, type. ``4s`` takes the first four
bytes of a request."""
_HEADER: Final = struct.Struct(f">{HEADER}").pack
_INT: Final = struct.Struct(">i").pack
_TWO_INTS: Final = struct.Struct(">ii").pack
OPEN: Final = CreateTxn("", None, OPEN_ACL, False, 0).encode()[8:-4]
"""The ACL that is open to everybody, and that the znode is no ephemeral."""
_KEPT: Final = 4096
"""So many pairs of lengths are kept; then all are forgotten."""
_LONGEST: Final = 4096
"""Bytes of a path or of data up to which their length is kept: copying costs more behind that."""
CREATE, DELETE, SET_DATA, _SET_ACL, _CHECK, _MULTI, _CONTAINER, _TTL, _REAP, _ERROR, _OPEN_SESSION, _CLOSE = (
    op.value
    for op in (
        OpCode.CREATE,
        OpCode.DELETE,
        OpCode.SET_DATA,
        OpCode.SET_ACL,
        OpCode.CHECK,
        OpCode.MULTI,
        OpCode.CREATE_CONTAINER,
        OpCode.CREATE_TTL,
        OpCode.DELETE_CONTAINER,
        OpCode.ERROR,
        OpCode.CREATE_SESSION,
        OpCode.CLOSE_SESSION,
    )
)


class Packers:
    """The packers of one form of entry, by the lengths of the path and of the data.

    :ivar of: those that are there.
    :param form: their format, with places for both lengths.
    """

    def __init__(self, form: str) -> None:
        self._form = form
        self._count = 0
        self.of: dict[int, dict[int, Callable[..., bytes]]] = {}

    def make(self, path: int, data: int) -> Callable[..., bytes]:
        """Make one that is not there yet."""
        pack = struct.Struct(self._form.format(path, data)).pack
        if max(path, data) <= _LONGEST:
            if self._count >= _KEPT:
                self.of.clear()
                self._count = 0
            self._count += 1
            self.of.setdefault(path, {})[data] = pack
        return pack


SETS: Final = Packers(f">{HEADER}i{{}}si{{}}si")
CREATES: Final = Packers(f">{HEADER}i{{}}si{{}}s{len(OPEN)}si")
_PARTS: Final = Packers(">iii{}si{}si")


def of_write(
    session: int, frame: bytes, zxid: int, time: int, change: tuple[type[Effect], Any, int]
) -> bytes:
    """Encode any write of a client.

    :param change: kind and fields of its effect, and for a create how many children the parent has ever had.
    """
    type_, record = _record(*change)
    return _HEADER(session, frame, zxid, time, type_) + record


def of_multi(session: int, frame: bytes, zxid: int, time: int, changes: Sequence[Applied]) -> bytes:
    """Encode the effects of a multi."""
    parts_of = _PARTS.of
    parts = [_HEADER(session, frame, zxid, time, _MULTI), _INT(len(changes))]
    for kind, fields, at, _, created in changes:
        if kind is SetData and fields[1] is not None:
            path, data, version = fields
            name = path.encode()
            size, length = len(name), len(data)
            try:
                pack = parts_of[size][length]
            except KeyError:
                pack = _PARTS.make(size, length)
            parts.append(pack(SET_DATA, 12 + size + length, size, name, length, data, version))
        else:
            type_, record = _record(kind, fields, at.version if kind is Check else created)
            parts += (_TWO_INTS(type_, len(record)), record)
    return b"".join(parts)


def of_other(session: int, frame: bytes, zxid: int, time: int, effect: AnyEffect) -> bytes:
    """Encode what is no write of a client that has succeeded."""
    if isinstance(effect, Refused):
        type_, record = _ERROR, _INT(effect.err)
    elif isinstance(effect, CreateSession):
        type_, record = _OPEN_SESSION, CreateSessionTxn(effect.timeout).encode()
    elif isinstance(effect, CloseSession):
        type_, record = _CLOSE, CloseSessionTxn(effect.paths).encode()
    else:
        assert isinstance(effect, Delete), effect
        name = effect.path.encode()
        type_, record = _REAP, _INT(len(name)) + name
    return _HEADER(session, frame, zxid, time, type_) + record


def _record(kind: type[Effect], fields: Any, number: int) -> tuple[int, bytes]:
    """Return type and record of an effect.

    :param number: for a create how many children the parent has ever had, with this one; for a check the
        version that was found.
    """
    if kind is SetData:
        path, data, version = fields
        name = path.encode()
        size = -1 if data is None else len(data)
        return SET_DATA, b"".join((_INT(len(name)), name, _INT(size), data or b"", _INT(version)))
    if kind is Create:
        path, _, data, acl, owner = fields
        if owner >= 0:  # the session of the header owns an ephemeral
            return CREATE, CreateTxn(path, data, acl, owner > 0, number).encode()
        if owner == CONTAINER_OWNER:
            return _CONTAINER, CreateContainerTxn(path, data, acl, number).encode()
        return _TTL, CreateTTLTxn(path, data, acl, number, owner & MAX_TTL).encode()
    if kind is SetACL:
        return _SET_ACL, SetACLTxn(*fields).encode()
    name = fields[0].encode()
    if kind is Delete:
        return DELETE, _INT(len(name)) + name
    assert kind is Check
    return _CHECK, b"".join((_INT(len(name)), name, _INT(number)))
