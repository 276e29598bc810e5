"""The functions that only the methods of the classes for threads call. Each removes its own frame from the
errors that say what has happened (:mod:`pyzk.recipes.base.tracebacks`)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, ParamSpec

from ..bridge.direct.calls import DirectCall
from ..bridge.direct.threads import begin
from ..bridge.objects import Wrapper
from ..bridge.workers import Call, calls_back
from ..recipes.base.tracebacks import drop_frames
from .threads import SHOWN_SHORT, THREADS, Block

P = ParamSpec("P")


class ThreadWrapper(Wrapper):
    """The base of the classes for threads."""

    _wrappers = THREADS

    def _call(
        self, function: Callable[P, Coroutine[Any, Any, object]], *args: P.args, **kwargs: P.kwargs
    ) -> Any:
        """Await a function in the loop, and return its result."""
        try:
            call = Call(threading.current_thread(), function, args, kwargs)
            return THREADS.converse(self._loop, call, THREADS.wrap)
        except SHOWN_SHORT as error:
            drop_frames(error)
            raise

    def _request(
        self, function: Callable[P, Coroutine[Any, Any, object]], *args: P.args, **kwargs: P.kwargs
    ) -> Any:
        """Do the same as :meth:`_call`, for a function that waits only for requests and so needs no task."""
        try:
            call = Call(threading.current_thread(), function, args, kwargs, waits_for_requests=True)
            return THREADS.converse(self._loop, call, THREADS.wrap)
        except SHOWN_SHORT as error:
            drop_frames(error)
            raise

    def _direct(
        self, function: Callable[P, Coroutine[Any, Any, object]], *args: P.args, **kwargs: P.kwargs
    ) -> Any:
        """Do the same as :meth:`_request`, in this thread if this is allowed (:mod:`pyzk.bridge.direct`)."""
        try:
            call = DirectCall(threading.current_thread(), function, args, kwargs, waits_for_requests=True)
            return THREADS.converse(self._loop, call, THREADS.wrap, begin)
        except SHOWN_SHORT as error:
            drop_frames(error)
            raise

    def _call_back(
        self, function: Callable[..., Coroutine[Any, Any, object]], callback: Callable[..., object]
    ) -> Any:
        """Do what :meth:`_call` does, for a function that has this thread call a function of the user."""
        return THREADS.call_back(self._loop, function, (calls_back(callback),), {})

    def _next(self, function: Callable[[], Coroutine[Any, Any, object]]) -> Any:
        """Do what :meth:`_call` does, for an iterator."""
        try:
            call = Call(threading.current_thread(), function, (), {})
            return THREADS.converse(self._loop, call, THREADS.wrap)
        except StopAsyncIteration:
            raise StopIteration from None
        except SHOWN_SHORT as error:
            drop_frames(error)
            raise

    def _block(self, block: AbstractAsyncContextManager[Any] | AbstractContextManager[Any]) -> Any:
        """Return the context manager for a block of trio."""
        return Block(self._loop, block)

    def _enter(self) -> Any:
        """Enter a block of this object."""
        try:
            entered = Block(self._loop, self._trio)
            entered.wrapper = self
            return entered.__enter__()
        except SHOWN_SHORT as error:
            drop_frames(error)
            raise

    def _leave(self, kind: Any, error: Any, tb: Any) -> Any:
        """Leave the block of this object that was entered last."""
        return self._innermost().leave(kind, error, tb)
