"""Recipes that run in the background until the end of a block. They continue in the next session."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Self, TypeVar

import trio

from ...client import ClosingError, SessionExpiredError, SessionState, ZooKeeper
from ...client.repeating import repeat

T = TypeVar("T")


@asynccontextmanager
async def alongside(zk: ZooKeeper, work: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Run ``work()`` in a task of the client beside the block, and cancel ``work()`` at the end of the block.

    An error of ``work()`` cancels the block, and the block raises that error. If the block itself raises an
    error, this error gets a note with the error of ``work()``.

    :raises ClosingError: the client was closed.
    """
    if zk.session.state is SessionState.CLOSED:
        raise ClosingError(message="the client was closed")
    body, own = trio.CancelScope(), trio.CancelScope()
    ended = trio.Event()
    failure: Exception | None = None

    async def run() -> None:
        nonlocal failure
        try:
            with own:
                await work()
        except Exception as error:
            failure = error
        except BaseException:  # cancelled by the client
            failure = ClosingError(message="the client was closed")
            raise
        finally:
            if failure is not None:
                body.cancel()
            ended.set()

    zk.start_soon(run)
    try:
        with body:
            yield
    except Exception as error:
        if failure is not None:
            error.add_note(f"meanwhile: {failure!r}")
        raise
    finally:
        own.cancel()
        with trio.CancelScope(shield=True):
            await ended.wait()
    if failure is not None:
        raise failure


async def steady(zk: ZooKeeper, call: Callable[[], Awaitable[T]]) -> T:
    """Repeat a call until it is answered, also in the next sessions. The server may carry out the call
    more than once. So the call must not depend on the session.

    :raises SessionExpiredError: the session has ended, and the client opens no new session.
    :raises ZooKeeperError: the server refuses the call.
    """
    while True:
        try:
            return await repeat(zk, call)
        except SessionExpiredError:
            await zk.session.wait_connected()


class Running:
    """The base of a recipe that runs until the end of its block. An object has at most one block at the same
    time. Any number of tasks can use the object in this block."""

    def __init__(self) -> None:
        self._block: AbstractAsyncContextManager[None] | None = None
        self._changed = trio.Event()

    def _run(self) -> AbstractAsyncContextManager[None]:
        """Return the block that runs the recipe."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        """Begin the block.

        :raises RuntimeError: another block of this object has not ended.
        """
        if self._block is not None:
            raise RuntimeError(f"{self!r} runs already: end its block first")
        block = self._block = self._run()
        try:
            await block.__aenter__()
        except BaseException:
            self._block = None
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> bool | None:
        block, self._block = self._block, None
        assert block is not None
        self._notify()
        return await block.__aexit__(kind, error, tb)

    def _notify(self) -> None:
        """Wake the tasks that wait in :meth:`_until`."""
        self._changed.set()
        self._changed = trio.Event()

    async def _until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition is true. The condition is checked now and after each :meth:`_notify`.

        :raises RuntimeError: the recipe's block has ended or has not begun.
        """
        await trio.lowlevel.checkpoint()
        while self._block is not None:
            if condition():
                return
            await self._changed.wait()
        raise RuntimeError(f"{self!r} does not run: call this inside its async with block")
