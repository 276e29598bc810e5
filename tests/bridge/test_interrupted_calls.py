"""What a call that was interrupted has got all the same is given back, or told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyzk.blocking.threads import THREADS
from pyzk.bridge.workers import Body, Call, Interrupted, Leave
from pyzk.client import ClosingError, Watch
from pyzk.recipes import Grant, Grants


class Loop:
    """The client's loop.

    :ivar looked: what it was asked for.
    """

    def __init__(self, *, closed: bool = False) -> None:
        self.closed = closed
        self.posted = 0
        self.looked: list[Any] = []

    def post(self, function: Callable[..., object], *args: Any) -> None:
        if self.closed:
            raise ClosingError
        self.posted += 1

    def look(self, function: Callable[..., object]) -> None:
        self.looked.append(function)


class Waiter:
    """An answer that has come.

    :ivar pauses: how often it was waited for.
    """

    def __init__(self, value: object = None, error: BaseException | None = None) -> None:
        self._value = value
        self._error = error
        self.pauses = 0

    def pause(self) -> None:
        self.pauses += 1

    def result(self) -> object:
        if self._error is not None:
            raise self._error
        return self._value


class Stopped:
    """A call that was interrupted.

    :ivar abandoned: bodies; ``called``: functions that were called in the loop.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.loop = Loop()
        self.error = KeyboardInterrupt()
        self.abandoned: list[object] = []
        self.called: list[object] = []
        monkeypatch.setattr(THREADS, "abandon", lambda loop, body: self.abandoned.append(body))
        monkeypatch.setattr(THREADS, "call", lambda loop, function, *more: self.called.append(function))

    def stop(self, waiter: Waiter, ask: Any = None) -> None:
        loop: Any = self.loop
        answer: Any = waiter
        THREADS._stop(loop, made(Call) if ask is None else ask, answer, self.error)

    @property
    def notes(self) -> list[str]:
        return getattr(self.error, "__notes__", [])


def made(cls: type) -> Any:
    """An object of a class that nobody has initialized."""
    return tuple.__new__(cls) if issubclass(cls, tuple) else object.__new__(cls)


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> Stopped:
    return Stopped(monkeypatch)


def test_a_body_is_left(stopped: Stopped) -> None:
    body = made(Body)
    stopped.stop(Waiter(body))
    assert stopped.abandoned == [body]
    assert (stopped.called, stopped.loop.looked, stopped.notes) == ([], [], [])
    assert stopped.loop.posted == 1


@pytest.mark.parametrize("cls", [Grant, Grants])
def test_a_grant_is_ended(stopped: Stopped, cls: type) -> None:
    grant = made(cls)
    stopped.stop(Waiter(grant))
    assert stopped.called == [grant.end]
    assert (stopped.abandoned, stopped.notes) == ([], [])


@pytest.mark.parametrize(
    "around", [lambda watch: watch, lambda watch: (watch,), lambda watch: (b"", 5, watch)]
)
def test_a_watch_is_cancelled(stopped: Stopped, around: Callable[[object], object]) -> None:
    watch = made(Watch)
    stopped.stop(Waiter(around(watch)))
    assert stopped.loop.looked == [watch.cancel]
    assert stopped.notes == []


@pytest.mark.parametrize("value", [5, "/a", (b"data", 1), (), [], False])
def test_another_result_is_told(stopped: Stopped, value: object) -> None:
    stopped.stop(Waiter(value))
    assert stopped.notes == [f"the call that this has interrupted had returned {value!r}"]
    assert (stopped.loop.looked, stopped.called, stopped.abandoned) == ([], [], [])


def test_no_result_and_the_end_of_a_block_are_not_told(stopped: Stopped) -> None:
    stopped.stop(Waiter(None))
    stopped.stop(Waiter(True), made(Leave))
    assert stopped.notes == []


def test_errors_are_told_but_not_that_it_was_interrupted(stopped: Stopped) -> None:
    stopped.stop(Waiter(error=Interrupted()))
    assert stopped.notes == []
    stopped.stop(Waiter(error=ValueError("no")))
    assert stopped.notes == ["meanwhile: ValueError('no')"]


def test_what_was_not_asked_is_not_waited_for(stopped: Stopped) -> None:
    stopped.loop.closed = True
    waiter = Waiter(5)
    stopped.stop(waiter)
    assert (waiter.pauses, stopped.notes) == (0, [])
