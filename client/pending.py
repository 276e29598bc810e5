"""Waits for requests. Only this module connects tasks and requests.

Most methods of the client wait only for requests. Their coroutines need no task: :class:`Taskless` runs such
a coroutine. Therefore the APIs for threads and for asyncio need no switch of tasks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar

import trio

from ..protocol.operations import OpCode
from .request import Request

T = TypeVar("T")


class _Thread(threading.local):
    """:ivar taskless: whether a :class:`Taskless` runs now in this thread.
    :ivar sends: whether this thread itself sends what it submits."""

    taskless = False
    sends = False


thread = _Thread()


class Pending(Request[T]):
    """An operation that was submitted."""

    __slots__ = ()

    def __repr__(self) -> str:
        if self.settled:
            outcome = f"failed: {self.error}" if self.error else "done"
        else:
            outcome = "not answered" if self.sent else "not sent"
        return f"<Pending {OpCode(self.opcode).word} {self.path}, {outcome}>"

    async def wait(self) -> T:
        """Wait for the result. Cancellation stops the wait, not the operation. Any task can wait again.

        :raises ZooKeeperError: the operation has failed.
        """
        await wait_settled(self, None)
        return self.result()


def runs_in_task() -> bool:
    """Return whether the caller is a task, which can be cancelled, and not a :class:`Taskless`."""
    return not thread.taskless


def sends_itself() -> bool:
    """Return whether the calling thread sends its requests itself."""
    return thread.sends


async def wait_settled(request: Request[Any], on_cancel: Callable[[Request[Any]], object] | None) -> None:
    """Wait until a request is settled.

    :param on_cancel: called with the request if this task is cancelled before the request is settled.
    """
    if thread.taskless:
        if not request.settled:
            await _HandOver(request, on_cancel)
        return
    if request.settled:
        await trio.lowlevel.checkpoint()
        return
    task = trio.lowlevel.current_task()

    def wake(request: Request[Any]) -> None:
        trio.lowlevel.reschedule(task)

    def abort(raise_cancel: object) -> trio.lowlevel.Abort:
        request.forget(wake)
        if on_cancel is not None:
            on_cancel(request)
        return trio.lowlevel.Abort.SUCCEEDED

    request.on_settled(wake)
    await trio.lowlevel.wait_task_rescheduled(abort)


class _HandOver:
    """The request that a coroutine without a task waits for."""

    def __init__(self, request: Request[Any], on_cancel: Callable[[Request[Any]], object] | None) -> None:
        self.request = request
        self.on_cancel = on_cancel

    def __await__(self) -> Generator[_HandOver, None, None]:
        yield self


class Taskless:
    """Runs a coroutine that waits only for requests. Use it in the thread of the client.

    :param done: called with the result, or with None and the error. It must not raise.
    """

    def __init__(
        self, coroutine: Coroutine[Any, Any, Any], done: Callable[[Any, BaseException | None], object]
    ) -> None:
        self._coroutine = coroutine
        self._done = done
        self._waits_for: _HandOver | None = None
        self._step()

    @property
    def request(self) -> Request[Any] | None:
        """The request for which the coroutine waits; None if the coroutine does not wait."""
        return self._waits_for.request if self._waits_for is not None else None

    def close(self) -> None:
        """End the coroutine without calling ``done``."""
        if self._waits_for is not None:
            self._waits_for.request.forget(self._go_on)
            self._waits_for = None
        self._coroutine.close()

    def cancel(self, error: BaseException) -> None:
        """Raise an error in the coroutine, in place of the wait. Nothing happens if the coroutine has
        ended."""
        waits_for = self._waits_for
        if waits_for is not None:
            waits_for.request.forget(self._go_on)
            if waits_for.on_cancel is not None:
                waits_for.on_cancel(waits_for.request)
            self._step(error)

    def _go_on(self, request: Request[Any]) -> None:
        self._step()

    def _step(self, error: BaseException | None = None) -> None:
        self._waits_for = None
        try:
            before = thread.taskless
            try:
                thread.taskless = True
                waits_for = self._coroutine.throw(error) if error is not None else self._coroutine.send(None)
            finally:
                thread.taskless = before
        except StopIteration as ended:
            self._done(ended.value, None)
        except BaseException as failure:
            self._done(None, failure)
        else:
            self._waits_for = waits_for
            waits_for.request.on_settled(self._go_on)
