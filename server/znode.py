"""One znode and its Stat (semantics.md section 1)."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from ..protocol.records import ACL, Stat

_STAT = struct.Struct(">qqqqiiiqiiq")  # Stat, packed once per change instead of once per read
_COUNT = struct.Struct(">i")

CONTAINER_OWNER = -(2**63)
_TTL_MARK = 0xFF << 56
MAX_TTL = 2**40 - 1
"""The longest TTL in ms."""


def ttl_owner(ttl: int) -> int:
    """The stored ephemeralOwner of a TTL znode, as a signed long; ``ttl`` in ms."""
    return (_TTL_MARK | ttl) - 2**64


def wrap32(value: int) -> int:
    """Java int arithmetic."""
    return (value + 2**31) % 2**32 - 2**31


class Children(dict[str, None]):
    """The bare names of a znode's children, in the order of their creation.

    :ivar packed: the names as the wire has them, once somebody has asked and until the next change.
    """

    __slots__ = ("packed",)

    def __init__(self, *names: str) -> None:
        super().__init__(dict.fromkeys(names))
        self.packed: bytes | None = None

    def pack(self) -> bytes:
        """The bytes of :class:`~pyzk.protocol.records.GetChildrenResponse`."""
        packed = self.packed
        if packed is None:
            packed = self.packed = _COUNT.pack(len(self)) + _pack_names(self)
        return packed


NO_CHILDREN = _COUNT.pack(0)
_PREFIXES = [_COUNT.pack(length).decode("latin-1") for length in range(128)]


def _pack_names(names: Iterable[str]) -> bytes:
    try:  # short ASCII names, which most are: one string operation each
        return "".join([_PREFIXES[len(name)] + name for name in names]).encode("ascii")
    except (IndexError, UnicodeEncodeError):
        return b"".join([_COUNT.pack(len(data)) + data for data in map(str.encode, names)])


class Znode:
    """Data, ACL, children and the stored part of the Stat.

    ``cversion`` counts creates only, and is what sequential names are made of; the wire shows another
    number (semantics.md section 1.3). ``owner`` tells the kind: 0 persistent, positive the session of an
    ephemeral, negative a container or TTL znode. ``children`` is None as long as there is none.
    """

    __slots__ = (
        "_stat",
        "acl",
        "aversion",
        "children",
        "ctime",
        "cversion",
        "czxid",
        "data",
        "mtime",
        "mzxid",
        "owner",
        "pzxid",
        "version",
    )

    def __init__(self, data: bytes | None, acl: tuple[ACL, ...], owner: int, zxid: int, time: int) -> None:
        self.data = data
        self.acl = acl
        self.owner = owner
        self.children: Children | None = None
        self.czxid = self.mzxid = self.pzxid = zxid
        self.ctime = self.mtime = time
        self.version = self.cversion = self.aversion = 0
        self._stat: bytes | None = None

    @property
    def ephemeral_owner(self) -> int:
        """The owning session's id; 0 for all other kinds, containers and TTL znodes included."""
        return self.owner if self.owner > 0 else 0

    @property
    def is_container(self) -> bool:
        return self.owner == CONTAINER_OWNER

    @property
    def ttl(self) -> int | None:
        """The TTL in ms, or None if this is no TTL znode."""
        return self.owner & MAX_TTL if CONTAINER_OWNER < self.owner < 0 else None

    def packed_stat(self) -> bytes:
        """The 68 bytes of :class:`~pyzk.protocol.records.Stat`, kept until the next change."""
        stat = self._stat
        if stat is None:
            children = len(self.children) if self.children else 0
            stat = self._stat = _STAT.pack(
                self.czxid,
                self.mzxid,
                self.ctime,
                self.mtime,
                self.version,
                wrap32(2 * self.cversion - children),
                self.aversion,
                self.owner if self.owner > 0 else 0,
                len(self.data) if self.data else 0,
                children,
                self.pzxid,
            )
        return stat

    def stat(self) -> Stat:
        return Stat.decode(self.packed_stat())

    def changed(self) -> None:
        """Forget the packed Stat; whoever changes a field calls this."""
        self._stat = None
