"""The WatchManager alone, against a naive model of semantics.md section 10 and by example."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given

from pyzk.protocol.constants import EventType, WatcherType
from pyzk.protocol.paths import join
from pyzk.server.core.watches import Delivery, WatchManager

from .watch_model import (
    ADD,
    CHANGED,
    CHILD,
    COMMANDS,
    CREATED,
    DELETED,
    PATHS,
    WATCHERS,
    Model,
    Watches,
    parent_of,
    run,
)


@given(COMMANDS)
def test_the_manager_does_what_the_model_does(commands: list[tuple[Any, ...]]) -> None:
    watches, model = Watches(), Model()
    for command in commands:
        run(watches, model, command)
        for path in PATHS:
            for who in WATCHERS:
                for kind in WatcherType:
                    assert watches.has(path, who, kind) == model.has(path, who, kind), (path, who, kind)
    pairs = {entry[:2] for entry in model.data}, {entry[:2] for entry in model.child}
    assert watches.count() == len(pairs[0]) + len(pairs[1])
    assert {(path, who) for path, told in watches.data_by_path() for who in told} == pairs[0]
    for who in WATCHERS:
        assert set(watches.paths_of(who)) == {path for path, watcher in pairs[0] | pairs[1] if watcher == who}


@given(COMMANDS)
def test_nothing_is_kept_of_watchers_that_are_gone(commands: list[tuple[Any, ...]]) -> None:
    watches, model = Watches(), Model()
    for command in commands:
        run(watches, model, command)
    for who in WATCHERS:
        watches.forget(who)
        assert watches.paths_of(who) == []
    assert watches.count() == 0
    assert list(watches.data_by_path()) == []
    assert all(watches.deleted(path, parent_of(path)) == [] for path in PATHS[1:])
    assert vars(watches) == vars(Watches())


# --- the matrix of section 10.2: who receives what ---------------------------------------------------------

FIRE: dict[EventType, Callable[[Watches], list[Delivery[str]]]] = {
    CREATED: lambda watches: watches.created("/q/p", "/q"),
    DELETED: lambda watches: watches.deleted("/q/p", "/q"),
    CHANGED: lambda watches: watches.data_changed("/q/p"),
}

# what fires, the watch, where: the events received by the first and by the second firing
MATRIX: list[tuple[EventType, str, str, list[EventType], list[EventType]]] = [
    (CREATED, "data", "/q/p", [CREATED], []),
    (CREATED, "child", "/q/p", [], []),
    (CREATED, "persistent", "/q/p", [CREATED], [CREATED]),
    (CREATED, "recursive", "/q/p", [CREATED], [CREATED]),
    (CREATED, "recursive", "/q", [CREATED], [CREATED]),
    (CREATED, "recursive", "/", [CREATED], [CREATED]),
    (CREATED, "data", "/q", [], []),
    (CREATED, "child", "/q", [CHILD], []),
    (CREATED, "persistent", "/q", [CHILD], [CHILD]),
    (CREATED, "child", "/", [], []),
    (CREATED, "persistent", "/", [], []),
    (CREATED, "recursive", "/q/p/x", [], []),
    (CREATED, "recursive", "/q/", [], []),
    (DELETED, "data", "/q/p", [DELETED], []),
    (DELETED, "child", "/q/p", [DELETED], []),
    (DELETED, "persistent", "/q/p", [DELETED], [DELETED]),
    (DELETED, "recursive", "/q/p", [DELETED], [DELETED]),
    (DELETED, "recursive", "/q", [DELETED], [DELETED]),
    (DELETED, "child", "/q", [CHILD], []),
    (DELETED, "persistent", "/q", [CHILD], [CHILD]),
    (DELETED, "data", "/q", [], []),
    (CHANGED, "data", "/q/p", [CHANGED], []),
    (CHANGED, "child", "/q/p", [], []),
    (CHANGED, "persistent", "/q/p", [CHANGED], [CHANGED]),
    (CHANGED, "recursive", "/q/p", [CHANGED], [CHANGED]),
    (CHANGED, "recursive", "/", [CHANGED], [CHANGED]),
    (CHANGED, "data", "/q", [], []),
    (CHANGED, "child", "/q", [], []),
    (CHANGED, "persistent", "/q", [], []),
]


@pytest.mark.parametrize(
    ("event", "kind", "path", "first", "second"),
    MATRIX,
    ids=[f"{row[0].name}-{row[1]}-{row[2]}" for row in MATRIX],
)
def test_who_receives_what(
    event: EventType, kind: str, path: str, first: list[EventType], second: list[EventType]
) -> None:
    watches = Watches()
    ADD[kind](watches, path, "anne")
    assert [step[0] for step in FIRE[event](watches)] == first
    assert [step[0] for step in FIRE[event](watches)] == second


def test_the_events_carry_the_path_they_are_about() -> None:
    watches = Watches()
    watches.add_data("/q/p", "anne")
    watches.add_child("/q", "anne")
    assert watches.created("/q/p", "/q") == [(CREATED, "/q/p", ["anne"]), (CHILD, "/q", ["anne"])]


# --- a watcher that matches in several ways ----------------------------------------------------------------


@pytest.mark.parametrize(
    "watches_on",
    [
        [("data", "/q/p"), ("persistent", "/q/p"), ("recursive", "/q/p")],
        [("recursive", "/"), ("recursive", "/q")],
        [("data", "/q/p"), ("data", "/q/p")],
    ],
    ids=["all modes", "two ancestors", "the same twice"],
)
def test_one_event_for_one_step(watches_on: list[tuple[str, str]]) -> None:
    watches = Watches()
    for kind, path in watches_on:
        ADD[kind](watches, path, "anne")
    assert watches.data_changed("/q/p") == [(CHANGED, "/q/p", ["anne"])]


def test_data_and_child_watch_on_one_znode_give_one_deletion_and_are_both_consumed() -> None:
    watches = Watches()
    watches.add_data("/q/p", "anne")
    watches.add_child("/q/p", "anne")
    watches.add_child("/q/p", "bert")
    assert watches.deleted("/q/p", "/q") == [(DELETED, "/q/p", ["anne"]), (DELETED, "/q/p", ["bert"])]
    assert watches.count() == 0


def test_a_recursive_watch_suppresses_the_child_watchs_deletion_but_not_its_end() -> None:
    watches = Watches()
    watches.add_recursive("/", "anne")
    watches.add_child("/q/p", "anne")
    assert watches.deleted("/q/p", "/q") == [(DELETED, "/q/p", ["anne"])]
    assert not watches.has("/q/p", "anne", WatcherType.CHILDREN)


def test_a_persistent_watch_gives_one_deletion_although_it_is_in_both_registries() -> None:
    watches = Watches()
    watches.add_persistent("/q/p", "anne")
    assert watches.deleted("/q/p", "/q") == [(DELETED, "/q/p", ["anne"])]


def test_persistent_and_recursive_on_the_parent_give_creation_and_children_changed() -> None:
    watches = Watches()
    watches.add_persistent("/q", "anne")
    watches.add_recursive("/q", "anne")
    assert watches.created("/q/p", "/q") == [(CREATED, "/q/p", ["anne"]), (CHILD, "/q", ["anne"])]


def test_a_parent_given_by_the_roots_other_name_is_the_root() -> None:
    watches = Watches()
    watches.add_child("/", "anne")
    assert watches.created("/p", "") == [(CHILD, "/", ["anne"])]


@pytest.mark.parametrize("add", sorted(ADD))
def test_a_watch_under_the_roots_other_name_never_fires(add: str) -> None:
    # wire.md, trap 12
    watches = Watches()
    ADD[add](watches, "", "anne")
    fired = [*watches.created("/p", ""), *watches.deleted("/p", ""), *watches.data_changed("/")]
    assert fired == []
    assert watches.count() == (2 if add == "persistent" else 1)


# --- section 10.6 ------------------------------------------------------------------------------------------

# watch, then which of the types 1 to 5 find it
FOUND_BY = [
    ("data", {WatcherType.DATA, WatcherType.ANY}),
    ("child", {WatcherType.CHILDREN, WatcherType.ANY}),
    ("persistent", {WatcherType.PERSISTENT, WatcherType.ANY}),
    ("recursive", {WatcherType.PERSISTENT_RECURSIVE, WatcherType.ANY}),
]


@pytest.mark.parametrize("kind", WatcherType)
@pytest.mark.parametrize(("add", "found_by"), FOUND_BY)
def test_which_type_finds_and_removes_which_watch(
    add: str, found_by: set[WatcherType], kind: WatcherType
) -> None:
    watches = Watches()
    ADD[add](watches, "/a", "anne")
    before = watches.count()
    assert watches.has("/a", "anne", kind) == (kind in found_by)
    assert watches.remove("/a", "anne", kind) == (kind in found_by)
    assert watches.count() == (0 if kind in found_by else before)


def test_the_other_modes_at_a_path_stay() -> None:
    watches = Watches()
    for add in ADD.values():
        add(watches, "/a", "anne")
    for kind in (WatcherType.PERSISTENT, WatcherType.DATA, WatcherType.CHILDREN):
        assert watches.remove("/a", "anne", kind)
        assert not watches.has("/a", "anne", kind)
    assert watches.has("/a", "anne", WatcherType.PERSISTENT_RECURSIVE)
    assert watches.created(join("/a", "x"), "/a") == [(CREATED, "/a/x", ["anne"])]


@pytest.mark.parametrize(("path", "who"), [("/a/b", "anne"), ("/", "anne"), ("/a", "bert")])
def test_removal_takes_the_exact_path_of_this_watcher(path: str, who: str) -> None:
    watches = Watches()
    watches.add_recursive("/a", "anne")
    assert not watches.remove(path, who, WatcherType.ANY)
    assert watches.count() == 1


# --- what it costs -----------------------------------------------------------------------------------------


class Counted(str):
    """A path that counts the characters that are copied out of it by slices."""

    copied = 0

    def __getitem__(self, key: Any) -> Counted:
        piece = Counted(super().__getitem__(key))
        Counted.copied += len(piece)
        return piece


@pytest.mark.parametrize("nested", [1, 50])
def test_a_deep_path_below_recursive_watches_is_read_only_once(
    monkeypatch: pytest.MonkeyPatch, nested: int
) -> None:
    monkeypatch.setattr(Counted, "copied", 0)
    watches = Watches()
    deep = "/a" * 2000
    for i in range(nested):
        watches.add_recursive(deep[: 2 * i] or "/", "anne")
    for i in range(3000):
        watches.add_recursive(f"/b{i}", "bert")
    assert watches.data_changed(Counted(deep)) == [(CHANGED, deep, ["anne"])]
    assert Counted.copied <= len(deep)


ODD_PATHS = ["", "//", "/a/", "a", "a/b", "/a//b", "///"]


@pytest.mark.parametrize("path", ODD_PATHS)
def test_a_recursive_watch_at_a_path_that_no_znode_can_have_sees_nothing(path: str) -> None:
    watches = Watches()
    watches.add_recursive(path, "anne")
    watches.add_recursive(path, "bert")
    for real in ("/", "/a", "/a/b", "/b"):
        assert watches.data_changed(real) == []
    assert watches.has(path, "anne", WatcherType.PERSISTENT_RECURSIVE)
    assert watches.remove(path, "anne", WatcherType.PERSISTENT_RECURSIVE)
    watches.forget("bert")
    assert vars(watches) == vars(Watches())


def test_paths_with_the_same_mark_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyzk.server.core.watches.hash", lambda value: 1, raising=False)
    watches = Watches()
    watches.add_recursive("/a", "anne")
    watches.add_recursive("/b", "bert")
    watches.add_recursive("/", "carl")
    assert set(watches.data_changed("/a/x")[0][2]) == {"anne", "carl"}
    assert set(watches.data_changed("/ab/x")[0][2]) == {"carl"}
    watches.forget("anne")
    watches.forget("carl")
    assert watches.data_changed("/a/x") == []
    assert watches.data_changed("/b/x") == [(CHANGED, "/b/x", ["bert"])]


# --- what is looked up again and again ----------------------------------------------------------------------


def test_watches_that_stay_are_not_listed_for_each_change() -> None:
    watches: Watches = WatchManager()
    for watcher in WATCHERS:
        watches.add_persistent("/a", watcher)
    [(_, _, first)] = watches.data_changed("/a")
    [(_, _, second)] = watches.data_changed("/a")
    assert second is first == WATCHERS
    watches.add_data("/a", "anne")  # used up by the next change
    watches.remove("/a", "carl", WatcherType.PERSISTENT)
    watches.add_persistent("/a", "dora")  # as many as before
    [(_, _, third)] = watches.data_changed("/a")
    assert sorted(third) == ["anne", "bert", "dora"]
    assert sorted(watches.data_changed("/a")[0][2]) == ["anne", "bert", "dora"]
    watches.forget("bert")
    assert sorted(watches.data_changed("/a")[0][2]) == ["anne", "dora"]
    assert first == WATCHERS, "who was listed before stays as it was"
    assert watches.count() == 4
