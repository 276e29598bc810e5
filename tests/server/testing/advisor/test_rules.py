"""Each rule finds the client that does it wrong, and has nothing to say of its repaired twin."""

from __future__ import annotations

import pytest

from pyzk.server.testing import EmbeddedServer
from pyzk.server.testing.advisor.engine import RULES

from .clients import FAULTY, REPAIRED, Clients

NAMES = [rule.name for rule in RULES]


@pytest.mark.parametrize("rule", NAMES)
def test_the_faulty_client_is_found(server: EmbeddedServer, rule: str) -> None:
    with Clients(server) as clients:
        FAULTY[rule](clients)
    found = {finding.rule: finding for finding in server.advice()}
    assert list(found) == [rule]
    finding = found[rule]
    assert finding.count > 0
    assert finding.sessions
    assert "{" not in finding.evidence
    assert finding.first <= finding.last


@pytest.mark.parametrize("rule", NAMES)
def test_its_repaired_twin_is_not(server: EmbeddedServer, rule: str) -> None:
    with Clients(server) as clients:
        REPAIRED[rule](clients)
    assert server.advice() == []
    assert len(server.history(kind="request")) > 1


def test_all_names_differ() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert set(FAULTY) == set(REPAIRED) == set(NAMES)
