"""The calls that callers ask for, and the tasks of trio that do them.

The rules:

* A caller asks for one thing at a time and waits for the answer. It asks for a call (:class:`Call`), or says
  that its body has ended (:class:`Leave`).
* Entering a block is a call, too. Its function enters the block, has the caller run its body
  (:class:`Body`), and leaves the block. A call that calls back, such as ``election.run(lead)``, works in the
  same way.
* A call that waits only for requests (``zk.get``) needs no task, and so no switch to a task.
* The answer to an ask is a result, an error, or a body to run. From the body's beginning to its
  :class:`Leave` the agent does the caller's calls inside the block.
* When trio cancels a block around the agent, the current call ends as :class:`Interrupted`, and so does each
  later call. ``Call.interrupt`` interrupts a caller that is in its own code, if that is possible. The block
  itself stays until the caller leaves it, because a thread cannot be stopped, and others must not get its
  lock while it still works.
* When a caller leaves a block because it was interrupted, the agent leaves the block by trio's cancellation.
  Then the block finds the reason, and raises its error.
* If a caller asks while it waits for an answer, it is a signal handler or was interrupted. Then another
  agent does the second call.
* When a caller leaves a block, the agent first leaves all blocks inside it. A KeyboardInterrupt may come
  after a block was entered and before its body begins, and then the caller never leaves this block.

::

    asks:     Call(enter)    Call   Call          Leave
    caller    |              |      |             |
    ---------'|==============|======|=============|----------------> the caller's own code: =
              | ^ Body       | ^    | ^           | ^
              v |            v |    v |           v |
    agent     enter..........get....multi.........leave             all of it inside the block
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
"""Takes the answer: a value, or an error if it is not None. It is called in the loop, and must not raise."""

AnyBlock: TypeAlias = AbstractAsyncContextManager[Any] | AbstractContextManager[Any]

_IDLE_AGENTS = 100
"""The largest number of agents that wait for a new caller. For more callers new agents are started: a task
of trio costs about 20 us."""


_BEGUN = {Grant.release, Grants.release}
"""Calls that begin even if they were cancelled before, as in trio: they always release what is held."""

_LEFT = "this block has already been left, perhaps with a block around it: leave the inner blocks first"


class Interrupted(BaseException):
    """The call was cancelled by its caller, or because a block around it was cancelled. The argument says
    what the call waited for, if that is known."""


class Call:
    """Something to call in the loop.

    :ivar holder: the caller: a thread or a task of asyncio.
    :ivar reply: takes the answer; the caller's side sets it.
    :ivar interrupt: called in the loop when a block around a body of this call was cancelled.
    :ivar scope: the cancel scope of the agent's task, while an agent does the call.
    :ivar waits_for_requests: whether the call waits only for requests, and needs no task.
    :ivar taskless: does the call without a task.
    :ivar entered: whether the call has entered a block, or called back.
    :ivar taken: whether an agent has the call.
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
        """Have an agent begin the call again; called in the loop."""

    def cancel(self) -> None:
        """Cancel the call; called in the loop."""
        self.cancelled = True
        if self.scope is not None:
            self.scope.cancel()
        elif self.taskless is not None:
            self.taskless.cancel(Interrupted())


class Body:
    """Code that the caller runs in its own thread, while its agent waits for the end.

    :ivar value: the value that the block gives to its body, or the arguments of a callback.
    :ivar function: the callback; None for the body of a block.
    :ivar over: whether the body was left.
    :ivar relied_on: the holds that the caller relies on in the body and in the blocks around it.
    """

    __slots__ = ("agent", "call", "function", "over", "relied_on", "value")

    def __init__(
        self,
        agent: Agent,
        call: Call,
        value: Any,
        function: Callable[..., object] | None,
        relied_on: tuple[Lapsing, ...],
    ) -> None:
        self.agent = agent
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
    :ivar interrupted: set with the answer: whether an outer block is cancelled.
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


Ask: TypeAlias = Call | Leave


class Agent:
    """A task of trio that works for one caller at a time.

    :ivar holder: the caller, or None.
    """

    def __init__(self, agents: Agents) -> None:
        self.holder: object = None
        self._agents = agents
        self._asks: deque[Ask] = deque()
        self._task: trio.lowlevel.Task | None = None
        self._sleeping = False
        self._shield: trio.CancelScope | None = None
        self._shielded = False
        self._bodies: list[Body] = []
        self._relied_on: list[Lapsing] = []
        self._call: Call | None = None
        self._direct: Call | None = None  # what is done without this task, in its innermost block
        self._asked: Ask | None = None  # what the agent owes an answer to
        self._ended = False
        self.below: Agent | None = None  # that of the same caller, in a call that was interrupted

    @property
    def owes(self) -> bool:
        """True while its caller waits for an answer."""
        return self._asked is not None

    def give(self, ask: Ask) -> None:
        """Take an ask; called in the loop."""
        if self._ended:
            ask.reply(None, _closed() if self._agents.closed else RuntimeError(_LEFT))
            return
        self._asks.append(ask)
        if self._sleeping:
            self._sleeping = False
            assert self._task is not None
            trio.lowlevel.reschedule(self._task)

    def do_directly(self, call: Call) -> bool:
        """Do a call without this task, if the blocks around it are not cancelled. Returns whether it does
        the call. It is called in the loop."""
        if not self._sleeping or self._shielded:
            return False
        self._direct = call
        return True

    def retire(self) -> None:
        """Leave all blocks: the loop ends."""
        if self._shield is not None:
            self._shield.shield = False

    def finish(self) -> None:
        """End a call that is in no block: the clients are closed, so it may wait for ever. The caller leaves
        its blocks itself, and the client tells the blocks why."""
        if not self._bodies and self._call is not None and not self._call.entered:
            self._call.cancel()
            self._answer(None, _closed())

    async def run(self) -> None:
        """Do what callers ask, until the loop ends."""
        self._task = trio.lowlevel.current_task()
        _working.set(self)
        try:
            while True:
                ask = await self._next()
                if isinstance(ask, Leave):
                    ask.reply(None, RuntimeError(_LEFT))
                    continue
                if self._agents.finishing:
                    ask.reply(None, _closed())
                else:
                    await self._carry_out(ask)
                if not self._agents.rest(self):
                    return
        finally:
            self._ended = True
            self._answer(None, _closed())
            for ask in self._asks:
                ask.reply(None, _closed())

    async def body(self, value: Any, function: Callable[..., object] | None = None) -> Any:
        """Have the caller run a body, and do the caller's calls meanwhile. Returns or raises what the body
        does."""
        assert self._call is not None
        call = self._call
        call.entered = True
        body = Body(self, call, value, function, tuple(self._relied_on))
        self._bodies.append(body)
        self._answer(body, None)
        try:
            while True:
                ask = await self._next_in(body)
                if isinstance(ask, Call):
                    await self._carry_out(ask)
                elif ask.body is body:
                    self._asked = ask
                    break
                elif ask.body in self._bodies:
                    self._asks.appendleft(ask)
                    call.cancel()
                    await trio.lowlevel.checkpoint()
                else:
                    ask.reply(None, RuntimeError(_LEFT))
            return await ask.carry_out()
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

    async def _next(self) -> Ask:
        while not self._asks:
            self._sleeping = True
            await trio.lowlevel.wait_task_rescheduled(self._abort)
        return self._asks.popleft()

    async def _next_in(self, body: Body) -> Ask:
        try:
            return await self._next()
        except trio.Cancelled:
            if self._agents.closed:
                raise
        if self._direct is not None:
            self._direct.cancel()
        body.call.interrupt()
        with trio.CancelScope(shield=True) as self._shield:
            self._shielded = True
            try:
                ask = await self._next()
            finally:
                self._shielded = False
        return ask

    def _abort(self, raise_cancel: object) -> trio.lowlevel.Abort:
        self._sleeping = False
        return trio.lowlevel.Abort.SUCCEEDED


_working: ContextVar[Agent] = ContextVar("working")


async def enter(block: AnyBlock) -> bool:
    """Enter a block for the caller of this agent, and leave it when the caller does. Returns whether the
    block has swallowed the error of its body."""
    agent = _working.get()
    if isinstance(block, AbstractAsyncContextManager):
        async with block as value:
            await agent.body(value)
            return False
    else:
        with block as value:
            await agent.body(value)
            return False
    return True  # type: ignore[unreachable]


def calls_back(function: Callable[..., object]) -> Callable[..., Awaitable[Any]]:
    """Return a function for trio that has the waiting caller run a callback."""

    async def call(*args: Any) -> Any:
        return await _working.get().body(args, function)

    return call


def calling_back(args: Iterable[Any]) -> tuple[Any, ...]:
    """Return the arguments. Each function in them becomes a function that the waiting caller runs."""
    return tuple([calls_back(each) if callable(each) else each for each in args])


def _closed() -> ClosingError:
    return ClosingError(message="the client was closed")


class Agents:
    """The agents of a loop.

    :ivar closed: whether the loop is ending.
    :ivar finishing: whether all clients are closed; ``finished`` is set when no caller is in a block any
        more.
    """

    def __init__(self) -> None:
        self.closed = False
        self.finished = trio.Event()
        self.finishing = False
        self._nursery: trio.Nursery | None = None
        self._busy: dict[object, Agent] = {}  # by their callers
        self._idle: list[Agent] = []

    def open(self, nursery: trio.Nursery) -> None:
        """Begin: agents are tasks of this nursery."""
        self._nursery = nursery

    def finish(self) -> bool:
        """End when no caller is in a block any more: all clients are closed. Returns whether that is already
        so."""
        self.finishing = True
        for agent in self._working():
            agent.finish()
        if not self._busy:
            self.finished.set()
        return not self._busy

    def close(self) -> None:
        """Leave all blocks, and end."""
        assert self._nursery is not None
        self.closed = True
        for agent in self._working():
            agent.retire()
        self._nursery.cancel_scope.cancel()

    def _working(self) -> Iterator[Agent]:
        for agent in self._busy.values():
            each: Agent | None = agent
            while each is not None:
                yield each
                each = each.below

    def dispatch(self, ask: Ask) -> None:
        """Give an ask to the agent of its caller."""
        ask.taken = True
        if isinstance(ask, Leave):
            ask.body.agent.give(ask)
            return
        agent = self._busy.get(ask.holder)
        interrupted = agent is not None and agent.owes
        if ask.waits_for_requests and (agent is None or interrupted or agent.do_directly(ask)):
            ask.do_directly()
            return
        ask.forget()
        if agent is None or interrupted:
            if self.finishing or self.closed:
                ask.reply(None, _closed())
                return
            below, agent = agent, self._idle.pop() if self._idle else self._hire()
            self._busy[ask.holder] = agent
            agent.holder, agent.below = ask.holder, below
        agent.give(ask)

    def allow(self, call: Call) -> bool:
        """Return whether a call may be done by its caller, in the blocks that the caller is in. Called while
        the loop waits."""
        agent = self._busy.get(call.holder)
        return agent is None or agent.do_directly(call)

    def _hire(self) -> Agent:
        assert self._nursery is not None
        agent = Agent(self)
        self._nursery.start_soon(agent.run)
        return agent

    def rest(self, agent: Agent) -> bool:
        """Note that an agent has done what its caller asked. Returns whether it is still needed."""
        top = self._busy[agent.holder]
        if top is not agent:  # its caller was interrupted, and is in another call
            while top.below is not agent:
                assert top.below is not None
                top = top.below
            top.below = agent.below
        elif agent.below is not None:
            self._busy[agent.holder] = agent.below
        else:
            del self._busy[agent.holder]
        agent.holder = agent.below = None
        if self.finishing and not self._busy:
            self.finished.set()
        if self.closed or len(self._idle) >= _IDLE_AGENTS:
            return False
        self._idle.append(agent)
        return True
