"""Watches as before 3.9: a path and a connection have a single mode (semantics.md sections 10.6 and 17)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from pyzk.protocol.constants import EventType, WatcherType
from pyzk.server.core.one_mode_watches import OneModeWatches, ancestors
from pyzk.server.core.watches import PERSISTENT, RECURSIVE, STANDARD

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
    run,
)

IN_DATA = {WatcherType.DATA, WatcherType.ANY}
IN_CHILD = {WatcherType.CHILDREN, WatcherType.ANY}


class OneMode(Model):
    """The same model, where the last mode that was registered is the only one."""

    def add(self, kind: str, path: str, watcher: str) -> None:
        mode = {"persistent": PERSISTENT, "recursive": RECURSIVE}.get(kind, STANDARD)
        if kind != "child":
            self.data = {entry for entry in self.data if entry[:2] != (path, watcher)}
            self.data.add((path, watcher, mode))
        if kind != "data":
            self.child = {entry for entry in self.child if entry[:2] != (path, watcher)}
            self.child.add((path, watcher, mode))

    def hit_parent(self, path: str) -> set[str]:
        """Who is told of another child: not the recursive ones."""
        recursive = {w for p, w, mode in self.child if p == path and mode == RECURSIVE}
        return self.hit_child(path) - recursive

    def created(self, path: str, parent: str) -> list[tuple[EventType, str, set[str]]]:
        return [(CREATED, path, self.hit_data(path)), (CHILD, parent, self.hit_parent(parent))]

    def deleted(self, path: str, parent: str) -> list[tuple[EventType, str, set[str]]]:
        first, second = self.hit_data(path), self.hit_child(path)
        above = {path[:i] or "/" for i, character in enumerate(path) if character == "/"}
        late = {w for p, w, mode in self.child if p in above and mode == RECURSIVE} - first - second
        told = [(DELETED, path, first), (DELETED, path, second - first), (DELETED, path, late)]
        return [*told, (CHILD, parent, self.hit_parent(parent))]

    def has(self, path: str, watcher: str, kind: WatcherType, remove: bool = False) -> bool:
        """Any connection's for checkWatches; its own for removeWatches."""
        data = {entry for entry in self.data if entry[0] == path and kind in IN_DATA}
        child = {entry for entry in self.child if entry[0] == path and kind in IN_CHILD}
        if remove:
            data = {entry for entry in data if entry[1] == watcher}
            child = {entry for entry in child if entry[1] == watcher}
            self.data -= data
            self.child -= child
        return bool(data or child)


@given(COMMANDS)
def test_the_manager_does_what_the_model_does(commands: list[tuple[Any, ...]]) -> None:
    watches: OneModeWatches[str] = OneModeWatches()
    model = OneMode()
    for command in commands:
        run(watches, model, command)
        for path in PATHS:
            for kind in WatcherType:
                assert watches.has(path, "anne", kind) == model.has(path, "anne", kind), (path, kind)
    assert watches.count() == len(model.data) + len(model.child)
    for who in WATCHERS:
        watches.forget(who)
    assert vars(watches) == vars(OneModeWatches())


def made(*added: tuple[str, str, str]) -> OneModeWatches[str]:
    watches: OneModeWatches[str] = OneModeWatches()
    for kind, path, who in added:
        ADD[kind](watches, path, who)
    return watches


@pytest.mark.parametrize(
    ("kinds", "data", "child"),
    [
        (("data", "persistent"), PERSISTENT, PERSISTENT),
        (("persistent", "data"), STANDARD, PERSISTENT),
        (("persistent", "child"), PERSISTENT, STANDARD),
        (("child", "recursive"), RECURSIVE, RECURSIVE),
        (("recursive", "data"), STANDARD, RECURSIVE),
        (("recursive", "child"), RECURSIVE, STANDARD),
        (("recursive", "persistent"), PERSISTENT, PERSISTENT),
        (("recursive", "recursive"), RECURSIVE, RECURSIVE),
    ],
)
def test_the_last_mode_counts(kinds: tuple[str, ...], data: int, child: int) -> None:
    watches = made(*((kind, "/a", "anne") for kind in kinds))
    assert watches.modes_of("/a", "anne") == (data, child)
    assert watches.data_changed("/a/b") == [(CHANGED, "/a/b", ["anne"])] * (data == RECURSIVE)
    watches.remove("/a", "anne", WatcherType.ANY)
    assert vars(watches) == vars(OneModeWatches())


def test_a_recursive_watch_that_lost_its_data_half_hears_of_deletes_alone() -> None:
    watches = made(("recursive", "/a", "anne"), ("data", "/a", "anne"), ("recursive", "/", "bert"))
    assert watches.created("/a/b", "/a") == [(CREATED, "/a/b", ["bert"])]
    assert watches.deleted("/a/b", "/a") == [(DELETED, "/a/b", ["bert"]), (DELETED, "/a/b", ["anne"])]


def test_it_hears_of_them_before_those_who_watch_children() -> None:
    watches = made(("recursive", "/", "anne"), ("data", "/", "anne"), ("child", "/a", "bert"))
    expected = [(DELETED, "/a/b", ["anne"]), (CHILD, "/a", ["bert"])]
    assert watches.deleted("/a/b", "/a") == expected
    assert watches.deleted("/a/b", "/a") == expected[:1]


def test_who_was_forgotten_hears_of_nothing() -> None:
    watches = made(("recursive", "/a", "anne"), ("data", "/a", "anne"))
    for number in range(1001):
        watches.add_data(f"/{number}", "anne")
    assert watches.has("/a", "bert", WatcherType.ANY)
    watches.forget("anne")
    assert watches.unswept
    assert watches.deleted("/a/b", "/a") == []
    assert not any(watches.has("/a", "bert", kind) for kind in WatcherType)


def test_the_paths_above_another() -> None:
    assert list(ancestors("/a/b/c")) == ["/a/b", "/a", "/"]
    assert list(ancestors("/a")) == ["/"]
    assert list(ancestors("/")) == list(ancestors("")) == []
