"""After ``calm`` somebody leads and all others follow, at once: also on a clock that stands still."""

from __future__ import annotations

import os
import random

import pytest

from pyzk.server.testing import EmbeddedEnsemble, LocalEnsemble, open_ensemble

from .asking import ask

SEEDS = 2000 if os.environ.get("HYPOTHESIS_PROFILE") == "nightly" else 40
SERVING = {"leader", "follower", "observer"}


def roles(ensemble: EmbeddedEnsemble | LocalEnsemble) -> list[str]:
    return [ensemble.role(number) for number in ensemble.numbers]


def check_is_calm(ensemble: EmbeddedEnsemble | LocalEnsemble) -> None:
    found = roles(ensemble)
    assert found.count("leader") == 1
    assert set(found) <= SERVING
    assert [ensemble.troubles(number) for number in ensemble.numbers] == [[]] * len(found)
    ensemble.load({f"/after-{ensemble.zxid():x}": None})  # so it commits
    assert len({ensemble.applied(number) for number in ensemble.numbers}) == 1


def test_after_the_end_of_the_leader(ensemble: EmbeddedEnsemble) -> None:
    ensemble.kill("leader")
    ensemble.calm()
    check_is_calm(ensemble)


def test_after_the_end_of_all(ensemble: EmbeddedEnsemble) -> None:
    for number in ensemble.numbers:
        ensemble.kill(number)
    ensemble.calm()
    check_is_calm(ensemble)


def test_an_old_leader_leads_no_more(ensemble: EmbeddedEnsemble) -> None:
    ensemble.freeze(3)
    ensemble.advance(10)
    ensemble.kill(ensemble.leader() or 0)  # the next one
    ensemble.calm()
    check_is_calm(ensemble)


def test_a_leader_that_all_have_lost(ensemble: EmbeddedEnsemble) -> None:
    ensemble.partition([1], [2], [3], silent=False)
    ensemble.calm()
    check_is_calm(ensemble)
    assert ensemble.leader() == 3


def test_the_page_of_a_stale_leader_is_answered(ensemble: EmbeddedEnsemble) -> None:
    """The leader of the last epoch has ended, and an older one does not know that it is none any more."""
    ensemble.freeze(3)
    ensemble.advance(10)
    ensemble.kill(ensemble.leader() or 0)
    ensemble.thaw(3)
    assert ensemble.role(3) == "leader"
    assert ask(ensemble[3].url, "/ensemble")["zxid"] is None


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_behind_a_nemesis(seed: int) -> None:
    chance = random.Random(seed)
    async with open_ensemble(3 + 2 * (seed % 2), observers=seed % 3, clock="frozen") as ensemble:
        with ensemble.nemesis(seed, rate=5):
            for _ in range(10):
                ensemble.advance(chance.choice([0.1, 0.5, 3, 12]))
        check_is_calm(ensemble)
