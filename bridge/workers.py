"""The calls of callers, and the tasks of trio that do the calls.

The rules:

* A caller submits one job at a time and waits for the answer. A job is a call (:class:`Call`) or the end of a
  body (:class:`Leave`).
* The entry into a block is a call too. The function of this call enters the block, makes the caller run the
  body of the block (:class:`Body`), and leaves the block. A call with a callback, such as
  ``election.run(lead)``, works in the same way: the callback is the body.
* A call that waits only for requests (``zk.get``) needs no task, and therefore no switch to a task.
* The answer to a job is a result, an error, or a body to run. From the body's beginning to its
  :class:`Leave` the worker does the caller's calls inside the block.
* When trio cancels a block around the worker, the current call and each later call end with
  :class:`Interrupted`. ``Call.interrupt`` interrupts a caller that is in its own code, if that is possible.
  The block itself stays until the caller leaves it. A thread cannot be stopped, and other clients must not
  get its lock while the thread still works.
* When a caller leaves a block because it was interrupted, the worker leaves the block by trio's cancellation.
  Then the block finds out why it was cancelled, and raises the error for that reason.
* A caller begins a second call before the first is answered only if a signal handler makes the second call,
  or if the first was interrupted. Another worker does the second call.
* When a caller leaves a block, the worker first leaves all blocks inside it. The caller may have forgotten an
  inner block: a KeyboardInterrupt may come after the block was entered and before its body begins. Then the
  caller never leaves this inner block.

::

    asks:     Call(enter)    Call   Call          Leave
    caller    |              |      |             |
    ---------'|==============|======|=============|----------------> the caller's own code: =
              | ^ Body       | ^    | ^           | ^
              v |            v |    v |           v |
    worker     enter..........get....multi.........leave             all of it inside the block
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from contextvars import ContextVar
from typing import Any, TypeAlias

import trio

from ..client import ClosingError
from ..client.pending import Taskless
from ..recipes.base.holder import Lapsing, OnBehalf, on_behalf
from ..recipes.locks.acquiring import Grants
from ..recipes.locks.grant import Grant

Reply: TypeAlias = Callable[[Any, BaseException | None], None]
"""A function that takes the answer of a job. The arguments are the value, and the error or None. The function
is called in the loop, and must not raise."""

AnyBlock: TypeAlias = AbstractAsyncContextManager[Any] | AbstractContextManager[Any]

_IDLE_WORKERS = 100
"""The largest number of workers that wait for a new caller. If there are more callers, new workers are
started. A new task of trio costs about 20 us."""


_BEGUN = {Grant.release, Grants.release}
"""The calls that begin even if they were cancelled before their beginning, as in trio. They always release a
hold."""

_LEFT = "this block has already been left, perhaps with a block around it: leave the inner blocks first"


class Interrupted(BaseException):
    """The caller has cancelled the call, or a block around the call was cancelled. The argument is the
    request for which the call waited, if it is known."""


class Call:
    """A function that is called in the loop.

    :ivar holder: the caller: a thread or a task of asyncio.
    :ivar reply: takes the answer; the caller's side sets it.
    :ivar interrupt: called in the loop when a block around a body of this call was cancelled.
    :ivar scope: the cancel scope of the worker's task, while a worker does the call.
    :ivar waits_for_requests: whether the call waits only for requests, and needs no task.
    :ivar taskless: does the call without a task.
    :ivar entered: whether the call has entered a block, or called back.
    :ivar taken: whether a worker has the call.
    """

    __slots__ = (
        "args",
        "cancelled",
        "entered",
        "function",
        "holder",
        "interrupt",
        "kwargs",
        "reply",
        "scope",
        "taken",
        "taskless",
        "waits_for_requests",
    )

    def __init__(
        self,
        holder: object,
        function: Callable[..., Coroutine[Any, Any, Any]],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        interrupt: Callable[[], object] = lambda: None,
        *,
        waits_for_requests: bool = False,
    ) -> None:
        self.holder = holder
        self.waits_for_requests = waits_for_requests
        self.interrupt = interrupt
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.reply: Reply
        self.scope: trio.CancelScope | None = None
        self.taskless: Taskless | None = None
        self.cancelled = False
        self.entered = False
        self.taken = False

    def start(self) -> None:
        """Do it without a task."""
        try:
            coroutine = self.function(*self.args, **self.kwargs)
        except BaseException as error:  # wrong arguments
            self.reply(None, error)
        else:
            self.taskless = Taskless(coroutine, self.reply)

    def do_directly(self) -> None:
        """Do the call in the loop without a task; called in the loop."""
        self.start()

    def forget(self) -> None:
        """Make a worker begin the call again; called in the loop."""

    def cancel(self) -> None:
        """Cancel the call; called in the loop."""
        self.cancelled = True
        if self.scope is not None:
            self.scope.cancel()
        elif self.taskless is not None:
            self.taskless.cancel(Interrupted())


class Body:
    """Code that the caller runs in its own thread, while its worker waits for the end.

    :ivar value: the value that the block gives to its body, or the arguments of a callback.
    :ivar function: the callback; None for the body of a block.
    :ivar over: whether the body was left.
    :ivar relied_on: the ownerships on which the caller relies in the body and in the blocks around it.
    """

    __slots__ = ("call", "function", "over", "relied_on", "value", "worker")

    def __init__(
        self,
        worker: Worker,
        call: Call,
        value: Any,
        function: Callable[..., object] | None,
        relied_on: tuple[Lapsing, ...],
    ) -> None:
        self.worker = worker
        self.call = call
        self.value = value
        self.function = function
        self.over = False
        self.relied_on = relied_on


class Leave:
    """The end of a body.

    :ivar value: the result of a callback.
    :ivar error: the error of the body; :class:`Interrupted` if the body was cancelled.
    :ivar reply: takes the answer; the caller's side sets it.
    :ivar interrupted: whether an outer block is cancelled; set together with the answer.
    """

    __slots__ = ("body", "error", "interrupted", "reply", "taken", "value")

    def __init__(self, body: Body, value: Any, error: BaseException | None) -> None:
        self.body = body
        self.value = value
        self.error = error
        self.reply: Reply
        self.interrupted = False
        self.taken = False

    def cancel(self) -> None:
        """Cancel the block while it is being left; called in the loop."""
        self.body.call.cancel()

    async def carry_out(self) -> Any:
        """End the body in trio in the way in which it ended for the caller."""
        if isinstance(self.error, Interrupted):
            await trio.lowlevel.checkpoint()  # a block around it was cancelled: it finds the reason
            self.cancel()  # the caller itself was
            await trio.lowlevel.checkpoint()
        if self.error is not None:
            raise self.error
        return self.value


Job: TypeAlias = Call | Leave


class Worker:
    """A task of trio that works for one caller at a time.

    :ivar holder: the caller, or None.
    """

    def __init__(self, workers: Workers) -> None:
        self.holder: object = None
        self._workers = workers
        self._jobs: deque[Job] = deque()
        self._task: trio.lowlevel.Task | None = None
        self._sleeping = False
        self._shield: trio.CancelScope | None = None
        self._shielded = False
        self._bodies: list[Body] = []
        self._relied_on: list[Lapsing] = []
        self._call: Call | None = None
        self._direct: Call | None = None  # what is done without this task, in its innermost block
        self._asked: Job | None = None  # what the worker owes an answer to
        self._ended = False
        self.below: Worker | None = None  # that of the same caller, in a call that was interrupted

    @property
    def owes(self) -> bool:
        """True while its caller waits for an answer."""
        return self._asked is not None

    def give(self, job: Job) -> None:
        """Accept a job; called in the loop."""
        if self._ended:
            job.reply(None, _closed() if self._workers.closed else RuntimeError(_LEFT))
            return
        self._jobs.append(job)
        if self._sleeping:
            self._sleeping = False
            assert self._task is not None
            trio.lowlevel.reschedule(self._task)

    def do_directly(self, call: Call) -> bool:
        """Do a call without this task, if the blocks around it are not cancelled. Returns whether the worker
        does the call. It is called in the loop."""
        if not self._sleeping or self._shielded:
            return False
        self._direct = call
        return True

    def leave_blocks(self) -> None:
        """Leave all blocks, because the loop ends."""
        if self._shield is not None:
            self._shield.shield = False

    def finish(self) -> None:
        """End a call that is in no block. The clients are closed, so the call may wait for ever. The caller
        leaves its blocks itself, and the client passes the reason to the blocks."""
        if not self._bodies and self._call is not None and not self._call.entered:
            self._call.cancel()
            self._answer(None, _closed())

    async def run(self) -> None:
        """Do the jobs of callers until the loop ends."""
        self._task = trio.lowlevel.current_task()
        _working.set(self)
        try:
            while True:
                job = await self._next()
                if isinstance(job, Leave):
                    job.reply(None, RuntimeError(_LEFT))
                    continue
                if self._workers.finishing:
                    job.reply(None, _closed())
                else:
                    await self._carry_out(job)
                if not self._workers.rest(self):
                    return
        finally:
            self._ended = True
            self._answer(None, _closed())
            for job in self._jobs:
                job.reply(None, _closed())

    async def body(self, value: Any, function: Callable[..., object] | None = None) -> Any:
        """Make the caller run a body, and do the caller's calls meanwhile. Returns the result of the body, or
        raises its error."""
        assert self._call is not None
        call = self._call
        call.entered = True
        body = Body(self, call, value, function, tuple(self._relied_on))
        self._bodies.append(body)
        self._answer(body, None)
        try:
            while True:
                job = await self._next_in(body)
                if isinstance(job, Call):
                    await self._carry_out(job)
                elif job.body is body:
                    self._asked = job
                    break
                elif job.body in self._bodies:
                    self._jobs.appendleft(job)
                    call.cancel()
                    await trio.lowlevel.checkpoint()
                else:
                    job.reply(None, RuntimeError(_LEFT))
            return await job.carry_out()
        finally:
            self._bodies.pop()
            body.over = True
            self._call = call

    def _answer(self, value: Any, error: BaseException | None) -> None:
        asked, self._asked = self._asked, None
        if isinstance(asked, Leave):
            asked.interrupted = trio.current_effective_deadline() == -math.inf
        if asked is not None:
            asked.reply(value, error)

    async def _carry_out(self, call: Call) -> None:
        self._call = self._asked = call
        assert self._task is not None
        on_behalf.set(OnBehalf(self._task, call.holder, self._relied_on))
        value: Any = None
        failure: BaseException | None = None
        try:
            with trio.CancelScope() as call.scope:
                if call.cancelled:
                    call.scope.cancel()
                if getattr(call.function, "__func__", None) not in _BEGUN:
                    await trio.lowlevel.checkpoint_if_cancelled()
                try:
                    value = await call.function(*call.args, **call.kwargs)
                except trio.Cancelled as cut:
                    failure = Interrupted(*getattr(cut, "__notes__", ()))
                    raise
            if call.scope.cancelled_caught:
                failure = failure or Interrupted()
        except trio.Cancelled:
            failure = failure or Interrupted()
        except BaseException as error:
            failure = error
        self._answer(value, failure)
        del failure  # it refers to itself by its traceback

    async def _next(self) -> Job:
        while not self._jobs:
            self._sleeping = True
            await trio.lowlevel.wait_task_rescheduled(self._abort)
        return self._jobs.popleft()

    async def _next_in(self, body: Body) -> Job:
        try:
            return await self._next()
        except trio.Cancelled:
            if self._workers.closed:
                raise
        if self._direct is not None:
            self._direct.cancel()
        body.call.interrupt()
        with trio.CancelScope(shield=True) as self._shield:
            self._shielded = True
            try:
                job = await self._next()
            finally:
                self._shielded = False
        return job

    def _abort(self, raise_cancel: object) -> trio.lowlevel.Abort:
        self._sleeping = False
        return trio.lowlevel.Abort.SUCCEEDED


_working: ContextVar[Worker] = ContextVar("working")


async def enter(block: AnyBlock) -> bool:
    """Enter a block for the caller of this worker, and leave the block when the caller leaves it. Returns
    whether the block has swallowed the error of its body."""
    worker = _working.get()
    if isinstance(block, AbstractAsyncContextManager):
        async with block as value:
            await worker.body(value)
            return False
    else:
        with block as value:
            await worker.body(value)
            return False
    return True  # type: ignore[unreachable]


def calls_back(function: Callable[..., object]) -> Callable[..., Awaitable[Any]]:
    """Return a function for trio that makes the waiting caller run a callback."""

    async def call(*args: Any) -> Any:
        return await _working.get().body(args, function)

    return call


def calling_back(args: Iterable[Any]) -> tuple[Any, ...]:
    """Return the arguments. Each function in the arguments becomes a function that the waiting caller
    runs."""
    return tuple([calls_back(each) if callable(each) else each for each in args])


def _closed() -> ClosingError:
    return ClosingError(message="the client was closed")


class Workers:
    """The workers of a loop.

    :ivar closed: whether the loop is ending.
    :ivar finishing: whether all clients are closed; ``finished`` is set when no caller is in a block any
        more.
    """

    def __init__(self) -> None:
        self.closed = False
        self.finished = trio.Event()
        self.finishing = False
        self._nursery: trio.Nursery | None = None
        self._busy: dict[object, Worker] = {}  # by their callers
        self._idle: list[Worker] = []

    def open(self, nursery: trio.Nursery) -> None:
        """Begin: workers are tasks of this nursery."""
        self._nursery = nursery

    def finish(self) -> bool:
        """End when no caller is in a block, because all clients are closed. Returns whether no caller is in a
        block now."""
        self.finishing = True
        for worker in self._working():
            worker.finish()
        if not self._busy:
            self.finished.set()
        return not self._busy

    def close(self) -> None:
        """Leave all blocks, and end."""
        assert self._nursery is not None
        self.closed = True
        for worker in self._working():
            worker.leave_blocks()
        self._nursery.cancel_scope.cancel()

    def _working(self) -> Iterator[Worker]:
        for worker in self._busy.values():
            each: Worker | None = worker
            while each is not None:
                yield each
                each = each.below

    def dispatch(self, job: Job) -> None:
        """Give a job to the worker of its caller."""
        job.taken = True
        if isinstance(job, Leave):
            job.body.worker.give(job)
            return
        worker = self._busy.get(job.holder)
        interrupted = worker is not None and worker.owes
        if job.waits_for_requests and (worker is None or interrupted or worker.do_directly(job)):
            job.do_directly()
            return
        job.forget()
        if worker is None or interrupted:
            if self.finishing or self.closed:
                job.reply(None, _closed())
                return
            below, worker = worker, self._idle.pop() if self._idle else self._start_worker()
            self._busy[job.holder] = worker
            worker.holder, worker.below = job.holder, below
        worker.give(job)

    def allow(self, call: Call) -> bool:
        """Return whether a caller can do a call itself in its present blocks. The loop is waiting when this
        method is called."""
        worker = self._busy.get(call.holder)
        return worker is None or worker.do_directly(call)

    def _start_worker(self) -> Worker:
        assert self._nursery is not None
        worker = Worker(self)
        self._nursery.start_soon(worker.run)
        return worker

    def rest(self, worker: Worker) -> bool:
        """Note that a worker has done the job of its caller. Returns whether the worker is still needed."""
        top = self._busy[worker.holder]
        if top is not worker:  # its caller was interrupted, and is in another call
            while top.below is not worker:
                assert top.below is not None
                top = top.below
            top.below = worker.below
        elif worker.below is not None:
            self._busy[worker.holder] = worker.below
        else:
            del self._busy[worker.holder]
        worker.holder = worker.below = None
        if self.finishing and not self._busy:
            self.finished.set()
        if self.closed or len(self._idle) >= _IDLE_WORKERS:
            return False
        self._idle.append(worker)
        return True
