"""The rules of semantics.md section 10 as a naive model, and commands for it and for a WatchManager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from pyzk.protocol.constants import EventType, WatcherType
from pyzk.server.core.watches import PERSISTENT, RECURSIVE, STANDARD, Delivery, WatchManager

CREATED, DELETED, CHANGED, CHILD = EventType.CREATED, EventType.DELETED, EventType.CHANGED, EventType.CHILD
PATHS = ["/", "/a", "/a/b", "/a/b/c", "/ab", "/d"]
WATCHERS = ["anne", "bert", "carl"]

Watches = WatchManager[str]


class Model:
    """Two sets of (path, watcher, mode)."""

    def __init__(self) -> None:
        self.data: set[tuple[str, str, int]] = set()
        self.child: set[tuple[str, str, int]] = set()

    def add(self, kind: str, path: str, watcher: str) -> None:
        """Section 10.1."""
        if kind == "data":
            self.data.add((path, watcher, STANDARD))
        elif kind == "child":
            self.child.add((path, watcher, STANDARD))
        elif kind == "persistent":
            self.data.add((path, watcher, PERSISTENT))
            self.child.add((path, watcher, PERSISTENT))
        else:
            self.data.add((path, watcher, RECURSIVE))

    def hit_data(self, path: str) -> set[str]:
        """data(P): all with an entry for P, and those with a recursive one on any ancestor up to /."""
        above = {path[:i] or "/" for i, character in enumerate(path) if character == "/"}
        told = {w for p, w, mode in self.data if p == path or (mode == RECURSIVE and p in above)}
        self.data = {entry for entry in self.data if entry[0] != path or entry[2] != STANDARD}
        return told

    def hit_child(self, path: str) -> set[str]:
        told = {w for p, w, _ in self.child if p == path}
        self.child = {entry for entry in self.child if entry[0] != path or entry[2] != STANDARD}
        return told

    def created(self, path: str, parent: str) -> list[tuple[EventType, str, set[str]]]:
        return [(CREATED, path, self.hit_data(path)), (CHILD, parent, self.hit_child(parent))]

    def deleted(self, path: str, parent: str) -> list[tuple[EventType, str, set[str]]]:
        first = self.hit_data(path)
        return [
            (DELETED, path, first),
            (DELETED, path, self.hit_child(path) - first),
            (CHILD, parent, self.hit_child(parent)),
        ]

    def changed(self, path: str) -> list[tuple[EventType, str, set[str]]]:
        return [(CHANGED, path, self.hit_data(path))]

    def has(self, path: str, watcher: str, kind: WatcherType, remove: bool = False) -> bool:
        """Section 10.6; with ``remove``, what removeWatches does."""
        data, child = {
            WatcherType.CHILDREN: (set(), {STANDARD}),
            WatcherType.DATA: ({STANDARD}, set()),
            WatcherType.PERSISTENT: ({PERSISTENT}, {PERSISTENT} if remove else set()),
            WatcherType.PERSISTENT_RECURSIVE: ({RECURSIVE}, set()),
            WatcherType.ANY: ({STANDARD, PERSISTENT, RECURSIVE}, {STANDARD, PERSISTENT, RECURSIVE}),
        }[kind]
        mine_data = {entry for entry in self.data if entry[:2] == (path, watcher) and entry[2] in data}
        mine_child = {entry for entry in self.child if entry[:2] == (path, watcher) and entry[2] in child}
        if remove:
            self.data -= mine_data
            self.child -= mine_child
        return bool(mine_data or mine_child)

    def forget(self, watcher: str) -> None:
        self.data = {entry for entry in self.data if entry[1] != watcher}
        self.child = {entry for entry in self.child if entry[1] != watcher}


ADD: dict[str, Callable[[Watches, str, str], None]] = {
    "data": lambda watches, path, who: watches.add_data(path, who),
    "child": lambda watches, path, who: watches.add_child(path, who),
    "persistent": lambda watches, path, who: watches.add_persistent(path, who),
    "recursive": lambda watches, path, who: watches.add_recursive(path, who),
}

COMMANDS = st.lists(
    st.one_of(
        st.tuples(
            st.just("add"), st.sampled_from(sorted(ADD)), st.sampled_from(PATHS), st.sampled_from(WATCHERS)
        ),
        st.tuples(
            st.just("fire"), st.sampled_from(["created", "deleted", "changed"]), st.sampled_from(PATHS[1:])
        ),
        st.tuples(
            st.just("remove"), st.sampled_from(WatcherType), st.sampled_from(PATHS), st.sampled_from(WATCHERS)
        ),
        st.tuples(st.just("forget"), st.sampled_from(WATCHERS)),
    ),
    max_size=40,
)


def parent_of(path: str) -> str:
    return path[: path.rindex("/")] or "/"


def as_sets(steps: list[Delivery[str]]) -> list[tuple[EventType, str, set[str]]]:
    for _, _, told in steps:
        assert told, "a step that tells nobody"
        assert len(told) == len(set(told)), "one event for one step"
    return [(event, path, set(told)) for event, path, told in steps]


def run(watches: Watches, model: Model, command: tuple[Any, ...]) -> None:
    name, *args = command
    if name == "add":
        kind, path, who = args
        ADD[kind](watches, path, who)
        model.add(kind, path, who)
    elif name == "fire":
        kind, path = args
        if kind == "changed":
            told, expected = watches.data_changed(path), model.changed(path)
        elif kind == "created":
            told, expected = watches.created(path, parent_of(path)), model.created(path, parent_of(path))
        else:
            told, expected = watches.deleted(path, parent_of(path)), model.deleted(path, parent_of(path))
        assert as_sets(told) == [step for step in expected if step[2]]
    elif name == "remove":
        kind, path, who = args
        assert watches.remove(path, who, kind) == model.has(path, who, kind, remove=True)
    else:
        watches.forget(*args)
        model.forget(*args)
