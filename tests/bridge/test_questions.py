"""What a task of asyncio that is cancelled while it waits for the client is told, and how often."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from typing import Any

import pytest

from pyzk.aio.tasks import Caller, CallFuture, _cancel_again
from pyzk.client import ClosingError

from .drivers import in_asyncio


class Job:
    """Something that was asked."""

    def __init__(self) -> None:
        self.cancels = 0

    def cancel(self) -> None:
        self.cancels += 1


class Client:
    """The client's loop, which does at once what it is posted."""

    closed = False

    def ask(self, ask: Job) -> None:
        """Leave it unanswered."""

    def post(self, function: Callable[[], object]) -> None:
        if self.closed:
            raise ClosingError
        function()


class Task:
    """A task that counts its cancels, as those of asyncio do.

    :ivar messages: of the cancels.
    """

    def __init__(self) -> None:
        self.count = 0
        self.messages: list[object] = []

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    def done(self) -> bool:
        return False

    def cancelling(self) -> int:
        return self.count

    def uncancel(self) -> int:
        self.count -= 1
        return self.count

    def cancel(self, message: object = None) -> None:
        self.count += 1
        self.messages.append(message)


def asked(client: Client | None = None) -> tuple[CallFuture, Job, Task]:
    task: Any = Task()
    loop: Any = client or Client()
    ask: Any = Job()
    return CallFuture(task, loop).ask(ask), ask, task


@pytest.mark.parametrize(
    ("cancels", "told", "again"),
    [
        ([None], (), []),
        (["a"], ("a",), []),
        ([None, None], (), []),
        (["a", "b"], ("b",), []),
        (["a", "a"], ("a",), []),
        (["a", None], ("a",), [None]),
        ([None, "a"], ("a",), [None]),
        ([None, "a", "b"], ("b",), [None]),
    ],
)
@in_asyncio
async def test_the_messages_of_cancels(
    cancels: list[str | None], told: tuple[str, ...], again: list[object]
) -> None:
    """A cancel without a message beside one with a message is for somebody else: it is made again."""
    question, ask, task = asked()
    for message in cancels:
        task.count += 1
        assert question.cancel(message)
    assert question.cancelled
    assert ask.cancels == 1, "the call is cancelled once"
    assert question.cancelled_error().args == told
    await asyncio.sleep(0)
    assert task.messages == again
    assert task.count == len(cancels)


@pytest.mark.parametrize(
    ("before", "cancels", "told", "again"),
    [
        (None, [], (), []),
        (None, [None], (), []),
        (None, ["a"], ("a",), [None]),
        (None, ["a", "b"], ("b",), [None]),
        ("b", ["a"], ("b",), []),
    ],
)
@in_asyncio
async def test_a_cancel_while_a_cancelled_block_is_left(
    before: str | None, cancels: list[str | None], told: tuple[str, ...], again: list[object]
) -> None:
    """The first one with a message counts, as for a ``finally`` that waits; one without is made again."""
    question, _, task = asked()
    for message in cancels:
        task.count += 1
        question.cancel(message)
    first = asyncio.CancelledError() if before is None else asyncio.CancelledError(before)
    last = question.last_cancel(first)
    assert last.args == told
    assert (last is first) == (not again)
    await asyncio.sleep(0)
    assert task.messages == again


@in_asyncio
async def test_a_call_that_has_succeeded_is_followed_by_the_cancel() -> None:
    question, _, task = asked()
    task.count = 1
    question.cancel("a")
    question.cancel_later()
    assert task.messages == []
    await asyncio.sleep(0)
    assert (task.messages, task.count) == (["a"], 1)


@in_asyncio
async def test_who_is_not_to_be_cancelled_any_more_is_not() -> None:
    question, _, task = asked()
    question.cancel()
    question.cancel_later()
    await asyncio.sleep(0)
    assert (task.messages, task.count) == ([], 0)


@in_asyncio
async def test_an_answer_that_is_on_its_way_ends_a_cancel() -> None:
    client = Client()
    question, ask, _ = asked(client)
    client.closed = True
    assert question.cancel()
    assert question.cancelled
    assert ask.cancels == 0


class Counted(Task):
    """A task that can be cancelled for a block."""

    def cancel(self, message: object = None) -> bool:  # type: ignore[override]
        super().cancel(message)
        return True


def caller(task: Any) -> Caller:
    return Caller(task)


def test_a_block_that_was_cancelled_cancels_its_task_once() -> None:
    task = Counted()
    one = caller(task)
    one.interrupt()
    one.interrupt()
    assert (task.count, one.cancelled, one.counted) == (1, True, True)
    assert one.recover() == 0, "the task is cancelled no more"
    assert (task.count, one.cancelled, one.counted) == (0, False, False)
    one.interrupt()
    assert task.count == 1, "once more for another block"


def test_a_task_that_leaves_a_block_is_not_cancelled_for_one() -> None:
    task = Counted()
    one = caller(task)
    one.leaving = True
    one.interrupt()
    assert (task.count, one.cancelled) == (0, False)


def test_who_was_cancelled_from_elsewhere_stays_cancelled() -> None:
    task = Counted()
    one = caller(task)
    task.count = 1
    assert one.recover() == 1
    one.interrupt()
    assert (task.count, one.recover(), task.count) == (2, 1, 1)


def test_a_task_that_is_gone_is_left_alone() -> None:
    one = caller(Counted())
    gc.collect()
    one.interrupt()
    assert (one.cancelled, one.recover()) == (False, 0)


@pytest.mark.parametrize(
    ("leaving", "counted", "count", "left"),
    [(True, True, 1, 0), (True, True, 2, 2), (False, True, 1, 1), (True, False, 1, 1), (True, True, 0, 0)],
)
def test_a_cancel_for_a_block_that_the_task_leaves_is_not_made_again(
    leaving: bool, counted: bool, count: int, left: int
) -> None:
    task: Any = Counted()
    one = Caller.of(task)
    one.leaving, one.counted, one.cancelled, task.count = leaving, counted, counted, count
    _cancel_again(task, "a")
    assert task.count == left
    again = count > 0 and not (leaving and counted and count == 1)
    assert task.messages == (["a"] if again else [])


def test_a_task_that_has_ended_is_not_cancelled_again() -> None:
    class Ended(Counted):
        def done(self) -> bool:
            return True

    task: Any = Ended()
    task.count = 1
    _cancel_again(task, None)
    assert (task.count, task.messages) == (1, [])
