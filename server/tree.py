"""The DataTree: znodes by path, and what each transaction does to them (semantics.md section 1).

Knows no sessions' lifetimes, no permissions, no watches and no sockets. Only :meth:`DataTree.apply` changes
it; whatever could fail was found out before (:mod:`.prepare`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar

from ..protocol.constants import INT_MAX
from ..protocol.paths import join
from ..protocol.records import OPEN_ACL, READ_ACL
from .quota import Quotas
from .txn import Check, Create, Delete, Effect, SetACL, SetData
from .znode import Children, Znode

BUILT_IN = ("/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config")


class DataTree:
    """
    :ivar nodes: every znode by path. The root is there twice, as ``""`` and ``/``, which makes the parent
        of a top-level znode an ordinary look-up; node counts count both, as the real server's do.
    :ivar ephemerals: the paths of each session's ephemeral znodes, in the order of creation.
    :ivar containers: paths of container znodes.
    :ivar ttl_nodes: paths of TTL znodes.
    :ivar data_size: the sum of all path and data lengths in bytes.
    """

    def __init__(self) -> None:
        root = Znode(b"", OPEN_ACL, 0, 0, 0)
        root.children = Children("zookeeper")
        reserved = Znode(b"", OPEN_ACL, 0, 0, 0)
        reserved.children = Children("quota", "config")
        config = Znode(b"", READ_ACL, 0, 0, 0)
        config.aversion = -1
        self.nodes: dict[str, Znode] = {
            "": root,
            "/": root,
            "/zookeeper": reserved,
            "/zookeeper/quota": Znode(b"", OPEN_ACL, 0, 0, 0),
            "/zookeeper/config": config,
        }
        self.ephemerals: dict[int, dict[str, None]] = {}
        self.containers: dict[str, None] = {}
        self.ttl_nodes: dict[str, None] = {}
        self.data_size = sum(len(path) for path in self.nodes)
        self.quotas = Quotas(self.nodes, self._grown)

    def _grown(self, size: int) -> None:
        self.data_size += size

    # --- reading -----------------------------------------------------------------------------------------

    def get(self, path: str) -> Znode | None:
        return self.nodes.get(path)

    def __len__(self) -> int:
        """The number of entries, the root counted twice."""
        return len(self.nodes)

    def ephemeral_count(self) -> int:
        return sum(map(len, self.ephemerals.values()))

    def walk(self, path: str) -> Iterator[str]:
        """The paths of all descendants of ``path``, parents before children."""
        waiting = [path]
        while waiting:
            parent = waiting.pop()
            for name in self.nodes[parent].children or ():
                child = join(parent, name)
                yield child
                waiting.append(child)

    # --- changing ----------------------------------------------------------------------------------------

    def apply(self, effect: Effect, zxid: int, time: int) -> None:
        """Carry out one prepared effect; ``time`` in ms since the epoch."""
        self._APPLY[type(effect)](self, effect, zxid, time)

    def _create(self, effect: Create, zxid: int, time: int) -> None:
        node = Znode(effect.data, effect.acl, effect.owner, zxid, time)
        parent = self.nodes[effect.parent]
        # The counter never wraps: at its end it stays, and so does pzxid (semantics.md section 6).
        if parent.cversion < INT_MAX:
            parent.cversion += 1
            parent.pzxid = zxid
        self._insert(effect, node, parent)

    def _insert(self, effect: Create | Delete, node: Znode, parent: Znode) -> None:
        path = effect.path
        children = parent.children
        if children is None:
            children = parent.children = Children()
        children[path[len(effect.parent) + 1 :]] = None
        children.packed = None
        parent.changed()
        self.nodes[path] = node
        self.data_size += len(path) + (len(node.data) if node.data else 0)
        owner = node.owner
        if owner > 0:
            self.ephemerals.setdefault(owner, {})[path] = None
        elif owner:
            (self.containers if node.is_container else self.ttl_nodes)[path] = None
        if self.quotas or path.startswith("/zookeeper/"):
            self.quotas.created(path, node)

    def _delete(self, effect: Delete, zxid: int, time: int) -> None:
        parent = self.nodes[effect.parent]
        parent.pzxid = zxid
        self._remove(effect, parent)

    def _remove(self, effect: Create | Delete, parent: Znode) -> None:
        path = effect.path
        node = self.nodes.pop(path)
        children = parent.children
        assert children is not None
        del children[path[len(effect.parent) + 1 :]]
        children.packed = None
        if not children:
            parent.children = None
        parent.changed()
        self.data_size -= len(path) + (len(node.data) if node.data else 0)
        owner = node.owner
        if owner > 0:
            owned = self.ephemerals[owner]
            del owned[path]
            if not owned:
                del self.ephemerals[owner]
        elif owner:
            del (self.containers if node.is_container else self.ttl_nodes)[path]
        if self.quotas:
            self.quotas.deleted(path, node)

    def _set_data(self, effect: SetData, zxid: int, time: int) -> None:
        node = self.nodes[effect.path]
        node.version = effect.version
        node.mzxid = zxid
        node.mtime = time
        self._replace_data(effect.path, node, effect.data)

    def _replace_data(self, path: str, node: Znode, data: bytes | None) -> None:
        difference = (len(data) if data else 0) - (len(node.data) if node.data else 0)
        node.data = data
        node.changed()
        self.data_size += difference
        if self.quotas:
            self.quotas.resized(path, difference)

    def _set_acl(self, effect: SetACL, zxid: int, time: int) -> None:
        node = self.nodes[effect.path]
        node.acl = effect.acl
        node.aversion = effect.aversion
        node.changed()

    def _check(self, effect: Check, zxid: int, time: int) -> None:
        pass

    _APPLY: ClassVar[dict[type[Effect], Callable[..., None]]] = {
        Create: _create,
        Delete: _delete,
        SetData: _set_data,
        SetACL: _set_acl,
        Check: _check,
    }

    # --- undoing: a multi is applied step by step while it is validated ----------------------------------

    def undo_of(self, effect: Create | Delete | SetData | Check) -> Callable[[], None]:
        """What restores the tree after ``effect``, to be asked for just before it is applied."""
        path = effect.path
        if isinstance(effect, Check):
            return lambda: None
        if isinstance(effect, SetData):
            return self._undo_set(path, self.nodes[path])
        parent = self.nodes[effect.parent]
        before = parent.cversion, parent.pzxid
        node = self.nodes.get(path)

        def undo() -> None:
            parent.cversion, parent.pzxid = before
            if node is None:
                self._remove(effect, parent)
            else:
                self._insert(effect, node, parent)

        return undo

    def _undo_set(self, path: str, node: Znode) -> Callable[[], None]:
        before = node.version, node.mzxid, node.mtime
        data = node.data

        def undo() -> None:
            node.version, node.mzxid, node.mtime = before
            self._replace_data(path, node, data)

        return undo
