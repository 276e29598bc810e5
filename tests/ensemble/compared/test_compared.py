"""Each script yields the same transcript on both sides. One real ensemble serves all scripts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from ...support import jvm
from ...support.needs import need
from ...support.real import Ensemble
from . import changing, losing, own_sessions, reading, sessions  # noqa: F401 (importing them lists their scripts)
from .script import LOCAL, MEMBERS, QUICK, SLOW, Script
from .sides import SUPER_DIGEST, SYNC_LIMIT, TICK, Ours, Real, Side

NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
nightly = pytest.mark.skipif(not NIGHTLY, reason="it waits for seconds: HYPOTHESIS_PROFILE=nightly")
SCRIPTS = [
    *(pytest.param(script, id=script.__name__) for script in QUICK),
    *(pytest.param(script, id=script.__name__, marks=nightly) for script in SLOW),
]


@pytest.fixture(scope="module")
def real() -> Iterator[Ensemble]:
    need(jvm.missing())
    with Ensemble(3, tick=TICK, sync_limit=SYNC_LIMIT, linked=True, observers=1) as ensemble:
        yield ensemble


@pytest.fixture(scope="module")
def changeable() -> Iterator[Ensemble]:
    """Its members may be changed, by who is super."""
    need(jvm.missing())
    settings = {"DigestAuthenticationProvider.superDigest": SUPER_DIGEST}
    with Ensemble(
        3, tick=TICK, sync_limit=SYNC_LIMIT, observers=1, reconfig=True, settings=settings
    ) as ensemble:
        yield ensemble


def transcript(side: Side, script: Callable[[Side], None]) -> list[str]:
    try:
        script(side)
    finally:
        side.end()
    return side.lines


@pytest.mark.parametrize("script", SCRIPTS)
def test_both_say_the_same(real: Ensemble, script: Callable[[Side], None]) -> None:
    with Ours.make() as ensemble:
        ours = transcript(Ours(ensemble), script)
    assert "nothing comes" not in "\n".join(ours)
    assert transcript(Real(real), script) == ours


@pytest.mark.parametrize("script", MEMBERS, ids=lambda script: script.__name__)
def test_both_change_their_members_alike(changeable: Ensemble, script: Script) -> None:
    with Ours.make(reconfig_enabled=True, super_digest=SUPER_DIGEST) as ensemble:
        ours = transcript(Ours(ensemble), script)
    assert "nothing comes" not in "\n".join(ours)
    side = Real(changeable)
    try:
        assert transcript(side, script) == ours
    finally:
        side.bring_back()


@pytest.mark.parametrize(
    "upgrading", [pytest.param(True, id="upgrading"), pytest.param(False, id="for ever", marks=nightly)]
)
def test_local_sessions_are_alike(upgrading: bool) -> None:
    need(jvm.missing())
    settings = {"localSessionsEnabled": "true", "localSessionsUpgradingEnabled": str(upgrading).lower()}
    with Ensemble(3, tick=TICK, sync_limit=SYNC_LIMIT, observers=1, settings=settings) as real:
        for script in LOCAL:
            with Ours.make(local_sessions=True, local_sessions_upgrading=upgrading) as ensemble:
                ours = transcript(Ours(ensemble), script)
            assert "nothing comes" not in "\n".join(ours)
            assert transcript(Real(real), script) == ours, script.__name__
