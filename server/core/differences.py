"""What leads from one tree to another: for the watchers, when a whole tree is replaced."""

from __future__ import annotations

from collections.abc import Iterator

from ...protocol.paths import name, parent
from .txn import Change, Create, Delete, SetData
from .znode import Znode, items_below


def differences(before: Znode, after: Znode) -> Iterator[Change]:
    """Yield the changes that lead from one root to another: deletes, creates, new data."""
    old, new = dict(items_below("", before)), dict(items_below("", after))
    old["/"], new["/"] = before, after
    for path in sorted(old.keys() - new.keys(), reverse=True):  # children before parents
        yield Delete(path, name(path)), old[path], old[parent(path)]
    for path in sorted(new.keys() - old.keys()):
        node = new[path]
        yield Create(path, name(path), node.data, node.acl, node.owner), node, new[parent(path)]
    for path, node in new.items():
        was = old.get(path, node)
        if was.mzxid != node.mzxid or was.data != node.data:
            yield SetData(path, node.data, node.version), node, node
