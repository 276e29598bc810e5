"""The functions that the methods of the classes for asyncio call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, ParamSpec

from ..bridge.objects import Wrapper
from ..bridge.workers import calls_back
from ..recipes.base.tracebacks import drop_frames
from .tasks import SHOWN_SHORT, TASKS, Block

P = ParamSpec("P")


class TaskWrapper(Wrapper):
    """The base of the classes for asyncio."""

    _wrappers = TASKS

    def _call(
        self, function: Callable[P, Coroutine[Any, Any, object]], *args: P.args, **kwargs: P.kwargs
    ) -> Awaitable[Any]:
        """Await a function in the loop of trio, and return its result."""
        return TASKS.call(self._loop, function, args, kwargs)

    def _request(
        self, function: Callable[P, Coroutine[Any, Any, object]], *args: P.args, **kwargs: P.kwargs
    ) -> Awaitable[Any]:
        """Do the same as :meth:`_call`, for a function that waits only for requests and so needs no task."""
        return TASKS.call(self._loop, function, args, kwargs, waits_for_requests=True)

    def _direct(
        self, function: Callable[P, Coroutine[Any, Any, object]], *args: P.args, **kwargs: P.kwargs
    ) -> Awaitable[Any]:
        """Do the same as :meth:`_request`, in this event loop if this is allowed
        (:mod:`pyzk.bridge.direct`)."""
        return TASKS.call(self._loop, function, args, kwargs, direct=True)

    def _call_back(
        self, function: Callable[..., Coroutine[Any, Any, object]], callback: Callable[..., object]
    ) -> Awaitable[Any]:
        """Do what :meth:`_call` does, for a function that has this task await a function of the user."""
        return TASKS.call_back(self._loop, function, (calls_back(callback),), {})

    def _block(self, block: AbstractAsyncContextManager[Any] | AbstractContextManager[Any]) -> Any:
        """Return the context manager for a block of trio."""
        return Block(self._loop, block)

    async def _enter(self) -> Any:
        """Enter a block of this object."""
        try:
            entered = Block(self._loop, self._trio)
            value = await entered.__aenter__()
        except SHOWN_SHORT as error:
            drop_frames(error)
            raise
        self._opened(entered)
        return value

    async def _leave(self, kind: Any, error: Any, tb: Any) -> Any:
        """Leave the block of this object that was entered last."""
        try:
            return await self._left().__aexit__(kind, error, tb)
        except SHOWN_SHORT as failure:
            drop_frames(failure)
            raise
