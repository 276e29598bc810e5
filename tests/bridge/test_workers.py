"""The tasks of trio that do what callers ask: in one loop, with callers that are no threads."""

from __future__ import annotations

import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import MethodType, SimpleNamespace
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from pyzk.bridge.direct.calls import DirectCall
from pyzk.bridge.workers import Body, Call, Interrupted, Leave, Workers, calling_back, calls_back, enter
from pyzk.client import ClosingError
from pyzk.recipes import Grant
from pyzk.recipes.base.holder import current_holder, relied_on
from pyzk.recipes.locks.acquiring import Grants
from pyzk.server.storage.building import collector_paused

LEFT = "this block has already been left"
BLOCKS = pytest.mark.parametrize("kind", ["async with", "with"])


@asynccontextmanager
async def at_work() -> AsyncIterator[Workers]:
    """Workers, until the end of the block."""
    async with trio.open_nursery() as nursery:
        agents = Workers()
        agents.open(nursery)
        try:
            yield agents
        finally:
            agents.close()


def tasks(agents: Workers) -> int:
    """How many tasks of trio the agents are."""
    assert agents._nursery is not None
    return len(agents._nursery.child_tasks)


class Caller:
    """Asks, and notes the answers.

    :ivar interrupts: how often it was told that a block was cancelled.
    """

    def __init__(self, agents: Workers) -> None:
        self._workers = agents
        self.answers: list[tuple[Any, BaseException | None]] = []
        self.interrupts = 0

    def _note(self, value: Any, error: BaseException | None) -> None:
        self.answers.append((value, error))

    def _interrupt(self) -> None:
        self.interrupts += 1

    def call(self, function: Any, *args: Any, **options: Any) -> Call:
        """Ask for a call."""
        call = Call(self, function, args, {}, self._interrupt, **options)
        call.reply = self._note
        self._workers.dispatch(call)
        return call

    def leave(self, body: Body, value: Any = None, error: BaseException | None = None) -> Leave:
        """Ask for the end of a body."""
        leave = Leave(body, value, error)
        leave.reply = self._note
        self._workers.dispatch(leave)
        return leave

    async def answer(self) -> Any:
        """The value of the next answer; or its error is raised."""
        await wait_all_tasks_blocked()
        assert self.answers, "there is no answer"
        value, error = self.answers.pop(0)
        if error is not None:
            raise error
        return value

    async def waits(self) -> bool:
        """Whether no answer comes."""
        await wait_all_tasks_blocked()
        return not self.answers

    async def enter(self, block: Any) -> Body:
        """Enter a block."""
        self.call(enter, block)
        body = await self.answer()
        assert isinstance(body, Body)
        return body


class Block:
    """A block that notes what happens, and can be cancelled.

    :ivar seen: the error with which its body has ended; ``left``: whether it has ended.
    """

    def __init__(self, *, swallows: bool = False) -> None:
        self.scope = trio.CancelScope()
        self.left = False
        self.seen: BaseException | None = None
        self._swallows = swallows

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Any]:
        with self.around():
            await trio.lowlevel.checkpoint()
            with self.scope:
                yield "value"

    @contextmanager
    def around(self) -> Iterator[Any]:
        try:
            yield "value"
        except BaseException as error:
            self.seen = error
            if not self._swallows:
                raise
        finally:
            self.left = True

    def of(self, kind: str) -> Any:
        return self.opened() if kind == "async with" else self.around()


async def returned(value: Any) -> Any:
    await trio.lowlevel.checkpoint()
    return value


async def raised(error: BaseException) -> None:
    await trio.lowlevel.checkpoint()
    raise error


class Stuck:
    """Waits, and notes that it was cancelled.

    :ivar ended: how often.
    """

    def __init__(self, then: BaseException | None = None, note: str | None = None) -> None:
        self.ended = 0
        self._then = then
        self._note = note

    async def __call__(self, *args: object) -> None:
        try:
            await trio.sleep_forever()
        except trio.Cancelled as cut:
            if self._note is not None:
                cut.add_note(self._note)
            if self._then is not None:
                raise self._then from None
            raise
        finally:
            self.ended += 1


# --- calls ------------------------------------------------------------------------------------------------


async def test_a_call_is_answered_with_its_result_or_its_error() -> None:
    async with at_work() as agents:
        caller, error = Caller(agents), ValueError("no")
        caller.call(returned, 5)
        assert await caller.answer() == 5
        caller.call(raised, error)
        with pytest.raises(ValueError, match="no") as caught:
            await caller.answer()
        assert caught.value is error
        assert caller.answers == []
        assert tasks(agents) == 1, "the same agent does both"


async def test_arguments_that_are_wrong_are_the_answer() -> None:
    async with at_work() as agents:
        caller = Caller(agents)
        for waits_for_requests in (False, True):
            caller.call(returned, 1, 2, waits_for_requests=waits_for_requests)
            with pytest.raises(TypeError, match="positional argument"):
                await caller.answer()


async def test_a_call_works_for_its_caller() -> None:
    async def holder() -> object:
        return current_holder()

    async with at_work() as agents:
        one, other = Caller(agents), Caller(agents)
        for caller in (one, other):
            caller.call(holder)
            assert await caller.answer() is caller
        assert tasks(agents) == 1
        for caller in (one, other):
            caller.call(holder)
        for caller in (one, other):
            assert await caller.answer() is caller
        assert tasks(agents) == 2, "both at a time"


async def test_a_hundred_agents_wait_for_new_callers() -> None:
    gone = trio.Event()
    async with at_work() as agents:
        callers = [Caller(agents) for _ in range(103)]
        for caller in callers:
            caller.call(gone.wait)
        await wait_all_tasks_blocked()
        assert tasks(agents) == 103
        gone.set()
        await wait_all_tasks_blocked()
        assert tasks(agents) == 100
        assert all(len(caller.answers) == 1 for caller in callers)


async def test_a_call_that_is_cancelled_says_what_it_has_waited_for() -> None:
    async with at_work() as agents:
        caller = Caller(agents)
        for note, told in (("the lock", ("the lock",)), (None, ())):
            stuck = Stuck(note=note)
            call = caller.call(stuck)
            assert await caller.waits()
            call.cancel()
            with pytest.raises(Interrupted) as caught:
                await caller.answer()
            assert caught.value.args == told
            assert stuck.ended == 1
        caller.call(returned, 1)
        assert await caller.answer() == 1, "the next call is not cancelled"


async def test_what_a_cancelled_call_returns_or_raises_is_its_answer() -> None:
    async def got_all_the_same() -> int:
        with trio.CancelScope(shield=True):
            await done.wait()
        return 7

    async with at_work() as agents:
        caller, done = Caller(agents), trio.Event()
        call = caller.call(got_all_the_same)
        await wait_all_tasks_blocked()
        call.cancel()
        done.set()
        assert await caller.answer() == 7
        call = caller.call(Stuck(then=KeyError("mine")))
        await wait_all_tasks_blocked()
        call.cancel()
        with pytest.raises(KeyError, match="mine"):
            await caller.answer()


async def test_a_call_that_was_cancelled_before_does_not_begin() -> None:
    begun = []

    async def begin() -> None:
        begun.append(1)

    async with at_work() as agents:
        caller = Caller(agents)
        caller.call(begin).cancel()
        with pytest.raises(Interrupted):
            await caller.answer()
        assert begun == []


@pytest.mark.parametrize("release", [Grant.release, Grants.release])
async def test_what_gives_up_a_grant_begins_all_the_same(release: Any) -> None:
    class Held:
        acquired = released = ()

        def __getattr__(self, name: str) -> Any:
            raise KeyError(f"{name} was asked for")

    async with at_work() as agents:
        caller = Caller(agents)
        caller.call(MethodType(release, Held())).cancel()
        with pytest.raises(KeyError, match="was asked for"):
            await caller.answer()


async def test_what_waits_for_requests_alone_needs_no_task() -> None:
    async def at_once() -> int:
        return 3

    async with at_work() as agents:
        caller = Caller(agents)
        call = caller.call(at_once, waits_for_requests=True)
        assert caller.answers == [(3, None)], "at once"
        assert call.taken
        assert tasks(agents) == 0


class Waits:
    """What a coroutine without a task waits for: it stands for a request that the client has sent."""

    settled = False

    def __init__(self) -> None:
        self.forgotten = 0
        self.request = self
        self.on_cancel = None
        self.go_on: Any = None

    def on_settled(self, function: Callable[..., object]) -> None:
        self.go_on = function

    def forget(self, function: object) -> None:
        self.forgotten += 1

    def __await__(self) -> Iterator[Any]:
        yield self


async def until(wait: Waits) -> str:
    await wait
    return "settled"


async def test_what_needs_no_task_is_cancelled_too() -> None:
    async with at_work() as agents:
        caller, wait = Caller(agents), Waits()
        call = caller.call(until, wait, waits_for_requests=True)
        assert await caller.waits()
        call.cancel()
        with pytest.raises(Interrupted):
            await caller.answer()
        assert wait.forgotten == 1
        call.cancel()
        assert await caller.waits(), "it has ended"


def test_what_was_not_asked_has_not_come_to_an_agent() -> None:
    call = Call(object(), returned, (1,), {})
    assert (call.taken, call.cancelled, call.entered, call.waits_for_requests) == (False, False, False, False)
    call.interrupt()
    body: Any = None
    leave = Leave(body, 5, None)
    assert (leave.taken, leave.interrupted, leave.value, leave.error) == (False, False, 5, None)


async def test_an_error_that_was_answered_is_in_no_cycle() -> None:
    class Refused(Exception):
        """It can be referred to weakly."""

    async def refuse() -> None:
        raise Refused

    async with at_work() as agents:
        caller = Caller(agents)
        with collector_paused():
            caller.call(refuse)
            await wait_all_tasks_blocked()
            _, error = caller.answers.pop()
            assert error is not None
            seen = weakref.ref(error)
            del error
            assert seen() is None


# --- blocks -----------------------------------------------------------------------------------------------


@BLOCKS
async def test_a_block_is_entered_and_left(kind: str) -> None:
    async with at_work() as agents:
        caller, block = Caller(agents), Block()
        body = await caller.enter(block.of(kind))
        assert (body.value, body.function, body.over, block.left) == ("value", None, False, False)
        caller.call(returned, 5)
        assert await caller.answer() == 5
        assert not block.left
        caller.leave(body)
        assert await caller.answer() is False
        assert (block.left, block.seen, body.over) == (True, None, True)
        assert tasks(agents) == 1
        other = Caller(agents)
        other.call(returned, 1)
        assert await other.answer() == 1
        assert tasks(agents) == 1, "the agent is free again"


@BLOCKS
@pytest.mark.parametrize("swallows", [True, False])
async def test_a_block_has_the_error_of_its_body(kind: str, swallows: bool) -> None:
    async with at_work() as agents:
        caller, block, error = Caller(agents), Block(swallows=swallows), KeyError("mine")
        body = await caller.enter(block.of(kind))
        leave = caller.leave(body, None, error)
        if swallows:
            assert await caller.answer() is True
        else:
            with pytest.raises(KeyError) as caught:
                await caller.answer()
            assert caught.value is error
        assert block.seen is error
        assert not leave.interrupted
        assert leave.taken


async def test_a_block_that_is_not_entered_is_no_body() -> None:
    @asynccontextmanager
    async def refused() -> AsyncIterator[None]:
        raise KeyError("no")
        yield

    async with at_work() as agents:
        caller = Caller(agents)
        caller.call(enter, refused())
        with pytest.raises(KeyError, match="no"):
            await caller.answer()


async def test_calls_of_other_callers_are_not_in_the_block() -> None:
    async with at_work() as agents:
        caller, other, block = Caller(agents), Caller(agents), Block()
        await caller.enter(block.opened())
        block.scope.cancel()
        other.call(returned, 1)
        assert await other.answer() == 1
        assert tasks(agents) == 2


async def test_a_cancelled_block_ends_its_calls_and_stays_until_it_is_left() -> None:
    async with at_work() as agents:
        caller, block = Caller(agents), Block()
        body = await caller.enter(block.opened())
        stuck = Stuck(note="a queue")
        caller.call(stuck)
        assert await caller.waits()
        block.scope.cancel()
        with pytest.raises(Interrupted, match="a queue"):
            await caller.answer()
        assert stuck.ended == 1
        assert caller.interrupts == 1, "its own code runs now"
        for _ in range(2):
            caller.call(returned, 1)
            with pytest.raises(Interrupted):
                await caller.answer()
        assert not block.left
        caller.leave(body, None, Interrupted())
        assert await caller.answer() is True, "the scope is the one that was cancelled: it swallows that"


async def test_a_caller_in_its_own_code_hears_that_a_block_was_cancelled() -> None:
    async with at_work() as agents:
        caller, block = Caller(agents), Block()
        body = await caller.enter(block.opened())
        assert caller.interrupts == 0
        block.scope.cancel()
        assert await caller.waits()
        assert caller.interrupts == 1
        caller.leave(body, None, KeyError("mine"))
        with pytest.raises(KeyError, match="mine"):
            await caller.answer()


async def test_a_call_that_comes_as_the_block_is_cancelled_ends_with_it() -> None:
    async with at_work() as agents:
        caller, block = Caller(agents), Block()
        body = await caller.enter(block.opened())
        block.scope.cancel()
        caller.call(returned, 1)  # before the agent has run
        with pytest.raises(Interrupted):
            await caller.answer()
        caller.leave(body)
        assert await caller.answer() is False


async def test_a_call_that_its_caller_has_begun_is_begun_anew_in_a_cancelled_block() -> None:
    async with at_work() as agents:
        caller, block, wait = Caller(agents), Block(), Waits()
        await caller.enter(block.opened())
        block.scope.cancel()
        await wait_all_tasks_blocked()
        call = DirectCall(caller, until, (wait,), {}, waits_for_requests=True)
        call.reply = caller._note
        call.start()
        agents.dispatch(call)
        assert (wait.forgotten, call.taskless) == (1, None)
        with pytest.raises(Interrupted):
            await caller.answer()
        assert caller.answers == []


async def test_a_cancelled_block_that_is_left_without_an_error_ends() -> None:
    async with at_work() as agents:
        caller, block = Caller(agents), Block()
        body = await caller.enter(block.opened())
        block.scope.cancel()
        await wait_all_tasks_blocked()
        leave = caller.leave(body)
        assert await caller.answer() is False
        assert block.left
        assert not leave.interrupted


async def test_the_reason_of_a_cancelled_block_is_raised_as_it_is_left() -> None:
    @asynccontextmanager
    async def lost() -> AsyncIterator[None]:
        with trio.CancelScope() as scope:
            scopes.append(scope)
            yield
        if scope.cancelled_caught:
            raise KeyError("lost")

    async with at_work() as agents:
        caller, scopes = Caller(agents), []  # type: ignore[var-annotated]
        body = await caller.enter(lost())
        scopes[0].cancel()
        await wait_all_tasks_blocked()
        caller.leave(body, None, Interrupted())
        with pytest.raises(KeyError, match="lost"):
            await caller.answer()


async def test_a_caller_that_was_interrupted_leaves_its_block_by_a_cancel() -> None:
    """No block was cancelled: the caller itself was, as by KeyboardInterrupt."""
    async with at_work() as agents:
        caller, block = Caller(agents), Block()
        body = await caller.enter(block.opened())
        caller.leave(body, None, Interrupted())
        with pytest.raises(Interrupted):
            await caller.answer()
        assert isinstance(block.seen, trio.Cancelled)
        assert block.left
        caller.call(returned, 1)
        assert await caller.answer() == 1


async def test_the_end_of_a_block_can_be_cancelled() -> None:
    @asynccontextmanager
    async def slow() -> AsyncIterator[None]:
        yield
        await stuck()

    async with at_work() as agents:
        caller, stuck = Caller(agents), Stuck()
        body = await caller.enter(slow())
        leave = caller.leave(body)
        assert await caller.waits()
        leave.cancel()
        with pytest.raises(Interrupted):
            await caller.answer()
        assert stuck.ended == 1


async def test_whoever_leaves_an_inner_block_hears_whether_an_outer_one_is_cancelled() -> None:
    async with at_work() as agents:
        caller, outer, inner = Caller(agents), Block(), Block()
        around = await caller.enter(outer.opened())
        within = await caller.enter(inner.opened())
        outer.scope.cancel()
        await wait_all_tasks_blocked()
        assert caller.interrupts == 1
        leave = caller.leave(within, None, Interrupted())
        with pytest.raises(Interrupted):
            await caller.answer()
        assert leave.interrupted
        assert isinstance(inner.seen, trio.Cancelled)
        assert not outer.left
        leave = caller.leave(around, None, Interrupted())
        assert await caller.answer() is True
        assert not leave.interrupted


async def test_a_block_that_is_left_takes_those_inside_of_it_along() -> None:
    async with at_work() as agents:
        caller, outer, inner = Caller(agents), Block(), Block()
        around = await caller.enter(outer.opened())
        within = await caller.enter(inner.opened())
        caller.leave(around)
        assert await caller.answer() is False
        assert outer.left
        assert inner.left
        assert isinstance(inner.seen, trio.Cancelled)
        assert outer.seen is None
        assert caller.answers == []
        caller.leave(within)
        with pytest.raises(RuntimeError, match=LEFT):
            await caller.answer()


async def test_a_block_is_left_once() -> None:
    async with at_work() as agents:
        caller = Caller(agents)
        around = await caller.enter(Block().opened())
        body = await caller.enter(Block().opened())
        caller.leave(body)
        assert await caller.answer() is False
        again = caller.leave(body)
        with pytest.raises(RuntimeError, match=LEFT):
            await caller.answer()
        assert not again.interrupted
        caller.leave(around)
        assert await caller.answer() is False
        caller.leave(around)
        with pytest.raises(RuntimeError, match=LEFT):
            await caller.answer()
        caller.call(returned, 1)
        assert await caller.answer() == 1


async def test_a_block_whose_agent_is_gone_was_left() -> None:
    async with at_work() as agents:
        callers = [Caller(agents) for _ in range(101)]
        bodies = [await caller.enter(Block().opened()) for caller in callers]
        for caller, body in zip(callers, bodies, strict=True):
            caller.leave(body)
        await wait_all_tasks_blocked()
        assert tasks(agents) == 100
        for caller, body in zip(callers, bodies, strict=True):
            assert await caller.answer() is False
            caller.leave(body)
            with pytest.raises(RuntimeError, match=LEFT):
                await caller.answer()


async def test_what_a_block_relies_on_is_told_with_its_body() -> None:
    @contextmanager
    def relying(thing: Any) -> Iterator[None]:
        relied_on().append(thing)
        try:
            yield
        finally:
            relied_on().remove(thing)

    async with at_work() as agents:
        caller, one, other = Caller(agents), SimpleNamespace(), SimpleNamespace()
        around = await caller.enter(relying(one))
        within = await caller.enter(relying(other))
        assert around.relied_on == (one,)
        assert within.relied_on == (one, other)
        caller.leave(within)
        await caller.answer()
        caller.leave(around)
        await caller.answer()
        assert (await caller.enter(Block().opened())).relied_on == ()


@pytest.mark.parametrize("cancelled", [True, False])
async def test_in_a_block_what_waits_for_requests_alone_needs_no_task_until_it_is_cancelled(
    cancelled: bool,
) -> None:
    async with at_work() as agents:
        caller, block, wait = Caller(agents), Block(), Waits()
        await caller.enter(block.opened())
        if cancelled:
            block.scope.cancel()
            await wait_all_tasks_blocked()
        call = caller.call(until, wait, waits_for_requests=True)
        assert (call.taskless is not None) == (not cancelled)
        if cancelled:
            with pytest.raises(Interrupted):
                await caller.answer()
            return
        wait.go_on(wait)
        assert await caller.answer() == "settled"
        caller.call(until, Waits(), waits_for_requests=True)
        assert await caller.waits()
        block.scope.cancel()
        with pytest.raises(Interrupted):
            await caller.answer()
        assert caller.interrupts == 1
        assert tasks(agents) == 1


async def test_whether_a_caller_may_do_a_call_itself() -> None:
    async with at_work() as agents:
        caller, block = Caller(agents), Block()
        asked = Call(caller, returned, (1,), {})
        assert agents.allow(asked), "it is in no block"
        body = await caller.enter(block.opened())
        assert agents.allow(asked)
        block.scope.cancel()
        await wait_all_tasks_blocked()
        assert not agents.allow(asked)
        caller.leave(body)
        await caller.answer()
        assert agents.allow(asked)
        caller.call(Stuck())
        await wait_all_tasks_blocked()
        assert not agents.allow(asked), "its agent is at work"


# --- calls that call back ---------------------------------------------------------------------------------


async def test_a_call_that_calls_back() -> None:
    async def run(function: Any) -> list[Any]:
        return [await function(1, 2), await function(3)]

    def lead(*args: int) -> None:
        raise AssertionError("the caller calls it")

    async with at_work() as agents:
        caller = Caller(agents)
        caller.call(run, calls_back(lead))
        body = await caller.answer()
        assert (body.value, body.function, body.over) == ((1, 2), lead, False)
        caller.call(returned, 9)
        assert await caller.answer() == 9
        caller.leave(body, "first")
        body = await caller.answer()
        assert (body.value, body.function) == ((3,), lead)
        caller.leave(body, "second")
        assert await caller.answer() == ["first", "second"]


async def test_an_error_of_a_callback_is_raised_where_it_was_called() -> None:
    async def run(function: Any) -> str:
        try:
            await function()
        except KeyError as error:
            return f"caught {error}"
        return "nothing"

    async with at_work() as agents:
        caller = Caller(agents)
        caller.call(run, *calling_back([lambda: None]))
        body = await caller.answer()
        caller.leave(body, None, KeyError("mine"))
        assert await caller.answer() == "caught 'mine'"


def test_functions_among_arguments_become_callbacks() -> None:
    thing = object()
    kept, function = calling_back([thing, print])
    assert kept is thing
    assert function is not print
    assert callable(function)


# --- callers that ask while they wait ---------------------------------------------------------------------


async def test_a_handler_of_a_signal_asks_while_its_thread_waits() -> None:
    async with at_work() as agents:
        caller, first = Caller(agents), trio.Event()
        caller.call(first.wait)
        assert await caller.waits()
        caller.call(returned, "by the handler")
        assert await caller.answer() == "by the handler"
        assert tasks(agents) == 2
        first.set()
        assert await caller.answer() is None
        caller.call(returned, 1)
        assert await caller.answer() == 1
        assert tasks(agents) == 2, "one of both is free"


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (1, 2, 0), (0, 2, 1), (2, 0, 1)])
async def test_calls_within_calls_end_in_any_order(order: tuple[int, ...]) -> None:
    async with at_work() as agents:
        caller, events = Caller(agents), [trio.Event() for _ in range(3)]

        async def wait(number: int) -> int:
            await events[number].wait()
            return number

        for number in range(3):
            caller.call(wait, number)
            assert await caller.waits()
        assert tasks(agents) == 3
        for number in order:
            events[number].set()
            assert await caller.answer() == number
        assert await caller.waits()
        assert agents.finish(), "nobody is at work"


async def test_a_handler_is_in_no_block_of_the_call_that_it_interrupts() -> None:
    async with at_work() as agents:
        caller, block = Caller(agents), Block()
        body = await caller.enter(block.opened())
        caller.call(Stuck())
        assert await caller.waits()
        inner = Block()
        handled = await caller.enter(inner.opened())
        block.scope.cancel()
        with pytest.raises(Interrupted):  # the call that waits
            await caller.answer()
        assert not inner.left
        caller.leave(handled)
        assert await caller.answer() is False
        assert inner.seen is None
        caller.leave(body)
        assert await caller.answer() is False
        assert block.left


async def test_a_request_of_a_handler_needs_no_task_either() -> None:
    async with at_work() as agents:
        caller = Caller(agents)
        caller.call(Stuck())
        assert await caller.waits()
        caller.call(until, wait := Waits(), waits_for_requests=True)
        assert tasks(agents) == 1
        wait.go_on(wait)
        assert await caller.answer() == "settled"


# --- the end ----------------------------------------------------------------------------------------------


async def test_without_callers_the_end_is_now() -> None:
    async with at_work() as agents:
        caller = Caller(agents)
        caller.call(returned, 1)
        await caller.answer()
        assert not agents.finished.is_set()
        assert agents.finish() is True
        assert agents.finished.is_set()
        caller.call(returned, 1)
        with pytest.raises(ClosingError, match="the client was closed"):
            await caller.answer()


async def test_calls_in_no_block_end_with_the_clients() -> None:
    async with at_work() as agents:
        caller, stuck = Caller(agents), Stuck()
        caller.call(stuck)
        assert await caller.waits()
        assert agents.finish() is False
        with pytest.raises(ClosingError, match="the client was closed"):
            await caller.answer()
        assert stuck.ended == 1
        assert caller.answers == [], "there is one answer"
        assert agents.finished.is_set()


async def test_blocks_are_left_by_their_callers_before_the_end() -> None:
    async with at_work() as agents:
        caller, block = Caller(agents), Block()
        body = await caller.enter(block.opened())
        assert agents.finish() is False
        assert await caller.waits()
        assert not block.left
        assert not agents.finished.is_set()
        caller.call(returned, 5)
        assert await caller.answer() == 5, "the client itself says that it is closed"
        caller.leave(body)
        assert await caller.answer() is False
        assert agents.finished.is_set()


async def test_a_call_that_has_entered_a_block_does_not_end_with_the_clients() -> None:
    @asynccontextmanager
    async def slow() -> AsyncIterator[None]:
        yield
        await leaving.wait()

    async with at_work() as agents:
        caller, leaving = Caller(agents), trio.Event()
        body = await caller.enter(slow())
        caller.leave(body)
        assert await caller.waits()
        assert agents.finish() is False
        assert await caller.waits()
        leaving.set()
        assert await caller.answer() is False


async def test_a_call_in_a_block_does_not_end_with_the_clients() -> None:
    async with at_work() as agents:
        caller, event = Caller(agents), trio.Event()
        await caller.enter(Block().opened())
        caller.call(event.wait)
        assert await caller.waits()
        assert agents.finish() is False
        assert await caller.waits()
        event.set()
        assert await caller.answer() is None


async def test_both_calls_of_a_caller_end_with_the_clients() -> None:
    async with at_work() as agents:
        caller, one, other = Caller(agents), Stuck(), Stuck()
        caller.call(one)
        await wait_all_tasks_blocked()
        caller.call(other)
        await wait_all_tasks_blocked()
        assert agents.finish() is False
        for _ in range(2):
            with pytest.raises(ClosingError):
                await caller.answer()
        assert (one.ended, other.ended) == (1, 1)


async def test_what_was_asked_before_the_end_and_has_not_begun_is_refused() -> None:
    begun = []

    async def begin() -> None:
        begun.append(1)

    async with at_work() as agents:
        caller, other = Caller(agents), Caller(agents)
        await caller.enter(Block().opened())
        other.call(returned, 1)
        await other.answer()  # its agent waits for the next caller
        other.call(begin)
        assert agents.finish() is False
        with pytest.raises(ClosingError, match="the client was closed"):
            await other.answer()
        assert begun == []


@pytest.mark.parametrize("cancelled", [True, False])
async def test_the_end_of_the_loop_leaves_all_blocks(cancelled: bool) -> None:
    async with at_work() as agents:
        caller, waiting, block = Caller(agents), Caller(agents), Block()
        body = await caller.enter(block.opened())
        stuck = Stuck()
        waiting.call(stuck)
        assert await waiting.waits()
        if cancelled:  # the block then stays until its caller leaves it
            block.scope.cancel()
            await wait_all_tasks_blocked()
            assert not block.left
        agents.close()
        await wait_all_tasks_blocked()
        assert (block.left, stuck.ended, tasks(agents)) == (True, 1, 0)
        with pytest.raises(Interrupted):
            await waiting.answer()
        assert caller.answers == [], "it waits for nothing"
        caller.leave(body)
        with pytest.raises(ClosingError, match="the client was closed"):
            await caller.answer()
        caller.call(returned, 1)
        with pytest.raises(ClosingError):
            await caller.answer()


async def test_what_was_asked_as_the_loop_ended_is_refused() -> None:
    async with at_work() as agents:
        caller = Caller(agents)
        await caller.enter(Block().opened())
        agents.close()
        caller.call(returned, 1)  # before the agent has run
        with pytest.raises(ClosingError, match="the client was closed"):
            await caller.answer()
        assert caller.answers == []
