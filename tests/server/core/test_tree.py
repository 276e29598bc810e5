"""The DataTree alone: the initial tree, Stats, and what each effect changes (semantics.md section 1)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyzk.protocol.constants import INT_MAX, INT_MIN
from pyzk.protocol.paths import join
from pyzk.protocol.records import ACL, OPEN_ACL, READ_ACL, Id, Stat
from pyzk.server.core import tree as tree_module
from pyzk.server.core.tree import DataTree
from pyzk.server.core.txn import Check, Effect, SetACL, SetData
from pyzk.server.core.znode import CONTAINER_OWNER, MAX_TTL, ttl_owner, wrap32

from ...support.invariants import check_tree_invariants, snapshot
from ...support.world import creation, deletion, set_create_counter

SESSION = 0x0100_001F_3482_0000


@pytest.fixture
def tree() -> DataTree:
    return DataTree()


def stat(tree: DataTree, path: str) -> Stat:
    return tree.nodes[path].stat()


FIELDS = ["czxid", "mzxid", "ctime", "mtime", "version", "cversion", "aversion", "ephemeralOwner"]
FIELDS += ["dataLength", "numChildren", "pzxid"]


def zero_but(**fields: int) -> Stat:
    return Stat(*(fields.get(name, 0) for name in FIELDS))


def changes(before: Stat, after: Stat) -> dict[str, int]:
    """The fields that differ, with their new values."""
    return {name: getattr(after, name) for name in FIELDS if getattr(after, name) != getattr(before, name)}


# --- section 1.2: the initial tree -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "acl", "wanted"),
    [
        ("/", OPEN_ACL, zero_but(cversion=-1, numChildren=1)),
        ("", OPEN_ACL, zero_but(cversion=-1, numChildren=1)),
        ("/zookeeper", OPEN_ACL, zero_but(cversion=-2, numChildren=2)),
        ("/zookeeper/config", READ_ACL, zero_but(aversion=-1)),
        ("/zookeeper/quota", OPEN_ACL, zero_but()),
    ],
)
def test_the_built_in_znodes(tree: DataTree, path: str, acl: tuple[ACL, ...], wanted: Stat) -> None:
    node = tree.nodes[path]
    assert (node.data, node.acl, node.stat()) == (b"", acl, wanted)


def test_an_empty_tree_counts_the_root_twice(tree: DataTree) -> None:
    assert len(tree) == 5
    assert sorted(tree.walk("/")) == ["/zookeeper", "/zookeeper/config", "/zookeeper/quota"]
    assert tree.data_size == 44  # operator-surface.md: approximate_data_size of an empty server
    check_tree_invariants(tree)


# --- section 1.1: the stored owner tells the kind ----------------------------------------------------------


@pytest.mark.parametrize(
    ("owner", "shown", "container", "ttl", "ephemeral"),
    [
        (0, 0, False, None, False),
        (SESSION, SESSION, False, None, True),
        (1, 1, False, None, True),
        (CONTAINER_OWNER, 0, True, None, False),
        (ttl_owner(1), 0, False, 1, False),
        (ttl_owner(60_000), 0, False, 60_000, False),
        (ttl_owner(MAX_TTL), 0, False, MAX_TTL, False),
    ],
)
def test_the_stored_owner_tells_the_kind(
    tree: DataTree, owner: int, shown: int, container: bool, ttl: int | None, ephemeral: bool
) -> None:
    tree.apply(creation("/n", owner=owner), 2, 1000)
    node = tree.nodes["/n"]
    assert (node.is_container, node.ttl, node.ephemeral_owner) == (container, ttl, shown)
    assert node.stat().ephemeralOwner == shown
    assert ("/n" in tree.containers, "/n" in tree.ttl_nodes) == (container, ttl is not None)
    assert tree.ephemerals == ({owner: {"/n": None}} if ephemeral else {})
    check_tree_invariants(tree)
    tree.apply(deletion("/n"), 3, 1000)
    assert (tree.ephemerals, tree.containers, tree.ttl_nodes) == ({}, {}, {})


def test_the_stored_forms_are_those_of_the_real_server() -> None:
    assert CONTAINER_OWNER % 2**64 == 0x8000000000000000
    assert ttl_owner(5) % 2**64 == 0xFF00000000000005
    assert MAX_TTL == 0xFFFFFFFFFF


# --- section 1.4: the effect of each operation -------------------------------------------------------------


def test_create_sets_every_field_and_moves_its_parent(tree: DataTree) -> None:
    before = stat(tree, "/")
    tree.apply(creation("/a", b"abc"), 7, 1234)
    assert stat(tree, "/a") == zero_but(czxid=7, mzxid=7, pzxid=7, ctime=1234, mtime=1234, dataLength=3)
    assert changes(before, stat(tree, "/")) == {"pzxid": 7, "numChildren": 2, "cversion": 0}


def test_delete_moves_the_parent_but_not_its_create_counter(tree: DataTree) -> None:
    tree.apply(creation("/a"), 2, 1)
    tree.apply(creation("/a/b"), 3, 2)
    before = stat(tree, "/a")
    tree.apply(deletion("/a/b"), 4, 3)
    assert changes(before, stat(tree, "/a")) == {"pzxid": 4, "numChildren": 0, "cversion": 2}
    assert tree.nodes["/a"].children_created == 1
    assert tree.find("/a/b") is None
    assert not tree.nodes["/a"].children


def test_set_data_changes_the_znode_alone(tree: DataTree) -> None:
    tree.apply(creation("/a", b"abc"), 2, 1)
    before, parent = stat(tree, "/a"), stat(tree, "/")
    tree.apply(SetData("/a", b"longer", 1), 3, 50)
    assert changes(before, stat(tree, "/a")) == {"version": 1, "mzxid": 3, "mtime": 50, "dataLength": 6}
    assert stat(tree, "/") == parent
    assert tree.nodes["/a"].data == b"longer"


def test_set_acl_changes_aversion_alone(tree: DataTree) -> None:
    # semantics.md section 18, trap 7
    tree.apply(creation("/a"), 2, 1)
    before, parent = stat(tree, "/a"), stat(tree, "/")
    acl = (ACL(1, Id("ip", "10.0.0.1")),)
    tree.apply(SetACL("/a", acl, 1), 3, 50)
    assert changes(before, stat(tree, "/a")) == {"aversion": 1}
    assert tree.nodes["/a"].acl == acl
    assert stat(tree, "/") == parent


def test_check_changes_nothing(tree: DataTree) -> None:
    before = snapshot(tree)
    tree.apply(Check("/zookeeper"), 3, 50)
    assert snapshot(tree) == before


def test_pzxid_moves_with_direct_children_only(tree: DataTree) -> None:
    for zxid, path in enumerate(("/a", "/a/b", "/a/b/c"), 2):
        tree.apply(creation(path), zxid, 1)
    assert (stat(tree, "/a").pzxid, stat(tree, "/a/b").pzxid) == (3, 4)


def test_a_recreated_znode_starts_from_zero(tree: DataTree) -> None:
    tree.apply(creation("/a", b"x"), 2, 1)
    tree.apply(SetData("/a", b"y", 1), 3, 2)
    tree.apply(SetACL("/a", READ_ACL, 1), 4, 3)
    tree.apply(deletion("/a"), 5, 4)
    tree.apply(creation("/a"), 6, 5)
    assert stat(tree, "/a") == zero_but(czxid=6, mzxid=6, pzxid=6, ctime=5, mtime=5)


@pytest.mark.parametrize(("data", "length"), [(None, 0), (b"", 0), (b"abc", 3)])
def test_null_and_empty_data_differ_but_not_in_length(
    tree: DataTree, data: bytes | None, length: int
) -> None:
    # wire.md section 2
    tree.apply(creation("/a", data), 2, 1)
    tree.apply(creation("/b", b"other"), 3, 1)
    tree.apply(SetData("/b", data, 1), 4, 1)
    for path in ("/a", "/b"):
        assert tree.nodes[path].data == data
        assert stat(tree, path).dataLength == length
    check_tree_invariants(tree)


# --- section 1.3: cversion on the wire ---------------------------------------------------------------------


def test_the_wire_cversion_counts_creates_and_deletes(tree: DataTree) -> None:
    seen = [stat(tree, "/").cversion]
    effects: list[Effect] = [creation("/a"), creation("/b"), deletion("/a"), creation("/a"), deletion("/b")]
    for zxid, effect in enumerate(effects, 2):
        tree.apply(effect, zxid, 1)
        seen.append(stat(tree, "/").cversion)
    assert seen == [-1, 0, 1, 2, 3, 4]
    assert tree.nodes["/"].children_created == 3


@pytest.mark.parametrize(
    ("value", "wrapped"),
    [
        (0, 0),
        (INT_MAX, INT_MAX),
        (INT_MAX + 1, INT_MIN),
        (INT_MIN - 1, INT_MAX),
        (2 * INT_MAX, -2),
        (-1, -1),
    ],
)
def test_java_int_arithmetic(value: int, wrapped: int) -> None:
    assert wrap32(value) == wrapped


def test_the_wire_cversion_wraps(tree: DataTree) -> None:
    tree.apply(creation("/a"), 2, 1)
    set_create_counter(tree, "/a", 2**30)
    assert stat(tree, "/a").cversion == INT_MIN


def test_the_create_counter_stops_at_its_end(tree: DataTree) -> None:
    # semantics.md section 6: the parent's pzxid and cversion no longer move, its children do
    tree.apply(creation("/a"), 2, 1)
    set_create_counter(tree, "/a", INT_MAX - 1)
    tree.apply(creation("/a/b"), 3, 1)
    assert (tree.nodes["/a"].children_created, stat(tree, "/a").pzxid) == (INT_MAX, 3)
    tree.apply(creation("/a/c"), 4, 1)
    assert (tree.nodes["/a"].children_created, stat(tree, "/a").pzxid) == (INT_MAX, 3)
    assert stat(tree, "/a").numChildren == 2


# --- bookkeeping -------------------------------------------------------------------------------------------


def test_walk_gives_parents_before_children(tree: DataTree) -> None:
    for path in ("/a", "/a/b", "/a/b/c", "/ab", "/a/d"):
        tree.apply(creation(path), 2, 1)
    walked = list(tree.walk("/a"))
    assert sorted(walked) == ["/a/b", "/a/b/c", "/a/d"]
    assert walked.index("/a/b") < walked.index("/a/b/c")


def test_a_bounded_number_of_paths_is_remembered(tree: DataTree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_module, "_FOUND", 3)
    for name in "abcdefgh":
        tree.apply(creation(f"/{name}"), 2, 1)
    for _ in range(2):
        for name in "abcdefgh":
            assert tree.find(f"/{name}") is tree.nodes["/"].children[name]  # type: ignore[index]
            assert len(tree._found) <= 3


def test_long_paths_are_not_remembered(tree: DataTree) -> None:
    name = "n" * 2000
    tree.apply(creation(f"/{name}"), 2, 1)
    assert tree.find(f"/{name}") is tree.nodes["/"].children[name]  # type: ignore[index]
    assert f"/{name}" not in tree._found


def test_what_is_created_again_is_another_znode(tree: DataTree) -> None:
    tree.apply(creation("/a"), 2, 1)
    first = tree.find("/a")
    tree.apply(deletion("/a"), 3, 1)
    assert tree.find("/a") is None
    tree.apply(creation("/a"), 4, 1)
    assert tree.find("/a") not in (None, first)


_NAMES = ["a", "b", "c"]
_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["create", "delete", "set", "acl"]),
        st.integers(0, 50),
        st.sampled_from(_NAMES),
        st.sampled_from([None, b"", b"x", b"xyz"]),
        st.sampled_from([0, 0, SESSION, SESSION + 1, CONTAINER_OWNER, ttl_owner(9)]),
    ),
    max_size=25,
)


def resolve(
    tree: DataTree, kind: str, which: int, name: str, data: bytes | None, owner: int
) -> Effect | None:
    """An effect that is valid now, as the preparation of a request would give it."""
    paths = sorted(set(tree.nodes) - {""})
    path = paths[which % len(paths)]
    node = tree.nodes[path]
    if kind == "create":
        child = join(path, name)
        return creation(child, data, owner) if node.owner <= 0 and child not in tree.nodes else None
    if kind == "set":
        return SetData(path, data, node.version + 1)
    if kind == "acl":
        return SetACL(path, READ_ACL, node.aversion + 1)
    return deletion(path) if not node.children and not path.startswith("/zookeeper") and path != "/" else None


@given(_STEPS)
def test_any_history_leaves_a_consistent_tree(steps: list[tuple[str, int, str, bytes | None, int]]) -> None:
    tree = DataTree()
    for zxid, step in enumerate(steps, 2):
        effect = resolve(tree, *step)
        if effect is not None:
            tree.apply(effect, zxid, zxid * 10)
    check_tree_invariants(tree)


@given(_STEPS, _STEPS)
def test_rolling_back_restores_the_tree(
    before: list[tuple[str, int, str, bytes | None, int]],
    steps: list[tuple[str, int, str, bytes | None, int]],
) -> None:
    # semantics.md section 11, rule 3
    tree = DataTree()
    for zxid, step in enumerate(before, 2):
        effect = resolve(tree, *step)
        if effect is not None:
            tree.apply(effect, zxid, zxid)
    saved = snapshot(tree)
    tree.begin()
    for step in steps:
        effect = resolve(tree, *step)
        if effect is not None and not isinstance(effect, SetACL):  # which no multi may hold
            tree.apply(effect, 1000, 1000)
            tree.nodes[effect.path if effect.path in tree.nodes else "/"].packed_stat()
    tree.roll_back()
    assert snapshot(tree) == saved
    check_tree_invariants(tree)
