"""No schedule of trouble breaks the rules of ensemble.md section 15.2."""

from __future__ import annotations

import os
import random

import pytest

from ...support import ensemble_clients
from ...support.ensemble_clients import Run

NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
nightly = pytest.mark.skipif(not NIGHTLY, reason="a million operations: HYPOTHESIS_PROFILE=nightly")
STEPS = 150


def schedule(seed: int, steps: int = STEPS) -> Run:
    run = Run(seed, participants=5 if seed % 5 == 4 else 3, observers=seed % 2, rate=(0.3, 1, 3)[seed % 3])
    for _ in range(steps):
        run.step(run.random.choice([0, 0, 0.01, 0.1, 0.3]))
    run.finish()
    return run


@pytest.mark.parametrize("seed", range(60))
def test_a_schedule(seed: int) -> None:
    schedule(seed)


@nightly
@pytest.mark.parametrize("part", range(10))
def test_a_million_operations(part: int) -> None:
    """A tenth of them; other schedules each time."""
    seed = first = random.SystemRandom().getrandbits(32)
    operations = troubles = 0
    while operations < 100_000:
        try:
            run = schedule(seed, 1000)
        except BaseException as error:
            error.add_note(f"schedule {seed}")
            raise
        operations += run.operations
        troubles += len(run.nemesis.done)
        seed += 1
    print(f"seeds {first} to {seed - 1}: {operations:,} operations, {troubles:,} troubles")


def test_the_same_seed_makes_the_same_trouble() -> None:
    def trouble() -> tuple[list[str], list[int]]:
        run = Run(7, rate=3)
        for _ in range(STEPS):
            run.step(0.1)
        return run.nemesis.done, [txn.zxid for txn in run.world.txns[1]]

    first, second = trouble(), trouble()
    assert first == second
    assert len(first[0]) > 10


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> Run:
    """A client whose timeout is 6 s. Server 3 leads, and nothing happens by chance."""
    monkeypatch.setattr(ensemble_clients, "TIMEOUTS", [6000])
    run = Run(1, observers=0, clients=1)
    run.world.ensemble.nemesis = None
    return run


def test_an_old_leader_does_not_know_a_session_of_the_next_epoch(quiet: Run) -> None:
    """ensemble.md 14.18. The client looks when the old leader has joined the others."""
    client = quiet.clients[0]
    quiet.world.freeze(3)
    quiet.world.pass_time(3)
    client.attach(1)
    client.attach(3)
    quiet.world.thaw(3)
    assert client.session[0] in {session.id for session in quiet.world.ensemble.leader().sessions}
    quiet.finish()
    assert client.session[0] == 0


def test_a_leader_tells_an_end_that_is_lost_with_it(quiet: Run) -> None:
    """ensemble.md section 15.2, rule 12: the end was proposed when the client asked."""
    client = quiet.clients[0]
    client.attach(1)
    quiet.world.hold("proposals")
    quiet.world.pass_time(7)
    quiet.world.lag(1)
    client.attach(1)
    quiet.world.catch_up([1])
    quiet.world.kill(3)
    quiet.world.pass_time(1)
    assert client.session[0] in {session.id for session in quiet.world[2].engine.sessions}
    client.take()
    assert client.session[0] == 0


def test_any_other_leader_is_right(quiet: Run) -> None:
    quiet.clients[0].attach(1)
    leader = quiet.world.ensemble.leader()
    leader.sessions.remove(next(iter(leader.sessions)))
    quiet.clients[0].attach(2)
    with pytest.raises(AssertionError, match="rule 12"):
        quiet.check()
