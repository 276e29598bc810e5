"""The bookkeeping of watches, step by step: what is asked for, forgotten, and armed again."""

from __future__ import annotations

import pytest

from pyzk.client.registry import Missed, MissedReason, Rearm, WatchEvent, WatchKind
from pyzk.protocol.constants import EventType, WatcherType
from pyzk.protocol.errors import ClosingError
from pyzk.protocol.operations import OpCode
from pyzk.protocol.records import SetWatches, SetWatches2

from .scripted import Recorder, Registry

DATA, EXIST, CHILD, PERSISTENT, RECURSIVE = WatchKind


@pytest.fixture
def registry() -> Registry:
    return Registry()


def asks(registry: Registry, kind: WatchKind) -> bool:
    """Whether such a watch has to be asked for, at a path with the watches that are there."""
    asks = registry.reserve("/a", kind)
    registry.settle("/a", kind, None, Recorder())
    return asks


@pytest.mark.parametrize(
    ("there", "asked"),
    [
        ([], {DATA, EXIST, CHILD, PERSISTENT, RECURSIVE}),
        ([DATA, CHILD, EXIST], {DATA, EXIST, CHILD, PERSISTENT, RECURSIVE}),
        ([PERSISTENT], {PERSISTENT, RECURSIVE}),
        ([RECURSIVE], {RECURSIVE}),
        ([PERSISTENT, RECURSIVE], {RECURSIVE}),
    ],
)
def test_what_the_server_is_asked_for(
    registry: Registry, there: list[WatchKind], asked: set[WatchKind]
) -> None:
    for kind in there:
        registry.arm("/a", kind)
    assert {kind for kind in WatchKind if asks(registry, kind)} == asked


@pytest.mark.parametrize(
    ("gone", "asked"),
    [(PERSISTENT, {PERSISTENT, RECURSIVE}), (RECURSIVE, {RECURSIVE})],
)
def test_what_a_watch_that_the_server_still_has_saves(
    registry: Registry, gone: WatchKind, asked: set[WatchKind]
) -> None:
    """One of the lasting watches has no user any more. The server keeps it for another user."""
    lasting = registry.arm("/a", gone)
    registry.arm("/a", DATA)
    registry.leave("/a", lasting)
    assert registry.removed == []
    assert {kind for kind in WatchKind if asks(registry, kind)} == asked


def test_a_reservation_counts_as_a_user(registry: Registry) -> None:
    registry.reserve("/a", PERSISTENT)
    assert not asks(registry, DATA)
    assert asks(registry, RECURSIVE)
    assert len(registry) == 0, "nothing is armed"


def test_what_is_refused_is_forgotten_but_for_what_was_there(registry: Registry) -> None:
    lasting = registry.arm("/a", PERSISTENT)
    registry.reserve("/a", DATA)
    registry.settle("/a", DATA, None, Recorder())
    assert registry.removed == []
    assert len(registry) == 1
    registry.reserve("/b", PERSISTENT)
    registry.settle("/b", PERSISTENT, None, Recorder())
    assert registry.removed == [], "it was not armed"
    registry.leave("/a", lasting)
    assert registry.removed == [("/a", WatcherType.ANY)]


def test_a_watch_of_another_kind_than_was_asked_for(registry: Registry) -> None:
    """A read of a znode that does not exist leaves another watch behind."""
    watcher = Recorder()
    registry.reserve("/a", DATA)
    registry.settle("/a", DATA, EXIST, watcher)
    (rearm,) = registry.rearm(7, 1000)
    assert rearm == Rearm(OpCode.SET_WATCHES, SetWatches(7, [], ["/a"], []), [])
    registry.notify(EventType.CREATED, "/a", 5)
    assert watcher.events == [WatchEvent(EventType.CREATED, "/a", 5)]
    assert list(registry.rearm(7, 1000)) == []


def test_answers_that_come_after_the_end_are_nothing(registry: Registry) -> None:
    registry.reserve("/a", DATA)
    registry.end(ClosingError(message="closed"))
    registry.settle("/a", DATA, DATA, Recorder())
    registry.leave("/a", Recorder())
    assert (len(registry), registry.removed) == (0, [])


def test_one_of_several_watchers_leaves(registry: Registry) -> None:
    first, second = registry.arm("/a", RECURSIVE), registry.arm("/a", RECURSIVE)
    registry.leave("/a", Recorder())
    assert len(registry) == 2, "a stranger"
    registry.leave("/a", first)
    registry.notify(EventType.CREATED, "/a/b", None)
    assert (first.events, len(second.events)) == ([], 1)
    registry.leave("/a", second)
    assert registry.removed == [("/a", WatcherType.ANY)]
    registry.notify(EventType.CREATED, "/a/b", None)
    assert len(second.events) == 1


def test_a_watch_of_one_side_leaves_the_other(registry: Registry) -> None:
    data, exist = registry.arm("/a", DATA), registry.arm("/a", EXIST)
    registry.arm("/a", CHILD)
    registry.leave("/a", data)
    assert registry.removed == [], "the server has one data watch, whether the znode exists or not"
    registry.leave("/a", exist)
    assert registry.removed == [("/a", WatcherType.DATA)]


def test_no_side_is_removed_beside_a_lasting_watch(registry: Registry) -> None:
    """Its removal could take the lasting one along."""
    data, lasting = registry.arm("/a", DATA), registry.arm("/a", PERSISTENT)
    registry.arm("/a", CHILD)
    registry.leave("/a", data)
    assert registry.removed == []
    data = registry.arm("/a", DATA)
    registry.leave("/a", lasting)
    registry.leave("/a", data)
    assert registry.removed == [], "the server may still watch more than is needed"
    registry.notify(EventType.CHILD, "/a", None)
    assert registry.removed == [("/a", WatcherType.ANY)]


def test_events_are_counted(registry: Registry) -> None:
    assert registry.events == 0
    registry.arm("/a", DATA)
    for path in ("/a", "/b"):
        registry.notify(EventType.CHANGED, path, None)
    assert registry.events == 2


@pytest.mark.parametrize("type", [EventType.CREATED, EventType.DELETED, EventType.CHANGED, EventType.CHILD])
def test_events_of_the_root_have_no_parent(registry: Registry, type: EventType) -> None:
    deep, flat = registry.arm("/", RECURSIVE), registry.arm("/", PERSISTENT)
    registry.notify(type, "/", 5)
    own = [] if type is EventType.CHILD else [WatchEvent(type, "/", 5)]
    assert deep.events == own
    assert flat.events == own


def test_a_recursive_watch_of_the_root_sees_all(registry: Registry) -> None:
    deep, child = registry.arm("/", RECURSIVE), registry.arm("/", CHILD)
    registry.notify(EventType.CREATED, "/a/b", 5)
    assert child.events == []
    registry.notify(EventType.CREATED, "/a", 6)
    assert [event.path for event in deep.events] == ["/a/b", "/a"]
    assert child.events == [WatchEvent(EventType.CHILD, "/", 6)]


def test_a_change_of_data_is_none_of_the_parent(registry: Registry) -> None:
    registry.arm("/a", RECURSIVE)
    flat = registry.arm("/a", PERSISTENT)
    registry.notify(EventType.CHANGED, "/a/b", 5)
    assert flat.events == []
    registry.notify(EventType.DELETED, "/a/b", 6)
    assert flat.events == [WatchEvent(EventType.CHILD, "/a", 6)]


def test_a_name_that_begins_alike_is_not_below(registry: Registry) -> None:
    deep = registry.arm("/a", RECURSIVE)
    registry.notify(EventType.CREATED, "/ab", 5)
    registry.notify(EventType.CREATED, "/", 5)
    assert deep.events == []


def test_a_lost_connection_takes_what_nobody_needs(registry: Registry) -> None:
    lasting = registry.arm("/a", RECURSIVE)
    registry.arm("/a", DATA)
    registry.leave("/a", lasting)
    registry.disconnected()
    assert asks(registry, DATA), "the server has forgotten the lasting watch"
    assert asks(registry, PERSISTENT)
    registry.reserve("/b", DATA)
    registry.disconnected()
    registry.settle("/b", DATA, DATA, kept := Recorder())
    registry.notify(EventType.CHANGED, "/b", 5)
    assert len(kept.events) == 1, "its request was sent again"


def test_an_expiry_ends_one_shot_watches_alone(registry: Registry) -> None:
    watchers = {kind: registry.arm("/a", kind) for kind in WatchKind}
    registry.expired()
    for kind in (DATA, EXIST, CHILD):
        assert watchers[kind].events == [Missed("/a", MissedReason.EXPIRED)]
    assert (watchers[PERSISTENT].events, watchers[RECURSIVE].events) == ([], [])
    assert len(registry) == 2
    (rearm,) = registry.rearm(0, 1000)
    assert rearm.record == SetWatches2(0, [], [], [], ["/a"], ["/a"])


def test_the_end_is_told_to_all(registry: Registry) -> None:
    watchers = [registry.arm(path, kind) for path in ("/a", "/b") for kind in WatchKind]
    registry.end(error := ClosingError(message="closed"))
    assert all(watcher.error is error for watcher in watchers)
    assert len(registry) == 0
    registry.notify(EventType.CREATED, "/a/b", 5)
    assert all(watcher.events == [] for watcher in watchers)


def test_requests_that_arm_again_are_cut_where_the_limit_is(registry: Registry) -> None:
    """A path costs its length in UTF-8, and 4 bytes."""
    for path in ("/é", "/bb", "/c", "/long-enough"):
        registry.arm(path, DATA)
    for limit, chunks in (
        (12, [["/é"], ["/bb"], ["/c"], ["/long-enough"]]),
        (13, [["/é"], ["/bb", "/c"], ["/long-enough"]]),
        (14, [["/é", "/bb"], ["/c"], ["/long-enough"]]),
        (20, [["/é", "/bb", "/c"], ["/long-enough"]]),
        (36, [["/é", "/bb", "/c", "/long-enough"]]),
        (1, [["/é"], ["/bb"], ["/c"], ["/long-enough"]]),
    ):
        found = [rearm.record for rearm in registry.rearm(5, limit)]
        assert found == [SetWatches(5, chunk, [], []) for chunk in chunks]


def test_lasting_watches_are_armed_again_with_their_users(registry: Registry) -> None:
    one, two = registry.arm("/a", PERSISTENT), registry.arm("/a", PERSISTENT)
    three = registry.arm("/b", RECURSIVE)
    registry.arm("/c", DATA)
    registry.disconnected()
    first, second = registry.rearm(5, 12)
    assert first.opcode == second.opcode == OpCode.SET_WATCHES2, "also where a request has none"
    assert first.record == SetWatches2(5, [], [], [], ["/a"], ["/b"])
    assert first.watchers == [("/a", one), ("/a", two), ("/b", three)]
    assert (second.record, second.watchers) == (SetWatches2(5, ["/c"], [], [], [], []), [])
    assert not registry.reserve("/b", PERSISTENT), "the recursive watch is there again"
