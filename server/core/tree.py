"""The DataTree: znodes by path, and what each transaction does to them (semantics.md section 1).

Knows no sessions' lifetimes, no permissions, no watches and no sockets. Only :meth:`DataTree.apply` and the
methods that it is made of change it; whatever could fail was found out before (:mod:`.prepare`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...protocol.constants import INT_MAX
from ...protocol.records import ACL, OPEN_ACL, READ_ACL
from .quota import ROOT as QUOTAS
from .quota import Quotas
from .txn import Create, Delete, Effect, SetACL, SetData
from .znode import Children, OwnedZnode, Znode

BUILT_IN = frozenset(("/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"))

_KNOWN = 4096
_LONGEST_KNOWN = 1000
"""How many znodes are remembered by path, so that what is asked for all the time need not be walked to; and
up to how many characters: paths can be a megabyte."""


class DataTree:
    """
    Znodes hang below each other by their bare names, and are found by walking the path: no znode's full path
    is stored anywhere, which is what keeps a million of them small.

    :ivar nodes: every znode by path, as a read-only mapping. The root is there twice, as ``""`` and ``/``,
        which makes the parent of a top-level znode an ordinary look-up; node counts count both, as the real
        server's do.
    :ivar ephemerals: the paths of each session's ephemeral znodes, in the order of creation.
    :ivar containers: paths of container znodes.
    :ivar ttl_nodes: paths of TTL znodes.
    :ivar data_size: the sum of all path and data lengths in bytes.
    """

    def __init__(self) -> None:
        config = Znode(b"", READ_ACL, 0, 0)
        config.aversion = -1
        reserved = Znode(b"", OPEN_ACL, 0, 0)
        reserved.children = Children(0, quota=Znode(b"", OPEN_ACL, 0, 0), config=config)
        root = Znode(b"", OPEN_ACL, 0, 0)
        root.children = Children(0, zookeeper=reserved)
        self._start(root)

    def _start(self, root: Znode) -> None:
        self._above = Children(0)  # "/a/b" splits into "", "a", "b": every walk starts here
        self._above[""] = root
        self._known: dict[str, Znode] = {}  # where walks have led to
        self._journal: list[tuple[Any, ...]] | None = None
        self.nodes = _Nodes(self)
        self.ephemerals: dict[int, dict[str, None]] = {}
        self.containers: dict[str, None] = {}
        self.ttl_nodes: dict[str, None] = {}
        self.data_size = 0
        self._count = 1
        self.quotas = Quotas(self.find, self._grown)
        self._register("/", root)
        for path, node in self.items_below("/"):
            self._register(path, node)
        self.quotas.hold()
        for path, node in self.items_below(QUOTAS):
            self.quotas.changed(path, node, 1, len(node.data or b""))
        self.quotas.release()

    def replace(self, root: Znode) -> None:
        """Become the tree below another root, whose znodes are ours from now on."""
        self._start(root)

    # --- reading -----------------------------------------------------------------------------------------

    def find(self, path: str) -> Znode | None:
        """The znode at ``path``, or None."""
        return self._known.get(path) or self._walk_to(path)

    def _walk_to(self, path: str) -> Znode | None:
        children: Children | None = self._above
        try:
            for name in path.split("/"):
                node = children[name]  # type: ignore[index]
                children = node.children
        except (KeyError, TypeError):  # no such child, or never any children
            if path != "/":
                return None
            node = self._above[""]
        if len(path) <= _LONGEST_KNOWN:
            if len(self._known) >= _KNOWN:
                self._known.clear()
            self._known[path] = node
        return node

    def __len__(self) -> int:
        """The number of entries, the root counted twice."""
        return self._count

    def ephemeral_count(self) -> int:
        return sum(map(len, self.ephemerals.values()))

    def walk(self, path: str) -> Iterator[str]:
        """The paths of all descendants of ``path``, parents before children."""
        return (below for below, _ in self.items_below(path))

    def items_below(self, path: str) -> Iterator[tuple[str, Znode]]:
        """The same with their znodes."""
        node = self.find(path)
        waiting = [] if node is None else [("" if path == "/" else path, node)]
        while waiting:
            parent, node = waiting.pop()
            for name, child in (node.children or {}).items():
                below = f"{parent}/{name}"
                yield below, child
                if child.children:
                    waiting.append((below, child))

    # --- changing ----------------------------------------------------------------------------------------

    def apply(self, effect: Effect, zxid: int, time: int) -> tuple[Znode, Znode]:
        """Carry out one prepared effect; ``time`` in ms since the epoch.

        Returns the znode (as it was, if it is gone now) and its parent (or itself, where that plays no role).
        What prepares a write has looked up the znodes already, and may call the methods below itself.
        """
        path = effect.path
        if isinstance(effect, Create):
            parent, name = self.nodes[effect.parent], path[len(effect.parent) + 1 :]
            return self.create(path, name, parent, effect.data, effect.acl, effect.owner, zxid, time), parent
        if isinstance(effect, Delete):
            parent, name = self.nodes[effect.parent], path[len(effect.parent) + 1 :]
            return self.delete(path, name, parent, zxid), parent
        node = self.nodes[path]
        if isinstance(effect, SetData):
            self.set_data(path, node, effect.data, effect.version, zxid, time)
        elif isinstance(effect, SetACL):
            node.acl = effect.acl
            node.aversion = effect.aversion
            node.packed = None
        return node, node

    def create(
        self,
        path: str,
        name: str,
        parent: Znode,
        data: bytes | None,
        acl: tuple[ACL, ...],
        owner: int,
        zxid: int,
        time: int,
    ) -> Znode:
        """
        :param name: the last component of ``path``.
        :param owner: as in :class:`.txn.Create`.
        """
        node = OwnedZnode(data, acl, zxid, time, owner) if owner else Znode(data, acl, zxid, time)
        children = parent.children
        if children is None:
            children = parent.children = Children(parent.czxid)
        if self._journal is not None:
            self._journal.append(
                (DataTree._undo_create, path, name, parent, children.created, children.changed)
            )
        # What may get no memory comes first: a znode is there as a whole, or not at all.
        children[name] = node
        try:
            self._register(path, node)
        except MemoryError:
            del children[name]
            raise
        # The counter never wraps: at its end it stays, and so does pzxid (semantics.md section 6).
        if children.created < INT_MAX:
            children.created += 1
            children.changed = zxid
        children.packed = parent.packed = None
        if self.quotas.used or path.startswith("/zookeeper/"):
            self.quotas.changed(path, node, 1, len(data) if data else 0)
        return node

    def delete(self, path: str, name: str, parent: Znode, zxid: int) -> Znode:
        """Returns the znode that was."""
        children = parent.children
        assert children is not None
        if self._journal is not None:
            self._journal.append(
                (DataTree._undo_delete, path, name, parent, children.changed, children[name])
            )
        children.changed = zxid
        node = self._remove(path, name, parent, children)
        if self.quotas.used:
            self.quotas.changed(path, node, -1, -len(node.data) if node.data else 0)
        return node

    def set_data(
        self, path: str, node: Znode, data: bytes | None, version: int, zxid: int, time: int
    ) -> None:
        old = node.data
        if self._journal is not None:
            self._journal.append((DataTree.set_data, path, node, old, node.version, node.mzxid, node.mtime))
        node.data = data
        node.version = version
        node.mzxid = zxid
        node.mtime = time
        node.packed = None
        difference = (len(data) if data else 0) - (len(old) if old else 0)
        if difference:
            self.data_size += difference
        if self.quotas.used:
            self.quotas.changed(path, node, 0, difference)

    # --- the parts of a change ---------------------------------------------------------------------------

    def _register(self, path: str, node: Znode) -> None:
        owner = node.owner
        if owner > 0:
            self.ephemerals.setdefault(owner, {})[path] = None
        elif owner:
            (self.containers if node.is_container else self.ttl_nodes)[path] = None
        self._count += 1
        self.data_size += len(path) + (len(node.data) if node.data else 0)

    def _remove(self, path: str, name: str, parent: Znode, children: Children) -> Znode:
        node = children.pop(name)
        self._known.pop(path, None)
        children.packed = parent.packed = None
        self._count -= 1
        self.data_size -= len(path) + (len(node.data) if node.data else 0)
        owner = node.owner
        if owner > 0:
            owned = self.ephemerals[owner]
            del owned[path]
            if not owned:
                del self.ephemerals[owner]
        elif owner:
            del (self.containers if node.is_container else self.ttl_nodes)[path]
        return node

    def _grown(self, size: int) -> None:
        self.data_size += size

    # --- undoing: a multi is applied step by step while it is validated ----------------------------------

    def begin(self) -> None:
        """Remember from now on how to undo what is applied, until :meth:`commit` or :meth:`roll_back`."""
        self._journal = []
        self.quotas.hold()

    def commit(self) -> None:
        """What was applied since :meth:`begin` stays."""
        self._journal = None
        self.quotas.release()

    def roll_back(self) -> None:
        """Restore the tree as it was at :meth:`begin`."""
        journal, self._journal = self._journal, None
        for undo, *before in reversed(journal or ()):
            undo(self, *before)
        self.quotas.drop()

    def _undo_create(self, path: str, name: str, parent: Znode, created: int, changed: int) -> None:
        children = parent.children
        assert children is not None
        children.created, children.changed = created, changed
        if name in children:  # for want of memory it may not have come to that
            self._remove(path, name, parent, children)

    def _undo_delete(self, path: str, name: str, parent: Znode, changed: int, node: Znode) -> None:
        children = parent.children
        assert children is not None
        children.changed = changed
        children[name] = node
        children.packed = parent.packed = None
        self._register(path, node)


class _Nodes(Mapping[str, Znode]):
    """A tree's znodes by path; see :class:`DataTree`."""

    def __init__(self, tree: DataTree) -> None:
        self._tree = tree

    def __getitem__(self, path: str) -> Znode:
        node = self._tree.find(path)
        if node is None:
            raise KeyError(path)
        return node

    def __iter__(self) -> Iterator[str]:
        yield ""
        yield "/"
        yield from self._tree.walk("/")

    def __len__(self) -> int:
        return len(self._tree)
