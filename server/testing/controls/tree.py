"""The controls of the tree: load it, read it, compare it, put it aside and bring it back."""

from __future__ import annotations

import math
import os
from collections.abc import Generator, Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Literal, overload

from .. import tree_io
from ..describe import some
from ..snapshots import Snapshot
from ..steps import finish
from ..tree_io import Node
from .base import ServerBase, control


class TreeControls(ServerBase):
    """What a test does with the tree."""

    @control
    def load(self, tree: Mapping[str, Any]) -> None:
        """Create znodes, parents included, or replace the data of those that exist; watches fire.

        :param tree: a nested dict by name, or a flat one by path, or a mixture. Data is bytes, str (UTF-8) or
            None; a :class:`.tree_io.Node` says more.
        :raises ZooKeeperError: what a client would have been answered; then nothing is loaded.
        :raises ValueError: for an ephemeral without a live owner, or a znode that is there as another kind.
        """
        finish(load_steps(self, tree))

    @overload
    def dump(self, path: str = "/", *, form: Literal["flat"] = "flat") -> dict[str, bytes | None]: ...
    @overload
    def dump(self, path: str = "/", *, form: Literal["nested"]) -> dict[str, Any]: ...
    @overload
    def dump(self, path: str = "/", *, form: Literal["nodes"]) -> dict[str, Node]: ...

    def dump(self, path: str = "/", *, form: Literal["flat", "nested", "nodes"] = "flat") -> dict[str, Any]:
        """Return the znodes at and below ``path``, without the server's own. :meth:`load` takes each form.

        :param form: ``"flat"``: path to data. ``"nodes"``: path to :class:`.tree_io.Node`, with ACL and
            kind. ``"nested"``: dicts by name, data at the leaves.
        :raises ValueError: for another form.
        """
        if form not in ("flat", "nested", "nodes"):
            raise ValueError(f"form is 'flat', 'nested' or 'nodes', not {form!r}")
        nodes = self._nodes(path)
        if form == "nodes":
            return nodes
        if form == "nested":
            return tree_io.nested(nodes)
        return {path: node.data for path, node in nodes.items()}

    @control
    def _nodes(self, path: str = "/") -> dict[str, Node]:
        return tree_io.read(self.running.engine.tree, path)

    def assert_tree(self, expected: Mapping[str, Any], path: str = "/") -> None:
        """Compare the tree at and below ``path`` with what it should be.

        :param expected: as for :meth:`load`, where ``...`` is a znode with any data, and so is a parent of
            which nothing else is said. Of a plain value only the data is compared, of a
            :class:`.tree_io.Node` the kind and ACL too.
        :raises AssertionError: with a line for each znode that differs.
        """
        actual = tree_io.read(self.running.engine.tree, path)
        lines = finish(tree_io.differences(finish(expecting(path, expected)), actual.items()))
        if lines:
            raise AssertionError(differs(path, lines))

    def format_tree(self) -> str:
        """Show the tree as indented text."""
        return tree_io.format_tree(self._nodes())

    @control
    def export(self, path: str | os.PathLike[str]) -> Path:
        """Write tree and sessions into a data directory that holds no data yet, as a snapshot of Apache
        ZooKeeper: a real server starts from it, and so does ours with ``data=``.

        :returns: the snapshot.
        :raises StorageError: if that is impossible.
        """
        from ...storage.snapshots import export

        return export(self.running.engine, path)

    @control
    def snapshot(self) -> Snapshot:
        """Take a copy of the whole tree."""
        return Snapshot.of(self.running.engine)

    @control
    def restore(self, snapshot: Snapshot) -> None:
        """Bring back a copy of a tree, of this server or of another.

        It takes one zxid, so clients see no time running backwards; watches fire for what differs; sessions
        stay, and ephemerals of those that are over do not come back.
        """
        self._enter(restoring(snapshot))
        snapshot.restore(self.writer())


def load_steps(
    controls: TreeControls, tree: Mapping[str, Any], most: float = math.inf
) -> Generator[None, None, None]:
    """Do what :meth:`TreeControls.load` does, in steps; all is written in the last one. Others may run
    between two of them.

    :param tree: does not change meanwhile.
    :param most: how many znodes may be created or written at once, parents included.
    :raises ValueError: if they are more; otherwise as ``load`` does.
    """
    running = controls.running
    flat = yield from tree_io.flattening(tree)
    if len(flat) > most:
        raise ValueError(
            f"at most {most:,} znodes are loaded at once, and not {len(flat):,}: use several requests, "
            "or POST /import, which writes some at a time"
        )
    controls._receive()
    controls._enter(f"load {some(list(islice(tree, 10)), len(tree))}")
    try:
        yield from tree_io.loading(controls.writer, flat, lambda: running.service.at(running.clock.now()))
    finally:
        controls._flush()


def restoring(snapshot: Snapshot) -> str:
    """Say in the history that a tree is brought back."""
    return f"restore {snapshot!r}"


def expecting(path: str, expected: Mapping[str, Any]) -> Generator[None, None, tree_io.Flat]:
    """Return what is expected at and below a path, by path; in steps."""
    flat = yield from tree_io.flattening(expected, path)
    if path != "/":
        flat.setdefault(path, ...)
    return flat


def differs(path: str, lines: Iterable[str]) -> str:
    """Say that the tree at and below a path differs from what was expected."""
    head = f"the tree is not as expected (- missing, + not expected, ! different), below {path}:"
    return "\n".join([head, *(f"  {line}" for line in lines)])
