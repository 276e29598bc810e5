"""The invariants I-1 to I-9 under random schedules, for locks and read/write locks, in every naming mode.

HYPOTHESIS_PROFILE=nightly tries 14,000 schedules; what failed is kept in .hypothesis and tried first.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, event, given, settings

from .schedules import Step, run_schedule, steps

NIGHTLY = settings.get_current_profile_name() == "nightly"
EXAMPLES = 2_000 if NIGHTLY else 80

KINDS = {"lock": ["lock"], "read and write": ["read", "write", "lock"]}
NAMINGS = {
    "curator": ["curator"],
    "mixed": ["both", "curator", "kazoo"],
    "beside Curator": ["both", "Curator", "curator"],
    "beside kazoo": ["both", "kazoo (library)", "kazoo"],
    "beside Go": ["both", "Go", "curator"],
}
CASES = [
    (kind, naming)
    for kind in KINDS
    for naming in NAMINGS
    if kind == "lock" or not naming.startswith("beside")
]


@pytest.mark.parametrize(("kind", "naming"), CASES)
def test_whatever_happens(kind: str, naming: str) -> None:
    @settings(max_examples=EXAMPLES, suppress_health_check=[*HealthCheck])
    @given(steps(KINDS[kind]))
    def check(schedule: list[Step]) -> None:
        grants = run_schedule(schedule, NAMINGS[naming])
        event(f"{min(len(grants.intervals), 5)} grants or more")

    check()
