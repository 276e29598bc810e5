"""Copies of the whole tree, for test suites that prepare many znodes and change few znodes in each test.

A synchronous control takes or restores a snapshot in one step. :func:`take` and :func:`bring_back` do the
same in several steps, so that clients are served meanwhile. :mod:`...core.replacing` says what clients see
meanwhile. A server with a log also writes the new tree to a file. Most of the file is written before the tree
is replaced. In an ensemble each server gets its own copy of the tree, which is made before
(:meth:`Snapshot.copied`), and replaces its tree in one step. A server that keeps digests also replaces its
tree in one step.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager

import attrs

from ..core import replacing
from ..core.engine import Engine
from ..core.tree import DataTree
from ..core.txn import Replace
from ..core.znode import Znode, copy_tree
from .running import Running

_ZNODE = 150
"""The number of bytes of memory that the copy of a znode takes, without its data. It was measured with
100,000 znodes."""


def size_of(tree: DataTree) -> int:
    """Estimate the number of bytes that a copy of a tree takes in memory after the tree has changed."""
    return tree.data_size + _ZNODE * len(tree)


@attrs.frozen(eq=False, repr=False)
class Snapshot:
    """A copy of a tree, made by ``snapshot()``. ``restore()`` can use it any number of times, on any server.

    :ivar zxid: the zxid of the tree when it was copied.
    :ivar bytes: the estimated number of bytes of memory that the copy takes.
    """

    zxid: int
    bytes: int
    _root: Znode
    _size: int
    _owners: frozenset[int]
    _copies: list[Znode] = attrs.field(factory=list)  # one for each tree that it replaces, or none
    _readers: list[None] = attrs.field(factory=list)  # one for each who copies it in steps

    def __repr__(self) -> str:
        return f"<Snapshot of {self._size} znodes at zxid 0x{self.zxid:x}>"

    @classmethod
    def of(cls, engine: Engine) -> Snapshot:
        """Return a copy of the tree that an engine serves."""
        tree = engine.tree
        root = copy_tree(tree.nodes["/"])
        return cls(engine.zxid, size_of(tree), root, len(tree) - 1, frozenset(tree.ephemerals))

    @classmethod
    def served(cls, engine: Engine) -> Snapshot:
        """Return a snapshot that shares the tree of the engine. The tree may still change. Call
        :meth:`forget` when the server does not serve the tree any longer."""
        tree = engine.tree
        return cls(engine.zxid, size_of(tree), tree.nodes["/"], len(tree) - 1, frozenset())

    def is_of(self, engine: Engine) -> bool:
        """Return whether this is the tree that an engine serves."""
        return self._root is engine.tree.nodes["/"]

    def restore(self, engine: Engine) -> None:
        """Restore the tree, without ephemerals of sessions that are over.

        It takes one zxid, and watches fire for the differences.
        """
        # no client may ever see a zxid that is smaller than one it has seen
        gone = replacing.over(engine, self._owners)
        engine.replace_tree(Replace(self._root, gone, self._copies), self.zxid)

    def copied(self, times: int) -> Generator[None, None, Snapshot]:
        """Return a snapshot that one :meth:`restore` can use for this number of trees. The copies are made in
        steps."""
        copies: list[Znode] = []
        with self._copied():
            while len(copies) < times:
                copies.append((yield from replacing.copy(self._root)))
        return attrs.evolve(self, copies=copies)

    @contextmanager
    def _copied(self) -> Iterator[None]:
        self._readers.append(None)
        try:
            yield
        finally:
            self._readers.pop()

    def forget(self) -> replacing.Steps:
        """Free the memory of the copy in steps, unless the copy is being restored now. The copy cannot be
        used afterwards."""
        if not self._readers:
            yield from replacing.dismantle(self._root)


def take(running: Running) -> Generator[None, None, Snapshot]:
    """Take a copy of the tree in steps. The copy has the state of the tree at the moment of the return."""
    while True:
        engine, touched = running.engine, replacing.Touched()
        try:
            with running.following(touched):
                root = yield from replacing.copy_served(engine.tree, touched)
        except replacing.TreeReplaced:
            continue
        if engine is running.engine:
            size, owners = len(engine.tree) - 1, frozenset(engine.tree.ephemerals)
            return Snapshot(engine.zxid, size_of(engine.tree), root, size, owners)


def bring_back(
    running: Running, snapshot: Snapshot, about_to: Callable[[], object]
) -> Generator[None, None, replacing.Steps]:
    """Restore the tree: prepare it in steps, and replace it in the last step.

    :param about_to: the function that is called at the beginning of the last step.
    :returns: a generator that frees the replaced tree, in steps.
    """
    while True:
        engine, touched = running.engine, replacing.Touched()
        with running.following(touched), snapshot._copied(), ExitStack() as stack:
            prepared = yield from replacing.prepare(engine, snapshot._root, snapshot._owners)
            storage = running.service.storage
            if storage is not None:
                for _ in stack.enter_context(storage.ahead(prepared.tree)):
                    yield
            if engine is running.engine:
                try:
                    root = replacing.replace(engine, prepared, touched, snapshot.zxid, about_to)
                except replacing.TreeReplaced:
                    continue
                return replacing.dismantle(root)
