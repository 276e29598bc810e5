"""All that a tree holds, for comparing two."""

from __future__ import annotations

from typing import Any

from pyzk.server.core.tree import DataTree


def contents(tree: DataTree) -> dict[str, Any]:
    """All that a tree holds, the order of children aside."""
    return {
        "znodes": {
            path: (
                *(node.data, node.acl, node.owner, node.children_created, node.stat()),
                frozenset(node.children or ()),
            )
            for path, node in tree.nodes.items()
        },
        "ephemerals": tree.ephemerals,
        "containers": tree.containers,
        "ttl_nodes": tree.ttl_nodes,
        "sizes": (tree.data_size, len(tree)),
        "quotas": quotas(tree),
    }


def quotas(tree: DataTree) -> dict[str, Any]:
    found = {}
    waiting = [tree.quotas._root]
    while waiting:
        quota = waiting.pop()
        waiting += quota.below.values()
        found[quota.path] = (quota.limits, quota.stats is not None, quota.usage, quota.total, quota.stale)
    return found
