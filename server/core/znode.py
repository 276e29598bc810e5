"""One znode, its children and its Stat (semantics.md section 1).

The stored fields differ from the fields on the wire in three places:

* ``cversion`` counts creations and deletions of children: it is twice the number of children ever created,
  less the number of present children. Only :meth:`Znode.packed_stat` computes it.
* ``pzxid`` is stored with the children (:attr:`Children.changed`). A znode that never had a child needs
  none, and shows its own czxid. Each creation or deletion of a child sets it in the tree
  (:meth:`.tree.DataTree.change`), also by the reaper.
* ``ephemeralOwner`` is stored with marks for containers and TTL znodes, which show 0.
"""

from __future__ import annotations

import struct
from collections.abc import Container, Iterable, Iterator
from functools import cache
from typing import TypeVar

from ...protocol.records import ACL, Stat

T = TypeVar("T")

_STAT = struct.Struct(">qqqqiiiqiiq").pack  # Stat, packed once per change instead of once per read
_PZXID = struct.Struct(">60xq").unpack  # of a packed Stat
_COUNT = struct.Struct(">i")

CONTAINER_OWNER = -(2**63)
_TTL_MARK = 0xFF << 56
MAX_TTL = 2**40 - 1
"""The longest TTL in ms."""


def ttl_owner(ttl: int) -> int:
    """Return the stored ephemeralOwner of a TTL znode, as a signed long; ``ttl`` in ms."""
    return (_TTL_MARK | ttl) - 2**64


def is_session(owner: int) -> bool:
    """Return whether a stored owner is a session, and not 0 or the mark of a container or TTL znode.
    Sessions of servers above 127 have negative ids."""
    return owner > 0 or CONTAINER_OWNER < owner < _TTL_MARK - 2**64


def wrap32(value: int) -> int:
    """Wrap a number around as a Java int does."""
    return (value + 2**31) % 2**32 - 2**31


class Children(dict[str, "Znode"]):
    """A znode's children by bare name, in the order of their creation. The object stays even when it is
    empty.

    :ivar created: the number of children ever created, at most 2**31 - 1. Sequential names and the wire's
        cversion are made from it (semantics.md sections 1.3 and 6).
    :ivar changed: the zxid of the last creation or deletion: the wire's pzxid.
    :ivar packed: the names in the form of the wire, from the first read until the next change.
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
    try:  # most names are short ASCII: one string operation each
        return "".join([_PREFIXES[len(name)] + name for name in names]).encode("ascii")
    except (IndexError, UnicodeEncodeError):
        return b"".join([_COUNT.pack(len(data)) + data for data in map(str.encode, names)])


class Znode:
    """Data, ACL, children and the stored part of the Stat of a persistent znode; :class:`OwnedZnode` adds
    an owner.

    An 11th attribute would cost each znode 16 bytes more, so attributes of only some znodes are kept
    elsewhere.

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
    """The stored ephemeralOwner, which decides the kind: 0 is persistent; otherwise see
    :func:`is_session`."""

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
        """The number of children ever created; see :class:`Children`. The wire's cversion is another
        number."""
        return 0 if self.children is None else self.children.created

    @property
    def pzxid(self) -> int:
        """The zxid of the last creation or deletion of a child; at first the znode's own. As in the Stat."""
        pzxid: int = _PZXID(self.packed_stat())[0]
        return pzxid

    @property
    def ephemeral_owner(self) -> int:
        """The owning session's id; 0 for all other kinds, containers and TTL znodes included."""
        return self.owner if is_session(self.owner) else 0

    @property
    def is_container(self) -> bool:
        return self.owner == CONTAINER_OWNER

    @property
    def ttl(self) -> int | None:
        """The TTL in ms, or None if this is no TTL znode."""
        return self.owner & MAX_TTL if _TTL_MARK - 2**64 <= self.owner < 0 else None

    def packed_stat(self) -> bytes:
        """Return the 68 bytes of :class:`~pyzk.protocol.records.Stat`, which are kept until the next
        change."""
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
    """Copy a znode and all below it.

    :param without: sessions whose ephemerals are left out.
    """
    top = twin_of(root)
    waiting = [(root, top)]
    while waiting:
        node, copy = waiting.pop()
        if node.children is None:
            continue
        copy.children = twin_of(node.children)
        copy.children.packed = copy.packed = None  # there may be fewer children now
        for name, child in node.children.items():
            if child.owner not in without:
                copy.children[name] = twin = twin_of(child)
                if child.children is not None:
                    waiting.append((child, twin))
    return top


def twin_of(original: T) -> T:
    """Copy a znode with all its attributes, or a znode's children without the children themselves."""
    cls = type(original)
    twin = cls.__new__(cls)
    for name in _attributes(cls.__mro__):
        setattr(twin, name, getattr(original, name))
    return twin


@cache
def _attributes(bases: tuple[type, ...]) -> tuple[str, ...]:
    return tuple(name for base in bases for name in getattr(base, "__slots__", ()))


def find_below(top: Znode, path: str) -> Znode | None:
    """The znode at ``path``, where ``top`` is the root; None if there is none."""
    node: Znode | None = top
    for name in path.split("/")[1:]:
        if node is None or node.children is None:
            return None
        node = node.children.get(name)
    return node
