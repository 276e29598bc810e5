"""Trouble by chance on an ensemble with sockets."""

from __future__ import annotations

import pytest

from pyzk.server.testing import EmbeddedEnsemble


def test_a_nemesis_makes_trouble_and_leaves_none(ensemble: EmbeddedEnsemble) -> None:
    with ensemble.nemesis(seed=3, rate=2) as nemesis:
        ensemble.advance(60)
    assert len(nemesis.done) > 60
    ensemble.advance(1)
    assert sorted(ensemble.role(number) for number in ensemble.numbers) == ["follower", "follower", "leader"]
    assert any(entry.text.startswith("nemesis: ") for entry in ensemble.history(kind="role"))


def test_a_nemesis_needs_a_rate(ensemble: EmbeddedEnsemble) -> None:
    with pytest.raises(ValueError, match="rate above 0"), ensemble.nemesis(seed=1, rate=0):
        pass
