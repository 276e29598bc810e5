from __future__ import annotations

from collections.abc import Iterator

import pytest

from ...support.ensemble_rules.recording import checked


@pytest.fixture(autouse=True)
def rules(request: pytest.FixtureRequest) -> Iterator[None]:
    """No rule of ensemble.md section 15.2 is broken by any ensemble, but where a test says why."""
    if request.node.get_closest_marker("breaks_rules"):
        yield
    else:
        with checked():
            yield
