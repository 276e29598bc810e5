"""The whole tree, put aside and brought back, for test suites that prepare much and change little."""

from __future__ import annotations

import attrs

from ..core.engine import Engine
from ..core.txn import Replace
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
        gone = {owner for owner in self._owners if engine.sessions.get(owner) is None}
        # no client may ever see a zxid that is smaller than one it has seen
        engine.replace_tree(Replace(self._root, frozenset(gone)), self.zxid)
