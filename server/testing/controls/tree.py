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
            None; a :class:`.tree_io.Node` gives the ACL and the kind too.
        :raises ZooKeeperError: the error that a client would get; then nothing is loaded.
        :raises ValueError: an ephemeral has no live owner, or a znode exists already with another kind.
        """
        finish(load_steps(self, tree))

    @overload
    def dump(self, path: str = "/", *, form: Literal["flat"] = "flat") -> dict[str, bytes | None]: ...
    @overload
    def dump(self, path: str = "/", *, form: Literal["nested"]) -> dict[str, Any]: ...
    @overload
    def dump(self, path: str = "/", *, form: Literal["nodes"]) -> dict[str, Node]: ...

    def dump(self, path: str = "/", *, form: Literal["flat", "nested", "nodes"] = "flat") -> dict[str, Any]:
        """Return the znode at ``path`` and all znodes below it, except the server's own (``/zookeeper``).
        :meth:`load` accepts each of the forms.

        :param form: ``"flat"``: a dict from path to data. ``"nodes"``: a dict from path to
            :class:`.tree_io.Node`, with ACL and kind. ``"nested"``: nested dicts by name, with data at the
            leaves.
        :raises ValueError: unknown form.
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

    @short
    def assert_tree(self, expected: Mapping[str, Any], path: str = "/") -> None:
        """Check that the tree at and below ``path`` is as expected.

        :param expected: the tree, as for :meth:`load`. ``...`` stands for a znode with any data; so does a
            parent for which no value is given. A plain value is compared with the data only; a
            :class:`.tree_io.Node` is compared with the kind and the ACL too.
        :raises AssertionError: the tree differs; the message has a line for each znode that differs.
        :raises TypeError: the tree is no mapping, or the path no text.
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
        """Write the tree and the sessions into a data directory, as a snapshot of Apache ZooKeeper. A real
        server can start from it, and so can this one with ``data=``.

        :param path: the data directory; it must not hold data yet.
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
        """Replace the tree by a copy that :meth:`snapshot` has made, on this server or on another.

        This is one transaction with one zxid, so zxids do not go back. Watches fire for each znode that
        differs. Sessions stay. Ephemerals of sessions that are over are not restored.
        """
        self._enter(restoring(snapshot))
        snapshot.restore(self.writer())


def _check_order(tree: object, path: object) -> None:
    """Check the types of the arguments of :meth:`TreeControls.assert_tree`.

    :raises TypeError: with a guess if they are in the wrong order.
    """
    if isinstance(tree, Mapping) and isinstance(path, str):
        return
    swapped = isinstance(tree, str) and isinstance(path, Mapping)
    guess = f"; perhaps assert_tree({{...}}, {tree!r})" if swapped else ""
    raise TypeError(f"assert_tree takes the tree, and then the path{guess}")


def load_steps(
    controls: TreeControls, tree: Mapping[str, Any], most: float = math.inf
) -> Generator[None, None, None]:
    """Do what :meth:`TreeControls.load` does, in steps. The last step writes everything. Other tasks may run
    between two steps.

    :param tree: must not change meanwhile.
    :param most: how many znodes may be created or written at once, with the parents.
    :raises ValueError: there are more; and as for ``load``.
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
    """Return the line of the history that says that a tree is restored."""
    return f"restore {snapshot!r}"


def expecting(path: str, expected: Mapping[str, Any]) -> Generator[None, None, tree_io.Flat]:
    """Return what is expected at and below a path, by path; in steps."""
    flat = yield from tree_io.flattening(expected, path)
    if path != "/":
        flat.setdefault(path, ...)
    return flat


def differs(path: str, lines: Iterable[str]) -> str:
    """Return the message that says that the tree at and below a path differs from what was expected."""
    head = f"the tree is not as expected (- missing, + not expected, ! different), below {path}:"
    return "\n".join([head, *(f"  {line}" for line in lines)])
