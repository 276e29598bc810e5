"""The controls of the tree: load it, read it, compare it, put it aside and bring it back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, overload

from . import contents
from .base import BaseControls
from .contents import Node
from .describe import some
from .snapshots import Snapshot


class TreeControls(BaseControls):
    def load(self, tree: Mapping[str, Any]) -> None:
        """Create znodes, parents included, or replace the data of those that exist; watches fire.

        :param tree: a nested dict by name, or a flat one by path, or a mixture. Data is bytes, str (UTF-8) or
            None; a :class:`.contents.Node` says more.
        :raises ZooKeeperError: what a client would have been answered; then nothing is loaded.
        :raises ValueError: for an ephemeral without a live owner, or a znode that is there as another kind.
        """
        flat = contents.flatten(tree)
        self._server.receive()
        self._note(f"load {some(list(tree))}")
        contents.load(self._engine, flat, self._jumping_clock.now())
        self._server.flush()

    @overload
    def dump(self, path: str = "/", *, form: Literal["flat"] = "flat") -> dict[str, bytes | None]: ...
    @overload
    def dump(self, path: str = "/", *, form: Literal["nested"]) -> dict[str, Any]: ...
    @overload
    def dump(self, path: str = "/", *, form: Literal["nodes"]) -> dict[str, Node]: ...

    def dump(self, path: str = "/", *, form: Literal["flat", "nested", "nodes"] = "flat") -> dict[str, Any]:
        """The znodes at and below ``path``, without the server's own. :meth:`load` takes each form.

        :param form: ``"flat"``: path to data. ``"nodes"``: path to :class:`.contents.Node`, with ACL and
            kind. ``"nested"``: dicts by name, data at the leaves.
        """
        if form not in ("flat", "nested", "nodes"):
            raise ValueError(f"form is 'flat', 'nested' or 'nodes', not {form!r}")
        self._server.receive()
        nodes = contents.read(self._engine.tree, path)
        if form == "nodes":
            return nodes
        if form == "nested":
            return contents.nested(nodes)
        return {path: node.data for path, node in nodes.items()}

    def assert_tree(self, expected: Mapping[str, Any], path: str = "/") -> None:
        """Compare the tree at and below ``path`` with what it should be.

        :param expected: as for :meth:`load`, where ``...`` is a znode with any data, and so is a parent of
            which nothing else is said. Of a plain value only the data is compared, of a
            :class:`.contents.Node` the kind and ACL too.
        :raises AssertionError: with a line for each znode that differs.
        """
        flat = contents.flatten(expected, path)
        self._server.receive()
        actual = contents.read(self._engine.tree, path)
        if path != "/":
            flat.setdefault(path, ...)
        lines = contents.differences(flat, actual)
        if lines:
            head = f"the tree is not as expected (- missing, + not expected, ! different), below {path}:"
            raise AssertionError("\n".join([head, *(f"  {line}" for line in lines)]))

    def format_tree(self) -> str:
        """The tree as indented text."""
        self._server.receive()
        return contents.format_tree(contents.read(self._engine.tree))

    def snapshot(self) -> Snapshot:
        """The whole tree as it is now."""
        self._server.receive()
        return Snapshot.of(self._engine)

    def restore(self, snapshot: Snapshot) -> None:
        """Bring back a tree: of this server or of another.

        It takes one zxid, so clients see no time running backwards; watches fire for what differs; sessions
        stay, and ephemerals of those that are over do not come back.
        """
        self._server.receive()
        self._note(f"restore {snapshot!r}")
        snapshot.restore(self._engine)
        self._server.flush()
