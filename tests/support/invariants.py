"""The invariants of a tree, and of a whole server, after any requests."""

from __future__ import annotations

from collections import defaultdict

from pyzk.protocol import paths
from pyzk.protocol.paths import join, validate_path
from pyzk.protocol.records import GetChildrenResponse, Stat
from pyzk.server.core.quota import ROOT
from pyzk.server.core.tree import BUILT_IN, DataTree
from pyzk.server.core.znode import Znode, wrap32

from .world import World

_LIMITS = "/zookeeper_limits"


def check_tree_invariants(tree: DataTree) -> None:
    """Fail unless children and znodes, owners and their lists, sizes, counts and kept Stats agree."""
    nodes = tree.nodes
    assert nodes[""] is nodes["/"]
    there = {"": nodes[""], "/": nodes[""], **dict(tree.items_below("/"))}
    assert tree._found.items() <= there.items(), "a znode is remembered that has gone or moved"
    assert set(BUILT_IN) <= set(nodes)
    assert len(tree) == len(nodes)
    assert sorted(tree.walk("/")) == sorted(set(nodes) - {"", "/"})
    for path, node in nodes.items():
        if path not in ("", "/"):
            validate_path(path)
            assert path[path.rindex("/") + 1 :] in (nodes[paths.parent(path)].children or ())
            assert nodes[paths.parent(path)].owner <= 0, "an ephemeral has a child"
        assert all(nodes[join(path, name)] is child for name, child in (node.children or {}).items())
        assert node.stat() == fresh_stat(node)
        if node.children is not None:
            assert node.children.pack() == GetChildrenResponse(tuple(node.children)).encode()
    _check_owners(tree)
    assert tree.data_size == sum(len(path) + len(node.data or b"") for path, node in nodes.items() if path)
    assert set(tree.quotas.prefixes) == {
        path[len(ROOT) : -len(_LIMITS)]
        for path in nodes
        if path.startswith(ROOT + "/") and path.endswith(_LIMITS) and path != ROOT + _LIMITS
    }
    _check_quotas(tree)


def _check_quotas(tree: DataTree) -> None:
    waiting = list(tree.quotas._root.below.values())
    assert bool(waiting) is tree.quotas.used
    while waiting:
        quota = waiting.pop()
        waiting += quota.below.values()
        path = quota.path
        assert quota.below or quota.stats or quota.limits is not None, "a quota that has gone is remembered"
        assert quota.stats is tree.nodes.get(f"{ROOT}{path}/zookeeper_stats")
        assert (quota.limits is not None) is (path in tree.quotas.prefixes)
        assert quota.total.whole or quota.stats is None
        if quota.total.whole:
            inside = [node for at, node in tree.nodes.items() if f"{at}/".startswith(f"{path}/")]
            size = sum(len(node.data or b"") for node in inside)
            assert (quota.total.znodes, quota.total.size) == (len(inside), size)


def _check_owners(tree: DataTree) -> None:
    ephemerals: dict[int, set[str]] = defaultdict(set)
    for path, node in tree.nodes.items():
        if node.owner > 0:
            ephemerals[node.owner].add(path)
    assert {owner: set(paths) for owner, paths in tree.ephemerals.items()} == ephemerals
    assert tree.ephemeral_count() == sum(map(len, ephemerals.values()))
    assert set(tree.containers) == {path for path, node in tree.nodes.items() if node.is_container}
    assert set(tree.ttl_nodes) == {path for path, node in tree.nodes.items() if node.ttl is not None}


def fresh_stat(node: Znode) -> Stat:
    """The Stat that a client must see, worked out from the znode's fields (semantics.md section 1)."""
    children = len(node.children or ())
    return Stat(
        czxid=node.czxid,
        mzxid=node.mzxid,
        ctime=node.ctime,
        mtime=node.mtime,
        version=node.version,
        cversion=wrap32(2 * node.children_created - children),
        aversion=node.aversion,
        ephemeralOwner=max(node.owner, 0),
        dataLength=len(node.data or b""),
        numChildren=children,
        pzxid=node.pzxid,
    )


def snapshot(tree: DataTree) -> object:
    """All that a failed operation must leave as it was, order of children aside."""
    return (
        {
            path: (
                node.data,
                node.acl,
                node.owner,
                node.children_created,
                node.stat(),
                frozenset(node.children or ()),
            )
            for path, node in tree.nodes.items()
        },
        {owner: frozenset(paths) for owner, paths in tree.ephemerals.items()},
        (
            frozenset(tree.containers),
            frozenset(tree.ttl_nodes),
            frozenset(tree.quotas.prefixes),
            tree.data_size,
        ),
    )


def check_world_invariants(world: World) -> None:
    """Fail unless tree, sessions, watches, connections and history of a whole server agree."""
    check_tree_invariants(world.tree)
    engine, connections = world.engine, world.service.connections
    assert set(world.tree.ephemerals) <= {session.id for session in engine.sessions}
    assert not any(session.closed for session in engine.sessions)
    assert not any(connection.close_expected for connection in connections)
    for session in engine.sessions:
        client = engine.client_of(session)
        assert client is None or client in connections
    watchers = {watcher for _, told in engine.watches.data_by_path() for watcher in told}
    assert watchers <= set(connections), "a connection that is over has watches"
    # Whatever consumes a zxid is one transaction (the world starts at zxid 0).
    assert [txn.zxid for txn in world.txns] == list(range(1, world.zxid + 1))
    assert [txn.time for txn in world.txns] == sorted(txn.time for txn in world.txns)
