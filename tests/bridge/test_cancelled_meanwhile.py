"""A task of asyncio is cancelled while the client does something that ends otherwise: what has happened is
not lost, and the task is cancelled at its next wait."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
import trio

from pyzk import aio
from pyzk.aio.tasks import TASKS
from pyzk.bridge.workers import calls_back
from pyzk.server.testing import EmbeddedServer


class Act:
    """Something of trio's that ends as it likes when it is cancelled.

    :param error: what it raises; None to return ``"done"``.
    :param at_once: it does not wait.
    """

    def __init__(self, error: Exception | None = None, *, at_once: bool = False) -> None:
        self._error = error
        self._at_once = at_once
        self.begun = threading.Event()
        self.times = 0

    async def __call__(self, *arguments: object) -> str:
        self.times += 1
        self.begun.set()
        with suppress(trio.Cancelled):
            await (trio.lowlevel.checkpoint() if self._at_once else trio.sleep_forever())
        if self._error is not None:
            raise self._error
        return "done"


class Block:
    """A block of trio's, which swallows no error unless ``leave`` returns something."""

    def __init__(self, enter: Act, leave: Callable[..., Awaitable[object]]) -> None:
        self._enter = enter
        self._leave = leave

    async def __aenter__(self) -> str:
        return await self._enter()

    async def __aexit__(self, *exc: object) -> bool:
        return bool(await self._leave(*exc))


async def nothing(*exc: object) -> None:
    await trio.lowlevel.checkpoint()


Main = Callable[[Any], Awaitable[object]]


@pytest.fixture
def run(server: EmbeddedServer) -> Callable[[Main, Act | None], object]:
    """Run ``main(loop)`` in a task, which is cancelled once an act has begun, if there is one."""

    def run(main: Main, act: Act | None) -> object:
        async def opened() -> object:
            async with aio.connect(server.hosts) as zk:
                task = asyncio.ensure_future(main(zk._loop))
                if act is not None:
                    await asyncio.to_thread(act.begun.wait)
                    task.cancel("mine")
                return await task

        return asyncio.run(opened())

    return run


async def next_wait() -> str:
    """What happens to this task at its next waits."""
    try:
        for _ in range(3):
            await asyncio.sleep(0)
    except asyncio.CancelledError as error:
        return f"cancelled: {error}"
    return "undisturbed"


async def outcome(awaitable: Awaitable[object]) -> tuple[str, str]:
    """How something ends, and what happens at the next wait."""
    try:
        ended = str(await awaitable)
    except (Exception, asyncio.CancelledError) as error:
        ended = repr(error)
    return ended, await next_wait()


CANCELLED = "cancelled: mine"
ENDS = [(None, "done"), (ValueError("no"), "ValueError('no')")]


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize(("error", "ended"), ENDS)
def test_a_call(run: Any, error: Exception | None, ended: str, at_once: bool) -> None:
    act = Act(error, at_once=at_once)
    found = run(lambda loop: outcome(TASKS.call(loop, act, (), {})), None if at_once else act)
    assert found == (ended, "undisturbed" if at_once else CANCELLED)


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize(("error", "ended"), ENDS)
def test_a_call_that_would_call_back(run: Any, error: Exception | None, ended: str, at_once: bool) -> None:
    act = Act(error, at_once=at_once)
    found = run(lambda loop: outcome(TASKS.call_back(loop, act, (), {})), None if at_once else act)
    assert found == (ended, "undisturbed" if at_once else CANCELLED)


@pytest.mark.parametrize("at_once", [False, True])
def test_a_callback_that_comes_after_the_cancel_does_not_begin(run: Any, at_once: bool) -> None:
    act, called = Act(at_once=at_once), []

    async def callback(value: str) -> str:
        called.append(value)
        return "called"

    async def work(function: Callable[..., Awaitable[object]]) -> object:
        return await function(await act())

    found = run(
        lambda loop: outcome(TASKS.call_back(loop, work, (calls_back(callback),), {})),
        None if at_once else act,
    )
    if at_once:
        assert (found, called) == (("called", "undisturbed"), ["done"])
    else:
        assert (found, called) == (("CancelledError('mine')", "undisturbed"), [])


def test_what_follows_a_callback_may_end_otherwise_too(run: Any) -> None:
    act = Act()

    async def callback() -> None:
        await asyncio.sleep(0)

    async def work(function: Callable[..., Awaitable[object]]) -> str:
        await function()
        return await act()

    found = run(lambda loop: outcome(TASKS.call_back(loop, work, (calls_back(callback),), {})), act)
    assert found == ("done", CANCELLED)


async def used(loop: Any, block: Block, error: Exception | None = None) -> str:
    async with TASKS.block(loop, block) as value:
        if error is not None:
            raise error
        return f"in: {value}"
    return "swallowed"


@pytest.mark.parametrize("at_once", [False, True])
def test_a_block_that_fails_to_begin(run: Any, at_once: bool) -> None:
    act = Act(ValueError("no"), at_once=at_once)
    found = run(lambda loop: outcome(used(loop, Block(act, nothing))), None if at_once else act)
    assert found == ("ValueError('no')", "undisturbed" if at_once else CANCELLED)


def test_a_block_that_begins_all_the_same_is_left(run: Any) -> None:
    act, leave = Act(), Act(at_once=True)
    assert run(lambda loop: outcome(used(loop, Block(act, leave))), act) == (
        "CancelledError('mine')",
        "undisturbed",
    )
    assert leave.times == 1


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize(
    ("error", "inside", "ended"),
    [
        (ValueError("no"), None, "ValueError('no')"),
        (ValueError("no"), KeyError("in"), "ValueError('no')"),
        (None, None, "in: done"),
        (None, KeyError("in"), "swallowed"),
    ],
)
def test_a_block_whose_end_takes_time(
    run: Any, error: Exception | None, inside: Exception | None, ended: str, at_once: bool
) -> None:
    leave = Act(error, at_once=at_once)
    block = Block(Act(at_once=True), leave)
    found = run(lambda loop: outcome(used(loop, block, inside)), None if at_once else leave)
    assert found == (ended, "undisturbed" if at_once else CANCELLED)


def test_the_error_of_a_body_passes_a_block_that_was_cancelled_as_it_ended(run: Any) -> None:
    act = Act()

    async def leave(*exc: object) -> None:
        await act()

    block = Block(Act(at_once=True), leave)
    found = run(lambda loop: outcome(used(loop, block, KeyError("in"))), act)
    assert found == ("KeyError('in')", CANCELLED)
