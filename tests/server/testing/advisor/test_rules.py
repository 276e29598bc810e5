"""Each rule finds the client that does it wrong, and has nothing to say of its repaired twin."""

from __future__ import annotations

from contextlib import suppress

import pytest

from pyzk.protocol.errors import BadVersionError, NodeExistsError
from pyzk.server.testing import EmbeddedServer
from pyzk.server.testing.advisor.behind import ReadWithoutSync
from pyzk.server.testing.advisor.engine import RULES
from tests.support.requests import check_op, set_op

from .clients import EPHEMERAL, FAULTY, REPAIRED, SEQUENTIAL, Clients

NAMES = [rule.name for rule in RULES if rule is not ReadWithoutSync]
"""Those that a single server can have: the other one is in test_in_ensemble.py."""


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


def test_many_waiters_of_one_session_set_a_watch_each(server: EmbeddedServer) -> None:
    """Readers behind a writer, and those who take turns at one znode: the watch is set once for each."""
    with Clients(server) as clients:
        holder, other = clients.several(2)
        holder.create("/lock")
        holder.create("/lock/write-", flags=SEQUENTIAL)
        holder.create("/turn", flags=EPHEMERAL)
        for _ in range(20):
            other.create("/lock/read-", flags=SEQUENTIAL)
            other.get("/lock/write-0000000000", watch=True)
            with suppress(NodeExistsError):
                other.create("/turn", flags=EPHEMERAL)
            other.exists("/turn", watch=True)
        assert [found for found in server.advice() if found.rule == "watch-set-again"] == []
        for _ in range(5):
            other.exists("/turn", watch=True)
        [found] = [found for found in server.advice() if found.rule == "watch-set-again"]
        assert (found.count, found.paths) == (25, ("/turn",))


def test_a_multi_that_is_refused_has_written_nothing(server: EmbeddedServer) -> None:
    with Clients(server) as clients:
        first, second = clients.several(2)
        first.create("/x", b"0")
        first.get("/x")
        second.set("/x", b"1", version=0)
        assert first.multi(set_op("/x", b"1"), check_op("/x", 0)).results[1].err == BadVersionError.code
        assert server.advice() == []
        first.multi(set_op("/x", b"1"))
        assert [found.rule for found in server.advice()] == ["check-then-act"]


def test_all_names_differ() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)
    assert set(FAULTY) == set(REPAIRED) == set(NAMES)
