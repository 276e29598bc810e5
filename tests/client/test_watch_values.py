"""Watches as users hold them, with events that a test delivers."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from pyzk.client import watch as module
from pyzk.client.pending import Pending
from pyzk.client.registry import Missed, MissedReason, WatchEvent, WatchKind, WatchRegistry
from pyzk.client.watch import Watch, WatchStream, arm, localised
from pyzk.protocol.constants import EventType, WatcherType
from pyzk.protocol.errors import BadArgumentsError, ClosingError, NoAuthError, NoNodeError
from pyzk.protocol.operations import OpCode

from .scripted import Registry

CHANGED = EventType.CHANGED
OVERFLOW = Missed("/a", MissedReason.OVERFLOW)


def event(path: str = "/a", zxid: int | None = None) -> WatchEvent:
    return WatchEvent(CHANGED, path, zxid)


def stream(buffer: int = 1000, prefix: str = "") -> WatchStream:
    return WatchStream("/a", prefix, WatchRegistry(), buffer)


async def test_as_many_events_are_kept_as_fit(autojump_clock: MockClock) -> None:
    events = stream(buffer=2)
    events.deliver(event(zxid=1))
    events.deliver(event(zxid=2))
    assert repr(events) == "<WatchStream /a, 2 unread>"
    assert [await anext(events), await anext(events)] == [event(zxid=1), event(zxid=2)]
    for zxid in (1, 2, 3):
        events.deliver(event(zxid=zxid))
    events.deliver(event(zxid=4))
    assert [await anext(events), await anext(events)] == [OVERFLOW, event(zxid=4)], "and later ones again"


async def test_as_many_characters_are_kept_as_fit(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LONGEST_BACKLOG", 10)
    events = stream()
    for _ in range(5):
        events.deliver(event("/b"))
    assert await anext(events) == event("/b")
    events.deliver(event("/c"))
    assert [await anext(events) for _ in range(5)] == [event("/b")] * 4 + [event("/c")]
    for _ in range(6):
        events.deliver(event("/b"))
    assert await anext(events) == OVERFLOW
    events.deliver(event("/bbbbbbbbb"))
    assert await anext(events) == event("/bbbbbbbbb")
    events.deliver(event("/bbbbbbbbbb"))
    assert await anext(events) == OVERFLOW
    for _ in range(4):
        events.deliver(event("/b"))
    assert [await anext(events) for _ in range(4)] == [event("/b")] * 4


async def test_a_reader_waits_for_each_event(autojump_clock: MockClock) -> None:
    events = stream()
    seen: list[Any] = []

    async def follow() -> None:
        for _ in range(3):
            seen.append(await anext(events))  # noqa: PERF401

    async with trio.open_nursery() as nursery:
        nursery.start_soon(follow)
        for zxid in (1, 2, 3):
            await wait_all_tasks_blocked()
            assert len(seen) == zxid - 1
            events.deliver(event(zxid=zxid))
    assert seen == [event(zxid=zxid) for zxid in (1, 2, 3)]
    with trio.move_on_after(1) as scope:
        await anext(events)
    assert scope.cancelled_caught, "nothing is left"


async def test_a_cancelled_reader_takes_no_event() -> None:
    events = stream()
    events.deliver(event(zxid=1))
    with trio.CancelScope() as scope:
        scope.cancel()
        await anext(events)
    assert scope.cancelled_caught
    assert await anext(events) == event(zxid=1)


async def test_unread_events_come_before_the_end(autojump_clock: MockClock) -> None:
    events = stream()
    events.deliver(event(zxid=1))
    events.deliver(event(zxid=2))
    events.end(ClosingError(message="closed"))
    assert [await anext(events), await anext(events)] == [event(zxid=1), event(zxid=2)]
    for _ in range(2):
        with pytest.raises(ClosingError, match="closed"), trio.fail_after(1):
            await anext(events)


async def test_an_end_wakes_the_reader(autojump_clock: MockClock) -> None:
    events = stream()

    async def follow() -> None:
        with pytest.raises(ClosingError):
            await anext(events)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(follow)
        await wait_all_tasks_blocked()
        events.end(ClosingError(message="closed"))


@pytest.mark.parametrize(
    ("prefix", "given", "seen"),
    [
        ("", event("/a/b", 5), event("/a/b", 5)),
        ("/app", event("/app/a/b", 5), event("/a/b", 5)),
        ("/app", event("/app"), event("/")),
        ("/app", Missed("/app/a", MissedReason.EXPIRED), Missed("/w", MissedReason.EXPIRED)),
        ("", Missed("/a", MissedReason.RECONNECTED), Missed("/w", MissedReason.RECONNECTED)),
    ],
)
def test_events_have_the_paths_of_the_client(prefix: str, given: Any, seen: Any) -> None:
    assert localised(given, "/w", prefix) == seen


# --- one-shot watches -------------------------------------------------------------------------------------


def armed(registry: Registry, prefix: str = "") -> Watch:
    watch = Watch("/a", prefix, registry)
    registry.reserve(watch.server_path, WatchKind.DATA)
    registry.settle(watch.server_path, WatchKind.DATA, WatchKind.DATA, watch)
    return watch


async def test_a_watch_fires_once(autojump_clock: MockClock) -> None:
    registry = Registry()
    watch = armed(registry, "/app")
    assert (watch.path, watch.prefix, watch.server_path) == ("/a", "/app", "/app/a")
    assert repr(watch) == "<Watch /a, not fired>"
    with trio.move_on_after(1) as scope:
        await watch.wait()
    assert scope.cancelled_caught
    registry.notify(CHANGED, "/app/a", 5)
    watch.deliver(event("/app/a", 6))
    assert await watch.wait() == await watch.wait() == event("/a", 5)
    assert watch.event == event("/a", 5)
    watch.cancel()
    assert not watch.cancelled, "it had fired"
    assert watch.event == event("/a", 5)
    assert registry.removed == []


async def test_a_watch_that_is_cancelled_does_not_fire(autojump_clock: MockClock) -> None:
    registry = Registry()
    with armed(registry) as watch:
        pass
    assert watch.cancelled
    assert registry.removed == [("/a", WatcherType.DATA)]
    watch.deliver(event())
    assert watch.event is None
    assert repr(watch) == "<Watch /a, over>"
    with pytest.raises(ClosingError, match="the watch was cancelled"):
        await watch.wait()
    watch.cancel()
    assert registry.removed == [("/a", WatcherType.DATA)]


async def test_the_end_of_the_client_is_the_end_of_a_watch(autojump_clock: MockClock) -> None:
    registry = Registry()
    watch = armed(registry)
    registry.end(ClosingError(message="closed"))
    with pytest.raises(ClosingError, match="closed"):
        await watch.wait()
    watch.cancel()
    assert not watch.cancelled


@pytest.mark.parametrize(
    "make", [lambda: Watch("a", "", Registry()), lambda: WatchStream("a", "", Registry(), 1)]
)
def test_a_malformed_path_is_refused(make: Any) -> None:
    with pytest.raises(BadArgumentsError):
        make()


@pytest.mark.parametrize(
    ("error", "missing", "armed_kind"),
    [
        (None, None, WatchKind.DATA),
        (NoNodeError("/a"), None, None),
        (NoNodeError("/a"), WatchKind.EXIST, WatchKind.EXIST),
        (NoAuthError("/a"), WatchKind.EXIST, None),
    ],
)
def test_what_an_answer_arms(
    error: Exception | None, missing: WatchKind | None, armed_kind: WatchKind | None
) -> None:
    registry = Registry()
    watch = Watch("/a", "", registry)
    asked: list[bool] = []
    pending: Pending[None] = Pending(OpCode.GET_DATA, b"", "/a")

    def submit(asks: bool) -> Pending[None]:
        asked.append(asks)
        return pending

    assert arm(submit, watch, registry, WatchKind.DATA, missing) is pending
    assert asked == [True]
    assert len(registry) == 0
    pending.succeed(None) if error is None else pending.fail(error)
    users = [kind for entry in registry._paths.values() for kind in entry.users]
    assert users == ([armed_kind] if armed_kind else [])


def test_what_cannot_be_submitted_arms_nothing() -> None:
    registry = Registry()

    def submit(asks: bool) -> Pending[None]:
        raise ClosingError(message="closed")

    with pytest.raises(ClosingError):
        arm(submit, Watch("/a", "", registry), registry, WatchKind.PERSISTENT)
    assert registry._paths == {}
    assert registry.removed == []
