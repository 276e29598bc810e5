"""A whole tree copied and replaced in steps, while clients write."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyzk.protocol.constants import CONFIG_PATH, AddWatchMode
from pyzk.protocol.records import ACL, Id
from pyzk.server.core import replacing
from pyzk.server.core.differences import differing
from pyzk.server.core.quota import ROOT
from pyzk.server.core.replacing import (
    Replacement,
    Touched,
    TreeReplaced,
    copy,
    copy_served,
    dismantle,
    prepare,
    replace,
)
from pyzk.server.core.tree import DataTree
from pyzk.server.core.txn import (
    Check,
    CloseSession,
    CreateSession,
    Multi,
    Refused,
    Replace,
    SetACL,
    SetData,
    Txn,
)
from pyzk.server.core.watches import WatchManager
from pyzk.server.core.znode import Znode, copy_tree, find_below

from ...support.histories import SETTINGS, START, Action, Run, action, set_up_quota
from ...support.invariants import check_tree_invariants, check_world_invariants
from ...support.replacing import counted, following, made_of
from ...support.requests import create_op, set_op
from ...support.tree import contents
from ...support.world import Peer, World, creation, deletion

READ = (ACL(1, Id("world", "anyone")),)


def tree_of(root: Znode) -> DataTree:
    tree = DataTree()
    tree.adopt(root)
    return tree


def tree(*paths: str) -> DataTree:
    made = DataTree()
    for zxid, path in enumerate(paths, 1):
        made.apply(creation(path, b"x"), zxid, zxid)
    return made


def txn(effect: Any) -> Txn:
    return Txn(1, 1, 0, effect)


# --- what has changed meanwhile ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("effect", "paths"),
    [
        (creation("/a/b"), ["/a", "/a/b"]),
        (deletion("/a/b"), ["/a", "/a/b"]),
        (creation("/a"), ["/", "/a"]),
        (SetData("/a/b", b"", 1), ["/a/b"]),
        (SetACL("/a/b", READ, 1), ["/a/b"]),
        (Multi((SetData("/x", b"", 1), creation("/y/z"))), ["/x", "/y", "/y/z"]),
        (CloseSession(("/s/e", "/f"), False), ["/", "/s", "/f", "/s/e"]),
        (Check("/a"), []),
        (CreateSession(4000), []),
        (Refused(-101), []),
        (Multi(()), []),
    ],
)
def test_each_effect_touches_its_paths_and_their_parents(effect: Any, paths: list[str]) -> None:
    touched, server = Touched(), tree()
    touched(txn(effect))
    assert len(touched) == len(paths)
    found = touched.take(server)
    assert sorted(found) == sorted([*paths, CONFIG_PATH])
    depths = [0 if path == "/" else path.count("/") for path in found]
    assert depths == sorted(depths), "parents come first"
    assert touched.take(server) == [CONFIG_PATH], "it is empty again; the list of the servers always counts"


def test_what_was_touched_last_comes_last_of_its_depth() -> None:
    """Znodes are in the order of their last creation."""
    touched = Touched()
    for path in ("/a", "/b", "/c", "/a"):
        touched(txn(creation(path)))
    assert len(touched) == 4
    assert touched.take(tree()) == ["/", "/b", "/c", "/a", CONFIG_PATH]


def test_the_texts_of_quotas_above_are_touched() -> None:
    run = Run(World(**SETTINGS))
    client = run.peer(0)
    client.create("/q")
    client.create("/q/x")
    for path in ("/q", "/q/x", "/other"):
        set_up_quota(path, b"count=9")(run)
    touched = Touched()
    touched(txn(SetData("/q/x/y", b"", 1)))
    stats = [f"{ROOT}{path}/zookeeper_stats" for path in ("/q", "/q/x")]
    assert touched.take(run.world.tree) == [CONFIG_PATH, "/q/x/y", *stats]
    touched(txn(SetData("/none", b"", 1)))
    assert touched.take(run.world.tree) == ["/none", CONFIG_PATH]


def test_a_tree_that_was_replaced_is_no_longer_followed() -> None:
    touched, server = Touched(), tree("/a")
    touched(txn(creation("/b")))
    touched(txn(Multi((Check("/a"),))))
    assert touched.take(server)
    touched(txn(Replace(server.nodes["/"], frozenset())))
    for _ in range(2):
        with pytest.raises(TreeReplaced):
            touched.take(server)


# --- copying -----------------------------------------------------------------------------------------------


def test_a_copy_is_equal_and_shares_nothing() -> None:
    before = tree("/a", "/a/b", "/a/b/c", "/d")
    before.apply(creation("/a/none", b"y", 5, READ), 7, 8)
    before.apply(deletion("/d"), 9, 9)
    copied = made_of(copy(before.nodes["/"]))
    assert contents(tree_of(copied)) == contents(before)
    after = tree_of(copied)
    assert all(after.nodes[path] is not node for path, node in before.nodes.items())
    before.apply(creation("/later"), 10, 10)
    before.apply(SetData("/a", b"later", 1), 11, 11)
    assert ("/later" in after.nodes, after.nodes["/a"].data) == (False, b"x")


def test_the_ephemerals_of_some_sessions_are_left_out_of_a_copy() -> None:
    before = tree("/a")
    for path, owner in (("/a/e", 5), ("/a/f", 6), ("/g", 5)):
        before.apply(creation(path, b"", owner), 7, 7)
    children = before.nodes["/a"].children
    assert children is not None
    children.pack()
    assert before.nodes["/a"].stat().numChildren == 2  # both are kept
    copied = tree_of(made_of(copy(before.nodes["/"], {5})))
    assert sorted(copied.nodes) == ["", "/", "/a", "/a/f", *(p for p in sorted(before.nodes) if "zoo" in p)]
    check_tree_invariants(copied)
    assert copied.nodes["/a"].stat().numChildren == 1
    assert copied.nodes["/a"].children_created == 2, "it counts those that have been"
    assert before.nodes["/a"].stat().numChildren == 2


@pytest.mark.parametrize(("znodes", "steps"), [(49 - 3, 0), (50 - 3, 1), (99 - 3, 1), (100 - 3, 2)])
def test_a_copy_gives_way_after_each_50_znodes(znodes: int, steps: int) -> None:
    """Three more are built in."""
    before = tree(*(f"/{number}" for number in range(znodes)))
    assert counted(copy(before.nodes["/"]))[0] == steps


def test_a_znode_that_goes_while_its_tree_is_copied_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replacing, "_STEP", 1)
    before = tree("/a", "/b", "/b/c", "/d")
    steps = copy(before.nodes["/"])
    next(steps)  # one of the children of the root
    before.apply(deletion("/d"), 8, 8)
    before.apply(creation("/e"), 9, 9)
    copied = made_of(steps)
    assert find_below(copied, "/d") is None
    assert find_below(copied, "/e") is None, "its name was not known"
    assert find_below(copied, "/b/c") is not None


@given(st.lists(action, max_size=25), st.integers(0, 3))
def test_a_copy_is_the_tree_of_the_last_moment(actions: list[Action], last: int) -> None:
    """Whatever clients do between its steps."""
    before = replacing._STEP, replacing._LAST
    replacing._STEP, replacing._LAST = 1, last
    try:
        run = Run(World(**SETTINGS))
        for act in START:
            act(run)
        touched = following(run.world)
        waiting = iter(actions)
        steps = copy_served(run.world.tree, touched)
        try:
            while True:
                next(steps)
                for act in [each for each in [next(waiting, None)] if each is not None]:
                    act(run)
        except StopIteration as end:
            copied = tree_of(end.value)
            assert contents(copied) == contents(run.world.tree)
            check_tree_invariants(copied)
        except TreeReplaced:
            assert any(isinstance(txn.effect, Replace) for txn in run.world.txns)
    finally:
        replacing._STEP, replacing._LAST = before


def served(world: World, *, changes: int) -> tuple[int, int]:
    """Copy a tree of which a client changes so many znodes at each step; returns how often a step was made,
    and how many znodes the last one has copied."""
    touched = following(world)
    client = world.connect()
    for number in range(changes):
        client.create(f"/{number}")
    touched.take(world.tree)
    again: list[str] = []
    copy_again = replacing._copy_again

    def note(tree: DataTree, top: Znode, path: str) -> None:
        again.append(path)
        copy_again(tree, top, path)

    replacing._copy_again = note
    try:
        steps, count = copy_served(world.tree, touched), 0
        copied: Znode | None = None
        while copied is None:
            again.clear()
            try:
                next(steps)
            except StopIteration as end:
                copied = end.value
                continue
            count += 1
            for number in range(changes):
                client.set(f"/{number}", b"%d" % count)
        assert contents(tree_of(copied)) == contents(world.tree)
        return count, len(again)
    finally:
        replacing._copy_again = copy_again


@pytest.mark.parametrize(("changed", "steps"), [(500, 0), (501, 11)])
def test_up_to_500_znodes_are_left_to_the_last_step(changed: int, steps: int) -> None:
    """A pass over more gives way at each 50."""
    touched = Touched()
    for number in range(changed):
        touched(txn(SetData(f"/{number}", b"", 1)))
    assert counted(copy_served(tree(), touched))[0] == steps


def test_the_last_step_copies_what_is_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the list of the servers, which is always copied again."""
    monkeypatch.setattr(replacing, "_STEP", 10)
    monkeypatch.setattr(replacing, "_LAST", 20)
    assert served(World(), changes=20) == (2, 21)


def test_a_client_that_changes_much_cannot_keep_a_copy_from_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """After eight passes the last step copies the rest."""
    monkeypatch.setattr(replacing, "_STEP", 100)
    monkeypatch.setattr(replacing, "_LAST", 20)
    assert replacing._PASSES == 8
    count, rest = served(World(), changes=150)
    assert rest == 50 + 151, "the end of the eighth pass, and all that has changed during it"
    assert count == 1 + 2 * 8, "one step of the copy itself; each pass gives way at its first and 101st znode"


def test_what_is_copied_again_is_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deleted, created again with other children, changed in each field, gone with all above it."""
    monkeypatch.setattr(replacing, "_LAST", 0)
    world = World(**SETTINGS)
    client = world.connect()
    for path in ("/a", "/a/x", "/b", "/c", "/c/y", "/d", "/f"):
        client.create(path, b"before")
    touched = following(world)
    top = made_of(copy(world.tree.nodes["/"]))
    client.delete("/a/x")
    client.delete("/a")
    client.create("/a", b"again", flags=1)
    client.delete("/c/y")
    client.delete("/c")
    client.create("/b/new", b"n")
    client.set("/b", b"after")
    client.set_acl("/b", READ)
    client.set("/", b"root")
    client.create("/f/g")
    client.delete("/f/g")
    client.multi(create_op("/d/m"), set_op("/d/m", b"1"), set_op("/d", b"2"))
    world.pass_time(1)
    for path in touched.take(world.tree):
        replacing._copy_again(world.tree, top, path)
    assert contents(tree_of(top)) == contents(world.tree)
    for path in ("/a", "/b", "/d/m"):
        assert find_below(top, path) is not world.tree.nodes[path]
    replacing._copy_again(world.tree, top, "/no/parent")
    replacing._copy_again(world.tree, top, "/a/none/at/all")
    assert contents(tree_of(top)) == contents(world.tree)


def test_a_kept_stat_of_a_copy_is_not_that_of_before() -> None:
    world = World()
    client = world.connect()
    client.create("/a")
    client.create("/a/b")
    client.children("/a")
    client.get("/a")  # its Stat and its names are kept, and copied
    touched = following(world)
    top = made_of(copy(world.tree.nodes["/"]))
    copied = find_below(top, "/a")
    assert copied is not None
    assert copied.children is not None
    copied.packed_stat(), copied.children.pack()
    client.set("/a", b"more")
    client.create("/a/c")
    for path in touched.take(world.tree):
        replacing._copy_again(world.tree, top, path)
    check_tree_invariants(tree_of(top))
    assert copied.stat() == world.tree.nodes["/a"].stat()


def test_a_tree_is_taken_apart_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    paths = ["/a", *(f"/a/{number}" for number in range(30)), *(f"/a/7/{number}" for number in range(30))]
    before = tree(*paths)
    nodes = [before.nodes[path] for path in ("/", "/a", "/a/7")]
    monkeypatch.setattr(replacing, "_STEP", 16)
    assert counted(dismantle(before.nodes["/"]))[0] == (len(paths) + 3) // 16
    assert [len(node.children or ()) for node in nodes] == [0, 0, 0]
    assert counted(dismantle(Znode(b"", READ, 1, 1)))[0] == 0, "that never had a child"


# --- replacing ---------------------------------------------------------------------------------------------


def two_worlds() -> tuple[Run, Run]:
    return Run(World(**SETTINGS)), Run(World(**SETTINGS))


@given(
    st.lists(action, max_size=15), st.lists(action, max_size=15), st.lists(action, max_size=8), st.booleans()
)
def test_a_tree_replaced_in_steps_is_as_one_replaced_at_once(
    first: list[Action], second: list[Action], meanwhile: list[Action], watched: bool
) -> None:
    """The same tree, the same events for each client; clients write between the steps, and see the old
    one."""
    before, replacing._STEP = replacing._STEP, 3
    try:
        one, other = two_worlds()
        for run in (one, other):
            for act in [*START, *first]:
                act(run)
        saved = [copy_tree(run.world.tree.nodes["/"]) for run in (one, other)]
        owners = frozenset(one.world.tree.ephemerals)
        zxid = one.world.zxid
        for run in (one, other):
            for act in second:
                act(run)
            if watched:
                run.peer(0).add_watch("/", AddWatchMode.PERSISTENT_RECURSIVE)
                run.peer(1).children("/", watch=True)
                run.peer(1).get("/a", watch=True)
                run.peer(1).exists("/a/b", watch=True)
        touched = following(other.world)
        steps = prepare(other.world.engine, saved[1], owners)
        waiting = iter(meanwhile)
        try:
            while True:
                next(steps)
                for act in [each for each in [next(waiting, None)] if each is not None]:
                    act(one)
                    act(other)
        except StopIteration as end:
            replacement = end.value
        for act in waiting:
            act(one)
            act(other)
        for run in (one, other):
            for peer in run.peers:
                peer.take_all()
        if any(isinstance(each.effect, Replace) for each in other.world.txns):
            return  # somebody else has replaced the tree: see below
        root = other.world.tree.nodes["/"]
        assert replace(other.world.engine, replacement, touched, zxid) is root
        engine = one.world.engine
        engine.replace_tree(Replace(saved[0], replacing.over(engine, owners)), zxid)
        assert contents(other.world.tree) == contents(one.world.tree)
        assert other.world.zxid == one.world.zxid
        check_world_invariants(other.world)
        events = [[sorted(map(str, peer.take_events())) for peer in run.peers] for run in (one, other)]
        assert events[0] == events[1]
    finally:
        replacing._STEP = before


def test_a_session_that_ends_meanwhile_gets_no_znode_back() -> None:
    world = World(**SETTINGS)
    gone, stays = world.connect(), world.connect()
    gone.create("/gone", flags=1)
    stays.create("/stays", flags=1)
    long_gone = world.connect()
    long_gone.create("/long-gone", flags=1)
    saved = copy_tree(world.tree.nodes["/"])
    owners = frozenset(world.tree.ephemerals)
    long_gone.close_session()
    touched = following(world)
    replacement = made_of(prepare(world.engine, saved, owners))
    assert {"/gone", "/stays", "/long-gone"} & set(replacement.tree.nodes) == {"/gone", "/stays"}
    gone.close_session()
    replace(world.engine, replacement, touched, 0)
    assert {"/gone", "/stays", "/long-gone"} & set(world.tree.nodes) == {"/stays"}
    effect = world.txns[-1].effect
    assert isinstance(effect, Replace)
    assert world.txns[-1].session == 0, "no client has asked for it"
    assert effect.gone == {gone.session_id, long_gone.session_id}
    assert effect.root is saved
    check_world_invariants(world)


def test_the_ephemerals_left_out_leave_their_quota() -> None:
    run = Run(World(**SETTINGS))
    client = run.peer(0)
    client.create("/q")
    set_up_quota("/q", b"count=9")(run)
    run.peer(1).create("/q/e", b"12345", flags=1)
    saved, owners = copy_tree(run.world.tree.nodes["/"]), frozenset(run.world.tree.ephemerals)
    touched = following(run.world)
    replacement = made_of(prepare(run.world.engine, saved, owners))
    run.peers[1].close_session()
    replace(run.world.engine, replacement, touched, 0)
    assert run.world.tree.nodes[f"{ROOT}/q/zookeeper_stats"].data == b"count=1,bytes=0"
    check_tree_invariants(run.world.tree)


def changed() -> tuple[World, Peer, Znode, Touched, Replacement]:
    """A world that has got ``/b``; the root of its tree from before, and the way back to it."""
    world = World()
    client = world.connect()
    client.create("/a")
    saved = copy_tree(world.tree.nodes["/"])
    client.create("/b")
    touched = following(world)
    return world, client, saved, touched, made_of(prepare(world.engine, saved, ()))


def test_nothing_is_done_where_another_has_replaced_the_tree() -> None:
    world, client, saved, touched, replacement = changed()
    world.engine.replace_tree(Replace(saved, frozenset()), 0)
    client.create("/c")
    before, zxid, called = contents(world.tree), world.zxid, []
    with pytest.raises(TreeReplaced):
        replace(world.engine, replacement, touched, 0, lambda: called.append("about to"))
    assert (contents(world.tree), world.zxid, called) == (before, zxid, [])


def test_who_asks_is_called_before_the_tree_is_replaced() -> None:
    world, _, _, touched, replacement = changed()
    seen: list[tuple[bool, int]] = []
    zxid = world.zxid
    replace(
        world.engine, replacement, touched, 1000, lambda: seen.append(("/b" in world.tree.nodes, world.zxid))
    )
    assert seen == [(True, zxid)]
    assert ("/b" in world.tree.nodes, world.zxid) == (False, 1001)


def test_the_list_of_the_servers_stays() -> None:
    """It tells of servers, not of data."""
    world = World()
    client = world.connect()
    client.create("/a")
    saved = copy_tree(world.tree.nodes["/"])
    world.tree.configure(b"server.1=other", 7, 8, 9)
    touched = following(world)
    replace(world.engine, made_of(prepare(world.engine, saved, ())), touched, 0)
    config = world.tree.nodes[CONFIG_PATH]
    assert (config.data, config.mzxid, config.mtime, config.version) == (b"server.1=other", 7, 8, 9)


def test_a_replacement_is_prepared_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the copy, of the lists of the new tree, and of the comparison."""
    monkeypatch.setattr(replacing, "_STEP", 10)
    monkeypatch.setattr("pyzk.server.core.tree._STEP", 20)
    world = World()
    client = world.connect()
    for number in range(57):
        client.create(f"/{number}")
    saved = copy_tree(world.tree.nodes["/"])
    client.create("/later")
    steps, replacement = counted(prepare(world.engine, saved, ()))
    assert steps == 6 + 3 + 7, "60 below the root are copied; then entered; then 62 are compared"
    assert list(replacement.paths) == ["/later"]


def test_where_a_tree_may_differ_is_kept_by_parents() -> None:
    replacement = Replacement(Znode(b"", READ, 1, 1), DataTree(), ())
    for path in ("/a/b", "/", "/a/c", "/a/b", "/d"):
        replacement.differs(path)
    assert list(replacement.paths) == ["/a/b", "/", "/a/c", "/d"]
    assert replacement.below == {"/a": ["/a/b", "/a/c"], "/": ["/d"]}


# --- what differs, and what is watched of it ---------------------------------------------------------------


def differing_paths(before: DataTree, after: DataTree) -> tuple[list[str], int]:
    found = list(differing(before.nodes["/"], after.nodes["/"]))
    return sorted(path for path in found if path is not None), found.count(None)


def test_the_paths_at_which_two_trees_differ() -> None:
    before = tree("/a", "/a/b", "/a/b/c", "/k", "/k/l", "/same")
    after = tree("/a", "/a/b", "/a/b/c", "/k", "/k/l", "/same")
    assert differing_paths(before, after) == ([], 1 + 6 + 3)
    after.apply(deletion("/a/b/c"), 9, 9)
    after.apply(deletion("/a/b"), 9, 9)
    after.apply(creation("/n"), 9, 9)
    after.apply(creation("/n/m"), 9, 9)
    after.apply(creation("/n/m/o"), 9, 9)
    after.apply(creation("/k/l/new"), 9, 9)
    after.nodes["/k"].mzxid = 9
    assert differing_paths(before, after)[0] == [
        *("/a/b", "/a/b/c", "/k", "/k/l/new", "/n", "/n/m", "/n/m/o"),
    ]
    assert differing_paths(after, before)[0] == differing_paths(before, after)[0]
    after.nodes["/"].data = b"other"
    assert differing_paths(before, after)[0][0] == "/"


def test_a_znode_below_which_all_has_gone_is_looked_at() -> None:
    before, after = tree("/a", "/a/b", "/c"), tree("/a", "/c", "/c/d")
    assert set(differing_paths(before, after)[0]) >= {"/a/b", "/c/d"}
    assert set(differing_paths(after, before)[0]) >= {"/a/b", "/c/d"}


PATHS = ["/", "/a", "/a/b", "/a/b/c", "/ab", "/k", "/k/l", "/m"]
BELOW = {"/": ["/a", "/ab", "/k", "/m"], "/a": ["/a/b"], "/a/b": ["/a/b/c"], "/k": ["/k/l"]}


def watched(watches: WatchManager[str]) -> list[str]:
    return sorted(set(watches.watched(dict.fromkeys(PATHS), BELOW)))


@pytest.mark.parametrize("others", [0, 7, 8, 20])
def test_the_paths_whose_changes_may_hit_a_watch(others: int) -> None:
    """However many recursive watches there are."""
    watches: WatchManager[str] = WatchManager()
    assert watched(watches) == []
    watches.add_data("/k", "anne")
    watches.add_data("/none", "anne")
    assert watched(watches) == ["/k"]
    watches.add_child("/a/b", "anne")
    assert watched(watches) == ["/a/b", "/a/b/c", "/k"], "a child watch: it, and what is created below it"
    watches.add_child("/none", "anne")
    for number in range(others):
        watches.add_recursive(f"/other/{number}", "bert")
    assert watched(watches) == ["/a/b", "/a/b/c", "/k"]
    watches.add_recursive("/a", "bert")
    assert watched(watches) == ["/a", "/a/b", "/a/b/c", "/k"], "and not /ab"
    watches.add_recursive("/k", "bert")
    assert watched(watches) == ["/a", "/a/b", "/a/b/c", "/k", "/k/l"]
    watches.add_recursive("/", "carl")
    assert watched(watches) == PATHS


def test_without_watchers_no_change_is_worked_out() -> None:
    world, _, _, touched, replacement = changed()
    asked: list[object] = []
    world.engine.watches.watched = lambda *paths: asked.append(paths) or iter(())  # type: ignore[method-assign,func-returns-value]
    replace(world.engine, replacement, touched, 0)
    assert asked == []
    assert "/b" not in world.tree.nodes


def test_a_znode_is_found_below_another() -> None:
    root = tree("/a", "/a/b").nodes["/"]
    a = find_below(root, "/a")
    assert find_below(root, "") is root
    assert a is (root.children or {})["a"]
    assert find_below(root, "/a/b") is (a.children or {})["b"] if a else None
    for path in ("/none", "/a/none", "/a/b/none", "/none/none/none"):
        assert find_below(root, path) is None


def test_a_create_is_told_with_all_that_it_has() -> None:
    """An event of a znode that some may not read goes to those who may alone."""
    world = World()
    one, other = world.connect(), world.connect("10.0.0.7")
    for client in (one, other):
        client.add_watch("/", AddWatchMode.PERSISTENT_RECURSIVE)
    one.create("/secret", acl=(ACL(31, Id("ip", "127.0.0.1")),))
    saved = copy_tree(world.tree.nodes["/"])
    one.delete("/secret")
    for client in (one, other):
        client.take_events()
    touched = following(world)
    replace(world.engine, made_of(prepare(world.engine, saved, ())), touched, 0)
    assert [(event.type, event.path) for event in one.take_events()] == [(1, "/secret")]
    assert other.take_events() == []
