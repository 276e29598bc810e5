"""The DataTree: znodes by path, and the change of each effect (semantics.md section 1).

The tree does not know when sessions end, and knows no permissions, watches or sockets. Its rules:

* Only :meth:`DataTree.change` changes a tree. It cannot fail, because a resolver
  (:mod:`.operations.writes`) has made all checks before. :meth:`DataTree.replay` applies a whole Txn.
* Equal trees stay equal if the same Txns are applied to them. An effect changes more than its znode: the
  parent's counters, the lists of ephemerals, containers and TTL znodes, sizes, the texts of quotas. All these
  changes are determined by the tree and the effect.
* Between :meth:`DataTree.begin` and :meth:`DataTree.commit` or :meth:`DataTree.roll_back`, the journal notes
  how to undo each change. A multi is applied in this way, effect by effect.
* A znode holds its children by their bare names. A look-up walks along the names of the path. To save memory,
  no znode stores its full path. The results of recent walks are remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ...protocol import paths
from ...protocol.constants import CONFIG_PATH, INT_MAX
from ...protocol.records import OPEN_ACL, READ_ACL
from .differences import differences
from .quota import ROOT as QUOTAS
from .quota import Quotas
from .txn import (
    Change,
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
    Txn,
)
from .znode import Children, OwnedZnode, Znode, copy_tree, is_session, items_below

BUILT_IN = frozenset(("/", "/zookeeper", "/zookeeper/quota", CONFIG_PATH))

_STEP = 100
"""The number of znodes that one step of :meth:`DataTree.starting` registers."""
_FOUND = 4096
"""The largest number of znodes that are remembered by path: the look-up of a busy znode needs no walk."""
_LONGEST_FOUND = 1000
"""The length in characters of the longest remembered path. This saves memory, because a path can have a
megabyte."""


class _Found(dict[str, Znode]):
    """Znodes by path: a cache of recent look-ups. If the cache has no znode for a path, the tree is walked.

    So the look-up of a busy path takes as long as a look-up in a dict.

    :ivar top: the root, by its name ``""``. ``/a/b`` splits into ``""``, ``a``, ``b``: every walk starts
        here.
    """

    top: Children

    def __missing__(self, path: str) -> Znode | None:
        children: Children | None = self.top
        try:
            for name in path.split("/"):
                node = children[name]  # type: ignore[index]
                children = node.children
        except (KeyError, TypeError):  # no such child, or never any children
            if path != "/":
                return None
            node = self.top[""]
        if len(path) <= _LONGEST_FOUND:
            if len(self) >= _FOUND:
                self.clear()
            self[path] = node
        return node


class DataTree:
    """All znodes of a server, and the changes of the znodes.

    :ivar find: returns the znode at a path, or None.
    :ivar nodes: every znode by path, as a read-only mapping. The root has two entries, ``""`` and ``/``, so
        that a top-level znode has a parent like any other. Counts of znodes count both entries, as in the
        real server.
    :ivar ephemerals: the paths of each session's ephemeral znodes, in the order of creation.
    :ivar containers: the paths of all container znodes.
    :ivar ttl_nodes: the paths of all TTL znodes.
    :ivar data_size: the sum of the lengths of all paths and data, in bytes.
    """

    def __init__(self) -> None:
        config = Znode(b"", READ_ACL, 0, 0)
        config.aversion = -1
        reserved = Znode(b"", OPEN_ACL, 0, 0)
        reserved.children = Children(0, quota=Znode(b"", OPEN_ACL, 0, 0), config=config)
        root = Znode(b"", OPEN_ACL, 0, 0)
        root.children = Children(0, zookeeper=reserved)
        self._found = _Found()
        self.find: Callable[[str], Znode | None] = self._found.__getitem__
        self._start(root)

    def _start(self, root: Znode) -> None:
        for _ in self.starting(root):
            pass

    def starting(self, root: Znode) -> Iterator[None]:
        """Make this tree the tree below a root, in steps."""
        self._found.clear()
        self._found.top = Children(0)
        self._found.top[""] = root
        self._journal: list[tuple[Any, ...]] | None = None
        self.nodes = _Nodes(self)
        self.ephemerals: dict[int, dict[str, None]] = {}
        self.containers: dict[str, None] = {}
        self.ttl_nodes: dict[str, None] = {}
        self.data_size = 0
        self._count = 1
        self.quotas = Quotas(self.find, self._write_usage)
        self._register("/", root)
        for count, (path, node) in enumerate(self.items_below("/")):
            self._register(path, node)
            if not count % _STEP:
                yield
        self.quotas.hold()
        for path, node in self.items_below(QUOTAS):
            self.quotas.changed(path, node, 1, len(node.data or b""))
        self.quotas.release()

    def become(self, other: DataTree) -> None:
        """Take over the content of another tree, which must not be used afterwards."""
        self._found.clear()
        self._found.top = other._found.top
        self.ephemerals, self.containers, self.ttl_nodes = other.ephemerals, other.containers, other.ttl_nodes
        self.data_size, self._count = other.data_size, other._count
        self.quotas = other.quotas
        self.quotas.move(self.find, self._write_usage)

    def adopt(self, root: Znode) -> None:
        """Make this tree the tree below another root, which nobody else uses. All lists, sizes and quotas are
        computed again."""
        self._start(root)

    # --- reading -----------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Count the entries. The root has two entries."""
        return self._count

    def ephemeral_count(self) -> int:
        """Count the ephemeral znodes of all sessions."""
        return sum(map(len, self.ephemerals.values()))

    def walk(self, path: str) -> Iterator[str]:
        """Yield the paths of all descendants of ``path``, parents before children."""
        return (below for below, _ in self.items_below(path))

    def items_below(self, path: str) -> Iterator[tuple[str, Znode]]:
        """Yield the path and the znode of all descendants of ``path``, parents before children."""
        node = self.find(path)
        return iter(()) if node is None else items_below("" if path == "/" else path, node)

    # --- changing ----------------------------------------------------------------------------------------

    def change(self, kind: type[Effect], fields: Any, at: Znode, zxid: int, time: int) -> Znode:
        """Apply one effect. Only a lack of memory can make this fail.

        :param kind: the kind of the effect; with ``fields`` and ``at`` it is a :data:`~.txn.Resolved`.
        :param time: the wall-clock time in ms since the epoch.
        :returns: the znode at the path of the effect; for a delete the deleted znode.
        """
        if kind is not SetData:
            return _CHANGES[kind](self, fields, at, zxid, time)
        # The most frequent write is done in this function, which saves a call.
        path, data, version = fields
        old = at.data
        journal = self._journal
        if journal is not None:
            journal.append((_UNDO_SET_DATA, at, old, at.version, at.mzxid, at.mtime))
        at.data = data
        at.version = version
        at.mzxid = zxid
        at.mtime = time
        at.packed = None
        difference = (len(data) if data else 0) - (len(old) if old else 0)
        if difference:
            self.data_size += difference
        if self.quotas.used:
            self.quotas.changed(path, at, 0, difference)
        return at

    def apply(self, effect: Effect, zxid: int, time: int) -> Change:
        """Look up the znode of an effect, and apply the effect."""
        at = self.nodes[effect.parent if isinstance(effect, Create | Delete) else effect.path]
        return effect, self.change(type(effect), effect, at, zxid, time), at

    def replay(self, txn: Txn) -> Iterable[Change]:
        """Apply a transaction of another tree. Before the transaction, the other tree was equal to this tree.

        :returns: the changes. They may be a generator, which must not be read after the next transaction.
        """
        effect, zxid, time = txn.effect, txn.zxid, txn.time
        if isinstance(effect, Multi):
            self.begin()
            changes = [self.apply(part, zxid, time) for part in effect.effects]
            self.commit()
            return changes
        if isinstance(effect, CloseSession):
            return [self.apply(Delete(path, paths.name(path)), zxid, time) for path in effect.paths]
        if isinstance(effect, Replace):
            before, copies = self.nodes["/"], effect.copies
            after = copies.pop() if copies else copy_tree(effect.root, effect.gone)
            config = self.nodes[CONFIG_PATH]  # this znode describes the server, not the data: it stays
            self._start(after)
            for owner in effect.gone & self.ephemerals.keys():  # sessions that ended after the copy was made
                self.leave_out(owner)
            self.configure(config.data, config.mzxid, config.mtime, config.version)
            return differences(before, after)
        if isinstance(effect, CreateSession | Refused):
            return ()
        return (self.apply(effect, zxid, time),)

    def configure(self, data: bytes | None, zxid: int, time: int, version: int = -1) -> None:
        """Write ``/zookeeper/config`` without a transaction. In an ensemble its version stays -1.

        :param time: the wall-clock time in ms since the epoch.
        """
        self.change(SetData, (CONFIG_PATH, data, version), self.nodes[CONFIG_PATH], zxid, time)

    def leave_out(self, owner: int) -> None:
        """Remove the ephemerals of a session without a transaction, as if they had not been copied. No
        counter changes."""
        for path in tuple(self.ephemerals.get(owner, ())):
            parent = self.nodes[paths.parent(path)]
            assert parent.children is not None
            node = self._remove(path, paths.name(path), parent, parent.children)
            if self.quotas.used:
                self.quotas.changed(path, node, -1, -len(node.data or b""))

    def copy(self) -> DataTree:
        """Return an equal tree. Later changes of one tree do not change the other."""
        twin = DataTree()
        twin._start(copy_tree(self.nodes["/"]))
        return twin

    def _create(self, fields: Create, parent: Znode, zxid: int, time: int) -> Znode:
        path, name, data, acl, owner = fields
        node = OwnedZnode(data, acl, zxid, time, owner) if owner else Znode(data, acl, zxid, time)
        children = parent.children
        if children is None:
            children = parent.children = Children(parent.czxid)
        if self._journal is not None:
            self._journal.append(
                (DataTree._undo_create, path, name, parent, children.created, children.changed)
            )
        # The steps that a lack of memory can stop come first: the znode is created as a whole, or not at all.
        children[name] = node
        if owner:
            try:
                self._own(path, node)
            except MemoryError:
                del children[name]
                raise
        self._count += 1  # the same as _register does, but without a call
        self.data_size += len(path) + (len(data) if data else 0)
        # The counter does not wrap: it and pzxid stay at the largest value (semantics.md section 6).
        if children.created < INT_MAX:
            children.created += 1
            children.changed = zxid
        children.packed = parent.packed = None
        if self.quotas.used or path.startswith("/zookeeper/"):
            self.quotas.changed(path, node, 1, len(data) if data else 0)
        return node

    def _delete(self, fields: Delete, parent: Znode, zxid: int, time: int) -> Znode:
        path, name = fields
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

    def _set_acl(self, fields: SetACL, node: Znode, zxid: int, time: int) -> Znode:
        _, node.acl, node.aversion = fields
        node.packed = None
        return node

    def _check(self, fields: Check, node: Znode, zxid: int, time: int) -> Znode:
        return node

    # --- the parts of a change ---------------------------------------------------------------------------

    def _register(self, path: str, node: Znode) -> None:
        if node.owner:
            self._own(path, node)
        self._count += 1
        self.data_size += len(path) + (len(node.data) if node.data else 0)

    def _own(self, path: str, node: Znode) -> None:
        """Add an ephemeral, container or TTL znode to the list of its kind."""
        if node.owner > 0 or is_session(node.owner):
            self.ephemerals.setdefault(node.owner, {})[path] = None
        else:
            (self.containers if node.is_container else self.ttl_nodes)[path] = None

    def _remove(self, path: str, name: str, parent: Znode, children: Children) -> Znode:
        node = children.pop(name)
        self._found.pop(path, None)
        children.packed = parent.packed = None
        self._count -= 1
        self.data_size -= len(path) + (len(node.data) if node.data else 0)
        owner = node.owner
        if not owner:
            return node
        if owner > 0 or is_session(owner):
            owned = self.ephemerals[owner]
            del owned[path]
            if not owned:
                del self.ephemerals[owner]
        else:
            del (self.containers if node.is_container else self.ttl_nodes)[path]
        return node

    def _write_usage(self, node: Znode, data: bytes) -> None:
        """Write the text of a quota's stats znode, as a part of the effect that has changed the usage."""
        self.data_size += len(data) - len(node.data or b"")
        node.data = data
        node.packed = None

    # --- undoing: each operation of a multi is applied before the next is validated ----------------------

    def begin(self) -> None:
        """Start a journal for undoing changes, until :meth:`commit` or :meth:`roll_back`."""
        self._journal = []
        self.quotas.hold()

    def commit(self) -> None:
        """Keep the changes since :meth:`begin`."""
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
        if name in children:  # false if a lack of memory has stopped the create
            self._remove(path, name, parent, children)

    def _undo_set_data(self, node: Znode, data: bytes | None, version: int, mzxid: int, mtime: int) -> None:
        self.data_size += len(data or b"") - len(node.data or b"")
        node.data, node.version, node.mzxid, node.mtime = data, version, mzxid, mtime
        node.packed = None

    def _undo_delete(self, path: str, name: str, parent: Znode, changed: int, node: Znode) -> None:
        children = parent.children
        assert children is not None
        children.changed = changed
        children[name] = node
        children.packed = parent.packed = None
        self._register(path, node)


_UNDO_SET_DATA = DataTree._undo_set_data
"""This is a name of the module and no class attribute, because the look-up of a name of the module takes 1/3
of the time."""

_CHANGES: dict[type[Effect], Callable[[DataTree, Any, Znode, int, int], Znode]] = {
    Create: DataTree._create,
    Delete: DataTree._delete,
    SetACL: DataTree._set_acl,
    Check: DataTree._check,
}


class _Nodes(Mapping[str, Znode]):
    """The znodes of a tree by path; see :class:`DataTree`."""

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
