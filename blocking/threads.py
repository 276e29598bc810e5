"""How a thread waits for the client.

The rules:

* A thread cannot be cancelled. When a block that the thread is in was cancelled (a lost lock, a timeout), the
  present call of the thread, or its next call, raises an error, and so does each later call in the block. The
  error is :class:`LockLost` if a lock, a lease, a claim or a term was lost, otherwise :class:`Interrupted`.
  The end of the block raises the error itself.
* An exception that reaches a thread while it waits, such as KeyboardInterrupt, cancels the call. The thread
  waits until the call has ended and has left nothing behind; a second exception ends that wait too.
* Functions of the user are called in separate threads, so that they can wait and use the client.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Self

import trio

from ..bridge.direct.threads import forget
from ..bridge.exits import Exit, guard
from ..bridge.loop import Loop
from ..bridge.objects import Objects, Wrapper
from ..bridge.wakeups import Waiter
from ..bridge.workers import AnyBlock, Body, Call, Interrupted, Job, Leave, calling_back, enter
from ..client import Watch
from ..recipes import Grant, Grants, LockLost
from ..recipes.base.tracebacks import SHORT, drop_frames, shorten

SHOWN_SHORT: tuple[type[BaseException], ...] = (*SHORT, Interrupted)
"""Errors whose tracebacks begin where the user calls (:mod:`pyzk.recipes.base.tracebacks`)."""

_IN_TRIO = (
    "pyzk.blocking would stop the loop of trio that runs in this thread: import from pyzk.client and "
    "pyzk.recipes"
)
_OWN_THREAD = (
    "this function is called by the client's own thread, which must not wait for the client: make the call in a "
    "thread of your program"
)


class _Bodies(threading.local):
    """The blocks that a thread is in."""

    def __init__(self) -> None:
        self.open: list[Body] = []


_bodies = _Bodies()


class Threads(Objects):
    """How threads use the client."""

    def holder(self) -> object:
        return threading.current_thread()

    def ask(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Await a function of trio in the loop, and return its result."""
        try:
            loop, args, kwargs = self.unwrap(function.__name__, args, kwargs)
            return self.call(loop, function, args, kwargs)
        except SHOWN_SHORT as error:
            drop_frames(error)
            raise

    def ask_back(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Do the same as :meth:`ask`, for a function that calls a function of the caller."""
        loop, args, kwargs = self.unwrap(function.__name__, args, kwargs)
        return self.call_back(loop, function, calling_back(args), kwargs)

    def call(self, loop: Loop, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Await ``function(*args, **kwargs)`` in the loop, and return its result."""
        return self.converse(loop, Call(threading.current_thread(), function, args, kwargs), self.wrap)

    def call_back(self, loop: Loop, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Do what :meth:`call` does, for a function that calls a function of the caller."""
        call = Call(threading.current_thread(), function, args, kwargs)
        value = None
        try:
            value = self.converse(loop, call, self._unless_body)
            while value.__class__ is Body:
                value = self._run(loop, value)
            return value
        except BaseException:
            if value.__class__ is Body:
                if value in _bodies.open:  # an exception came just before it was taken out
                    _bodies.open.remove(value)
                self.abandon(loop, value)
            raise

    def block(self, loop: Loop | None, block: AnyBlock) -> Any:
        """Return the context manager for a block of trio. Without a loop, it uses the loop of the process."""
        return Block(loop, block)

    def event(self, loop: Loop, event: trio.Event) -> Event:
        return Event(loop, event)

    def notice(self, function: Callable[..., object]) -> Callable[..., None]:
        def notice(*args: Any, failed: Callable[[BaseException], object] | None) -> None:
            def run() -> None:
                try:
                    function(*args)
                except Exception as error:
                    if failed is None:
                        raise
                    loop = args[0]._loop
                    loop.post(failed, error)

            threading.Thread(target=run, name="pyzk notice", daemon=True).start()

        return notice

    def converse(
        self,
        loop: Loop,
        job: Job,
        take: Callable[[Any, Loop], Any],
        begin: Callable[[Loop, Any], object] = Loop.ask,
    ) -> Any:
        """Ask, wait for the answer, and return the result of ``take`` for it. The caller must return the
        result at once. If Python checked for signals in between, an exception would lose the result.

        :param take: called with the answer, and the loop.
        :param begin: called with the loop and what is asked.
        """
        if trio.lowlevel.in_trio_run():
            raise RuntimeError(_OWN_THREAD if loop.is_current else _IN_TRIO)
        waiter: Waiter[Any] = Waiter()
        job.reply = waiter.answer
        try:
            begin(loop, job)
            waiter.pause()
            return take(waiter.result(), loop)
        except BaseException as error:
            try:
                if loop.exiting and threading.current_thread().daemon:
                    waiter.pause_for_ever()  # nobody waits for this thread, and it would only report the end
                if not waiter.is_answer(error):
                    self._stop(loop, job, waiter, error)
                elif isinstance(error, Interrupted):
                    for body in reversed(_bodies.open):
                        loop.look(_check, body.value)
            finally:
                waiter.forget()
            raise

    def _stop(self, loop: Loop, job: Job, waiter: Waiter[Any], interruption: BaseException) -> None:
        """End a call that was interrupted, and release anything that it has acquired nevertheless."""
        try:
            loop.post(_cancel, loop, job)
        except Exception:  # so it was not asked: the client is closed
            return
        waiter.pause()
        try:
            value = waiter.result()
            if isinstance(value, Body):
                self.abandon(loop, value)
            elif isinstance(value, Grant | Grants):
                self.call(loop, value.end, (), {})
            elif isinstance(value, Watch):
                loop.look(value.cancel)
            elif isinstance(value, tuple) and value and isinstance(value[-1], Watch):
                loop.look(value[-1].cancel)
            elif value is not None and isinstance(job, Call):
                interruption.add_note(f"the call that this has interrupted had returned {value!r:.500}")
        except Interrupted:
            pass
        except Exception as error:
            interruption.add_note(f"meanwhile: {error!r}")

    def abandon(self, loop: Loop, body: Body) -> None:
        """Leave an interrupted body, if it has not ended yet."""
        if not body.over:
            with suppress(Exception, Interrupted):
                self.converse(loop, Leave(body, None, Interrupted()), _as_it_is)

    def _unless_body(self, value: Any, loop: Loop) -> Any:
        return value if value.__class__ is Body else self.wrap(value, loop)

    def _run(self, loop: Loop, body: Body) -> Any:
        """Run a callback. Returns the next answer."""
        value, failure = None, None
        assert body.function is not None
        try:
            _bodies.open.append(body)
            value = body.function(*self.wrap(body.value, loop))
        except BaseException as error:
            failure = error
        finally:
            _bodies.open.remove(body)
        try:
            return self.converse(loop, Leave(body, value, failure), self._unless_body)
        finally:
            del failure


def _cancel(loop: Loop, job: Job) -> None:
    if isinstance(job, Leave) and not job.taken:
        loop.take(job)  # the interruption came before it was posted, and who leaves a block leaves it
    job.cancel()
    if not job.taken:  # it came before it was posted, or while this thread did it itself
        job.reply(None, Interrupted())


def _as_it_is(value: Any, loop: Loop) -> Any:
    return value


def _check(value: Any) -> None:
    """Check every grant among the values of a block.

    :raises LockLost: one is lost.
    """
    if isinstance(value, Grant):
        value.ownership.check()
    elif isinstance(value, tuple | dict):
        for each in value.values() if isinstance(value, dict) else value:
            _check(each)


class Block:
    """A ``with`` block.

    :param loop: None for the block of a client, which attaches itself to the loop.
    :ivar wrapper: the object to which the block belongs, if the object has a wrapper.
    """

    wrapper: Wrapper | None = None
    __exit__ = Exit(lambda block, *exc: block.leave(*exc))

    def __init__(self, loop: Loop | None, block: AnyBlock) -> None:
        self._loop = loop
        self._attaches = loop is None
        self._block = block
        self._body: Body | None = None

    def __enter__(self) -> Any:
        try:
            return self._enter()
        except BaseException as error:  # once more: an interruption may have come in the midst of abandon()
            self.abandon()
            if isinstance(error, SHOWN_SHORT):
                shorten(error)
            raise

    def _enter(self) -> Any:
        try:
            if self._attaches:
                self._loop = Loop.attach(self)
            assert self._loop is not None
            call = Call(threading.current_thread(), enter, (self._block,), {})
            return THREADS.converse(self._loop, call, self._begin)
        except BaseException:
            self.abandon()
            raise

    def _begin(self, body: Body, loop: Loop) -> Any:
        self._body = body
        _bodies.open.append(body)
        if self.wrapper is not None:
            self.wrapper._opened(self)
        guard(self.wrapper or self, self.leave, self.abandon)
        return self._value(THREADS.wrap(body.value, loop))

    def _value(self, value: Any) -> Any:
        return value

    def leave(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> bool:
        """Leave the block, as ``__exit__`` does."""
        try:
            return self._leave(error, tb)
        except BaseException:
            self.abandon()
            raise

    def _leave(self, error: BaseException | None, tb: TracebackType | None) -> bool:
        body, loop = self._body, self._loop
        assert body is not None
        assert loop is not None
        if loop.forked and error is not None:
            return False  # it is for the parent to leave: sys.exit() in a fork is the end of the fork
        sent = RuntimeError("StopIteration") if isinstance(error, StopIteration) else error
        try:
            swallowed: bool = THREADS.converse(loop, Leave(body, None, sent), _as_it_is)
        except BaseException as failure:
            self.abandon()
            if failure is sent or (isinstance(failure, Interrupted) and isinstance(error, Interrupted)):
                if error is not None:
                    error.__traceback__ = tb
                return False
            raise
        self.abandon()
        return swallowed

    def abandon(self) -> None:
        """End the block as if it was interrupted, if it has not ended yet. A second call does nothing."""
        body, loop = self._body, self._loop
        try:
            if body is not None and loop is not None and not loop.forked:
                THREADS.abandon(loop, body)
        finally:
            if body in _bodies.open:
                _bodies.open.remove(body)
            if self.wrapper is not None:
                self.wrapper._closed(self)
            if self._attaches:
                forget()
                Loop.leave_all(self)


class timeout(Block):
    """A limit for all calls in a block: a call that is in progress or begins after the end of the time raises
    :class:`Interrupted`, and the block raises ``TimeoutError``. The limit does not apply to other code of the
        block.

        with timeout(5) as limit:
            with Lock(zk, "/locks/printer"):  # waits 5 seconds at most
                limit.reschedule(None)        # the work may take any time

    :param seconds: the seconds from the beginning of the block; None for no limit.
    :raises TimeoutError: the time is over.
    """

    def __init__(self, seconds: float | None) -> None:
        super().__init__(None, _limit(seconds))
        self._seconds = seconds

    def _value(self, value: Any) -> Self:
        return self

    def leave(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> bool:
        try:
            return super().leave(kind, error, tb)
        except TimeoutError as over:
            waited = error.args if isinstance(error, Interrupted) else ()
            over.args = (": ".join([f"the calls took more than {self._seconds} s", *waited]),)
            raise

    def reschedule(self, seconds: float | None) -> None:
        """Set another limit.

        :param seconds: from now; None for any time.
        """
        assert self._loop is not None
        assert self._body is not None
        self._seconds = seconds
        self._loop.look(_set_deadline, self._body.value, seconds)


@contextmanager
def _limit(seconds: float | None) -> Iterator[trio.CancelScope]:
    with trio.CancelScope() as scope:
        _set_deadline(scope, seconds)
        yield scope
    if scope.cancelled_caught:
        raise TimeoutError from None


def _set_deadline(scope: trio.CancelScope, seconds: float | None) -> None:
    scope.deadline = math.inf if seconds is None else trio.current_time() + seconds


class Event(threading.Event):
    """An event of the client. Only the client can set and clear the event."""

    def __init__(self, loop: Loop, event: trio.Event) -> None:
        super().__init__()
        self._loop = loop
        self._event = event

    def is_set(self) -> bool:
        """Return whether the event is set."""
        return self._event.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the event is set, at most ``timeout`` seconds. Returns whether the event is set."""
        try:
            if not self._event.is_set():
                THREADS.call(self._loop, _wait, (self._event, timeout), {})
        except (Interrupted, LockLost):
            if not self._event.is_set():  # else it says what the thread waits for
                raise
        return self._event.is_set()

    def set(self) -> None:
        raise RuntimeError("the client sets this event")

    def clear(self) -> None:
        raise RuntimeError("the client sets this event")


async def _wait(event: trio.Event, timeout: float | None) -> None:
    with trio.move_on_after(math.inf if timeout is None else timeout):
        await event.wait()


THREADS = Threads("blocking")
