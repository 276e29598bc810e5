"""How threads and tasks of asyncio wait for the client's loop: events, limits, notices, errors of bodies."""

from __future__ import annotations

import asyncio
import threading
import traceback
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from pyzk.aio.tasks import TASKS, Caller, CallFuture
from pyzk.aio.tasks import Block as TaskBlock
from pyzk.blocking import Interrupted, LockLost, LossReason, timeout
from pyzk.blocking.threads import THREADS, _bodies, _check
from pyzk.blocking.threads import Block as ThreadBlock
from pyzk.bridge.loop import Loop
from pyzk.bridge.workers import Body, Call, calls_back
from pyzk.client import ClosingError
from pyzk.recipes import Grant

from ..support.waiting import wait_until
from .drivers import in_asyncio


@pytest.fixture
def loop() -> Iterator[Loop]:
    """The loop of the clients, without a client."""
    user = object()
    yield Loop.attach(user)
    Loop.leave_all(user)


def in_thread(function: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=function)
    thread.start()
    return thread


class Opened:
    """A block of trio's.

    :ivar seen: the error with which its body has ended.
    """

    def __init__(self) -> None:
        self.seen: BaseException | None = None
        self.left = 0

    @asynccontextmanager
    async def __call__(self) -> AsyncIterator[str]:
        try:
            yield "value"
        except BaseException as error:
            self.seen = error
            raise
        finally:
            self.left += 1


# --- events -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("objects", [THREADS, TASKS])
def test_an_event_of_the_client_is_set_by_the_client_alone(objects: Any, loop: Loop) -> None:
    original = trio.Event()
    event = objects.event(loop, original)
    assert event.is_set() is False
    for change in (event.set, event.clear):
        with pytest.raises(RuntimeError, match="the client sets this event"):
            change()
    assert not original.is_set()
    loop.look(original.set)
    assert event.is_set() is True


def test_a_thread_waits_for_an_event(loop: Loop) -> None:
    original = trio.Event()
    event = THREADS.event(loop, original)
    assert event.wait(0) is False
    assert event.wait(0.01) is False
    found: list[bool] = []
    threads = [in_thread(lambda limit=limit: found.append(event.wait(limit))) for limit in (None, 60)]
    wait_until(lambda: original.statistics().tasks_waiting == 2)
    loop.look(original.set)
    for thread in threads:
        thread.join()
    assert found == [True, True]
    assert event.wait() is True
    assert event.wait(0) is True


def test_a_thread_whose_block_has_ended_waits_for_no_event(loop: Loop) -> None:
    original = trio.Event()
    event = THREADS.event(loop, original)
    with pytest.raises(TimeoutError), timeout(0):
        with pytest.raises(Interrupted):
            event.wait()
        loop.look(original.set)
        assert event.wait() is True, "it says what the thread would wait for"
        raise Interrupted


@in_asyncio
async def test_a_task_waits_for_an_event() -> None:
    user = object()
    loop = Loop.attach(user)
    original = trio.Event()
    event = TASKS.event(loop, original)
    task = asyncio.create_task(event.wait())
    await asyncio.to_thread(wait_until, lambda: original.statistics().tasks_waiting == 1)
    assert not task.done()
    loop.look(original.set)
    assert await task is True
    assert await event.wait() is True
    Loop.leave_all(user)


# --- limits -----------------------------------------------------------------------------------------------


def test_a_limit_says_how_long_and_for_what(loop: Loop) -> None:
    async def wait() -> None:
        try:
            waits.set()
            await trio.sleep_forever()
        except trio.Cancelled as cut:
            cut.add_note("waited for a queue")
            raise

    def end() -> None:
        waits.wait()
        limit.reschedule(0)

    waits = threading.Event()
    with pytest.raises(TimeoutError) as caught, timeout(60) as limit:
        thread = in_thread(end)
        THREADS.call(loop, wait, (), {})
    thread.join()
    assert str(caught.value) == "the calls took more than 0 s: waited for a queue"
    with pytest.raises(TimeoutError) as caught, timeout(60) as limit:
        assert isinstance(limit, timeout)
        limit.reschedule(0.02)
        THREADS.call(loop, trio.sleep_forever, (), {})
    assert str(caught.value) == "the calls took more than 0.02 s"
    with timeout(None) as limit:
        limit.reschedule(60)
        limit.reschedule(None)
        THREADS.call(loop, trio.lowlevel.checkpoint, (), {})
    with pytest.raises(KeyError, match="mine"), timeout(0):
        raise KeyError("mine")


# --- bodies -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [StopIteration("mine"), StopAsyncIteration("mine"), KeyError("mine")])
def test_the_error_of_a_body_comes_out_as_it_is(error: Exception, loop: Loop) -> None:
    opened = Opened()
    with pytest.raises(type(error)) as caught, ThreadBlock(loop, opened()) as value:
        assert value == "value"
        raise error
    assert caught.value is error
    assert traceback.extract_tb(error.__traceback__)[-1].filename == __file__
    assert opened.left == 1
    assert isinstance(opened.seen, RuntimeError | KeyError | StopAsyncIteration)
    if isinstance(error, StopIteration):  # no generator of trio's can be given that
        assert (type(opened.seen), str(opened.seen)) == (RuntimeError, "StopIteration")


@pytest.mark.parametrize("error", [StopIteration("mine"), StopAsyncIteration("mine"), KeyError("mine")])
def test_the_error_of_a_body_of_a_task_comes_out_as_it_is(error: Exception, loop: Loop) -> None:
    opened = Opened()

    async def main() -> None:
        with pytest.raises(type(error)) as caught:
            async with TaskBlock(loop, opened()) as value:
                assert value == "value"
                raise error
        assert caught.value is error

    asyncio.run(main())
    assert traceback.extract_tb(error.__traceback__)[-1].filename == __file__
    assert opened.left == 1
    assert isinstance(opened.seen, RuntimeError | KeyError | StopAsyncIteration)
    if isinstance(error, StopIteration):  # no generator of trio's can be given that
        assert (type(opened.seen), str(opened.seen)) == (RuntimeError, "StopIteration")


def test_a_block_of_a_client_has_the_loop_to_itself_and_gives_it_back() -> None:
    opened = Opened()
    block = ThreadBlock(None, opened())
    with block:
        assert block._loop is not None
        assert block._loop.look(lambda: 5) == 5
    assert opened.left == 1
    with pytest.raises(ClosingError):
        block._loop.look(lambda: 5)


@pytest.mark.parametrize("run", [THREADS, TASKS], ids=["threads", "tasks"])
def test_a_client_that_cannot_be_opened_gives_the_loop_back(run: Any) -> None:
    @asynccontextmanager
    async def refused() -> AsyncIterator[None]:
        raise KeyError("no")
        yield

    block = run.block(None, refused())
    if run is THREADS:
        with pytest.raises(KeyError, match="no"), block:
            pass
    else:

        async def main() -> None:
            with pytest.raises(KeyError, match="no"):
                async with block:
                    pass

        asyncio.run(main())
    with pytest.raises(ClosingError):
        block._loop.look(lambda: 5)


def test_grants_among_the_values_of_a_block_are_checked() -> None:
    def grant(lost: bool) -> Any:
        made: Any = object.__new__(Grant)

        def check() -> None:
            checked.append(made)
            if lost:
                raise LockLost(LossReason.NODE_DELETED, "/lock")

        made.ownership = SimpleNamespace(check=check)
        return made

    checked: list[Any] = []
    held, lost = grant(False), grant(True)
    for value in (held, (held, held), {"a": held}, ((held,), {"b": held}), 5, None, "text", (1, 2), [lost]):
        _check(value)
    assert checked == [held] * 6
    for value in (lost, (held, lost), {"a": held, "b": lost}, ({"c": (lost,)},)):
        with pytest.raises(LockLost):
            _check(value)


def test_a_cancel_with_a_message_that_comes_while_a_cancelled_block_is_left(loop: Loop) -> None:
    """As for a ``finally`` of asyncio that waits: it ends with that one, and the first is made again."""
    leaving, gate = threading.Event(), trio.Event()
    ends: list[Any] = []

    @asynccontextmanager
    async def slow() -> AsyncIterator[None]:
        try:
            yield
        finally:
            leaving.set()
            with trio.CancelScope(shield=True):
                await gate.wait()

    async def hold(entered: asyncio.Event) -> None:
        try:
            async with TaskBlock(loop, slow()):
                entered.set()
                await asyncio.sleep(60)
        except asyncio.CancelledError as error:
            ends.append(error.args)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError as error:
            ends.append(error.args)

    async def main() -> None:
        entered = asyncio.Event()
        task = asyncio.create_task(hold(entered))
        await entered.wait()
        task.cancel()
        await asyncio.to_thread(leaving.wait)
        task.cancel("mine")
        loop.look(gate.set)
        await task
        assert task.cancelling() == 2

    asyncio.run(main())
    assert ends == [("mine",), ()]


def test_a_task_that_enters_a_block_hears_once_that_an_outer_one_was_cancelled(loop: Loop) -> None:
    scope, entering = trio.CancelScope(), threading.Event()

    @asynccontextmanager
    async def outer() -> AsyncIterator[None]:
        with scope:
            yield

    @asynccontextmanager
    async def inner() -> AsyncIterator[None]:
        entering.set()
        await trio.sleep_forever()
        yield

    async def hold() -> None:
        around = TaskBlock(loop, outer())
        async with around:
            with pytest.raises(asyncio.CancelledError):
                async with TaskBlock(loop, inner()):
                    pass
            heard.append("once")
            agent = around._body.worker  # type: ignore[union-attr]
            await asyncio.to_thread(wait_until, lambda: agent._shielded)  # it has told its caller
            for _ in range(3):
                await asyncio.sleep(0)
            heard.append("and no more")

    async def main() -> None:
        task = asyncio.create_task(hold())
        await asyncio.to_thread(entering.wait)
        loop.look(scope.cancel)
        await task
        assert task.cancelling() == 0

    heard: list[str] = []
    asyncio.run(main())
    assert heard == ["once", "and no more"]


# --- who may wait -----------------------------------------------------------------------------------------


def test_no_loop_of_trio_is_stopped_by_a_call_that_waits(loop: Loop) -> None:
    def call() -> None:
        with pytest.raises(RuntimeError, match="called by the client's own thread"):
            THREADS.call(loop, trio.lowlevel.checkpoint, (), {})

    loop.look(call)

    async def main() -> None:
        with pytest.raises(RuntimeError, match="would stop the loop of trio that runs in this thread"):
            THREADS.call(loop, trio.lowlevel.checkpoint, (), {})

    trio.run(main)


def test_a_daemon_thread_of_a_program_that_exits_waits_for_the_end(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ended(Exception):
        pass

    def end(waiter: object) -> None:
        raise Ended

    async def fail() -> None:
        raise KeyError("no")

    def call() -> None:
        try:
            THREADS.call(loop, fail, (), {})
        except BaseException as error:
            failures.append(type(error))

    monkeypatch.setattr("pyzk.bridge.wakeups.Waiter.pause_for_ever", end)
    failures: list[type] = []
    for exiting, daemon in [(False, True), (True, False), (True, True)]:
        monkeypatch.setattr(loop, "exiting", exiting)
        thread = threading.Thread(target=call, daemon=daemon)
        thread.start()
        thread.join()
    assert failures == [KeyError, KeyError, Ended]


def test_tasks_alone_wait_in_asyncio() -> None:
    with pytest.raises(RuntimeError, match=r"pyzk.aio works in tasks of asyncio only"):
        TASKS.holder()
    event_loop = asyncio.new_event_loop()
    failures: list[BaseException] = []

    def call() -> None:
        try:
            TASKS.holder()
        except RuntimeError as error:
            failures.append(error)

    event_loop.call_soon(call)  # no task runs this
    event_loop.run_until_complete(asyncio.sleep(0))
    event_loop.close()
    assert len(failures) == 1


# --- notices ----------------------------------------------------------------------------------------------


def fails(*args: object) -> None:
    raise KeyError("mine")


def test_a_notice_comes_in_a_thread_of_its_own(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    uncaught: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", lambda info: uncaught.append(info.exc_value))
    grant: Any = SimpleNamespace(_loop=loop)
    failed: list[BaseException] = []
    THREADS.notice(lambda *args: seen.append((args, threading.current_thread())))(1, 2, failed=None)
    THREADS.notice(fails)(grant, failed=failed.append)
    THREADS.notice(fails)(failed=None)
    wait_until(lambda: seen and failed and uncaught)
    ((args, thread),) = seen
    assert args == (1, 2)
    assert (thread.name, thread.daemon) == ("pyzk notice", True)
    assert [str(error) for error in (*failed, *uncaught)] == ["'mine'", "'mine'"]
    wait_until(lambda: not [each for each in threading.enumerate() if each.name == "pyzk notice"])


def test_a_notice_comes_in_the_event_loop(loop: Loop) -> None:
    async def main() -> None:
        event_loop = asyncio.get_running_loop()
        uncaught: list[Any] = []
        event_loop.set_exception_handler(lambda _, context: uncaught.append(context["exception"]))
        seen: list[Any] = []
        failed: list[BaseException] = []
        grant: Any = SimpleNamespace(_loop=loop)
        notices.append(TASKS.notice(lambda *args: seen.append((args, asyncio.get_running_loop()))))
        notices[0](1, 2, failed=None)
        assert seen == [], "not at once"
        TASKS.notice(fails)(grant, failed=failed.append)
        TASKS.notice(fails)(failed=None)
        await asyncio.to_thread(wait_until, lambda: seen and failed and uncaught)
        assert seen == [((1, 2), event_loop)]
        assert [str(error) for error in (*failed, *uncaught)] == ["'mine'", "'mine'"]

    notices: list[Any] = []
    asyncio.run(main())
    notices[0](1, failed=None)  # the event loop is closed: nothing happens


# --- what tasks remember ----------------------------------------------------------------------------------


@in_asyncio
async def test_a_task_has_one_caller() -> None:
    task = asyncio.current_task()
    assert task is not None
    caller = Caller.of(task)
    assert Caller.of(task) is caller
    assert (caller.cancelled, caller.counted, caller.leaving) == (False, False, False)
    other = asyncio.create_task(asyncio.sleep(0))
    assert Caller.of(other) is not caller
    await other


@in_asyncio
async def test_an_error_that_was_raised_is_forgotten() -> None:
    """It refers to itself by its traceback."""
    task: Any = asyncio.current_task()
    loop: Any = SimpleNamespace(ask=lambda ask: ask.reply(None, KeyError("no")), post=lambda *args: None)
    question = CallFuture(task, loop)
    with pytest.raises(KeyError, match="no"):
        await question.ask(Call(task, fails, (), {}))  # type: ignore[arg-type]
    assert not hasattr(question, "_error")


def test_a_body_that_was_left_is_not_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(THREADS, "converse", lambda loop, ask, take: asked.append(ask))
    body: Any = object.__new__(Body)
    loop: Any = None
    body.over = True
    THREADS.abandon(loop, body)
    assert asked == []
    body.over = False
    THREADS.abandon(loop, body)
    (leave,) = asked
    assert leave.body is body  # type: ignore[attr-defined]
    assert isinstance(leave.error, Interrupted)  # type: ignore[attr-defined]


def test_a_callback_that_an_exception_has_kept_from_its_end_is_left(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KeyboardInterrupt may come just before the body is taken out."""
    ended: list[BaseException] = []

    async def work(function: Callable[..., Any]) -> None:
        try:
            await function()
        except BaseException as error:
            ended.append(error)
            raise

    def interrupted(loop: Loop, body: Body) -> None:
        _bodies.open.append(body)
        raise KeyboardInterrupt

    monkeypatch.setattr(THREADS, "_run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        THREADS.call_back(loop, work, (calls_back(lambda: None),), {})
    assert _bodies.open == []
    assert [type(error) for error in ended] == [trio.Cancelled]


@pytest.mark.parametrize("error", [SystemExit(3), None])
def test_a_fork_that_exits_leaves_the_block_to_its_parent(
    error: SystemExit | None, loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Opened()
    block = ThreadBlock(loop, opened())
    with monkeypatch.context() as fork, pytest.raises(SystemExit if error else RuntimeError) as caught, block:
        fork.setattr(loop, "forked", True)
        if error is not None:
            raise error
    assert opened.left == 0
    assert (caught.value is error) == (error is not None)
    block.abandon()
    assert opened.left == 1
    assert _bodies.open == []
