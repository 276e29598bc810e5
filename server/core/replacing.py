"""Copying and replacing a whole tree in steps, while clients continue to read and write. The rules:

* Most functions here are generators that yield after each bounded piece of work. A piece is about 50 znodes,
  or the names of the children of one znode. 200,000 names take 3.4 ms. The caller serves other clients
  between two steps.
* A copy is exact: the copy is equal to the tree at the last zxid before the generator returns. The tree may
  change while it is copied. :class:`Touched` notes the changed paths. They are copied again, until the rest
  is so small that one step copies it.
* A replacement is made beside the served tree. Until the last step clients see and write the old tree. The
  last step is one transaction: the engine takes over the new tree, and watchers are notified. The time of the
  last step depends on the number of events. It also depends on the lower of two numbers: the number of paths
  that differ, and the number of paths with watches. With recursive watches the time depends on all paths that
  differ.
* If another caller replaces the tree meanwhile, :class:`TreeReplaced` is raised, and the caller begins again.
* Each znode of an old tree takes time to free, so :func:`dismantle` frees the tree in steps.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Generator, Iterable, Iterator
from typing import TypeAlias

import attrs

from ...protocol.constants import CONFIG_PATH
from ...protocol.paths import parent
from .differences import changes_at, differing
from .engine import Engine
from .quota import ROOT as QUOTAS
from .quota import STATS
from .tree import DataTree
from .txn import AnyEffect, CloseSession, Create, Delete, Multi, Replace, SetACL, SetData, Txn
from .znode import Znode, find_below, twin_of

Steps: TypeAlias = Generator[None, None, None]

_STEP = 50
"""The number of znodes that one step copies or compares, which takes 0.1 ms."""
_LAST = 500
"""The number of znodes that the last step may copy, which takes 1 ms."""
_PASSES = 8
"""The largest number of passes over the changed paths. After them, the last step copies all paths that have
changed during the last pass."""


class TreeReplaced(Exception):
    """The whole tree was replaced while it was copied or compared."""


class Touched:
    """The paths that transactions have changed. An object of this class is a listener for
    :attr:`.transactions.Transactions.on_txn`."""

    def __init__(self) -> None:
        self._paths: dict[str, None] = {}
        self._replaced = False

    def __call__(self, txn: Txn) -> None:
        self._note(txn.effect)

    def _note(self, effect: AnyEffect) -> None:
        if isinstance(effect, Multi):
            for part in effect.effects:
                self._note(part)
        elif isinstance(effect, CloseSession):
            for path in effect.paths:
                self._touch(path)
                self._touch(parent(path))
        elif isinstance(effect, Replace):
            self._replaced = True
        elif isinstance(effect, Create | Delete | SetData | SetACL):
            self._touch(effect.path)
            if isinstance(effect, Create | Delete):
                self._touch(parent(effect.path))

    def _touch(self, path: str) -> None:
        self._paths.pop(path, None)  # to the end, so that znodes are copied in the order of their creation
        self._paths[path] = None

    def __len__(self) -> int:
        return len(self._paths)

    def take(self, tree: DataTree) -> list[str]:
        """Return the paths that have changed since the last call, parents first. The result includes the
        paths of quota texts and of the list of the servers.

        :raises TreeReplaced: the whole tree was replaced.
        """
        if self._replaced:
            raise TreeReplaced
        paths, self._paths = self._paths, {}
        if tree.quotas.used:
            paths |= dict.fromkeys(stats for path in list(paths) for stats in _stats_above(tree, path))
        paths[CONFIG_PATH] = None
        return sorted(paths, key=_depth)


def _depth(path: str) -> int:
    return 0 if path == "/" else path.count("/")


def _stats_above(tree: DataTree, path: str) -> Iterator[str]:
    at = path
    while at:
        stats = f"{QUOTAS}{at}/{STATS}"
        if tree.find(stats) is not None:
            yield stats
        at = at[: at.rindex("/")]


# --- copying ------------------------------------------------------------------------------------------


def copy(root: Znode, without: Container[int] = ()) -> Generator[None, None, Znode]:
    """Copy a znode and all znodes below it.

    :param root: a znode that may change meanwhile. Then the copies of two znodes may be from two moments.
    :param without: sessions whose ephemerals are left out.
    """
    top = twin_of(root)
    waiting = [(root, top)]
    count = 0
    while waiting:
        node, made = waiting.pop()
        children = node.children
        if children is None:
            continue
        made.children = below = twin_of(children)
        below.packed = made.packed = None  # the copy may have fewer children
        for name in list(children):
            child = children.get(name)
            if child is not None and child.owner not in without:
                below[name] = twin = twin_of(child)
                if child.children is not None:
                    waiting.append((child, twin))
            count += 1
            if not count % _STEP:
                yield
    return top


def copy_served(tree: DataTree, touched: Touched) -> Generator[None, None, Znode]:
    """Copy a tree that keeps changing. The copy is equal to the tree at the moment when the generator
    returns.

    :param touched: the notes of all changes since this function was called.
    """
    top = yield from copy(tree.nodes["/"])
    for _ in range(_PASSES):
        if len(touched) <= _LAST:
            break
        for count, path in enumerate(touched.take(tree)):
            _copy_again(tree, top, path)
            if not count % _STEP:
                yield
    for path in touched.take(tree):
        _copy_again(tree, top, path)
    return top


def _copy_again(tree: DataTree, top: Znode, path: str) -> None:
    """Copy the znode at a path from the tree again, without the znodes below it."""
    node = tree.find(path)
    if path == "/":
        assert node is not None
        _become(top, node)
        return
    above, _, name = path.rpartition("/")
    place = find_below(top, above)
    if place is None or place.children is None:  # the copy has no parent for this znode any more
        return
    made = place.children.get(name)
    if made is not None and (node is None or made.czxid != node.czxid):
        del place.children[name]
        made = None
    if node is not None:
        if made is None:
            made = place.children[name] = twin_of(node)
            made.children = None
        _become(made, node)


def _become(made: Znode, node: Znode) -> None:
    children, below = node.children, made.children
    made.data, made.acl = node.data, node.acl
    made.mzxid, made.mtime = node.mzxid, node.mtime
    made.version, made.aversion = node.version, node.aversion
    made.packed = None
    if children is not None:
        if below is None:
            below = made.children = twin_of(children)
        below.created, below.changed, below.packed = children.created, children.changed, None


def dismantle(root: Znode) -> Steps:
    """Free the znodes of a tree that nobody uses any more."""
    waiting = [root.children]
    count = 0
    while waiting:
        children = waiting.pop()
        while children:
            _, node = children.popitem()
            if node.children:
                waiting.append(node.children)
            count += 1
            if not count % _STEP:
                yield


# --- replacing ------------------------------------------------------------------------------------------


@attrs.define(eq=False)
class Replacement:
    """A prepared tree for an engine.

    :ivar tree: the new tree of the engine.
    :ivar root: the root of the tree from which the new tree was copied.
    :ivar owners: the sessions that own ephemerals in the new tree.
    :ivar paths: the paths at which the new tree may differ from the engine's tree.
    :ivar below: the same paths, by their parents.
    """

    root: Znode
    tree: DataTree
    owners: Iterable[int]
    paths: dict[str, None] = attrs.field(factory=dict)
    below: dict[str, list[str]] = attrs.field(factory=dict)

    def differs(self, path: str) -> None:
        """Add a path at which the new tree may differ."""
        if path not in self.paths:
            self.paths[path] = None
            if path != "/":
                self.below.setdefault(parent(path), []).append(path)


def over(engine: Engine, owners: Iterable[int]) -> frozenset[int]:
    """Return the sessions among ``owners`` that are over."""
    return frozenset(owner for owner in owners if engine.sessions.get(owner) is None)


def prepare(engine: Engine, root: Znode, owners: Iterable[int]) -> Generator[None, None, Replacement]:
    """Copy a tree that never changes, and compare the copy with the tree of an engine.

    :param root: the root of the tree to copy.
    :param owners: the sessions that own ephemerals in this tree. The copy has no ephemerals of sessions that
        are over.
    """
    made = yield from copy(root, over(engine, owners))
    tree = DataTree()
    yield from tree.starting(made)
    _keep_config(engine.tree, tree)
    replacement = Replacement(root, tree, owners)
    for count, path in enumerate(differing(engine.tree.nodes["/"], made)):
        if path is not None:
            replacement.differs(path)
        if not count % _STEP:
            yield
    return replacement


def replace(
    engine: Engine,
    replacement: Replacement,
    touched: Touched,
    zxid: int,
    about_to: Callable[[], object] = lambda: None,
) -> Znode:
    """Replace the tree of an engine by the prepared tree, in one transaction. Watches fire for the
    differences.

    :param touched: the notes of all changes since :func:`prepare` was called.
    :param zxid: a zxid; no client has seen a later zxid.
    :param about_to: a function that is called as soon as the replacement cannot fail any more.
    :returns: the root of the tree that was replaced, for :func:`dismantle`.
    :raises TreeReplaced: the whole tree was replaced meanwhile. Then this function has changed nothing.
    """
    before, after = engine.tree, replacement.tree
    for path in touched.take(before):
        replacement.differs(path)
    about_to()
    gone = over(engine, replacement.owners)
    for owner in gone:
        after.leave_out(owner)
    _keep_config(before, after)
    changes = []
    if engine.watches.watchers:
        watched = dict.fromkeys(engine.watches.watched(replacement.paths, replacement.below))
        changes = list(changes_at(watched, before.find, after.find))
    root = before.nodes["/"]
    engine.replace_tree(Replace(replacement.root, gone), zxid, (after, changes))
    return root


def _keep_config(before: DataTree, after: DataTree) -> None:
    """Copy the list of the servers from one tree to another. The list describes the server, not the data."""
    config = before.nodes[CONFIG_PATH]
    after.configure(config.data, config.mzxid, config.mtime, config.version)
