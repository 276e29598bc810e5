"""Recipes that are at work for as long as a block lasts, session after session."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Self, TypeVar

import trio

from ...client import ClosingError, SessionExpiredError, SessionState, ZooKeeper, repeat

T = TypeVar("T")


@asynccontextmanager
async def alongside(zk: ZooKeeper, work: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Run ``work()`` beside the block, in a task of the client's, and end it with the block.

    An error of the work cancels the block, which then raises it; so does :class:`ClosingError` when the
    client closes. What the block raises itself comes out as it is, with the error of the work as a note.
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
    """Make a call that has nothing to do with the session and may be carried out twice, in one session after
    another, until it is answered.

    Raises what the call raises; :class:`SessionExpiredError` if there will not be another session.
    """
    while True:
        try:
            return await repeat(zk, call)
        except SessionExpiredError:
            await zk.session.wait_connected()


class Running:
    """The base of what is at work while its block lasts. One block at a time; any number of tasks may use the
    object meanwhile."""

    def __init__(self) -> None:
        self._block: AbstractAsyncContextManager[None] | None = None
        self._changed = trio.Event()

    def _run(self) -> AbstractAsyncContextManager[None]:
        """What the block is made of."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        if self._block is not None:
            raise RuntimeError(f"{self!r} is at work already")
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
        """Have those look again who wait for something."""
        self._changed.set()
        self._changed = trio.Event()

    async def _until(self, condition: Callable[[], bool]) -> None:
        """Wait until it holds; it is looked at now and after each :meth:`_notify`."""
        await trio.lowlevel.checkpoint()
        while self._block is not None:
            if condition():
                return
            await self._changed.wait()
        raise RuntimeError(f"{self!r} is at work in its block only")
