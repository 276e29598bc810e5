"""Caches with persistent watches, and without."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext

import pytest

from ...support.lab import Lab
from .scene import one_shots


@pytest.fixture(params=["persistent", "one-shot"])
def watches(request: pytest.FixtureRequest, lab: Lab) -> Iterator[str]:
    """With persistent watches, and without them as before 3.6."""
    with one_shots(lab) if request.param == "one-shot" else nullcontext():
        yield request.param
