"""A trio run in a separate thread. Any thread can call the methods of this module's class."""

from __future__ import annotations

import os
import sys
import threading
import traceback
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import AbstractAsyncContextManager, suppress
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import trio

Local = TypeVar("Local")
T = TypeVar("T")


class ServerStopped(RuntimeError):
    """The server is not running: it was not started yet, or it was stopped."""


class ServerDied(RuntimeError):
    """The server's thread has ended with an error. The ``__cause__`` of this error is the error of the
    thread."""


class InThread(ABC, Generic[Local]):
    """A server or an ensemble in a daemon thread. Use it with ``with``, or call :meth:`start` and
    :meth:`stop`."""

    def __init__(self) -> None:
        super().__init__()
        self._process = 0  # where it was started
        self._thread: threading.Thread | None = None
        self._inside: Local | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._scope: trio.CancelScope | None = None
        self._ident = 0  # of the server's thread
        self._error: BaseException | None = None
        self._ending = False
        self._lock = threading.Lock()
        self._waiting: set[Future[Any]] = set()

    @abstractmethod
    def _open(self, ended: Callable[[], None]) -> AbstractAsyncContextManager[Local]:
        """Run the server inside the ``async with``.

        :param ended: called at once when it has closed its sockets, for any reason.
        """

    # --- its life ----------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start the server, and return when clients can connect.

        A server that was stopped is empty when it starts again, and the kernel chooses another port.

        :raises RuntimeError: the server runs already.
        :raises OSError: the address cannot be bound.
        """
        if self._thread is not None and not self._is_forked:
            raise RuntimeError("the server runs already; call stop() first")
        self._process, self._lock, self._waiting = os.getpid(), threading.Lock(), set()
        self._error, self._ending = None, False
        ready: Future[None] = Future()
        self._thread = threading.Thread(target=self._serve, args=(ready,), name="pyzk-server", daemon=True)
        self._thread.start()
        try:
            ready.result()
        except BaseException:
            self._thread.join()
            self._thread = self._error = None
            raise
        return self

    def stop(self) -> None:
        """Stop the server: close every connection and end its thread.

        Does nothing if the server does not run, or if this process is a fork of the one in which it runs.

        :raises ServerDied: the server's thread had ended with an error.
        """
        thread, scope, token = self._thread, self._scope, self._token
        if thread is None or self._is_forked:
            return
        if scope is not None and token is not None:
            with suppress(trio.RunFinishedError):
                token.run_sync_soon(scope.cancel)
        thread.join()
        self._thread = None
        if self._error is not None:
            raise self._why()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.stop()
        except ServerDied:
            if error is None:
                raise

    def _serve(self, ready: Future[None]) -> None:
        try:
            trio.run(self._main, ready)
        except BaseException as error:
            self._error = error
        with self._lock:
            self._inside = self._token = self._scope = None
            waiting, self._waiting = self._waiting, set()
        for future in (ready, *waiting):
            if not future.done():
                future.set_exception(self._error if future is ready and self._error else self._why())

    async def _main(self, ready: Future[None]) -> None:
        with trio.CancelScope() as scope:
            async with self._open(self._ended) as local:
                self._ident = threading.get_ident()
                self._token = trio.lowlevel.current_trio_token()
                self._scope = scope
                self._inside = local
                ready.set_result(None)
                await trio.sleep_forever()

    def _ended(self) -> None:
        self._ending = True
        self._inside = None

    # --- calls from other threads ------------------------------------------------------------------------

    def run(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a function in the server's thread, and return its result.

        :raises ServerStopped: the server does not run, or runs in another process.
        :raises ServerDied: the server has died.
        """

        __tracebackhide__ = True
        if self._is_forked:
            raise ServerStopped(
                f"the server runs in process {self._process}, and this process is a fork of that process: "
                "call its methods there, or start another server here"
            )
        future: Future[T] = Future()

        def run() -> None:
            __tracebackhide__ = True
            if self._inside is None:
                return  # it has ended meanwhile, and its thread will say why
            try:
                result = function(*arguments)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        if self._inside is not None and threading.get_ident() == self._ident:
            return function(*arguments)
        with self._lock:
            token = self._token
            if token is not None:
                self._waiting.add(future)
                with suppress(trio.RunFinishedError):  # likewise
                    token.run_sync_soon(run)
        if token is None:
            raise self._why()
        try:
            error = future.exception()
        finally:
            with self._lock:
                self._waiting.discard(future)
        if error is None:
            return future.result()
        try:
            raise error
        finally:
            del error  # its traceback holds this frame

    def _wait(self, wait: Callable[[], Awaitable[None]]) -> Any:
        """Run an async function in the server's thread to its end. If an event loop runs in the caller's
        thread, return an awaitable instead.

        :raises ServerStopped: the server does not run, or ends meanwhile.
        :raises ServerDied: the server has died.
        """
        __tracebackhide__ = True
        if trio.lowlevel.in_trio_run():
            return _in_trio(self._submit(wait))
        asyncio = sys.modules.get("asyncio")
        if asyncio is not None and asyncio._get_running_loop() is not None:
            return asyncio.wrap_future(self._submit(wait))
        future = self._submit(wait)
        try:
            return future.result()
        except BaseException as error:  # of which the traceback in the server's thread says nothing more
            future.cancel()
            raise error.with_traceback(None) from error.__cause__

    def _submit(self, function: Callable[[], Awaitable[T]]) -> Future[T]:
        """Begin an async function in the server's thread. The function is cancelled when its future is
        cancelled."""
        future: Future[T] = Future()
        scope = trio.CancelScope()

        async def act() -> None:
            with scope, suppress(InvalidStateError):
                try:
                    result = await function()
                except trio.Cancelled:
                    raise  # the server ends, which says why, or nobody waits any more
                except BaseException as error:
                    future.set_exception(error)
                else:
                    future.set_result(result)

        def cancel(done: Future[T]) -> None:
            with self._lock:
                self._waiting.discard(future)
            if done.cancelled():
                with suppress(trio.RunFinishedError):
                    token.run_sync_soon(scope.cancel)

        self.run(lambda: None)  # says why, if it does not run
        with self._lock:
            found = self._token
            if found is not None:
                self._waiting.add(future)
        if found is None:
            raise self._why()
        token = found
        future.add_done_callback(cancel)
        with suppress(trio.RunFinishedError):
            token.run_sync_soon(trio.lowlevel.spawn_system_task, act)
        return future

    @property
    def _is_forked(self) -> bool:
        """Whether this process is a fork of the process in which the server runs."""
        return self._process not in (0, os.getpid())

    @property
    def _local(self) -> Local:
        """The parts of the server, for use in its thread.

        :raises ServerStopped: the server does not run.
        :raises ServerDied: the server has died.
        """
        local = self._inside
        if local is None:
            raise self._why()
        return local

    def _why(self) -> ServerStopped | ServerDied:
        """Return the error that says why the server does not run."""
        thread = self._thread
        if self._ending and thread is not None and thread is not threading.current_thread():
            thread.join()  # only its end tells
        error = self._error
        if error is None:
            return ServerStopped("the server is not running: start() it, or use it inside its `with`")
        trace = "".join(traceback.format_exception(error))
        death = ServerDied(f"the server's thread has died:\n{trace}")
        death.__cause__ = error
        return death


async def _in_trio(future: Future[T]) -> T:
    """Wait in a trio run for a result from another thread."""
    token, done = trio.lowlevel.current_trio_token(), trio.Event()

    def wake(_: Future[T]) -> None:
        with suppress(trio.RunFinishedError):
            token.run_sync_soon(done.set)

    future.add_done_callback(wake)
    try:
        await done.wait()
    finally:
        future.cancel()
    return future.result()
