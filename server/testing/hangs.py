"""A description of the servers for the report of a test that hangs. It is called the picture.

The rules:

1. The picture is taken while the test still runs. Later the clients of the test are disconnected, and no
   session waits.
2. Ctrl-C: the picture is printed where pytest reports the interruption. An event loop of asyncio or trio sets
   its own handler, but only if the present handler is Python's own. Therefore a test that is a coroutine
   wraps the loop's handler after the loop has started. A server in an event loop does the same
   (:func:`.shown.interruptible`). In other tests, which may start a loop themselves, the wrapped handler also
   replaces Python's handler in :mod:`signal`.
3. pytest-timeout with its signal method: the picture is part of the report. pytest-timeout with its thread
   method: the picture is printed before the stacks, and the process ends.
4. SIGUSR1: the picture is printed, and the test continues.
5. A server that does not answer within 5 s has no picture. The reason may be that the server's lock was held
   when the signal arrived.
"""

from __future__ import annotations

import functools
import inspect
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Generator, Iterable
from typing import Any, Final

import pytest

from . import shown
from .errors import TEST_ENDED

_PATIENCE: Final = 5.0  # seconds

Section = tuple[str, str]
Handler = Callable[[int, Any], object]


class Hangs:
    """A plugin of pytest.

    :param servers: returns the servers of a test's fixtures, by name.
    """

    def __init__(
        self, config: pytest.Config, servers: Callable[[pytest.Item], Iterable[tuple[str, Any]]]
    ) -> None:
        self._config = config
        self._servers = servers
        self._item: pytest.Item | None = None
        self._picture: list[Section] | None = None

    def take(self) -> list[Section] | None:
        """Return the picture of this test, if one was taken. The second call returns None."""
        found, self._picture = self._picture, None
        return found

    def pytest_configure(self) -> None:
        if (
            hasattr(signal, "SIGUSR1")
            and _is_main_thread()
            and signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL
        ):
            signal.signal(signal.SIGUSR1, self._user)

    def pytest_unconfigure(self) -> None:
        if (
            hasattr(signal, "SIGUSR1")
            and _is_main_thread()
            and signal.getsignal(signal.SIGUSR1) == self._user
        ):
            signal.signal(signal.SIGUSR1, signal.SIG_DFL)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._item, self._picture = item, None
        has_loop = inspect.iscoroutinefunction(getattr(item, "function", None))
        before = signal.getsignal(signal.SIGINT)
        wraps = not has_loop and _is_main_thread() and before is signal.default_int_handler
        if wraps:
            handler = self._before(signal.default_int_handler)
            signal.signal(signal.SIGINT, handler)
            signal.default_int_handler = handler  # type: ignore[assignment]
        shown.at_interrupt = self._before
        try:
            result = yield
        finally:
            shown.at_interrupt = None
            if wraps:
                signal.default_int_handler = before  # type: ignore[assignment]
                signal.signal(signal.SIGINT, before)
        self._item = None
        return result

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        test = getattr(item, "obj", None)
        if not inspect.iscoroutinefunction(test):
            return (yield)
        item.obj = _in_its_loop(test)  # type: ignore[attr-defined]
        try:
            return (yield)
        finally:
            item.obj = test  # type: ignore[attr-defined]

    def pytest_keyboard_interrupt(self) -> None:
        item = self._item
        picture = self.take() if item is None else self.take() or self._look(item)
        reporter: Any = self._config.pluginmanager.getplugin("terminalreporter")
        if reporter is not None:
            for title, text in picture or ():
                reporter.section(title, "-")
                reporter.write_line(text)

    @pytest.hookimpl(wrapper=True, optionalhook=True)
    def pytest_timeout_set_timer(self, item: pytest.Item) -> Generator[None, object, object]:
        """Wrap the signal handler of pytest-timeout after pytest-timeout has set its timer."""
        result = yield
        handler = signal.getsignal(signal.SIGALRM) if hasattr(signal, "SIGALRM") else None
        if callable(handler) and _is_main_thread():
            signal.signal(signal.SIGALRM, self._before(handler))
        for thread in threading.enumerate():
            if isinstance(thread, threading.Timer) and thread.name == f"pytest_timeout {item.nodeid}":
                thread.function = self._before_the_end(item, thread.function)
        return result

    def _before(self, handler: Handler) -> Handler:
        """Take a picture before a handler of signals is called."""

        def handle(number: int, frame: Any) -> object:
            __tracebackhide__ = True
            if self._item is not None:
                self._picture = self._look(self._item)
            return handler(number, frame)

        return handle

    def _before_the_end(self, item: pytest.Item, end: Callable[..., object]) -> Callable[..., object]:
        """Return a function that prints a picture and then calls ``end``, which ends the process."""

        def act(*arguments: Any) -> object:
            self._print(self._look(item))
            return end(*arguments)

        return act

    def _user(self, number: int, frame: Any) -> None:
        if self._item is not None:
            self._print(self._look(self._item, "the test is here"))

    def _print(self, picture: Iterable[Section]) -> None:
        text = "".join(f"\n{f' {title} ':-^80}\n{text}\n" for title, text in picture)
        file = sys.__stderr__
        if file is None:
            return
        capture: Any = self._config.pluginmanager.getplugin("capturemanager")
        if capture is not None:
            capture.suspend_global_capture(in_=False)
        try:
            file.write(text)
            file.flush()
        finally:
            if capture is not None:
                capture.resume_global_capture()

    def _look(self, item: pytest.Item, last: str = TEST_ENDED) -> list[Section]:
        return list(shown.pictures(list(self._servers(item)), last, _PATIENCE))


def _in_its_loop(test: Callable[..., Awaitable[object]]) -> Callable[..., Awaitable[object]]:
    """Return a test that wraps the handler of Ctrl-C of the event loop in which it runs."""

    @functools.wraps(test)
    async def run(*arguments: Any, **named: Any) -> object:
        __tracebackhide__ = True
        with shown.interruptible():
            return await test(*arguments, **named)

    return run


def _handler_of_user() -> object:
    """The handler of SIGUSR1; None if it cannot be set."""
    return signal.getsignal(signal.SIGUSR1) if hasattr(signal, "SIGUSR1") and _is_main_thread() else None


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
