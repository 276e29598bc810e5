"""No schedule of trouble breaks the rules of ensemble.md section 15.2."""

from __future__ import annotations

import os

import pytest

from ...support.ensemble_rules import Run

NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
SEEDS = range(3000 if NIGHTLY else 60)
STEPS = 400 if NIGHTLY else 150


@pytest.mark.parametrize("seed", SEEDS)
def test_a_schedule(seed: int) -> None:
    run = Run(seed, participants=5 if seed % 5 == 4 else 3, observers=seed % 2, rate=(0.3, 1, 3)[seed % 3])
    for _ in range(STEPS):
        run.step(run.random.choice([0, 0, 0.01, 0.1, 0.3]))
        run.check()
    run.finish()


def test_the_same_seed_makes_the_same_trouble() -> None:
    def trouble() -> tuple[list[str], list[int]]:
        run = Run(7, rate=3)
        for _ in range(STEPS):
            run.step(0.1)
        return run.nemesis.done, [txn.zxid for txn in run.log]

    first, second = trouble(), trouble()
    assert first == second
    assert len(first[0]) > 10
