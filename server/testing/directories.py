"""Locks, elections, semaphores and other directories in a server's tree, with their holders and waiters.

:mod:`pyzk.protocol.layouts` recognises a directory; this module reads the tree for it. Only the first 1,000
children of a directory are read, in the order of their creation.
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
"""At most this number of children of a directory is read. To recognise a directory by so many children takes
about 10 ms."""
_GATE: Final = "-__lock__"
"""kazoo's semaphore has a lock, whose path is the path of the semaphore with this suffix. The directory of
the semaphore itself may have no children."""

Found: TypeAlias = tuple[str, Znode, Layout]
"""A recognised directory: its path, its znode, and its kind."""


def layout_at(tree: DataTree, path: str) -> Layout | None:
    """Return the kind of the directory at a path. None if there is no directory, or if the directory is not
    recognised."""
    node = tree.find(path) if path.startswith("/") else None
    if node is None or not (node.children or tree.find(path + _GATE)):
        return None
    return recognise(path, _directories(tree, path, node))


def recognised(tree: DataTree, path: str) -> Iterator[Found | None]:
    """Yield the recognised directories at and below a path, and None for each other znode. The caller can let
    other tasks run after each znode."""
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
    """Yield the sessions that hold a lock, in the order in which they came. They are the holders in the
    directory. If the lock itself is an ephemeral znode, the only holder is the owner of this znode."""
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
