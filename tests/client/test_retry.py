"""Retries by a policy, which knows what the writes of a failed call have done."""

from __future__ import annotations

import math
import random
import statistics
from functools import partial

import pytest
import trio
from trio.testing import MockClock

from pyzk.client import (
    Backoff,
    BadVersionError,
    ConnectionLossError,
    Failure,
    NoNodeError,
    NotReadOnlyError,
    OperationTimeoutError,
    Outcome,
    SessionExpiredError,
    SetData,
    ThrottledOpError,
    ZooKeeper,
    ZooKeeperError,
    maybe_applied,
    repeating,
    retry,
)
from pyzk.server.testing import Controls

SENT, NOT_SENT = ConnectionLossError(sent=True), ConnectionLossError(sent=False)


def failure(
    error: Exception, outcome: Outcome = Outcome.NONE, attempt: int = 1, seconds: float = 0.0
) -> Failure:
    return Failure(error, attempt, seconds, outcome)


@pytest.fixture
async def counter(zk: ZooKeeper) -> str:
    await zk.create("/counter", b"0")
    return "/counter"


async def increase(zk: ZooKeeper) -> int:
    data, stat = await zk.get("/counter")
    number = int(data or b"0") + 1
    await zk.set("/counter", str(number).encode(), version=stat.version)
    return number


# --- what a policy is told ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (SENT, True),
        (NOT_SENT, False),
        (OperationTimeoutError(), True),
        (NotReadOnlyError(), False),
        (ThrottledOpError(), False),
        (NoNodeError(), False),
        (KeyError(), False),
    ],
)
def test_what_an_error_says_of_its_write(error: Exception, expected: bool) -> None:
    assert maybe_applied(error) is expected


class Recording:
    """A policy that gives up, and remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[Failure] = []

    def __call__(self, failure: Failure) -> float | None:
        self.told.append(failure)
        return None


async def test_reads_have_no_effect(autojump_clock: MockClock, zk: ZooKeeper) -> None:
    policy = Recording()

    async def call(zk: ZooKeeper) -> None:
        await zk.exists("/a")
        await zk.get("/a")

    with pytest.raises(NoNodeError) as caught:
        await retry(zk, call, policy=policy)
    [told] = policy.told
    assert (told.error, told.attempt, told.outcome) == (caught.value, 1, Outcome.NONE)
    assert caught.value.__notes__ == ["attempt 1, after 0.0 s; writes: NONE"]


async def test_a_write_of_an_earlier_step_is_an_effect(autojump_clock: MockClock, zk: ZooKeeper) -> None:
    """Though the request that has failed was not sent."""
    policy = Recording()

    async def call(zk: ZooKeeper) -> None:
        await zk.view("/").create("/a")
        raise NOT_SENT

    with pytest.raises(ConnectionLossError):
        await retry(zk, call, policy=policy)
    assert policy.told[0].outcome is Outcome.SOME


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_lost_reply_may_be_an_effect(
    autojump_clock: MockClock, server: Controls, zk: ZooKeeper, counter: str, when: str
) -> None:
    policy = Recording()
    with server.fault(op="set_data", when=when), pytest.raises(ConnectionLossError):  # type: ignore[arg-type]
        await retry(zk, increase, policy=policy)
    assert policy.told[0].outcome is Outcome.MAYBE, "the client cannot know"


async def test_a_refused_write_has_no_effect(autojump_clock: MockClock, zk: ZooKeeper) -> None:
    policy = Recording()
    with pytest.raises(NoNodeError):
        await retry(zk, lambda zk: zk.set("/a", b""), policy=policy)
    assert policy.told[0].outcome is Outcome.NONE


async def test_a_write_that_nobody_waits_for_may_be_an_effect(
    autojump_clock: MockClock, zk: ZooKeeper, counter: str
) -> None:
    policy = Recording()

    async def call(zk: ZooKeeper) -> None:
        zk.submit(SetData("/counter", b"5"))
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        await retry(zk, call, policy=policy)
    assert policy.told[0].outcome is Outcome.MAYBE


# --- the policy -----------------------------------------------------------------------------------------


def test_backoff_repeats_only_what_had_no_effect() -> None:
    backoff = Backoff()
    for error in (SENT, NOT_SENT, NotReadOnlyError(), ThrottledOpError()):
        assert backoff(failure(error)) is not None
        assert backoff(failure(error, Outcome.MAYBE)) is None
        assert backoff(failure(error, Outcome.SOME)) is None
        assert Backoff(idempotent=True)(failure(error, Outcome.SOME)) is not None
    for error in (NoNodeError(), BadVersionError(), SessionExpiredError(), KeyError()):
        assert backoff(failure(error)) is None
        assert Backoff(retry_on=(type(error),))(failure(error)) is not None


def test_backoff_ends() -> None:
    assert Backoff(tries=3)(failure(NOT_SENT, attempt=2)) is not None
    assert Backoff(tries=3)(failure(NOT_SENT, attempt=3)) is None
    assert Backoff(max_elapsed=10)(failure(NOT_SENT, seconds=5)) is not None
    assert Backoff(max_elapsed=10)(failure(NOT_SENT, seconds=10.01)) is None


def test_pauses_double_and_differ() -> None:
    backoff = Backoff(initial_delay=1, max_delay=8, rng=random.Random(1))
    means = [
        statistics.mean(backoff(failure(NOT_SENT, attempt=attempt)) or 0 for _ in range(500))
        for attempt in (1, 2, 3, 4, 5, 6, 5000)
    ]
    assert means == pytest.approx([0.5, 1, 2, 4, 4, 4, 4], rel=0.2)
    assert math.inf not in means


# --- making calls again ---------------------------------------------------------------------------------


async def test_a_call_is_made_again_until_it_succeeds(
    autojump_clock: MockClock, server: Controls, zk: ZooKeeper, counter: str
) -> None:
    with server.fault(op="set_data", action="error", error=ThrottledOpError, times=3):
        assert await retry(zk, increase) == 1
    assert (await zk.get(counter))[0] == b"1"


async def test_what_may_have_been_applied_is_not_repeated(
    autojump_clock: MockClock, server: Controls, zk: ZooKeeper, counter: str
) -> None:
    with server.fault(op="set_data", when="after"), pytest.raises(ConnectionLossError) as caught:
        await retry(zk, increase, policy=Backoff(tries=5))
    assert caught.value.sent
    assert caught.value.__notes__ == ["attempt 1, after 0.0 s; writes: MAYBE"]
    assert (await zk.get(counter))[0] == b"1", "it was; twice would have been wrong"


async def test_what_makes_no_difference_is_repeated(
    autojump_clock: MockClock, server: Controls, zk: ZooKeeper, counter: str
) -> None:
    with server.fault(op="set_data", when="after", times=3):
        await retry(zk, lambda zk: zk.set(counter, b"5"), policy=Backoff(idempotent=True))
    assert (await zk.get(counter))[1].version == 4


async def test_contenders_increase_a_counter_together(
    autojump_clock: MockClock, server: Controls, zk: ZooKeeper, counter: str
) -> None:
    policy = Backoff(retry_on=(BadVersionError,), rng=random.Random(1))
    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(partial(retry, zk, increase, policy=policy))
    assert (await zk.get(counter))[0] == b"20"


async def test_a_call_gives_up_in_time(autojump_clock: MockClock, server: Controls, zk: ZooKeeper) -> None:
    began = trio.current_time()
    with (
        server.fault(op="get_data", action="error", error=ThrottledOpError, times=None),
        pytest.raises(ThrottledOpError) as caught,
    ):
        await retry(zk, lambda zk: zk.get("/"), policy=Backoff(max_elapsed=30))
    assert 25 < trio.current_time() - began <= 30
    assert "writes: NONE" in caught.value.__notes__[0]


async def test_a_policy_of_ones_own(autojump_clock: MockClock, zk: ZooKeeper) -> None:
    def three_times_a_minute(failure: Failure) -> float | None:
        return 20.0 if failure.attempt < 4 else None

    began = trio.current_time()
    with pytest.raises(ZooKeeperError):
        await retry(zk, lambda zk: zk.get("/missing"), policy=three_times_a_minute)
    assert trio.current_time() - began == 60


async def test_cancelling_ends_it(autojump_clock: MockClock, zk: ZooKeeper) -> None:
    with trio.move_on_after(5) as scope:
        await retry(zk, lambda zk: zk.get("/missing"), policy=lambda failure: 1.0)
    assert scope.cancelled_caught
    assert zk.on_submit is None


async def test_a_policy_is_told_the_attempts_the_seconds_and_the_effect(
    autojump_clock: MockClock, zk: ZooKeeper
) -> None:
    told: list[Failure] = []

    def policy(failure: Failure) -> float | None:
        told.append(failure)
        return 2.0 if failure.attempt < 3 else None

    async def fail(zk: ZooKeeper) -> None:
        await trio.sleep(1.5)
        if len(told) == 1:
            await zk.create("/written")
        raise NoNodeError("/a")

    with pytest.raises(NoNodeError) as caught:
        await retry(zk, fail, policy=policy)
    assert [failure.attempt for failure in told] == [1, 2, 3]
    assert [round(failure.seconds, 3) for failure in told] == [1.5, 5.0, 8.5], "since the first attempt"
    assert [failure.outcome for failure in told] == [Outcome.NONE, Outcome.SOME, Outcome.NONE]
    assert all(failure.error is caught.value or failure.attempt < 3 for failure in told)
    assert caught.value.__notes__ == ["attempt 3, after 8.5 s; writes: NONE"]


async def test_who_watches_the_writes_of_a_call_sees_them_all(
    autojump_clock: MockClock, zk: ZooKeeper
) -> None:
    """So they cannot be sent over a direct connection."""
    assert zk.source is not None
    view = zk.view("/")
    assert view.source is zk.source
    view.on_submit = lambda pending: None
    assert view.source is None


async def test_what_is_repeated_without_end_pauses_longer_each_time(
    autojump_clock: MockClock, zk: ZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[int, float, Outcome]] = []

    def policy(failure: Failure) -> float | None:
        told.append((failure.attempt, failure.seconds, failure.outcome))
        return None if isinstance(failure.error, NoNodeError) else 0.0

    monkeypatch.setattr(repeating, "_WITHOUT_END", policy)
    errors: list[Exception] = [SENT, NOT_SENT, NoNodeError("/a")]

    async def fail() -> None:
        raise errors.pop(0)

    with pytest.raises(NoNodeError):
        await repeating.repeat(zk, fail)
    assert told == [(attempt, 0.0, Outcome.NONE) for attempt in (1, 2, 3)]


async def test_what_is_repeated_without_end_sleeps_in_between(
    autojump_clock: MockClock, zk: ZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repeating, "_WITHOUT_END", lambda failure: float(failure.attempt))
    began, times = trio.current_time(), []

    async def fail() -> None:
        times.append(trio.current_time() - began)
        if len(times) < 4:
            raise NOT_SENT

    await repeating.repeat(zk, fail)
    assert times == [0, 1, 3, 6]


def test_the_default_policy_repeats_without_end_what_was_not_written() -> None:
    policy = Backoff()
    assert (policy.tries, policy.max_elapsed, policy.retry_on) == (math.inf, math.inf, ())
    assert (policy.initial_delay, policy.max_delay, policy.idempotent) == (0.05, 1.0, False)


async def test_what_belongs_to_another_session_is_not_done(autojump_clock: MockClock, zk: ZooKeeper) -> None:
    calls: list[int] = []

    async def call() -> None:
        calls.append(zk.session.generation)
        await trio.lowlevel.checkpoint()

    await repeating.repeat(zk, call, 1)
    with pytest.raises(SessionExpiredError):
        await repeating.repeat(zk, call, 2)
    assert calls == [1]
