"""Locks, elections, semaphores ... in a server's tree: who holds a directory, and who waits for whom.

:mod:`pyzk.protocol.layouts` recognises a directory; this module reads the tree for it. In a directory the
first 1,000 children are looked at, in the order of their creation: whoever waits behind them waits long.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from itertools import islice
from typing import Final, TypeAlias

from ...protocol.layouts import Child, Directory, Layout, parts, recognise
from ..core.tree import DataTree
from ..core.znode import Znode
from .tree_io import RESERVED, walk

LOOKED_AT: Final = 1000
"""Children of one directory: recognising so many takes some 10 ms."""
_GATE: Final = "-__lock__"
"""What the name of the gate of kazoo's semaphore ends with; the semaphore may have no children."""

Found: TypeAlias = tuple[str, Znode, Layout]
"""A directory that is recognised: its path, its znode, and what it is."""


def layout_at(tree: DataTree, path: str) -> Layout | None:
    """Return what the directory at a path is; None if there is none, or it is not recognised."""
    node = tree.find(path) if path.startswith("/") else None
    if node is None or not (node.children or tree.find(path + _GATE)):
        return None
    return recognise(path, _directories(tree, path, node))


def recognised(tree: DataTree, path: str) -> Iterator[Found | None]:
    """Yield the directories at and below a path that are recognised, and None for each other znode, so that
    a caller may let others run between them."""
    claimed: set[str] = set()
    for at, node in walk(tree, path):
        is_reserved = at == RESERVED or at.startswith(f"{RESERVED}/")
        layout = None if is_reserved or at in claimed else layout_at(tree, at)
        if layout is None:
            yield None
        else:
            claimed.update(layout.parts)
            yield at, node, layout


def holders(tree: DataTree, path: str) -> Generator[int, None, None]:
    """Yield the sessions that hold a lock, first come first: those of the directory, or the owner of an
    ephemeral znode that is the lock itself."""
    layout = layout_at(tree, path)
    if layout is not None:
        yield from (entry.session for entry in layout.holders if entry.session)
    elif (node := tree.find(path) if path.startswith("/") else None) is not None and node.owner:
        yield node.owner


def _directories(tree: DataTree, path: str, node: Znode) -> dict[str, Directory]:
    """A directory and its parts."""
    found = {path: _directory(node)}
    for part in parts(path, found[path].children):
        if (other := tree.find(part)) is not None:
            found[part] = _directory(other)
    return found


def _directory(node: Znode) -> Directory:
    children = islice((node.children or {}).items(), LOOKED_AT)
    return Directory({name: Child(child.stat(), child.data) for name, child in children}, node.data)
