"""The timer of an event loop at the end of a lease."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from typing import Any

import pytest

from pyzk.aio.limits import LimitTimer
from pyzk.client import ClosingError

from .drivers import in_asyncio


class Hold:
    """What a task relies on."""

    def __init__(self, seconds: float) -> None:
        self.limit = time.monotonic() + seconds
        self.lapsed = 0

    def lapse(self) -> None:
        self.lapsed += 1


class Client:
    """The client's loop.

    :ivar closed: it takes no posts.
    """

    def __init__(self, *, closed: bool = False) -> None:
        self.closed = closed

    def post(self, function: Callable[[], object]) -> None:
        if self.closed:
            raise ClosingError
        function()


def timer(holds: list[Hold], client: Client | None = None) -> tuple[LimitTimer, asyncio.Event]:
    """A timer, and an event that is set when it interrupts its task."""
    interrupted = asyncio.Event()
    loop: Any = client or Client()
    return LimitTimer(holds, loop, interrupted.set), interrupted


@in_asyncio
async def test_it_interrupts_at_the_earliest_limit() -> None:
    holds = [Hold(60), Hold(0.02), Hold(math.inf)]
    _, interrupted = timer(holds)
    await interrupted.wait()
    assert time.monotonic() >= holds[1].limit
    assert [hold.lapsed for hold in holds] == [0, 1, 0], "the others are held"


@in_asyncio
async def test_all_that_have_passed_are_lost() -> None:
    holds = [Hold(-1), Hold(-2)]
    _, interrupted = timer(holds)
    await interrupted.wait()
    assert [hold.lapsed for hold in holds] == [1, 1]


@in_asyncio
async def test_a_limit_that_has_moved_is_waited_for() -> None:
    hold = Hold(0.01)
    _, interrupted = timer([hold])
    hold.limit += 0.03
    await interrupted.wait()
    assert time.monotonic() >= hold.limit
    assert hold.lapsed == 1


@in_asyncio
async def test_nothing_comes_after_it_was_cancelled() -> None:
    hold = Hold(0.01)
    cancelled, interrupted = timer([hold])
    cancelled.cancel()
    cancelled.cancel()
    _, later = timer([Hold(0.02)])
    await later.wait()
    assert not interrupted.is_set()
    assert not hold.lapsed


@in_asyncio
async def test_the_task_of_a_closed_client_is_interrupted_too() -> None:
    _, interrupted = timer([Hold(0)], Client(closed=True))
    await interrupted.wait()


@pytest.mark.parametrize("holds", [[], [Hold(math.inf)]])
@in_asyncio
async def test_without_a_limit_there_is_no_timer(holds: list[Hold], monkeypatch: pytest.MonkeyPatch) -> None:
    def call_later(*arguments: object) -> None:
        raise AssertionError(arguments)

    monkeypatch.setattr(asyncio.get_running_loop(), "call_later", call_later)
    unlimited, interrupted = timer(holds)
    unlimited.cancel()
    assert not interrupted.is_set()
