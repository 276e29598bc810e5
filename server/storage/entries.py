"""The entries of a log. Each is encoded when its transaction happens (files.md section 3).

An entry is encoded while a client waits. So there are fast packers for the most frequent entries: a setData,
and the create of a znode with the open ACL. A packer is one :class:`struct.Struct` for one length of the path
and one length of the data. The packer is kept for the next entry with the same lengths. It takes half the
time of packing and joining the fields. All other entries are encoded by the records of
:mod:`pyzk.protocol.files.txnlog`.

Only the first four bytes of a request are used, which are its xid.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, get_args

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
    Check,
    CloseSession,
    Create,
    CreateSession,
    Delete,
    Effect,
    Multi,
    Refused,
    Replace,
    SetACL,
    SetData,
)
from ..core.znode import CONTAINER_OWNER, MAX_TTL, is_session

_HEADER: Final = struct.Struct(">q4sqqi").pack
"""Packs a TxnHeader: the session, the xid of the request, the zxid, the time in ms, the type. The format
``4s`` uses the first four bytes of a request, which are the xid."""
COUNTED: Final = struct.Struct(">q4sq8s4si").pack
"""Packs a TxnHeader with an encoded time and an encoded type, and then a number. The number is the length of
the path of a delete, or the number of effects of a multi."""
_INT: Final = struct.Struct(">i").pack
_TWO_INTS: Final = struct.Struct(">ii").pack
OPEN, OPEN_EPHEMERAL = (CreateTxn("", None, OPEN_ACL, flag, 0).encode()[8:-4] for flag in (False, True))
"""The open ACL with the flag of a znode that is no ephemeral, and with the flag of an ephemeral. Both are
encoded."""
_KEPT: Final = 4096
"""The largest number of kept packers. When this number is reached, all packers are deleted."""
_LONGEST: Final = 4096
"""The length in bytes of the longest path and data with a kept packer. For longer data, copying takes more
time than packing."""
(
    _CREATE,
    _DELETE,
    _SET_DATA,
    _SET_ACL,
    _CHECK,
    _MULTI,
    _CONTAINER,
    _TTL,
    _REAP,
    _ERROR,
    _OPEN_SESSION,
    _CLOSE,
) = (
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
DELETE: Final = _INT(_DELETE)
MULTI: Final = _INT(_MULTI)


Packer: TypeAlias = tuple[Callable[..., bytes], bytes, bytes, int]
"""Four values: a packer; the bytes before the path, which end with the length of the path; the encoded length
of the data; the length in bytes of the whole entry."""


class Packers:
    """The packers for one format of entries.

    :param form: the format of the entries, with placeholders for the length of the path and the length of the
        data.
    :param head: a function that takes the length of the path and the length of the data, and returns the
        bytes before the length of the path.
    :ivar by_length: the kept packers, as ``by_length[length of the path][length of the data]``.
    """

    def __init__(self, form: str, head: Callable[[int, int], bytes]) -> None:
        self.by_length: dict[int, dict[int, Packer]] = {}
        self._form = form
        self._head = head
        self._count = 0

    def make(self, path: int, data: bytes | None) -> tuple[Packer, bytes]:
        """Make a missing packer.

        :returns: the packer, and the data that it packs: empty bytes for null, which has the length -1.
        """
        packed = data or b""
        size = -1 if data is None else len(data)
        whole = struct.Struct(self._form.format(path, len(packed)))
        made = whole.pack, self._head(path, len(packed)) + _INT(path), _INT(size), whole.size
        if max(path, size) <= _LONGEST and data is not None:
            if self._count >= _KEPT:
                self.by_length.clear()
                self._count = 0
            self._count += 1
            self.by_length.setdefault(path, {})[size] = made
        return made, packed


SETS: Final = Packers(">q4sq8s8s{}s4s{}si", lambda path, data: _INT(_SET_DATA))
"""Packs the session, the xid, the zxid, the encoded time, the head, the path, the length of the data, the
data and the version."""
CREATES: Final = Packers(f">q4sq8s8s{{}}s4s{{}}s{len(OPEN)}si", lambda path, data: _INT(_CREATE))
"""Packs the same fields without the version. In its place are :data:`OPEN` and the number of all children
that the parent has had."""
PART_SETS: Final = Packers(">12s{}s4s{}si", lambda path, data: _TWO_INTS(_SET_DATA, 12 + path + data))
"""Packs the head, the path, the length of the data, the data and the version."""


def of_write(
    session: int, frame: bytes, zxid: int, time: int, change: tuple[type[Effect], Any, int]
) -> bytes:
    """Encode any write of a client.

    :param change: the kind and the fields of the effect, and a number: for a create the number of all
        children that the parent has had.
    """
    kind, fields, number = change
    type_, record = _RECORDS[kind](fields, number)
    return _HEADER(session, frame, zxid, time, type_) + record


def of_part(kind: type[Effect], fields: Any, number: int) -> bytes:
    """Encode one effect of a multi.

    :param number: for a create the number of all children that the parent has had, with the new child; for a
        check the version of the znode.
    """
    type_, record = _RECORDS[kind](fields, number)
    return _TWO_INTS(type_, len(record)) + record


def of_other(session: int, frame: bytes, zxid: int, time: int, effect: AnyEffect) -> bytes:
    """Encode any transaction that is not a successful write of a client."""
    type_, record = _OTHERS[type(effect)](effect)
    return _HEADER(session, frame, zxid, time, type_) + record


def _set_data(fields: Any, number: int) -> tuple[int, bytes]:
    path, data, version = fields
    size = -1 if data is None else len(data)
    return _SET_DATA, b"".join((_text(path), _INT(size), data or b"", _INT(version)))


def _create(fields: Any, number: int) -> tuple[int, bytes]:
    path, _, data, acl, owner = fields
    if not owner or is_session(owner):  # the session of the header owns an ephemeral
        return _CREATE, CreateTxn(path, data, acl, owner != 0, number).encode()
    if owner == CONTAINER_OWNER:
        return _CONTAINER, CreateContainerTxn(path, data, acl, number).encode()
    return _TTL, CreateTTLTxn(path, data, acl, number, owner & MAX_TTL).encode()


def _text(text: str) -> bytes:
    encoded = text.encode()
    return _INT(len(encoded)) + encoded


_RECORDS: Final[Mapping[type[Effect], Callable[[Any, int], tuple[int, bytes]]]] = {
    Create: _create,
    Delete: lambda fields, number: (_DELETE, _text(fields[0])),
    SetData: _set_data,
    SetACL: lambda fields, number: (_SET_ACL, SetACLTxn(*fields).encode()),
    Check: lambda fields, number: (_CHECK, _text(fields[0]) + _INT(number)),
}
"""The function for each kind of effect. A function takes the fields and a number (see :func:`of_part`), and
returns the type and the record of the entry."""
_OTHERS: Final[Mapping[type[AnyEffect], Callable[[Any], tuple[int, bytes]]]] = {
    Refused: lambda effect: (_ERROR, _INT(effect.err)),
    CreateSession: lambda effect: (_OPEN_SESSION, CreateSessionTxn(effect.timeout).encode()),
    CloseSession: lambda effect: (_CLOSE, CloseSessionTxn(effect.paths).encode()),
    Delete: lambda effect: (_REAP, _text(effect.path)),  # a client's is a write
}
"""The function for each kind of other transactions."""
_ELSEWHERE: Final = {Multi, Replace}
"""The kinds of effects that are not encoded here: a multi, whose effects are encoded one by one, and a
replacement, which no entry can express."""

# An effect that is forgotten here would change the tree, and be lost
if _forgotten := {*get_args(AnyEffect)} ^ {*_RECORDS, *_OTHERS, *_ELSEWHERE}:
    raise TypeError(f"the log has no entry for {', '.join(sorted(each.__name__ for each in _forgotten))}")
