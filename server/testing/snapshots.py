"""The whole tree put aside and brought back, for test suites that prepare much and change little."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import TypeVar

import attrs

from ...protocol.paths import parent_of
from ..core.engine import Engine
from ..core.txn import Create, Delete, Effect, SetData
from ..core.znode import Znode

T = TypeVar("T")


@attrs.frozen(eq=False, repr=False)
class Snapshot:
    """A tree as it was; made by ``snapshot()``, for ``restore()``, as often as one likes, on any server."""

    zxid: int
    _root: Znode
    _size: int

    def __repr__(self) -> str:
        return f"<Snapshot of {self._size} znodes at zxid 0x{self.zxid:x}>"

    @classmethod
    def of(cls, engine: Engine) -> Snapshot:
        tree = engine.tree
        return cls(engine.zxid, _copy(tree.nodes["/"], lambda node: True), len(tree) - 1)

    def restore(self, engine: Engine) -> None:
        """Make the tree what it was; ephemerals of sessions that are over stay away.

        It takes one zxid, and watches fire for what differs.
        """
        tree = engine.tree
        watched = bool(engine.watches.watchers)
        before = dict(tree.items_below("/")) if watched else {}
        sessions = engine.sessions
        tree.replace(_copy(self._root, lambda node: node.owner <= 0 or sessions.get(node.owner) is not None))
        # no client may ever see a zxid that is smaller than one it has seen
        engine.zxid = max(engine.zxid, self.zxid) + 1
        if watched:
            after = dict(tree.items_below("/"))
            before["/"] = after["/"] = tree.nodes["/"]
            for effect, own, parent in _changes(before, after):
                engine.fire(effect, own.acl, parent.acl)


def _copy(root: Znode, wanted: Callable[[Znode], bool]) -> Znode:
    """A znode and all below it, but for the branches that are not wanted."""
    top = _twin(root)
    waiting = [(root, top)]
    while waiting:
        node, copy = waiting.pop()
        if node.children is None:
            continue
        copy.children = _twin(node.children)
        copy.children.packed = None
        for name, child in node.children.items():
            if wanted(child):
                copy.children[name] = twin = _twin(child)
                if child.children is not None:
                    waiting.append((child, twin))
        copy.packed = None  # there may be fewer children now
    return top


def _twin(original: T) -> T:
    """A znode with the very same attributes, or a znode's children without the children themselves."""
    cls = type(original)
    twin = cls.__new__(cls)
    for name in _attributes(cls.__mro__):
        setattr(twin, name, getattr(original, name))
    return twin


@cache
def _attributes(bases: tuple[type, ...]) -> tuple[str, ...]:
    return tuple(name for base in bases for name in getattr(base, "__slots__", ()))


def _changes(before: dict[str, Znode], after: dict[str, Znode]) -> Iterator[tuple[Effect, Znode, Znode]]:
    """What leads from one tree to the other, each with the znode concerned and its parent."""

    def parent(nodes: dict[str, Znode], path: str) -> Znode:
        return nodes[parent_of(path) or "/"]

    for path in sorted(before.keys() - after.keys(), reverse=True):  # children before parents
        yield Delete(path, parent_of(path)), before[path], parent(before, path)
    for path in sorted(after.keys() - before.keys()):
        node = after[path]
        effect = Create(path, parent_of(path), node.data, node.acl, node.owner)
        yield effect, node, parent(after, path)
    for path, node in after.items():
        old = before.get(path, node)
        if old.mzxid != node.mzxid or old.data != node.data:
            yield SetData(path, node.data, node.version), node, node
