"""What a follower sends is held up, and what its leader sends arrives (ensemble.md 6.9)."""

from __future__ import annotations

import pytest

from pyzk.protocol.constants import CreateMode
from pyzk.server.testing import EmbeddedEnsemble, EnsembleError

from .client import Clients


def test_reads_are_fresh_and_writes_wait(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    a, b = at(1), at(2)
    b.create("/x", b"old")
    ensemble.holdup(1)
    b.set("/x", b"new")
    assert a.data("/x") == b"new"
    a.later.set("/x", b"mine")
    assert a.arrivals() == []
    assert (ensemble.outstanding(1), ensemble.troubles(1)) == (1, ["held up"])
    ensemble.releaseup(1)
    assert a.receive_reply().err == 0
    assert b.data("/x") == b"mine"
    assert ensemble.troubles(1) == []


def test_its_acks_do_not_count(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    b = at(3)
    ensemble.holdup(1)
    ensemble.holdup(2)
    b.later.create("/x")
    assert b.arrivals() == []
    ensemble.releaseup(2)
    assert b.receive_reply().err == 0


def test_a_session_ends_whose_client_its_server_answers(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    """Its reports are held up, so the leader hears nothing of it."""
    a, b = at(1, timeout=1500), at(2, timeout=10_000)
    a.create("/mine", flags=CreateMode.EPHEMERAL)
    ensemble.holdup(1)
    for _ in range(5):
        ensemble.advance(0.25)
        a.ping()
        b.ping()
    ensemble.advance(0.75)
    assert "mine" not in b.children("/").record.children
    assert ensemble.role(1) == "follower"
    assert a.was_closed  # the log told its server


def test_reports_that_arrive_in_time_save_a_session(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    a = at(1, timeout=2000)
    ensemble.holdup(1)
    for _ in range(6):
        ensemble.advance(0.25)
        a.ping()
    ensemble.releaseup()
    ensemble.advance(1)
    assert a.session_id in {info.id for info in ensemble.sessions()}
    assert a.ping() is not None


def test_the_leader_gives_it_up(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    a = at(1)
    ensemble.holdup(1)
    ensemble.advance(2.49)  # 5 ticks of 0.5 s
    assert (ensemble.role(1), a.was_closed) == ("follower", False)
    ensemble.advance(0.01)
    assert (ensemble.role(1), a.was_closed) == ("looking", True)
    ensemble.advance(10)
    assert (ensemble.role(1), ensemble.leader()) == ("looking", 3)
    ensemble.releaseup(1)
    assert ensemble.role(1) == "follower"


def test_it_is_not_elected_and_elects_nobody(ensemble: EmbeddedEnsemble) -> None:
    ensemble.holdup(2)
    ensemble.kill(3)
    ensemble.advance(60)
    assert ensemble.leader() is None
    with pytest.raises(EnsembleError, match="server 2 cannot lead"):
        ensemble.elect(to=2)
    ensemble.start(3)
    ensemble.advance(0.2)
    assert (ensemble.leader(), ensemble.role(2)) == (3, "looking")
    ensemble.calm()
    assert ensemble.role(2) == "follower"


def test_a_leader_has_nobody_to_report_to(ensemble: EmbeddedEnsemble) -> None:
    with pytest.raises(EnsembleError, match="server 3 leads, so there is no leader"):
        ensemble.holdup("leader")


def test_a_single_voter_leads_although_it_was_held_up() -> None:
    with EmbeddedEnsemble(1, clock="frozen") as ensemble:
        ensemble.kill(1)
        ensemble.holdup(1)
        ensemble.start(1)
        ensemble.elect()
        ensemble.load({"/x": "1"})
        assert ensemble.dump() == {"/x": b"1"}
