"""``lag(s, seconds)``: a server that takes whatever the leader sends some time later."""

from __future__ import annotations

import time

import pytest

from pyzk.server.testing import EmbeddedEnsemble

from ...support.wire import Event, Reply
from .client import Clients


def test_each_entry_is_applied_late(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    a, b = at(1), at(2)
    b.create("/x", b"0")
    ensemble.lag(1, 2.5)
    b.set("/x", b"1")
    ensemble.advance(1)
    b.set("/x", b"2")
    assert a.data("/x") == b"0"
    ensemble.advance(1.499)
    assert a.data("/x") == b"0"
    ensemble.advance(0.001)
    assert a.data("/x") == b"1"
    ensemble.advance(1)
    assert a.data("/x") == b"2"
    assert ensemble.troubles(1) == ["lags"]


def test_writes_syncs_and_watches_of_its_clients_are_late(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    a, b = at(1), at(2)
    a.exists("/x", watch=True)
    ensemble.lag(1, 0.3)
    a.later.create("/mine")
    b.create("/x")
    ensemble.advance(0.299)
    assert a.arrivals() == []
    ensemble.advance(0.001)
    created, seen = a.arrivals()
    assert isinstance(created, Reply) or isinstance(seen, Reply)
    assert isinstance(created, Event) or isinstance(seen, Event)
    a.later.sync("/")
    a.later.exists("/x")
    ensemble.advance(0.2)
    assert a.arrivals() == []
    ensemble.advance(0.1)
    assert [reply.err for reply in a.arrivals() if isinstance(reply, Reply)] == [0, 0]


def test_a_session_that_comes_is_late_and_is_known(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    a = at(2)
    ensemble.lag(1, 1)
    moved = at.asking(1, a)
    ensemble.advance(0.9)
    assert moved.arrivals() == []
    ensemble.advance(0.1)
    assert moved.receive_handshake().session_id == a.session_id


def test_it_ends_at_release_and_before_a_zxid(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    a, b = at(1), at(2)
    zxid = ensemble.zxid()
    ensemble.lag(1, 2, upto=zxid + 1)
    b.create("/x")
    b.create("/y")
    ensemble.advance(10)
    assert ensemble.applied(1) == zxid + 1
    ensemble.lag(1, 2)  # late, and it does not stand any more
    assert ensemble.applied(1) == zxid + 2
    b.create("/z")
    assert ensemble.applied(1) == zxid + 2
    ensemble.catch_up(1)
    assert ensemble.applied(1) == zxid + 3
    b.create("/1")
    assert a.exists("/1").err == 0
    assert ensemble.troubles(1) == []


def test_a_leader_may_be_late(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    a, b = at(3), at(1)
    ensemble.lag(3, 1)
    a.later.create("/x")
    ensemble.advance(0.5)
    assert b.exists("/x").err == 0
    assert a.arrivals() == []
    ensemble.advance(0.5)
    (reply,) = a.arrivals()
    assert isinstance(reply, Reply)
    assert reply.record.path == "/x"


def test_what_comes_over_a_link_that_was_cut_is_no_later(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    a, b = at(1), at(2)
    ensemble.lag(1, 1)
    ensemble.isolate(1)
    b.create("/x")
    ensemble.advance(1.5)
    assert a.exists("/x").err == -101
    ensemble.heal()
    assert a.exists("/x").err == 0


def test_a_new_leader_and_a_restart(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    ensemble.lag(1, 1)
    ensemble.elect(2)
    b = at(2)
    b.create("/x")
    assert ensemble.applied(1) < ensemble.zxid()
    ensemble.kill(1)
    ensemble.start(1)
    assert ensemble.applied(1) == ensemble.zxid()
    assert ensemble.troubles(1) == []


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_a_delay_is_above_0(ensemble: EmbeddedEnsemble, seconds: float) -> None:
    with pytest.raises(ValueError, match="seconds must be above 0"):
        ensemble.lag(1, seconds)
    assert ensemble.troubles(1) == []


def test_on_a_clock_that_runs() -> None:
    with EmbeddedEnsemble(3, tick_time=100_000) as ensemble:
        clients = Clients(ensemble)
        try:
            a, b = clients(1), clients(2)
            ensemble.lag(1, 0.1)
            for path in ("/x", "/y"):  # the second comes while nothing was due
                began = time.monotonic()
                b.create(path)
                a.sync("/")
                assert a.exists(path).err == 0
                assert 0.099 <= time.monotonic() - began < 30  # and no half of a tick
        finally:
            clients.close()
