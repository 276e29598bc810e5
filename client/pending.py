"""Waiting for a request: the one place where tasks and requests meet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import trio

from ..protocol.operations import OpCode
from .request import Request

T = TypeVar("T")


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
        """Wait for the result. Cancelling stops the wait, not the operation: any task may wait again.

        :raises ZooKeeperError: the operation has failed.
        """
        await wait_settled(self, None)
        return self.result()


async def wait_settled(request: Request[Any], on_cancel: Callable[[Request[Any]], object] | None) -> None:
    """Wait until a request is settled.

    :param on_cancel: called with the request if this task is cancelled before.
    """
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
