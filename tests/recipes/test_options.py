"""A mistyped option is refused where it is given, and never taken for another."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from pyzk.client import ZooKeeper
from pyzk.recipes import (
    Barrier,
    ClaimQueue,
    Counter,
    DelayQueue,
    DoubleBarrier,
    IdQueue,
    LeaderElection,
    LeaderLatch,
    Lock,
    MultiTimeLease,
    Partitioner,
    Party,
    PersistentNode,
    PriorityQueue,
    Queue,
    RWLock,
    Semaphore,
    SharedValue,
    SingleNodeLock,
    Strategy,
    TimeLease,
    TtlNode,
)
from pyzk.recipes.locks.options import Holding, HoldingOptions, LockOptions

ZK: ZooKeeper = None  # type: ignore[assignment]

Make = Callable[..., object]

HOLDS: dict[str, Make] = {
    "lock": lambda **options: Lock(ZK, "/x", **options),
    "read/write lock": lambda **options: RWLock(ZK, "/x", **options),
    "single znode": lambda **options: SingleNodeLock(ZK, "/x", **options),
    "semaphore": lambda **options: Semaphore(ZK, "/x", 1, **options),
    "election": lambda **options: LeaderElection(ZK, "/x", **options),
    "latch": lambda **options: LeaderLatch(ZK, "/x", **options),
    "partitioner": lambda **options: Partitioner(ZK, "/x", ["a"], "me", **options),
    "partitioner of nothing": lambda **options: Partitioner(ZK, "/x", [], "me", **options),
}
QUEUES: dict[str, Make] = {
    "queue": lambda **options: Queue(ZK, "/x", **options),
    "claim queue": lambda **options: ClaimQueue(ZK, "/x", **options),
    "priority queue": lambda **options: PriorityQueue(ZK, "/x", **options),
    "delay queue": lambda **options: DelayQueue(ZK, "/x", **options),
    "id queue": lambda **options: IdQueue(ZK, "/x", **options),
}
OTHERS: dict[str, Make] = {
    "barrier": lambda **options: Barrier(ZK, "/x", **options),
    "double barrier": lambda **options: DoubleBarrier(ZK, "/x", 1, **options),
    "counter": lambda **options: Counter(ZK, "/x", **options),
    "value": lambda **options: SharedValue(ZK, "/x", **options),
    "party": lambda **options: Party(ZK, "/x", **options),
    "persistent node": lambda **options: PersistentNode(ZK, "/x", **options),
    "TTL node": lambda **options: TtlNode(ZK, "/x", ttl=1, **options),
    "time lease": lambda **options: TimeLease(ZK, "/x", 1, "me", **options),
    "time leases": lambda **options: MultiTimeLease(ZK, "/x", 1, 1, "me", **options),
}
ALL = HOLDS | QUEUES | OTHERS

OPTIONS = [
    *(("suspended", name) for name in [*HOLDS, *QUEUES]),
    *(("parents", name) for name in ALL),
    *(
        ("on_session_loss", name)
        for name in ("lock", "read/write lock", "single znode", "semaphore", "latch")
    ),
    *(("layout", name) for name in ("lock", "read/write lock")),
    *(("on_revoke", name) for name in ("lock", "read/write lock", "election")),
    *(("layout", name) for name in ("semaphore", "election", "latch", "party")),
    *(("layout", name) for name in ("queue", "claim queue", "priority queue")),
    *(("conflict", name) for name in ("party", "persistent node")),
    ("missing", "counter"),
]


@pytest.mark.parametrize(("option", "of"), OPTIONS)
@pytest.mark.parametrize("word", ["typo", "", None, True, ["cancel"]])
def test_a_word_that_is_none_of_those(option: str, of: str, word: object) -> None:
    with pytest.raises(ValueError, match=rf"{option}.*{re.escape(repr(word))}"):
        ALL[of](**{option: word})


def test_the_watches_of_a_strategy() -> None:
    watches: Any = "predecesor"
    with pytest.raises(ValueError, match=watches):
        Strategy(watches)


def test_only_kinds_are_recognised() -> None:
    """Else nobody would be waited for."""
    kinds: Any = frozenset({"-lock-"})
    with pytest.raises(TypeError, match="-lock-"):
        Lock(ZK, "/x", recognise=kinds)


def test_a_strategy_is_no_word() -> None:
    strategy: Any = "parent"
    with pytest.raises(TypeError, match="parent"):
        Lock(ZK, "/x", strategy=strategy)


@pytest.mark.parametrize("of", QUEUES)
def test_an_option_that_no_queue_has(of: str) -> None:
    with pytest.raises(TypeError, match="limt"):
        QUEUES[of](limt=3)


def test_the_typed_options_are_those_that_the_lock_takes() -> None:
    """Other recipes pass them on, and Python would not notice a missing one."""
    parameters = inspect.signature(Lock).parameters.values()
    own = {each.name for each in parameters if each.kind is each.KEYWORD_ONLY}
    shared = HoldingOptions.__annotations__.keys()
    assert LockOptions.__annotations__.keys() == own - {"purpose", "grant_type"} | shared
    assert {field.name for field in attrs.fields(Holding)} == shared


@pytest.mark.parametrize("of", HOLDS)
def test_an_option_that_no_lock_has(of: str) -> None:
    with pytest.raises(TypeError, match="limt"):
        HOLDS[of](limt=3)
