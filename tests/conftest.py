"""How much hypothesis tries: HYPOTHESIS_PROFILE=nightly looks much further, and elsewhere every night."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

_SLOW_MACHINE = [HealthCheck.too_slow]

# The same examples in every run, so that a change is judged by what it changed.
settings.register_profile(
    "ci", deadline=None, max_examples=60, derandomize=True, suppress_health_check=_SLOW_MACHINE
)
settings.register_profile(
    "nightly", deadline=None, max_examples=3000, print_blob=True, suppress_health_check=_SLOW_MACHINE
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
