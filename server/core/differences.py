"""The changes from one tree to another. Watchers get them when a whole tree is replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ...protocol.paths import name, parent
from .txn import Change, Create, Delete, SetData
from .znode import Znode, items_below


def differences(before: Znode, after: Znode) -> Iterator[Change]:
    """Yield the changes that make the tree below one root equal to the tree below another root: deletes,
    creates and new data."""
    old, new = dict(items_below("", before)), dict(items_below("", after))
    old["/"], new["/"] = before, after
    yield from changes_at({**new, **old}, old.get, new.get)


def changes_at(
    paths: Iterable[str], before: Callable[[str], Znode | None], after: Callable[[str], Znode | None]
) -> Iterator[Change]:
    """Yield the changes that make one tree equal to another tree at some paths.

    :param paths: the paths, without duplicates.
    :param before: returns the znode at a path of the first tree, or None.
    :param after: returns the znode at a path of the second tree, or None.
    """
    deleted, created, kept = [], [], []
    for path in paths:
        there = after(path)
        was = before(path)
        if was is None and there is not None:
            created.append(path)
        elif there is None and was is not None:
            deleted.append(path)
        elif was is not None and there is not None and _is_other(was, there):
            kept.append(path)
    for path in sorted(deleted, reverse=True):  # children before parents
        yield Delete(path, name(path)), _there(before(path)), _there(before(parent(path)))
    for path in sorted(created):
        node = _there(after(path))
        effect = Create(path, name(path), node.data, node.acl, node.owner)
        yield effect, node, _there(after(parent(path)))
    for path in kept:
        node = _there(after(path))
        yield SetData(path, node.data, node.version), node, node


def _is_other(was: Znode, node: Znode) -> bool:
    return was.mzxid != node.mzxid or was.data != node.data


def _there(node: Znode | None) -> Znode:
    assert node is not None
    return node


def differing(before: Znode, after: Znode) -> Iterator[str | None]:
    """Yield the paths at which two trees differ, and None for each equal znode.

    :param before: a tree that may change meanwhile. The paths of these changes may be missing in the result.
    """
    yield "/" if _is_other(before, after) else None
    waiting: list[tuple[str, Znode | None, Znode | None]] = [("", before, after)]
    while waiting:
        path, was, node = waiting.pop()
        old = None if was is None else was.children
        new = None if node is None else node.children
        for key in list(old or ()):
            one = None if old is None else old.get(key)
            other = None if new is None else new.get(key)
            below = f"{path}/{key}"
            yield below if one is None or other is None or _is_other(one, other) else None
            if (one is not None and one.children) or (other is not None and other.children):
                waiting.append((below, one, other))
        for key, other in (new or {}).items():
            if old is None or key not in old:
                yield f"{path}/{key}"
                if other.children:
                    waiting.append((f"{path}/{key}", None, other))
