"""The bookkeeping of watches, and a state machine that compares it with a server of each kind."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from pyzk.client.registry import Missed, WatchEvent, WatchKind, WatchRegistry
from pyzk.protocol.constants import EventType, WatcherType

from .scripted import Recorder, Registry


@pytest.fixture
def registry() -> Registry:
    return Registry()


@pytest.mark.parametrize(
    ("type", "fired"),
    [
        (EventType.CREATED, {WatchKind.DATA, WatchKind.EXIST}),
        (EventType.CHANGED, {WatchKind.DATA, WatchKind.EXIST}),
        (EventType.DELETED, {WatchKind.DATA, WatchKind.EXIST, WatchKind.CHILD}),
        (EventType.CHILD, {WatchKind.CHILD}),
    ],
)
def test_what_an_event_ends(registry: Registry, type: EventType, fired: set[WatchKind]) -> None:
    watchers = {kind: registry.arm("/a", kind) for kind in (WatchKind.DATA, WatchKind.EXIST, WatchKind.CHILD)}
    registry.notify(type, "/a", 5)
    registry.notify(type, "/a", 6)
    assert {
        kind for kind, watcher in watchers.items() if watcher.events == [WatchEvent(type, "/a", 5)]
    } == fired
    assert len(registry) == 3 - len(fired)


def test_an_event_costs_one_look_up_for_each_length_of_a_recursive_watch(registry: Registry) -> None:
    class Counting(dict[str, Any]):
        look_ups = 0

        def get(self, key: str, default: Any = None) -> Any:
            self.look_ups += 1
            return super().get(key, default)

    watchers = [registry.arm(path, WatchKind.RECURSIVE) for path in ("/a/a/a", "/b/b/b", "/a", "/")]
    registry.leave("/b/b/b", watchers.pop(1))
    paths = Counting(registry._paths)
    registry._paths = paths
    deep = "/a" * 500_000
    registry.notify(EventType.DELETED, deep, 1)
    assert [watcher.events for watcher in watchers] == [[WatchEvent(EventType.DELETED, deep, 1)]] * 3
    assert paths.look_ups == 1 + 3 + 1, "the path itself, the lengths, the parent"
    for path in ("/ab/c", "/a/a/ab", "/c"):
        registry.notify(EventType.CHANGED, path, 2)
    assert [len(watcher.events) for watcher in watchers] == [1, 2, 4]


def test_a_recursive_watch_sees_everything_below_but_no_child_events(registry: Registry) -> None:
    root, deep, flat = (
        registry.arm("/", WatchKind.RECURSIVE),
        registry.arm("/a/b", WatchKind.RECURSIVE),
        registry.arm("/a", WatchKind.PERSISTENT),
    )
    for type, path in [
        (EventType.CREATED, "/a/b/c"),
        (EventType.CHILD, "/a"),
        (EventType.CHANGED, "/a"),
        (EventType.DELETED, "/a/bb"),
    ]:
        registry.notify(type, path, None)
    assert [event.path for event in root.events] == ["/a/b/c", "/a", "/a/bb"]
    assert [event.path for event in deep.events] == ["/a/b/c"]
    assert [event.path for event in flat.events] == ["/a", "/a"]


def test_the_last_user_takes_the_servers_watch_along(registry: Registry) -> None:
    first, second = registry.arm("/a", WatchKind.DATA), registry.arm("/a", WatchKind.DATA)
    registry.leave("/a", first)
    assert registry.removed == []
    registry.leave("/a", second)
    registry.leave("/a", second)
    assert registry.removed == [("/a", WatcherType.DATA)]
    assert len(registry) == 0


def test_the_data_and_the_child_watch_go_each_on_its_own(registry: Registry) -> None:
    data, child = registry.arm("/a", WatchKind.EXIST), registry.arm("/a", WatchKind.CHILD)
    registry.leave("/a", child)
    assert registry.removed == [("/a", WatcherType.CHILDREN)]
    registry.leave("/a", data)
    assert registry.removed[1:] == [("/a", WatcherType.DATA)]


def test_a_watch_that_has_fired_needs_no_removal(registry: Registry) -> None:
    watcher = registry.arm("/a", WatchKind.DATA)
    registry.notify(EventType.CHANGED, "/a", 5)
    registry.leave("/a", watcher)
    assert registry.removed == []


def test_a_watch_on_its_way_counts_as_a_user(registry: Registry) -> None:
    old = registry.arm("/a", WatchKind.DATA)
    registry.reserve("/a", WatchKind.DATA)
    registry.leave("/a", old)
    assert registry.removed == [], "it would take the new watch along"
    new = Recorder()
    registry.settle("/a", WatchKind.DATA, WatchKind.DATA, new)
    registry.leave("/a", new)
    assert registry.removed == [("/a", WatcherType.DATA)]


def test_a_refused_watch_leaves_nothing(registry: Registry) -> None:
    registry.reserve("/a", WatchKind.DATA)
    registry.settle("/a", WatchKind.DATA, None, Recorder())
    assert registry.removed == []
    assert list(registry.rearm(0, 1000)) == []


def test_a_one_shot_watch_rides_on_a_persistent_one(registry: Registry) -> None:
    """It would end the persistent one on servers before 3.9."""
    lasting = registry.arm("/a", WatchKind.PERSISTENT)
    assert not registry.reserve("/a", WatchKind.DATA)
    assert not registry.reserve("/a", WatchKind.CHILD)
    data = Recorder()
    registry.settle("/a", WatchKind.DATA, WatchKind.DATA, data)
    registry.settle("/a", WatchKind.CHILD, None, Recorder())
    registry.leave("/a", lasting)
    assert registry.removed == [], "the rider still needs it"
    registry.notify(EventType.CHANGED, "/a", 5)
    assert data.events == [WatchEvent(EventType.CHANGED, "/a", 5)]
    assert registry.removed == [("/a", WatcherType.ANY)]


def test_all_others_ride_on_a_recursive_one(registry: Registry) -> None:
    """Its own CHILD events are made of what it reports of the children."""
    deep = registry.arm("/a", WatchKind.RECURSIVE)
    watchers = {}
    for kind in (WatchKind.CHILD, WatchKind.DATA, WatchKind.PERSISTENT):
        assert not registry.reserve("/a", kind)
        watchers[kind] = Recorder()
        registry.settle("/a", kind, kind, watchers[kind])
    registry.notify(EventType.CREATED, "/a/b", 5)
    registry.notify(EventType.CHILD, "/a", 5)
    child = WatchEvent(EventType.CHILD, "/a", 5)
    assert deep.events == [WatchEvent(EventType.CREATED, "/a/b", 5)]
    assert watchers[WatchKind.CHILD].events == watchers[WatchKind.PERSISTENT].events == [child], "once"
    registry.leave("/a", deep)
    registry.notify(EventType.DELETED, "/a/b", 6)
    assert watchers[WatchKind.PERSISTENT].events == [child, WatchEvent(EventType.CHILD, "/a", 6)]
    registry.leave("/a", watchers[WatchKind.PERSISTENT])
    assert registry.removed == []
    registry.notify(EventType.CHANGED, "/a", 7)
    assert registry.removed == [("/a", WatcherType.ANY)]


def test_the_catch_up_of_what_rides_on_a_recursive_one(registry: Registry) -> None:
    """What has changed while there was no connection is told by the server alone, and once."""
    registry.arm("/a", WatchKind.RECURSIVE)
    child = registry.arm("/a", WatchKind.CHILD)
    registry.disconnected()
    list(registry.rearm(0, 1000))
    registry.notify(EventType.CHILD, "/a", None, catch_up=True)
    assert child.events == [WatchEvent(EventType.CHILD, "/a")]
    assert len(registry) == 1


def test_events_arrive_while_watchers_come_and_go(registry: Registry) -> None:
    class Leaver(Recorder):
        def deliver(self, event: WatchEvent | Missed) -> None:
            super().deliver(event)
            registry.leave("/a", self)
            registry.arm("/a", WatchKind.DATA)

    leavers = [Leaver(), Leaver()]
    for leaver in leavers:
        registry.reserve("/a", WatchKind.PERSISTENT)
        registry.settle("/a", WatchKind.PERSISTENT, WatchKind.PERSISTENT, leaver)
    registry.notify(EventType.CHANGED, "/a", 5)
    assert [len(leaver.events) for leaver in leavers] == [1, 1]
    assert len(registry) == 2


class _Server:
    """A connection's watches as a server keeps them.

    :ivar single: one mode for each path and registry, as before 3.9.
    """

    def __init__(self, single: bool) -> None:
        self.single = single
        self.data: dict[str, set[str]] = {}
        self.child: dict[str, set[str]] = {}

    def add(self, table: dict[str, set[str]], path: str, mode: str) -> None:
        if self.single:
            table[path] = {mode}
        else:
            table.setdefault(path, set()).add(mode)

    def arm(self, kind: WatchKind, path: str) -> None:
        if kind in (WatchKind.DATA, WatchKind.EXIST):
            self.add(self.data, path, "standard")
        elif kind is WatchKind.CHILD:
            self.add(self.child, path, "standard")
        elif kind is WatchKind.PERSISTENT:
            self.add(self.data, path, "persistent")
            self.add(self.child, path, "persistent")
        else:
            self.add(self.data, path, "recursive")
            if self.single:
                self.add(self.child, path, "recursive")

    def remove(self, path: str, type: WatcherType) -> None:
        for kind, table in ((WatcherType.DATA, self.data), (WatcherType.CHILDREN, self.child)):
            if type is WatcherType.ANY or (type is kind and self.single):
                table.pop(path, None)
            elif type is kind and path in table:
                table[path].discard("standard")

    def fire(self, type: EventType, path: str) -> bool:
        """Whether this connection is told."""
        told = False
        tables = {EventType.CHILD: [self.child], EventType.DELETED: [self.data, self.child]}
        for table in tables.get(type, [self.data]):
            modes = table.get(path, set())
            told |= bool(modes - {"recursive"}) or (table is self.data and "recursive" in modes)
            modes.discard("standard")
        if type is not EventType.CHILD:
            above = path
            while above != "/":
                above = above[: above.rindex("/")] or "/"
                told |= "recursive" in self.data.get(above, set())
        return told


class Bookkeeping(RuleBasedStateMachine):
    """Whatever users do, and in whatever order replies and events cross: every user hears of every event
    that concerns it, and with the last user the server's watches go."""

    single = False
    paths = st.just("/a") | st.sampled_from(["/a", "/a/b"])

    def __init__(self) -> None:
        super().__init__()
        self.registry = WatchRegistry()
        self.server = _Server(self.single)
        self.registry.remove = self.server.remove
        self.users: list[tuple[str, WatchKind, Recorder]] = []
        self.names = itertools.count()
        self.expected: list[tuple[Recorder, list[WatchEvent]]] = []

    @rule(path=paths, kind=st.sampled_from(WatchKind))
    def arm(self, path: str, kind: WatchKind) -> None:
        asks = self.registry.reserve(path, kind)
        if kind in (WatchKind.PERSISTENT, WatchKind.RECURSIVE):
            self.server.arm(kind if asks else WatchKind.RECURSIVE, path)
        elif asks:
            self.server.arm(kind, path)
        watcher = Recorder(f"{kind.name} {path} {next(self.names)}")
        self.registry.settle(path, kind, kind, watcher)
        self.users.append((path, kind, watcher))
        self.expected.append((watcher, []))

    @rule(path=paths, kind=st.sampled_from([WatchKind.DATA, WatchKind.CHILD]))
    def fail_to_arm(self, path: str, kind: WatchKind) -> None:
        self.registry.reserve(path, kind)
        self.registry.settle(path, kind, None, Recorder())

    @rule(index=st.integers(0, 20))
    def leave(self, index: int) -> None:
        if self.users:
            path, _, watcher = self.users.pop(index % len(self.users))
            self.registry.leave(path, watcher)

    @rule(
        path=st.sampled_from(["/a", "/a/b"]),
        type=st.sampled_from([EventType.CREATED, EventType.DELETED, EventType.CHANGED]),
    )
    def change(self, path: str, type: EventType) -> None:
        """A transaction, as the server carries it out."""
        self.happen(path, type)
        if type is not EventType.CHANGED:
            self.happen(path[: path.rindex("/")] or "/", EventType.CHILD)

        for watcher, expected in self.expected:
            assert watcher.events == expected, watcher

    def happen(self, path: str, type: EventType) -> None:
        if self.server.fire(type, path):
            self.registry.notify(type, path, None)
        still = []
        for watched, kind, watcher in self.users:
            concerned = {
                WatchKind.DATA: watched == path and type is not EventType.CHILD,
                WatchKind.EXIST: watched == path and type is not EventType.CHILD,
                WatchKind.CHILD: watched == path and type in (EventType.CHILD, EventType.DELETED),
                WatchKind.PERSISTENT: watched == path,
                WatchKind.RECURSIVE: type is not EventType.CHILD
                and (watched == path or path.startswith(watched + "/")),
            }[kind]
            if concerned:
                next(events for one, events in self.expected if one is watcher).append(WatchEvent(type, path))
            if not concerned or kind in (WatchKind.PERSISTENT, WatchKind.RECURSIVE):
                still.append((watched, kind, watcher))
        self.users = still

    @rule()
    def reconnect(self) -> None:
        self.server.__init__(self.single)  # type: ignore[misc]
        self.registry.disconnected()
        for rearm in self.registry.rearm(0, 10):
            record = rearm.record
            for kind, name in zip(
                WatchKind,
                (
                    "dataWatches",
                    "existWatches",
                    "childWatches",
                    "persistentWatches",
                    "persistentRecursiveWatches",
                ),
                strict=True,
            ):
                for path in getattr(record, name, None) or ():
                    self.server.arm(kind, path)

    @invariant()
    def nothing_is_left_behind(self) -> None:
        assert len(self.registry) == len(self.users)
        used = {path for path, _, _ in self.users}
        for table in (self.server.data, self.server.child):
            assert {path for path, modes in table.items() if modes} <= used


class OldBookkeeping(Bookkeeping):
    single = True


TestBookkeeping = Bookkeeping.TestCase
TestOldBookkeeping = OldBookkeeping.TestCase


@pytest.mark.parametrize("machine", [Bookkeeping, OldBookkeeping])
def test_many_short_stories_at_one_path(machine: type[Bookkeeping]) -> None:
    """What goes wrong here goes wrong after four or five steps of the right kind, which takes more stories
    than hypothesis can tell in a second."""
    rng = random.Random(1)
    kinds = [WatchKind.DATA, WatchKind.CHILD, WatchKind.PERSISTENT, WatchKind.RECURSIVE]
    for _ in range(6000):
        story: list[str] = []
        world = machine()
        try:
            for _ in range(6):
                step = rng.choice(["arm", "arm", "leave", "reconnect"])
                if step == "arm":
                    kind = rng.choice(kinds)
                    story.append(f"arm {kind.name}")
                    world.arm("/a", kind)
                elif step == "leave":
                    index = rng.randrange(3)
                    story.append(f"leave {index}")
                    world.leave(index)
                elif rng.random() < 0.5:
                    story.append(step)
                    world.reconnect()
            story.append("create /a/b, change /a")
            world.nothing_is_left_behind()
            world.change("/a/b", EventType.CREATED)
            world.change("/a", EventType.CHANGED)
            world.nothing_is_left_behind()
        except AssertionError as error:
            raise AssertionError(story) from error
