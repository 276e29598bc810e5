"""The log: an entry for each transaction, in the order of their zxids (files.md section 3).

* Each zxid has an entry, also of a write that failed: a client that has seen it must not be refused after a
  restart. Zxids that nobody has entered get an entry without an effect.
* Entries are kept until :meth:`Journal.write`, which is called before any output leaves. Only then they are
  encoded, all at once: that costs a third less than one by one. Then the kernel has them: they outlive this
  process, and not a power cut.
* A failed write ends the server: what was not written must not be answered.
"""

from __future__ import annotations

import os
import struct
from collections import deque
from typing import Any, Final, TypeAlias
from zlib import adler32

from ...protocol.files.digest import VERSION, signed
from ...protocol.files.txnlog import (
    FILE_HEADER,
    CreateContainerTxn,
    CreateTTLTxn,
    CreateTxn,
    SetACLTxn,
)
from ...protocol.operations import OpCode
from ...protocol.records import OPEN_ACL
from ..core.txn import Check, Create, Delete, Effect, SetACL, SetData
from ..core.znode import CONTAINER_OWNER, MAX_TTL, is_session
from .directory import DataDirectory

_END_AND_FRAME: Final = struct.Struct(">sqi").pack
_HEADER: Final = struct.Struct(">qiqqi").pack
_HEADER_AND_INT: Final = struct.Struct(">qiqqii").pack
_DIGEST: Final = struct.Struct(">iq").pack
_INT: Final = struct.Struct(">i").pack
_TWO_INTS: Final = struct.Struct(">ii").pack
_END: Final = b"B"
_OPEN_PERSISTENT: Final = CreateTxn("", None, OPEN_ACL, False, 0).encode()[8:-4]
"""The ACL that is open to everybody, and that the znode is no ephemeral."""
_LISTED, _LIST = 128, 1024
"""Of each zxid that is a multiple of the first, the digest is listed; so many are."""
_SYSTEM_ERROR: Final = -1
_CREATE, _DELETE, _SET_DATA, _SET_ACL, _CHECK, _MULTI, _CONTAINER, _TTL, _ERROR = (
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
        OpCode.ERROR,
    )
)

Change: TypeAlias = tuple[type[Effect], Any, int]
"""An effect, given as its kind and its fields, and a number: for a create how many children the parent has
ever had, with this one; for a check the version that was found."""
Waiting: TypeAlias = tuple[Any, Any, int, int, int, int | None, int]
"""An entry that is not encoded yet: a change, zxid, time (ms since the epoch), the digest of the tree after
it or None, and the session that asked for it. Instead of the kind there may be ``list``, for a multi, with
its changes; or None, then the fields are type and record."""


class JournalFailed(BaseException):
    """The log cannot be written. Like a :class:`SystemExit` it passes all who go on after an error of one
    client: nothing may be answered any more."""


class Journal:
    """
    :param last: the zxid of the last transaction that files hold already.
    :ivar waiting: entries to be written; whoever has a transaction appends it.
    :ivar last: the zxid of the last entry that is written.
    :ivar digests: zxids and the digests of the tree after them, as ``hash`` lists them; the oldest first.
    :ivar count: the entries since the last snapshot was begun.
    :ivar size: their bytes.
    """

    def __init__(self, directory: DataDirectory, last: int) -> None:
        self._directory = directory
        self._fd: int | None = None
        self.waiting: list[Waiting] = []
        self.last = last
        self.digests: deque[tuple[int, int]] = deque(maxlen=_LIST)
        self.count = 0
        self.size = 0

    def write(self, zxid: int, time: int) -> None:
        """Write the entries that wait.

        :param zxid: the last zxid that was used. It has an entry then, and so has each before it.
        :param time: of those that nobody has entered, in ms since the epoch.
        :raises JournalFailed: that is impossible.
        """
        if zxid == self.last:
            return
        first = self.last + 1
        waiting = self.waiting
        if len(waiting) != zxid - self.last:
            self._fill(zxid, time)
        pieces: list[bytes] = []
        for kind, fields, number, at, when, digest, session in waiting:
            # The most frequent entries are encoded right here: a call less is 5 % of a write
            if kind is SetData and fields[1] is not None:
                path, data, version = fields
                name = path.encode()
                head = _HEADER_AND_INT(session, 0, at, when, _SET_DATA, len(name))
                payload = b"".join((head, name, _INT(len(data)), data, _INT(version)))
            elif kind is Delete:
                name = fields[0].encode()
                payload = _HEADER_AND_INT(session, 0, at, when, _DELETE, len(name)) + name
            elif kind is Create and fields[3] is OPEN_ACL and fields[4] == 0 and fields[2] is not None:
                path, _, data, _, _ = fields
                name = path.encode()
                head = _HEADER_AND_INT(session, 0, at, when, _CREATE, len(name))
                payload = b"".join((head, name, _INT(len(data)), data, _OPEN_PERSISTENT, _INT(number)))
            elif kind is list:
                payload = _multi(fields, at, when, session)
            elif kind is None:
                type_, record = fields
                payload = _HEADER(session, 0, at, when, type_) + record
            else:
                owner, type_, record = encode(kind, fields, number)
                payload = _HEADER(owner or session, 0, at, when, type_) + record
            if digest is not None:
                payload += _DIGEST(VERSION, signed(digest))
                if at % _LISTED == 0:
                    self.digests.append((at, digest))
            pieces.append(_END_AND_FRAME(_END, adler32(payload), len(payload)))
            pieces.append(payload)
        pieces.append(_END)
        self.last = zxid
        self.count += len(waiting)
        waiting.clear()
        self._write(b"".join(pieces)[1:], first)  # without the end of an entry before the first

    def _fill(self, zxid: int, time: int) -> None:
        """Enter the zxids up to this one that nobody has entered."""
        known = {entry[3] for entry in self.waiting}
        missing = (at for at in range(self.last + 1, zxid + 1) if at not in known)
        self.waiting += [failure(0, _SYSTEM_ERROR, at, time) for at in missing]
        self.waiting.sort(key=lambda entry: entry[3])

    def _write(self, data: bytes, first: int) -> None:
        try:
            if self._fd is None:
                self._fd = self._directory.create_log(first)
                data = FILE_HEADER + data
            self.size += len(data)
            written = os.write(self._fd, data)
            while written < len(data):
                data = data[written:]
                written = os.write(self._fd, data)
        except OSError as error:
            raise JournalFailed(
                f"cannot write the log in {self._directory}: {error.strerror}; nothing more is answered, "
                "as it would be lost. Make room, and start again"
            ) from None

    def close(self) -> None:
        """Close the file; the next entries begin a new one."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
        self.count = self.size = 0


def failure(session: int, err: int, zxid: int, time: int, digest: int | None = None) -> Waiting:
    """Make the entry of a write that failed."""
    return None, (_ERROR, _INT(err)), 0, zxid, time, digest, session


def encode(kind: type[Effect], fields: Any, number: int) -> tuple[int, int, bytes]:
    """Encode a :data:`Change`.

    :returns: the session that owns the znode, 0 if none does; the type, and the record.
    """
    if kind is SetData:
        path, data, version = fields
        name = path.encode()
        size = -1 if data is None else len(data)
        return 0, _SET_DATA, b"".join((_INT(len(name)), name, _INT(size), data or b"", _INT(version)))
    if kind is Create:
        path, _, data, acl, owner = fields
        if not owner or is_session(owner):  # the session of the header owns an ephemeral
            return owner, _CREATE, CreateTxn(path, data, acl, owner != 0, number).encode()
        if owner == CONTAINER_OWNER:
            return 0, _CONTAINER, CreateContainerTxn(path, data, acl, number).encode()
        return 0, _TTL, CreateTTLTxn(path, data, acl, number, owner & MAX_TTL).encode()
    if kind is SetACL:
        return 0, _SET_ACL, SetACLTxn(*fields).encode()
    name = fields[0].encode()
    if kind is Delete:
        return 0, _DELETE, _INT(len(name)) + name
    assert kind is Check
    return 0, _CHECK, b"".join((_INT(len(name)), name, _INT(number)))


def _multi(changes: list[Change], zxid: int, time: int, session: int) -> bytes:
    parts = [_INT(len(changes))]
    for kind, fields, number in changes:
        owner, type_, record = encode(kind, fields, number)
        session = owner or session  # all ephemerals of a multi belong to one session
        parts += (_TWO_INTS(type_, len(record)), record)
    return _HEADER(session, 0, zxid, time, _MULTI) + b"".join(parts)
