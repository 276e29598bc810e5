"""Each script yields the same transcript on both sides. One real ensemble of each kind serves all scripts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from ...support import jvm
from ...support.needs import need
from ...support.real import Ensemble
from . import losing, read_only, reading, sessions  # noqa: F401 (importing them lists their scripts)
from .script import KINDS, Kind, Script
from .sides import SYNC_LIMIT, TICK, Ours, Real, Side

NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
nightly = pytest.mark.skipif(not NIGHTLY, reason="it waits for seconds: HYPOTHESIS_PROFILE=nightly")


def cases() -> Iterator[object]:
    for kind in KINDS:
        for script in kind.quick:
            yield pytest.param(kind, script, id=script.__name__)
        for script in kind.slow:
            yield pytest.param(kind, script, id=script.__name__, marks=nightly)


@pytest.fixture(scope="module")
def real(request: pytest.FixtureRequest) -> Iterator[tuple[Kind, Ensemble]]:
    need(jvm.missing())
    kind: Kind = request.param
    with Ensemble(
        3,
        tick=TICK,
        sync_limit=SYNC_LIMIT,
        linked=True,
        observers=1,
        settings=kind.lines,
        options=kind.options,
    ) as ensemble:
        yield kind, ensemble


def transcript(side: Side, script: Callable[[Side], None]) -> list[str]:
    try:
        script(side)
    finally:
        side.end()
    return side.lines


@pytest.mark.parametrize(("real", "script"), list(cases()), indirect=["real"])
def test_both_say_the_same(real: tuple[Kind, Ensemble], script: Script) -> None:
    kind, ensemble = real
    with Ours.make(kind.ours) as pretended:
        ours = transcript(Ours(pretended), script)
    assert "nothing comes" not in "\n".join(ours)
    assert transcript(Real(ensemble), script) == ours
