"""The repetition of calls: without end if a call can be executed twice, otherwise by a policy.

What each error says about the request that has failed:

======================================================== ==================================================
:class:`ConnectionLossError`, ``sent`` is False          not applied: the request never left the client
:class:`NotReadOnlyError`, :class:`ThrottledOpError`     not applied: the server has refused it for now
:class:`ConnectionLossError`, ``sent`` is True; other    maybe applied: the reply was lost, or the server does
members of :data:`UNANSWERED`                            not know the outcome
any other error of the protocol                          not applied, and it would fail again
======================================================== ==================================================

If a call has several steps, the writes of earlier steps are applied even if the last request fails. Therefore
:func:`retry` considers all writes of the call, and passes their :class:`Outcome` to the policy.
"""

from __future__ import annotations

import enum
import math
import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import trio

from ..protocol.errors import (
    ConnectionLossError,
    NotReadOnlyError,
    OperationTimeoutError,
    RequestTimeoutError,
    SessionExpiredError,
    SessionMovedError,
    ThrottledOpError,
)
from .pending import Pending

if TYPE_CHECKING:
    from .zookeeper import ZooKeeper

T = TypeVar("T")

UNANSWERED = (ConnectionLossError, OperationTimeoutError, RequestTimeoutError, SessionMovedError)
"""The errors that leave open whether a request was applied."""
_REFUSED_FOR_NOW = (NotReadOnlyError, ThrottledOpError)

_FIRST_PAUSE = 0.05
"""The longest first pause in seconds. The first pause is a random part of this time. A single lost reply is
no reason for a longer pause."""
_LONGEST_PAUSE = 1.0
"""The longest pause in seconds. Pauses double up to this time, so that an overloaded server gets about 2
calls a second from a task."""
_MOST_DOUBLINGS = 60
"""The largest exponent of 2 for a pause, so that the power stays a finite float."""


def maybe_applied(error: BaseException) -> bool:
    """Return whether the write that has failed with this error may have been applied nevertheless."""
    if isinstance(error, ConnectionLossError):
        return error.sent
    return isinstance(error, UNANSWERED)


class Outcome(enum.IntEnum):
    """The known outcome of the writes of a failed call."""

    NONE = 0
    """No write was applied: the call can be made again as if nothing had happened."""
    MAYBE = 1
    """A write may have been applied, but no write was certainly applied."""
    SOME = 2
    """A write was applied."""


@attrs.frozen
class Failure:
    """A failed attempt, which a policy judges.

    :ivar error: the exception that the call has raised.
    :ivar attempt: 1 for the first attempt.
    :ivar seconds: the seconds since the first attempt began.
    :ivar outcome: the outcome of the writes of this attempt.
    """

    error: Exception
    attempt: int
    seconds: float
    outcome: Outcome


Policy = Callable[[Failure], float | None]
"""Decides after a failed attempt: the seconds to wait before the next one, or None to give up."""


@attrs.frozen
class Backoff:
    """The default policy of :func:`retry`: repeat a call that got no answer, after a random pause, as long as
    nothing was written.

    :param tries: the largest number of attempts.
    :param max_elapsed: seconds since the first attempt after which no further attempt begins.
    :param idempotent: whether to repeat the call even if a part of the call was applied or may have been
        applied. Set ``idempotent`` if the call reads before it writes, or if a repetition makes no
        difference.
    :param retry_on: further errors after which the call is repeated, such as :class:`BadVersionError` for a
        call that reads, and then writes what it has read.
    :param initial_delay: the longest first pause, in seconds. The longest pause doubles with each attempt.
    :param max_delay: the longest pause, in seconds.
    :param rng: the random numbers for the pauses.
    """

    tries: float = math.inf
    max_elapsed: float = math.inf
    idempotent: bool = False
    retry_on: tuple[type[Exception], ...] = ()
    initial_delay: float = _FIRST_PAUSE
    max_delay: float = _LONGEST_PAUSE
    rng: random.Random = attrs.field(factory=random.Random, repr=False)

    def __call__(self, failure: Failure) -> float | None:
        """Decide: see :data:`Policy`."""
        if not isinstance(failure.error, (*UNANSWERED, *_REFUSED_FOR_NOW, *self.retry_on)):
            return None
        if failure.outcome is not Outcome.NONE and not self.idempotent:
            return None
        longest = math.ldexp(self.initial_delay, min(failure.attempt - 1, _MOST_DOUBLINGS))
        pause = self.rng.uniform(0, min(longest, self.max_delay))
        if failure.attempt >= self.tries or failure.seconds + pause > self.max_elapsed:
            return None
        return pause


_WITHOUT_END = Backoff(idempotent=True)


class _Tracker:
    """Records the writes of one attempt."""

    def __init__(self) -> None:
        self._outcome = Outcome.NONE
        self._unsettled = 0

    @property
    def outcome(self) -> Outcome:
        return max(self._outcome, Outcome.MAYBE) if self._unsettled else self._outcome

    def submitted(self, pending: Pending[Any]) -> None:
        if not pending.retry:  # reads change nothing
            self._unsettled += 1
            pending.on_settled(self._settled)

    def _settled(self, pending: Pending[Any]) -> None:
        self._unsettled -= 1
        if pending.error is None:
            self._outcome = Outcome.SOME
        elif maybe_applied(pending.error):
            self._outcome = max(self._outcome, Outcome.MAYBE)


async def retry(
    zk: ZooKeeper, call: Callable[[ZooKeeper], Awaitable[T]], *, policy: Policy | None = None
) -> T:
    """Make a call of one or several steps, and make it again from its beginning as the policy says::

        async def increase(zk):
            data, stat = await zk.get("/counter")
            await zk.set("/counter", str(int(data) + 1).encode(), version=stat.version)

        await retry(zk, increase, policy=Backoff(tries=5, max_elapsed=30, retry_on=(BadVersionError,)))

    :param call: a function whose argument is a client. The function must use this client, which records the
        writes of the attempt.
    :param policy: None for :class:`Backoff` with its defaults. In the example, a lost reply to ``set`` would
        then be raised, because the counter may have been increased.
    :raises Exception: the error of the last attempt, with a note about the attempts and the outcome.
    """
    decide, began, attempt = policy or Backoff(), trio.current_time(), 0
    while True:
        attempt += 1
        tracker, tracked = _Tracker(), zk.view("/")
        tracked.on_submit = tracker.submitted
        try:
            return await call(tracked)
        except Exception as error:
            seconds = trio.current_time() - began
            pause = decide(Failure(error, attempt, seconds, tracker.outcome))
            if pause is None:
                error.add_note(f"attempt {attempt}, after {seconds:.1f} s; writes: {tracker.outcome.name}")
                raise
        await trio.sleep(pause)


async def pass_writes(zk: ZooKeeper) -> None:
    """Wait for the earlier writes of the session that were sent over a lost connection. After this call each
    of these writes is either refused or applied at the present server. A read shows whether a write was
    applied.

    A ``sync`` is not enough: the leader answers a ``sync`` of its own clients at once, although proposed
    writes may not be committed yet (ensemble.md 3.8). A transaction without operations is answered after all
    earlier writes. The leader refuses later arrivals from an earlier connection of the session (ensemble.md
    2.2).

    :raises ZooKeeperError: as :meth:`~pyzk.client.ZooKeeper.multi`.
    """
    await zk.multi([])


async def repeat(zk: ZooKeeper, call: Callable[[], Awaitable[T]], generation: int | None = None) -> T:
    """Repeat a call until it is answered. Recipes use this for calls that belong to one session and can be
    executed twice. A request that a read-only server refuses waits for a full server.

    :param generation: the ``session.generation`` of the session to which the call belongs; None means the
        present session. In another session nothing is repeated.
    :raises SessionExpiredError: that session has ended.
    :raises ClosingError: the client was closed.
    :raises ZooKeeperError: the errors of the call, except :data:`UNANSWERED`.
    """
    if generation is None:
        generation = zk.session.generation
    attempt = 0
    while zk.session.generation == generation:
        attempt += 1
        try:
            return await call()
        except Exception as error:
            pause = _WITHOUT_END(Failure(error, attempt, 0.0, Outcome.NONE))
            if pause is None:
                raise
        await trio.sleep(pause)
        await zk.session.wait_connected()
    raise SessionExpiredError
