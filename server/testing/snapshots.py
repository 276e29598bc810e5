"""The whole tree, put aside and brought back, for test suites that prepare much and change little."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from ...protocol.paths import name, parent
from ..core.engine import Change, Engine
from ..core.txn import Create, Delete, Replace, SetData
from ..core.znode import Znode, copy_tree


@attrs.frozen(eq=False, repr=False)
class Snapshot:
    """A tree as it was; made by ``snapshot()``, for ``restore()``, as often as one likes, on any server."""

    zxid: int
    _root: Znode
    _size: int
    _owners: frozenset[int]

    def __repr__(self) -> str:
        return f"<Snapshot of {self._size} znodes at zxid 0x{self.zxid:x}>"

    @classmethod
    def of(cls, engine: Engine) -> Snapshot:
        tree = engine.tree
        return cls(engine.zxid, copy_tree(tree.nodes["/"]), len(tree) - 1, frozenset(tree.ephemerals))

    def restore(self, engine: Engine) -> None:
        """Make the tree what it was; ephemerals of sessions that are over stay away.

        It takes one zxid, and watches fire for what differs.
        """
        tree = engine.tree
        watched = bool(engine.watches.watchers)
        before = dict(tree.items_below("/")) if watched else {}
        gone = {owner for owner in self._owners if engine.sessions.get(owner) is None}
        # no client may ever see a zxid that is smaller than one it has seen
        engine.replace_tree(Replace(self._root, frozenset(gone)), max(engine.zxid, self.zxid) + 1)
        if watched:
            after = dict(tree.items_below("/"))
            before["/"] = after["/"] = tree.nodes["/"]
            engine.fire(_changes(before, after))


def _changes(before: dict[str, Znode], after: dict[str, Znode]) -> Iterator[Change]:
    """Yield the changes that lead from one tree to the other, each with the znode concerned and its
    parent."""

    for path in sorted(before.keys() - after.keys(), reverse=True):  # children before parents
        yield Delete(path, name(path)), before[path], before[parent(path)]
    for path in sorted(after.keys() - before.keys()):
        node = after[path]
        effect = Create(path, name(path), node.data, node.acl, node.owner)
        yield effect, node, after[parent(path)]
    for path, node in after.items():
        old = before.get(path, node)
        if old.mzxid != node.mzxid or old.data != node.data:
            yield SetData(path, node.data, node.version), node, node
