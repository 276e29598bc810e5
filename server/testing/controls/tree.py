"""The controls of the tree: load, read, compare, copy and restore it."""

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
from .base import ServerBase, control, short


class TreeControls(ServerBase):
    """The controls of the tree."""

    @control
    def load(self, tree: Mapping[str, Any]) -> None:
        """Create znodes and their parents, or replace the data of znodes that exist. Watches fire.

        :param tree: a nested dict by name, a flat dict by path, or a mixture. Data is bytes, str (UTF-8) or
            None. A :class:`.tree_io.Node` has an ACL and a kind, too.
        :raises ZooKeeperError: the error that a client would get. Then nothing is loaded.
        :raises ValueError: an ephemeral has no live owner, or a znode already exists with another kind.
        """
        finish(load_steps(self, tree))

    @overload
    def dump(self, path: str = "/", *, form: Literal["flat"] = "flat") -> dict[str, bytes | None]: ...
    @overload
    def dump(self, path: str = "/", *, form: Literal["nested"]) -> dict[str, Any]: ...
    @overload
    def dump(self, path: str = "/", *, form: Literal["nodes"]) -> dict[str, Node]: ...

    def dump(self, path: str = "/", *, form: Literal["flat", "nested", "nodes"] = "flat") -> dict[str, Any]:
        """Return the znode at ``path`` and all znodes below it, except ``/zookeeper``, the server's own.

        :meth:`load` accepts each form.

        :param form: ``"flat"``: a dict from path to data. ``"nodes"``: a dict from path to
            :class:`.tree_io.Node`, with ACL and kind. ``"nested"``: nested dicts by name, with data at the
            leaves.
        :raises ValueError: the form is unknown.
        """
        if form not in ("flat", "nested", "nodes"):
            raise ValueError(f"form must be 'flat', 'nested' or 'nodes', not {form!r}")
        nodes = self._nodes(path)
        if form == "nodes":
            return nodes
        if form == "nested":
            return tree_io.nested(nodes)
        return {path: node.data for path, node in nodes.items()}

    @control
    def _nodes(self, path: str = "/") -> dict[str, Node]:
        return tree_io.read(self.running.engine.tree, path)

    @short
    def assert_tree(self, expected: Mapping[str, Any], path: str = "/") -> None:
        """Check that the tree at and below ``path`` is as expected.

        :param expected: the tree, as for :meth:`load`. The value ``...`` stands for a znode with any data. A
            parent without a value may have any data, too. A plain value is compared only with the data. A
            :class:`.tree_io.Node` is compared with the kind and the ACL, too.
        :raises AssertionError: the tree differs. The message has a line for each znode that differs.
        :raises TypeError: the tree is not a mapping, or the path is not a str.
        """
        _check_order(expected, path)
        actual = self._nodes(path)
        lines = finish(tree_io.differences(finish(expecting(path, expected)), actual.items()))
        if lines:
            raise AssertionError(differs(path, lines))

    def format_tree(self) -> str:
        """Show the tree as indented text."""
        return tree_io.format_tree(self._nodes())

    @control
    def export(self, path: str | os.PathLike[str]) -> Path:
        """Write the tree and the sessions into a data directory, as a snapshot of Apache ZooKeeper.

        A real server can start from this directory. A server of this project can start from it with
        ``data=``.

        :param path: the data directory, which must not hold data yet.
        :returns: the path of the snapshot.
        :raises StorageError: the directory holds data, or the snapshot cannot be written.
        """
        from ...storage.snapshots import export

        return export(self.running.engine, path)

    @control
    def snapshot(self) -> Snapshot:
        """Take a copy of the whole tree."""
        return Snapshot.of(self.running.engine)

    @control
    def restore(self, snapshot: Snapshot) -> None:
        """Replace the tree by a copy that :meth:`snapshot` has made, on this server or on another server.

        The restore is one transaction with one zxid, so zxids do not fall. Watches fire for each znode that
        differs. Sessions stay. Ephemerals of sessions that are over are not restored.
        """
        self._enter(restoring(snapshot))
        snapshot.restore(self.writer())


def _check_order(tree: object, path: object) -> None:
    """Check the types of the arguments of :meth:`TreeControls.assert_tree`.

    :raises TypeError: a type is wrong. If the arguments were probably given in the wrong order, the message
        shows the right order.
    """
    if isinstance(tree, Mapping) and isinstance(path, str):
        return
    swapped = isinstance(tree, str) and isinstance(path, Mapping)
    guess = f"; perhaps assert_tree({{...}}, {tree!r})" if swapped else ""
    raise TypeError(f"assert_tree takes first the tree, and then the path{guess}")


def load_steps(
    controls: TreeControls, tree: Mapping[str, Any], most: float = math.inf
) -> Generator[None, None, None]:
    """Load a tree in steps, as :meth:`TreeControls.load` does. The last step writes everything.

    Other tasks may run between two steps.

    :param tree: the tree, which must not change meanwhile.
    :param most: the largest number of znodes that can be created or written, including their parents.
    :raises ValueError: the tree has more than ``most`` znodes, or :meth:`TreeControls.load` would raise this
        error.
    """
    running = controls.running
    flat = yield from tree_io.flattening(tree)
    if len(flat) > most:
        raise ValueError(
            f"a request can load at most {most:,} znodes, not {len(flat):,}: use several requests, "
            "or POST /import, which writes in parts"
        )
    controls._receive()
    controls._enter(f"load {some(list(islice(tree, 10)), len(tree))}")
    try:
        yield from tree_io.loading(controls.writer, flat, lambda: running.service.at(running.clock.now()))
    finally:
        controls._flush()


def restoring(snapshot: Snapshot) -> str:
    """Return the line of the history that says that a tree is restored."""
    return f"restore {snapshot!r}"


def expecting(path: str, expected: Mapping[str, Any]) -> Generator[None, None, tree_io.Flat]:
    """Return the expected znodes at and below a path, as a dict by path. The work is done in steps."""
    flat = yield from tree_io.flattening(expected, path)
    if path != "/":
        flat.setdefault(path, ...)
    return flat


def differs(path: str, lines: Iterable[str]) -> str:
    """Return the error message for a tree that is not as expected at and below a path.

    :param lines: the lines for the znodes that differ.
    """
    head = f"the tree is not as expected (- missing, + not expected, ! different), below {path}:"
    return "\n".join([head, *(f"  {line}" for line in lines)])
