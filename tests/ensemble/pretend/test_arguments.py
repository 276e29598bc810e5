"""The arguments of an ensemble: what is of another type is refused at once, and names what is wanted."""

from __future__ import annotations

import re
from typing import Any

import pytest

from pyzk.server.testing import EmbeddedEnsemble, Timing, open_ensemble


@pytest.mark.parametrize("start", [EmbeddedEnsemble, open_ensemble])
@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        (
            {"timing": 5},
            TypeError,
            "timing must be a Timing, such as Timing(sync_limit=5, election_ms=200), not 5",
        ),
        (
            {"sync_limit": 5},
            TypeError,
            "sync_limit is a part of the timing of an ensemble: pass timing=Timing(sync_limit=5)",
        ),
        (
            {"election_ms": 5},
            TypeError,
            "election_ms is a part of the timing of an ensemble: pass timing=Timing(election_ms=5)",
        ),
        ({"participants": "3"}, TypeError, "participants must be a number of servers, not '3'"),
        ({"observers": 1.0}, TypeError, "observers must be a number of servers, not 1.0"),
        ({"participants": 0}, ValueError, "an ensemble must have 1 to "),
    ],
)
def test_of_a_start(start: Any, given: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=re.escape(said)):
        start(**given)


def test_of_the_times() -> None:
    with pytest.raises(TypeError, match="sync_limit must be a whole number, not '5'"):
        Timing(sync_limit="5")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"election_ms must be a whole number, not 0\.2"):
        Timing(election_ms=0.2)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="sync_limit must be at least 1, not 0"):
        Timing(sync_limit=0)
