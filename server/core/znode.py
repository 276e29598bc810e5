"""One znode, its children and its Stat (semantics.md section 1).

The stored fields differ from the fields on the wire in three cases:

* ``cversion`` counts creations and deletions of children. The cversion on the wire is twice the number of all
  children that were created, minus the number of present children. Only :meth:`Znode.packed_stat` computes
  it.
* ``pzxid`` is stored with the children (:attr:`Children.changed`). A znode that never had a child stores no
  pzxid, and its Stat shows its czxid. Each creation or deletion of a child sets pzxid in the tree
  (:meth:`.tree.DataTree.change`), also a deletion by the reaper.
* The stored ``ephemeralOwner`` has marks for containers and TTL znodes. On the wire their owner is 0.
"""

from __future__ import annotations

import struct
from collections.abc import Container, Iterable, Iterator
from functools import cache
from typing import TypeVar

from ...protocol.records import ACL, Stat

T = TypeVar("T")

_STAT = struct.Struct(">qqqqiiiqiiq").pack  # the Stat: packed once for each change, not for each read
_PZXID = struct.Struct(">60xq").unpack  # the pzxid of a packed Stat
_COUNT = struct.Struct(">i")

CONTAINER_OWNER = -(2**63)
_TTL_MARK = 0xFF << 56
MAX_TTL = 2**40 - 1
"""The longest TTL in ms."""


def ttl_owner(ttl: int) -> int:
    """Return the stored ephemeralOwner of a TTL znode, as a signed long.

    :param ttl: the TTL in ms.
    """
    return (_TTL_MARK | ttl) - 2**64


def is_session(owner: int) -> bool:
    """Return whether a stored owner is a session, and not 0 or the mark of a container or TTL znode. The
    sessions of servers with a number above 127 have negative ids."""
    return owner > 0 or CONTAINER_OWNER < owner < _TTL_MARK - 2**64


def wrap32(value: int) -> int:
    """Wrap a number to 32 bits, as Java does with an int."""
    return (value + 2**31) % 2**32 - 2**31


class Children(dict[str, "Znode"]):
    """The children of a znode by bare name, in the order of their creation. The znode keeps this object also
    when it has no children any more.

    :ivar created: the number of all children that were created, at most 2**31 - 1. Sequential names and the
        cversion on the wire are made from this number (semantics.md sections 1.3 and 6).
    :ivar changed: the zxid of the last creation or deletion of a child, which is pzxid on the wire.
    :ivar packed: the names in the form of the wire, from the first read until the next change; otherwise
        None.
    """

    __slots__ = ("changed", "created", "packed")

    def __init__(self, changed: int, **children: Znode) -> None:
        super().__init__(**children)
        self.created = 0
        self.changed = changed
        self.packed: bytes | None = None

    def pack(self) -> bytes:
        """Return the bytes of :class:`~pyzk.protocol.records.GetChildrenResponse`."""
        packed = self.packed
        if packed is None:
            packed = self.packed = _COUNT.pack(len(self)) + _pack_names(self)
        return packed


NO_CHILDREN = _COUNT.pack(0)
_PREFIXES = [_COUNT.pack(length).decode("latin-1") for length in range(128)]


def _pack_names(names: Iterable[str]) -> bytes:
    try:  # the fast way, for short ASCII names: one string operation for each name
        return "".join([_PREFIXES[len(name)] + name for name in names]).encode("ascii")
    except (IndexError, UnicodeEncodeError):
        return b"".join([_COUNT.pack(len(data)) + data for data in map(str.encode, names)])


class Znode:
    """A persistent znode: its data, its ACL, its children and the stored part of its Stat.
    :class:`OwnedZnode` adds an owner.

    An 11th attribute would need 16 bytes more for each znode. So an attribute that only some znodes need is
    not in this class.

    :ivar packed: the Stat in the form of the wire; the tree sets it to None when it changes a field.
    :ivar children: None until the first child is created.
    """

    __slots__ = (
        "acl",
        "aversion",
        "children",
        "ctime",
        "czxid",
        "data",
        "mtime",
        "mzxid",
        "packed",
        "version",
    )

    owner = 0
    """The stored ephemeralOwner, which decides the kind of the znode. 0 is a persistent znode; for the other
    kinds see :func:`is_session`."""

    def __init__(self, data: bytes | None, acl: tuple[ACL, ...], zxid: int, time: int) -> None:
        self.data = data
        self.acl = acl
        self.children: Children | None = None
        self.czxid = self.mzxid = zxid
        self.ctime = self.mtime = time
        self.version = self.aversion = 0
        self.packed: bytes | None = None

    @property
    def children_created(self) -> int:
        """The number of all children that were created; see :class:`Children`. This number is not the
        cversion on the wire."""
        return 0 if self.children is None else self.children.created

    @property
    def pzxid(self) -> int:
        """The zxid of the last creation or deletion of a child. Before the first child it is the czxid of the
        znode. It is the pzxid of the Stat."""
        pzxid: int = _PZXID(self.packed_stat())[0]
        return pzxid

    @property
    def ephemeral_owner(self) -> int:
        """The id of the session that owns an ephemeral znode; 0 for all other kinds of znodes."""
        return self.owner if is_session(self.owner) else 0

    @property
    def is_container(self) -> bool:
        """Whether this is a container znode."""
        return self.owner == CONTAINER_OWNER

    @property
    def ttl(self) -> int | None:
        """The TTL in ms; None if this is not a TTL znode."""
        return self.owner & MAX_TTL if _TTL_MARK - 2**64 <= self.owner < 0 else None

    def packed_stat(self) -> bytes:
        """Return the 68 bytes of a :class:`~pyzk.protocol.records.Stat`. The znode keeps these bytes until
        its next change."""
        stat = self.packed
        if stat is None:
            children, data, owner = self.children, self.data, self.owner
            if children is None:
                cversion, count, pzxid = 0, 0, self.czxid
            else:
                count, pzxid = len(children), children.changed
                created = children.created
                cversion = wrap32(2 * created - count) if created else -count
            stat = self.packed = _STAT(
                self.czxid,
                self.mzxid,
                self.ctime,
                self.mtime,
                self.version,
                cversion,
                self.aversion,
                owner if owner >= 0 or is_session(owner) else 0,
                len(data) if data else 0,
                count,
                pzxid,
            )
        return stat

    def stat(self) -> Stat:
        """Return the Stat of the znode."""
        return Stat.decode(self.packed_stat())


class OwnedZnode(Znode):
    """An ephemeral, container or TTL znode."""

    __slots__ = ("owner",)

    def __init__(self, data: bytes | None, acl: tuple[ACL, ...], zxid: int, time: int, owner: int) -> None:
        super().__init__(data, acl, zxid, time)
        self.owner = owner


# --- whole trees ------------------------------------------------------------------------------


def items_below(path: str, node: Znode) -> Iterator[tuple[str, Znode]]:
    """Yield the path and the znode of all descendants of a znode, parents before children.

    :param path: the path of the znode; ``""`` for the root.
    """
    waiting = [(path, node)]
    while waiting:
        parent, node = waiting.pop()
        for name, child in (node.children or {}).items():
            below = f"{parent}/{name}"
            yield below, child
            if child.children:
                waiting.append((below, child))


def copy_tree(root: Znode, without: Container[int] = ()) -> Znode:
    """Copy a znode and all znodes below it.

    :param without: sessions whose ephemerals are left out.
    """
    top = twin_of(root)
    waiting = [(root, top)]
    while waiting:
        node, copy = waiting.pop()
        if node.children is None:
            continue
        copy.children = twin_of(node.children)
        copy.children.packed = copy.packed = None  # the copy may have fewer children
        for name, child in node.children.items():
            if child.owner not in without:
                copy.children[name] = twin = twin_of(child)
                if child.children is not None:
                    waiting.append((child, twin))
    return top


def twin_of(original: T) -> T:
    """Copy a znode with all its attributes. A copy of :class:`Children` has the attributes but no
    children."""
    cls = type(original)
    twin = cls.__new__(cls)
    for name in _attributes(cls.__mro__):
        setattr(twin, name, getattr(original, name))
    return twin


@cache
def _attributes(bases: tuple[type, ...]) -> tuple[str, ...]:
    return tuple(name for base in bases for name in getattr(base, "__slots__", ()))


def find_below(top: Znode, path: str) -> Znode | None:
    """Return the znode at ``path`` in the tree whose root is ``top``; None if there is no such znode."""
    node: Znode | None = top
    for name in path.split("/")[1:]:
        if node is None or node.children is None:
            return None
        node = node.children.get(name)
    return node
