"""How a task of asyncio waits for the client.

The rules:

* When the client cancels a block that a task is in (a lost lock), the task is cancelled in the same way as by
  ``asyncio.timeout``. At the end of a lease a timer does this (:mod:`.limits`). When the task leaves the
  block, the block raises its error instead of the CancelledError. If the task was also cancelled by other
  code, it stays cancelled. The counts of ``Task.cancel()`` and ``Task.uncancel()`` show this.
* A task that is cancelled while it waits cancels the call, and waits until the call has ended and has left
  nothing behind. If the call has succeeded nevertheless (a queue has returned an item), its result is
  returned, and the task is cancelled at its next wait.
* A CancelledError carries the message of ``Task.cancel(message)``. anyio recognises its own cancels by their
  messages. If a wait is cancelled several times, the last message counts. If one of the cancels has no
  message, the task is cancelled once more at its next wait. So code that swallows one cancel does not swallow
  both.
* The same is true if a task leaves a block because of a cancel without a message, and a cancel with a message
  comes meanwhile. The block then ends with the cancel with a message, like a ``finally`` of asyncio that
  waits.
* Functions of the user are called in the event loop of the call that got them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import suppress
from contextvars import Context
from types import TracebackType
from typing import Any, Literal, Self
from weakref import WeakKeyDictionary, ref

import trio

from ..bridge.direct.calls import DirectCall
from ..bridge.loop import Loop
from ..bridge.objects import Objects
from ..bridge.workers import AnyBlock, Body, Call, Interrupted, Job, Leave, calling_back, enter
from ..client import ClosingError
from ..recipes.base.tracebacks import SHORT, drop_frames, shorten
from .event_loop import EventLoopState
from .limits import LimitTimer

SHOWN_SHORT: tuple[type[BaseException], ...] = (*SHORT, Interrupted, asyncio.CancelledError)
"""Errors whose tracebacks begin where the user calls (:mod:`pyzk.recipes.base.tracebacks`)."""


def _current_task() -> asyncio.Task[Any]:
    try:
        task = asyncio.current_task()
    except RuntimeError:
        task = None
    if task is None:
        raise RuntimeError(
            "pyzk.aio works in tasks of asyncio only. With trio, import from pyzk.client and pyzk.recipes; "
            "without an event loop, from pyzk.blocking"
        )
    return task


_callers: WeakKeyDictionary[asyncio.Task[Any], Caller] = WeakKeyDictionary()


class Caller:
    """A task of asyncio that is in blocks.

    :ivar cancelled: whether the task was cancelled because of a block; ``counted``: whether ``Task.cancel()``
        has counted it.
    :ivar leaving: whether the task waits for the end of a block.
    """

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self._task = ref(task)  # the task is the key of this object
        self.cancelled = False
        self.counted = False
        self.leaving = False

    @staticmethod
    def of(task: asyncio.Task[Any]) -> Caller:
        """Return the state of a task."""
        caller = _callers.get(task)
        if caller is None:
            caller = _callers[task] = Caller(task)
        return caller

    def interrupt(self) -> None:
        """Cancel the task: a block was cancelled. A task that leaves a block gets the error there."""
        task = self._task()
        if task is not None and not self.cancelled and not self.leaving:
            self.cancelled = self.counted = task.cancel()

    def recover(self) -> int:
        """Note that the reason was raised. Returns how many times the task is still cancelled."""
        task = self._task()
        if task is None:
            return 0
        counted, self.counted, self.cancelled = self.counted, False, False
        return task.uncancel() if counted else task.cancelling()


class CallFuture:
    """An answer that a task waits for: a future for one task and one ``await``. A cancelled task is not woken
    before the answer comes. The answer wakes the task at once, not in the next iteration of the event loop.

    :param client: the client's loop.
    :ivar cancelled: whether the task was cancelled meanwhile.
    :ivar message: the message of the last cancel that had a message.
    :ivar here: whether the event loop itself finds the answer now, and calls :meth:`wake` with it.
    :ivar answered: whether there is an answer.
    """

    __slots__ = (
        "_asyncio_future_blocking",
        "_callback",
        "_client",
        "_context",
        "_error",
        "_job",
        "_loop",
        "_state",
        "_task",
        "_twice",
        "_value",
        "answered",
        "cancelled",
        "here",
        "message",
    )

    def __init__(self, task: asyncio.Task[Any], client: Loop) -> None:
        self._asyncio_future_blocking = False  # what asyncio knows futures by
        self.cancelled = self.here = self.answered = self._twice = False
        self.message: object = None
        self._task = task
        self._client = client
        self._loop = task.get_loop()
        self._state = EventLoopState.of(self._loop)
        self._job: Job | None = None

    def ask(self, job: Job) -> Self:
        """Ask the loop for the call; the result must be awaited at once."""
        self._job = job
        job.reply = self._answer
        self._client.ask(job)
        return self

    def do(self, call: DirectCall) -> Self:
        """Do the call in this event loop, or ask the client's loop; the result must be awaited at once."""
        self._job = call
        call.reply = self._answer
        self._state.direct(self._client).begin(call, self)
        return self

    def _answer(self, value: Any, error: BaseException | None) -> None:
        self._value, self._error = value, error
        self.answered = True
        if not self.here:
            self._state.post(self.wake)

    def post(self, function: Callable[..., object], *args: Any) -> None:
        """Make the event loop call a function. Nothing happens if the loop was closed."""
        self._state.post(function, *args)

    def wake(self) -> None:
        """Wake the task; called in its event loop."""
        self._job = None  # it refers to this future
        self._context.run(self._callback, self)

    def __await__(self) -> Generator[CallFuture, None, Any]:
        self._asyncio_future_blocking = True
        yield self
        error = self._error
        if error is not None:
            try:
                raise error
            finally:
                del self._error, error  # they refer to themselves by the traceback
        return self._value

    def cancel_later(self) -> None:
        """Cancel the task at its next wait if it must still be cancelled then, because its call has
        succeeded."""
        self._loop.call_soon(_cancel_again, self._task, self.message)

    def cancelled_error(self, cut: Interrupted | None = None) -> asyncio.CancelledError:
        """Return the error that ends the call of a task that was cancelled.

        :param cut: the end of the call, which may say what it has waited for.
        """
        if self._twice:
            self._loop.call_soon(_cancel_again, self._task, None)
        error = asyncio.CancelledError() if self.message is None else asyncio.CancelledError(self.message)
        for words in cut.args if cut is not None else ():
            error.add_note(words)
        return error

    def last_cancel(self, before: asyncio.CancelledError) -> asyncio.CancelledError:
        """Return the error that ends a block or a call in which the task was already cancelled.

        :param before: the first cancel. If it has no message, and a cancel during this wait has one, then the
            latter is returned, and the first is made again.
        """
        if before.args or self.message is None:
            return before
        self._twice = True
        return self.cancelled_error()

    # --- what a task wants of a future -------------------------------------------------------------------

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def add_done_callback(self, callback: Callable[[CallFuture], object], *, context: Context) -> None:
        self._callback, self._context = callback, context

    def cancel(self, msg: object = None) -> bool:
        """Note that the task was cancelled. Returns True, because the task gets the error with the answer."""
        self._twice = self._twice or (self.cancelled and (msg is None) != (self.message is None))
        self.message = self.message if msg is None else msg
        if not self.cancelled and self._job is not None:
            self.cancelled = True
            with suppress(ClosingError):  # the answer is on its way
                self._client.post(self._job.cancel)
        return True

    def result(self) -> None:
        """Return the value with which the task continues."""


def _cancel_again(task: asyncio.Task[Any], message: object) -> None:
    if not task.cancelling() or task.done():
        return
    caller = _callers.get(task)
    if caller is not None and caller.leaving and caller.counted and task.cancelling() == 1:
        caller.recover()  # a block was cancelled, and the task leaves it already
        return
    task.uncancel()
    task.cancel(message)


class Tasks(Objects):
    """How tasks of asyncio use the client."""

    def holder(self) -> object:
        return _current_task()

    def ask(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Awaitable[Any]:
        """Await a function of trio in the loop, and return its result."""
        loop, args, kwargs = self.unwrap(function.__name__, args, kwargs)
        return self.call(loop, function, args, kwargs)

    async def ask_back(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Do the same as :meth:`ask`, for a function that calls a function of the caller."""
        try:
            loop, args, kwargs = self.unwrap(function.__name__, args, kwargs)
            return await self.call_back(loop, function, calling_back(args), kwargs)
        except SHOWN_SHORT as error:
            drop_frames(error)
            raise

    async def call(
        self,
        loop: Loop,
        function: Callable[..., Any],
        args: Any,
        kwargs: Any,
        waits_for_requests: bool = False,
        direct: bool = False,
    ) -> Any:
        """Await ``function(*args, **kwargs)`` in the loop, and return its result.

        :param waits_for_requests: whether it waits for requests alone: then it needs no task of trio.
        :param direct: whether it sends one request after the other: then this event loop may do it itself.
        """
        try:
            task = _current_task()
            future = CallFuture(task, loop)
            try:
                if direct:
                    value = await future.do(DirectCall(task, function, args, kwargs, waits_for_requests=True))
                else:
                    call = Call(task, function, args, kwargs, waits_for_requests=waits_for_requests)
                    value = await future.ask(call)
            except Interrupted as cut:
                self._note_cancelled(task, future)
                raise future.cancelled_error(cut) from None
            except BaseException:
                if future.cancelled:
                    future.cancel_later()
                raise
        except SHOWN_SHORT as error:
            drop_frames(error)
            raise
        if future.cancelled:
            future.cancel_later()
        return self.wrap(value, loop)

    async def call_back(self, loop: Loop, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Do what :meth:`call` does, for a function that calls back."""
        task = _current_task()
        caller, count = Caller.of(task), task.cancelling()
        future = CallFuture(task, loop)
        call = Call(task, function, args, kwargs, lambda: future.post(caller.interrupt))
        job: Call | Leave = call
        cancelled = False
        caught: asyncio.CancelledError | None = None  # what has ended the callback
        while True:
            caller.leaving = isinstance(job, Leave)
            try:
                answer = await future.ask(job)
            except Interrupted as cut:
                self._note_cancelled(task, future)
                ended = future.last_cancel(caught) if caught is not None else future.cancelled_error(cut)
                raise ended from None
            except BaseException:
                if future.cancelled:
                    future.cancel_later()
                raise
            finally:
                caller.leaving = False
                cancelled = cancelled or future.cancelled
                if isinstance(job, Leave) and not job.interrupted:
                    cancelled = caller.recover() > count
            if type(answer) is not Body:
                if cancelled:
                    future.cancel_later()
                return self.wrap(answer, loop)
            value: Any = None
            sent: BaseException | None = None
            limit = LimitTimer(answer.relied_on, loop, caller.interrupt)
            try:
                if cancelled:
                    raise future.cancelled_error()
                assert answer.function is not None
                value = await answer.function(*self.wrap(answer.value, loop))  # type: ignore[misc]
            except asyncio.CancelledError as error:
                sent, caught = Interrupted(), error
            except BaseException as error:
                sent = error
            finally:
                limit.cancel()
            future = CallFuture(task, loop)
            job = Leave(answer, value, sent)

    def _note_cancelled(self, task: asyncio.Task[Any], future: CallFuture) -> None:
        """Note that a call ends with CancelledError because of a block, if the task was not cancelled."""
        caller = _callers.get(task)
        if caller is not None and not future.cancelled:
            caller.cancelled = True

    def block(self, loop: Loop | None, block: AnyBlock) -> Any:
        """Return the context manager for a block of trio. Without a loop, it uses the loop of the process."""
        return Block(loop, block)

    def event(self, loop: Loop, event: trio.Event) -> Event:
        return Event(loop, event)

    def notice(self, function: Callable[..., object]) -> Callable[..., None]:
        event_loop = _current_task().get_loop()

        def notice(*args: Any, failed: Callable[[BaseException], object] | None) -> None:
            def run() -> None:
                try:
                    function(*args)
                except Exception as error:
                    if failed is None:
                        raise
                    args[0]._loop.post(failed, error)

            with suppress(RuntimeError):  # the event loop is closed
                event_loop.call_soon_threadsafe(run)

        return notice


class Block:
    """An ``async with`` block.

    :param loop: None for the block of a client, which attaches itself to the loop.
    """

    def __init__(self, loop: Loop | None, block: AnyBlock) -> None:
        self._loop = loop
        self._state: EventLoopState | None = None  # of the block of a client
        self._block = block
        self._body: Body | None = None
        self._limit: LimitTimer | None = None
        self._count = 0

    async def __aenter__(self) -> Any:
        task = _current_task()
        caller, self._count = Caller.of(task), task.cancelling()
        loop = self._loop
        if loop is None:
            loop = self._loop = Loop.attach(self)
            self._state = EventLoopState.of(task.get_loop())
            self._state.attach()
        future = CallFuture(task, loop)
        call = Call(task, enter, (self._block,), {}, lambda: future.post(caller.interrupt))
        try:
            body = self._body = await future.ask(call)
        except BaseException as error:
            self._detach()
            if isinstance(error, Interrupted):
                TASKS._note_cancelled(task, future)
                raise future.cancelled_error(error) from None
            if future.cancelled:
                future.cancel_later()
            if isinstance(error, SHOWN_SHORT):
                shorten(error)
            raise
        if future.cancelled:  # entered all the same
            cancelled = future.cancelled_error()
            await self.__aexit__(asyncio.CancelledError, cancelled, None)
            raise cancelled
        self._limit = LimitTimer(body.relied_on, loop, caller.interrupt)
        return TASKS.wrap(body.value, loop)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> bool:
        body, loop, task = self._body, self._loop, _current_task()
        assert body is not None
        assert loop is not None
        if self._limit is not None:
            self._limit.cancel()
        caller = Caller.of(task)
        interrupted = isinstance(error, asyncio.CancelledError)
        sent = Interrupted() if interrupted else error
        if isinstance(error, StopIteration | StopAsyncIteration):
            sent = RuntimeError(type(error).__name__)
        future = CallFuture(task, loop)
        caller.leaving = True
        leave = Leave(body, None, sent)
        try:
            swallowed: bool = await future.ask(leave)
        except Interrupted:
            self._ended(caller, leave)
            if isinstance(error, asyncio.CancelledError):
                last = future.last_cancel(error)
                if last is not error:
                    raise last from None
                return False
            TASKS._note_cancelled(task, future)
            raise future.cancelled_error() from None
        except BaseException as failure:
            cancelled = self._ended(caller, leave)
            if failure is sent:
                if error is not None:
                    error.__traceback__ = tb
                if future.cancelled:
                    future.cancel_later()
                return False
            if interrupted and cancelled:  # from elsewhere, too
                assert error is not None
                error.add_note(f"meanwhile: {failure!r}")
                return False
            if future.cancelled:
                future.cancel_later()
            if isinstance(failure, SHOWN_SHORT):
                shorten(failure)
            raise
        finally:
            caller.leaving = False
        self._ended(caller, leave)
        if future.cancelled:
            future.cancel_later()
        return swallowed

    def _detach(self) -> None:
        if self._state is not None:
            assert self._loop is not None
            self._loop.detach(self)
            self._state.detach()

    def _ended(self, caller: Caller, leave: Leave) -> bool:
        """Note that the block was left. Returns whether other code has cancelled the task."""
        self._detach()
        return not leave.interrupted and caller.recover() > self._count


class Event(asyncio.Event):
    """An event of the client. Only the client can set and clear the event."""

    def __init__(self, loop: Loop, event: trio.Event) -> None:
        super().__init__()
        self._client_loop = loop
        self._event = event

    def is_set(self) -> bool:
        """Return whether the event is set."""
        return self._event.is_set()

    async def wait(self) -> Literal[True]:
        """Wait until the event is set."""
        if not self._event.is_set():
            await TASKS.call(self._client_loop, self._event.wait, (), {})
        return True

    def set(self) -> None:
        raise RuntimeError("the client sets this event")

    def clear(self) -> None:
        raise RuntimeError("the client sets this event")


TASKS = Tasks("aio")
