"""The fuzzer beside a real server, for a moment (``python -m tests.conformance.fuzz`` asks far more)."""

from __future__ import annotations

import random

import pytest

from ..support.jvm import missing
from ..support.needs import need
from .fuzz import run
from .test_random_requests import NIGHTLY


@pytest.mark.parametrize("data", [False, True])
def test_nothing_differs(data: bool) -> None:
    need(missing())
    seed = random.SystemRandom().getrandbits(32) if NIGHTLY else 3
    assert run(100_000 if NIGHTLY else 1000, seed, data) == 0
