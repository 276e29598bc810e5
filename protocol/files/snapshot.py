"""Snapshots: a whole tree and the sessions, with checksums (files.md section 2).

A reader gets the znodes one by one, parents before children. The reader learns only at the end whether the
checksums are right. A writer must encode the znodes first, because the access control lists come before the
znodes in the file.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import IO, Final, NamedTuple

from ..jute import JuteError, Record, record
from ..records import ACL, OPEN_ACL, AclVector
from .digest import VERSION, signed
from .streams import FileError, Input, uncompressed

STAT: Final = struct.Struct(">qqqqiiiqq")
"""The stored form of a Stat: czxid, mzxid, ctime, mtime, version, cversion (as the number of children that
were ever created), aversion, ephemeralOwner (with the marks of containers and TTL znodes), pzxid."""

_HEADER: Final = struct.Struct(">4siq")
_MAGIC: Final = b"ZKSN"
_VERSION, _DBID = 2, -1
_INT: Final = struct.Struct(">i")
_SESSION: Final = struct.Struct(">qi")
_KEY: Final = struct.Struct(">q")
_DIGEST: Final = struct.Struct(">qiq")
_SEAL: Final = struct.Struct(">qi1s")
_OPEN_KEY: Final = -1
"""The key of the ACL that is open to everybody. The map of ACLs does not contain this key."""
_LARGEST_ACL: Final = 2**24
"""The largest size in bytes of an access control list. The real limit is smaller: a client must send the list
in one packet, and a packet has at most 1 MiB by default."""


class ZxidDigest(NamedTuple):
    """The digest of a tree after a transaction.

    :ivar digest: the digest, as an unsigned number.
    """

    zxid: int
    digest: int


class Bounds(NamedTuple):
    """The largest sizes that a reader of a snapshot accepts. A reader refuses larger sizes before it reads
    the bytes.

    :ivar largest: the largest size in bytes of a path, and of the data of a znode.
    :ivar most: the largest size in bytes of the whole snapshot, uncompressed.
    """

    largest: float = math.inf
    most: float = math.inf

    @classmethod
    def of(cls, max_buffer: int, most: float = math.inf) -> Bounds:
        """Return the bounds that a real server uses.

        :param max_buffer: ``jute.maxbuffer`` in bytes.
        """
        return cls(2 * max_buffer, most)


UNBOUNDED: Final = Bounds()


class StoredNode(NamedTuple):
    """A znode of a snapshot.

    :ivar path: the path; ``""`` for the root.
    :ivar stat: the Stat in the form of :data:`STAT`.
    """

    path: str
    data: bytes | None
    acl: tuple[ACL, ...]
    stat: bytes


@record
class _Acl(Record):
    acl: AclVector


class SnapshotReader:
    """Reads a snapshot. The fields after the znodes are known after the iteration over :meth:`nodes` has
    reached its end.

    :param bounds: the largest accepted sizes.
    :ivar sessions: the timeouts of the sessions in ms, by session id.
    :ivar digest: the digest of the tree; None if the file has no digest.
    :ivar last_zxid: the last zxid of the tree; None if the file does not hold it.
    :ivar offset: the number of bytes that were read.
    :raises FileError: the file is not a snapshot, or its beginning is damaged.
    """

    def __init__(self, file: IO[bytes], bounds: Bounds = UNBOUNDED) -> None:
        self._input = Input(uncompressed(file), bounds.most)
        self._largest = bounds.largest
        self.digest: ZxidDigest | None = None
        self.last_zxid: int | None = None
        if not self._input.has(_HEADER.size):
            raise FileError(0, "it is not a snapshot: it is too short")
        magic, _, _ = _HEADER.unpack(self._input.take(_HEADER.size))
        if magic != _MAGIC:
            raise FileError(0, f"it is not a snapshot: it begins with {magic!r}")
        count = self._int("the list of sessions")
        self.sessions = dict(self._session() for _ in range(count))
        count = self._int("the map of ACLs")
        self._acls = {_OPEN_KEY: OPEN_ACL}
        for _ in range(count):
            key, acl = self._acl()
            self._acls[key] = acl

    @property
    def offset(self) -> int:
        return self._input.offset

    def _int(self, what: str) -> int:
        number: int = _INT.unpack(self._input.take(4, what))[0]
        if number < 0:
            raise FileError(self._input.offset - 4, f"a count is negative, in {what}")
        return number

    def _session(self) -> tuple[int, int]:
        session, timeout = _SESSION.unpack(self._input.take(_SESSION.size, "the list of sessions"))
        return session, timeout

    def _acl(self) -> tuple[int, tuple[ACL, ...]]:
        source = self._input
        (key,) = _KEY.unpack(source.take(8, "the map of ACLs"))
        size = 64
        while True:  # the length of an entry is known only after it is read
            whole = not source.has(size)
            try:
                entry, end = _Acl.read(source.data, source.pos)
            except JuteError as error:
                if whole or size > _LARGEST_ACL:
                    raise FileError(source.offset, f"an ACL cannot be read: {error}") from None
                size *= 16
            else:
                source.pos = end
                acl = tuple(entry.acl or ())
                return key, OPEN_ACL if acl == OPEN_ACL else acl

    def nodes(self) -> Iterator[StoredNode]:
        """Yield the znodes, parents before children. The checksum is compared only after the last znode, so
        do not trust the znodes before the comparison.

        :raises FileError: the file is damaged.
        """
        source, acls, largest = self._input, self._acls, self._largest
        unpack_int, unpack_key = _INT.unpack_from, _KEY.unpack_from
        rest = 4 + _KEY.size + STAT.size  # the bytes after the path, without the data
        while True:
            if not source.has(4):
                raise FileError(source.offset, "the file ends too early: the end of the tree is missing")
            (size,) = unpack_int(source.data, source.pos)
            if size > largest:
                raise self._too_large("a path", size)
            if size < 0 or not source.has(4 + size + rest):
                if size == 1 and source.has(5) and source.data[source.pos + 4 : source.pos + 5] == b"/":
                    break
                raise FileError(source.offset, f"a path of {size:,} bytes goes beyond the end of the file")
            data, pos = source.data, source.pos + 4
            text = data[pos : pos + size]
            if text == b"/":
                break
            pos += size
            (length,) = unpack_int(data, pos)
            pos += 4
            content: bytes | None = None
            if length > largest:
                raise self._too_large("a znode", length)
            if length >= 0:
                if not source.has(4 + size + rest + length):
                    raise FileError(
                        source.offset, f"a znode of {length:,} bytes goes beyond the end of the file"
                    )
                data, pos = source.data, source.pos + 8 + size
                content = data[pos : pos + length]
                pos += length
            elif length != -1:
                raise FileError(source.offset, "a length is negative, in a znode")
            (key,) = unpack_key(data, pos)
            pos += 8
            stat = data[pos : pos + 60]
            try:
                path, acl = text.decode("utf-8", "surrogatepass"), acls[key]
            except UnicodeDecodeError:
                raise FileError(source.offset, "a path is not UTF-8") from None
            except KeyError:
                raise FileError(
                    source.offset, f"a znode has the ACL {key}, which is not in the file"
                ) from None
            source.pos = pos + 60
            yield StoredNode(path, content, acl, stat)
        source.pos += 5
        self._check_seal("the tree")
        self._read_trailers()

    def _too_large(self, what: str, size: int) -> FileError:
        needed = f"jute.maxbuffer={(size + 1) // 2} or more"
        return FileError(self._input.offset, f"{what} of {size:,} bytes is too large: set {needed}")

    def _check_seal(self, what: str) -> None:
        """Read a seal, which contains a checksum. Compare this checksum with the checksum of all earlier
        bytes, including earlier seals."""
        source = self._input
        expected, at = source.checksum(), source.offset
        found, size, text = _SEAL.unpack(source.take(_SEAL.size, f"the checksum of {what}"))
        if found != expected:
            raise FileError(at, f"the checksum of {what} is {found:#x}, and should be {expected:#x}")
        if (size, text) != (1, b"/"):
            raise FileError(at + 8, f"the end of the checksum of {what} is missing")

    def _read_trailers(self) -> None:
        """Read the parts after the tree. A file can have one part, both parts or neither part. The number of
        remaining bytes says which parts the file has (files.md section 2.1)."""
        source = self._input
        digest, last = _DIGEST.size + _SEAL.size, _KEY.size + _SEAL.size
        if source.has(digest):
            zxid, version, value = _DIGEST.unpack(source.take(_DIGEST.size))
            self._check_seal("the digest")
            if version == VERSION and zxid > 0:
                self.digest = ZxidDigest(zxid, value % 2**64)
        if source.has(last):
            (self.last_zxid,) = _KEY.unpack(source.take(_KEY.size))
            self._check_seal("the last zxid")
        if source.has(1):
            raise FileError(source.offset, "there are bytes after the end")


# --- writing ----------------------------------------------------------------------------------------------


class NodeEncoder:
    """Encodes znodes, and gives a number to each access control list."""

    def __init__(self) -> None:
        self._keys: dict[tuple[ACL, ...], int] = {OPEN_ACL: _OPEN_KEY}

    def encode(self, path: str, data: bytes | None, acl: tuple[ACL, ...], stat: bytes) -> bytes:
        """Encode a znode; ``path`` is ``""`` for the root."""
        key = -1 if acl is OPEN_ACL else self._keys.setdefault(acl, len(self._keys))
        name = path.encode("utf-8", "surrogatepass")
        length = -1 if data is None else len(data)
        return b"".join((_INT.pack(len(name)), name, _INT.pack(length), data or b"", _KEY.pack(key), stat))

    def head(self, sessions: Mapping[int, int]) -> bytes:
        """Encode the part before the znodes. All znodes must be encoded already.

        :param sessions: the timeouts of the sessions in ms, by session id.
        """
        acls = [(key, acl) for acl, key in self._keys.items() if key != _OPEN_KEY]
        return b"".join(
            (
                _HEADER.pack(_MAGIC, _VERSION, _DBID),
                _INT.pack(len(sessions)),
                *(_SESSION.pack(session, timeout) for session, timeout in sessions.items()),
                _INT.pack(len(acls)),
                *(_KEY.pack(key) + _Acl(acl).encode() for key, acl in acls),
            )
        )


def tail(checksum: int, digest: ZxidDigest | None, last_zxid: int) -> bytes:
    """Encode the part after the znodes.

    :param checksum: the Adler32 of the head and the znodes.
    :param digest: the digest of the tree; None if it is not known because the tree changed during the
        writing.
    """
    zxid, value = digest or (0, 0)
    parts = [b"\0\0\0\1/", _DIGEST.pack(zxid, VERSION, signed(value)), _KEY.pack(last_zxid)]
    encoded = b""
    for part in parts:
        checksum = zlib.adler32(part, checksum)
        seal = _SEAL.pack(checksum, 1, b"/")
        checksum = zlib.adler32(seal, checksum)
        encoded += part + seal
    return encoded
