"""Transaction logs: one entry for each zxid, with its own checksum (files.md section 3).

The writer of a log may have been killed at any byte, so a reader must judge the end of the log:

* After the last whole entry there is nothing, or there are zeros, because a server fills a new log with zeros
  in advance.
* A *torn* entry was never complete: the end of the file or zeros cut off the entry. No client got an answer
  for a torn entry, so a torn entry is ignored.
* An entry with any other fault is damage. A torn entry before a whole entry is damage too.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import IO, Any, Final, TypeAlias
from zlib import adler32

import attrs

from ..jute import Boolean, Buffer, Int, JuteError, Long, Record, Text, Vector, record
from ..operations import OpCode
from ..records import AclVector
from .digest import VERSION, signed
from .streams import FileError, Input, uncompressed

HEADER: Final = struct.Struct(">4siq")
MAGIC: Final = b"ZKLG"
FILE_HEADER: Final = HEADER.pack(MAGIC, 2, 0)
"""The first bytes of a log."""

_FRAME: Final = struct.Struct(">qi")
_END: Final = b"B"
_TXN: Final = struct.Struct(">qiqqi")
_DIGEST: Final = struct.Struct(">iq")
_LEAST: Final = _TXN.size
"""The size in bytes of the smallest payload, which is only a header."""


# --- the records -----------------------------------------------------------------------------------------


@record
class CreateTxn(Record):
    """The creation of a persistent or ephemeral znode.

    :ivar parentCVersion: the number of children that were ever created below the parent, including this
        znode.
    """

    path: Text
    data: Buffer
    acl: AclVector
    ephemeral: Boolean
    parentCVersion: Int


@record
class CreateContainerTxn(Record):
    path: Text
    data: Buffer
    acl: AclVector
    parentCVersion: Int


@record
class CreateTTLTxn(Record):
    """The creation of a TTL znode.

    :ivar ttl: the TTL in ms.
    """

    path: Text
    data: Buffer
    acl: AclVector
    parentCVersion: Int
    ttl: Long


@record
class DeleteTxn(Record):
    path: Text


@record
class SetDataTxn(Record):
    """A change of data.

    :ivar version: the new version.
    """

    path: Text
    data: Buffer
    version: Int


@record
class SetACLTxn(Record):
    """A change of an ACL.

    :ivar version: the new aversion.
    """

    path: Text
    acl: AclVector
    version: Int


@record
class CheckTxn(Record):
    path: Text
    version: Int


@record
class CreateSessionTxn(Record):
    """The beginning of a session.

    :ivar timeOut: the timeout of the session in ms.
    """

    timeOut: Int


@record
class CloseSessionTxn(Record):
    """The end of a session.

    :ivar paths: the paths of the session's ephemerals; None if the log does not list them.
    """

    paths: Vector[Text]


@record
class ErrorTxn(Record):
    err: Int


@attrs.define
class MultiTxn:
    """A multi.

    :ivar parts: the operations of the multi, each with the type of the operation.
    """

    parts: list[tuple[int, Any]]


AnyTxn: TypeAlias = (
    CreateTxn
    | CreateContainerTxn
    | CreateTTLTxn
    | DeleteTxn
    | SetDataTxn
    | SetACLTxn
    | CheckTxn
    | CreateSessionTxn
    | CloseSessionTxn
    | ErrorTxn
    | MultiTxn
)

_MULTI, _CLOSE = OpCode.MULTI.value, OpCode.CLOSE_SESSION.value
_RECORDS: Final[dict[int, type[Record]]] = {
    OpCode.CREATE.value: CreateTxn,
    OpCode.CREATE2.value: CreateTxn,
    OpCode.CREATE_TTL.value: CreateTTLTxn,
    OpCode.CREATE_CONTAINER.value: CreateContainerTxn,
    OpCode.DELETE.value: DeleteTxn,
    OpCode.DELETE_CONTAINER.value: DeleteTxn,
    OpCode.SET_DATA.value: SetDataTxn,
    OpCode.RECONFIG.value: SetDataTxn,
    OpCode.SET_ACL.value: SetACLTxn,
    OpCode.CHECK.value: CheckTxn,
    OpCode.CREATE_SESSION.value: CreateSessionTxn,
    OpCode.CLOSE_SESSION.value: CloseSessionTxn,
    OpCode.ERROR.value: ErrorTxn,
}


@attrs.define
class Entry:
    """One transaction of a log.

    :ivar offset: the position of the entry's first byte in the log.
    :ivar session: the id of the session that sent the request.
    :ivar cxid: the number (xid) of the request, which the client has chosen.
    :ivar time: the time of the transaction, in ms since the epoch.
    :ivar type: an op code.
    :ivar digest: the digest of the tree after this transaction, as an unsigned number; None if the log does
        not hold it.
    """

    offset: int
    session: int
    cxid: int
    zxid: int
    time: int
    type: int
    txn: AnyTxn
    digest: int | None


# --- reading ---------------------------------------------------------------------------------------------


class LogReader:
    """Reads a log. Iterate over :meth:`entries` to the end.

    :ivar torn: the position of the torn entry at the end; None if no entry is torn.
    :ivar offset: the number of bytes that were read.
    :raises FileError: the file is not a log.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._input = Input(uncompressed(file))
        self.torn: int | None = None
        self._empty = not self._input.has(HEADER.size)
        if self._empty:
            data = self._input.data
            if not (data + FILE_HEADER[len(data) :]).startswith(MAGIC):
                raise FileError(0, "it is not a log: it is too short")
            self.torn = 0 if data else None
            return
        magic, _, _ = HEADER.unpack(self._input.take(HEADER.size))
        begun = MAGIC.startswith(magic.rstrip(b"\0"))
        if magic != MAGIC and begun and not self._more():  # the file was made longer, but nothing was written
            self._empty, self.torn = True, 0
        elif magic != MAGIC:
            raise FileError(0, f"it is not a log: it begins with {magic!r}")

    @property
    def offset(self) -> int:
        return self._input.offset

    def entries(self) -> Iterator[Entry]:
        """Yield the entries up to the end, or up to a torn entry.

        :raises FileError: the log is damaged.
        """
        source = self._input
        while not self._empty and source.has(_FRAME.size):
            offset = source.offset
            found, size = _FRAME.unpack_from(source.data, source.pos)
            if size == 0 and found == 0:
                if self._more():
                    raise FileError(offset, "zeros, and after them other bytes")
                return
            if size < _LEAST or not source.has(_FRAME.size + size + 1):
                self._tear(offset)
                return
            start = source.pos + _FRAME.size
            payload = source.data[start : start + size]
            end = source.data[start + size : start + size + 1]
            if end != _END or adler32(payload) != found:
                if end == b"\0":
                    self._tear(offset)
                    return
                raise FileError(offset, "the checksum or the end mark of an entry is wrong")
            source.pos = start + size + 1
            try:
                yield decode(payload, offset)
            except (JuteError, struct.error) as error:
                raise FileError(offset, f"an entry cannot be read: {error}") from None
        offset = source.offset
        if self._more():
            self.torn = offset

    def _more(self) -> bool:
        """Return whether the rest of the stream has a byte other than zero."""
        source = self._input
        while source.has(1):
            piece = source.data[source.pos :]
            if piece.strip(b"\0"):
                return True
            source.pos = len(source.data)
        return False

    def _tear(self, offset: int) -> None:
        """Note a torn entry.

        :raises FileError: whole entries follow, so the log does not end here.
        """
        source = self._input
        rest = bytearray()
        zeros = 0  # zeros at the end of the bytes read so far; there may be 64 MiB
        while source.has(1):
            piece = source.data[source.pos :]
            source.pos = len(source.data)
            text = piece.rstrip(b"\0")
            if text:
                rest += bytes(zeros) + text
                zeros = 0
            zeros += len(piece) - len(text)
        if _holds_entry(bytes(rest[1:])):
            raise FileError(offset, "an entry is damaged, and whole entries follow")
        if rest.endswith(_END) and adler32(rest[_FRAME.size : -1]) == int.from_bytes(rest[:8]):
            raise FileError(offset + 8, "the length of an entry is wrong")
        self.torn = offset


def _holds_entry(data: bytes) -> bool:
    """Return whether a whole entry begins anywhere in the data."""
    at = data.find(b"\0\0\0\0")  # an Adler32 has 32 bits, and is stored as a long
    while at >= 0 and at + _FRAME.size < len(data):
        found, size = _FRAME.unpack_from(data, at)
        end = at + _FRAME.size + size
        likely = 0 < found < 2**32 and size >= _LEAST and data[end : end + 1] == _END
        if likely and adler32(data[at + _FRAME.size : end]) == found:
            return True
        at = data.find(b"\0\0\0\0", at + 1)
    return False


def decode(payload: bytes, offset: int = 0) -> Entry:
    """Decode an entry without its frame.

    :raises JuteError: the payload is not an entry.
    :raises struct.error: the payload is too short.
    """
    session, cxid, zxid, time, type_ = _TXN.unpack_from(payload)
    txn, end = _read_txn(type_, payload, _TXN.size)
    digest = None
    if len(payload) - end >= _DIGEST.size:
        version, value = _DIGEST.unpack_from(payload, end)
        if version == VERSION:
            digest = value % 2**64
    return Entry(offset, session, cxid, zxid, time, type_, txn, digest)


def _read_txn(type_: int, data: bytes, pos: int) -> tuple[AnyTxn, int]:
    if type_ == _MULTI:
        (count,) = struct.unpack_from(">i", data, pos)
        pos += 4
        parts = []
        for _ in range(count):
            kind, size = struct.unpack_from(">ii", data, pos)
            pos += 8
            if size < 0 or pos + size > len(data):
                raise JuteError("a part of a multi goes beyond its end")
            parts.append((kind, _read_txn(kind, data[pos : pos + size], 0)[0]))
            pos += size
        return MultiTxn(parts), pos
    if type_ == _CLOSE:
        return _read_close(data, pos)
    if type_ not in _RECORDS:
        raise JuteError(f"the type {type_} is unknown")
    txn: Any
    txn, pos = _RECORDS[type_].read(data, pos)
    return txn, pos


def _read_close(data: bytes, pos: int) -> tuple[CloseSessionTxn, int]:
    """Read the entry of a closeSession. The record of the entry may be missing. A digest may follow the
    record or replace the missing record."""
    try:
        return CloseSessionTxn.read(data, pos)
    except JuteError:
        return CloseSessionTxn(None), pos


# --- writing ---------------------------------------------------------------------------------------------


def encode(entry: Entry) -> bytes:
    """Encode an entry with its frame."""
    head = _TXN.pack(entry.session, entry.cxid, entry.zxid, entry.time, entry.type)
    payload = head + _encode_txn(entry.txn)
    if entry.digest is not None:
        payload += _DIGEST.pack(VERSION, signed(entry.digest))
    return _FRAME.pack(adler32(payload), len(payload)) + payload + _END


def _encode_txn(txn: AnyTxn) -> bytes:
    if not isinstance(txn, MultiTxn):
        return txn.encode()
    parts = [struct.pack(">i", len(txn.parts))]
    for kind, part in txn.parts:
        record = _encode_txn(part)
        parts += (struct.pack(">ii", kind, len(record)), record)
    return b"".join(parts)
