"""A test moves clients from one server to another."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from pyzk.server.testing import EmbeddedEnsemble, EnsembleError, UnknownSessionError

from .client import Clients


@pytest.fixture
def patient() -> Iterator[EmbeddedEnsemble]:
    """Servers whose clients do not move by themselves when a machine stands still for 5 s."""
    with EmbeddedEnsemble(3, clock="frozen", max_session_timeout=60_000) as ensemble:
        yield ensemble


def test_a_client_goes_on_where_it_is_sent(patient: EmbeddedEnsemble) -> None:
    ensemble = patient
    quickly = {"max_tries": -1, "delay": 0.01, "backoff": 1}
    client = KazooClient(ensemble.hosts, timeout=60, connection_retry=quickly)
    client.start()
    client.create("/mine", ephemeral=True)
    session = client.client_id
    for number in (1, 2, 3, 1):
        ensemble.move(client, number)
        assert client.retry(client.exists, "/mine") is not None
        assert [(info.server, info.connected) for info in ensemble.sessions()] == [(number, True)]
    assert client.client_id == session
    client.stop()
    client.close()


def test_all_others_refuse_it_until_it_has_come(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    a, b = at(1), at(1)
    ensemble.move(a.session_id, 2)
    assert a.was_closed
    assert at.is_refused(1, a)
    assert at.is_refused(3, a)
    assert b.exists("/").err == 0
    assert at(2, a).exists("/").err == 0
    assert at(3, a).exists("/").err == 0, "it may go where it wants to afterwards"


def test_where_it_is_already_nothing_happens(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    a = at(2)
    ensemble.move(a.session_id, 2)
    assert a.exists("/").err == 0


def test_a_server_that_has_gone_is_waited_for_no_more(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    a = at(1)
    ensemble.move(a.session_id, 2)
    assert at.is_refused(1, a)
    ensemble.kill(2)
    assert at(1, a).exists("/").err == 0


def test_a_server_that_lags_is_waited_for(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    a = at(1)
    ensemble.lag(2)
    a.create("/x")
    ensemble.move(a.session_id, 2)
    assert [at.is_refused(number, a) for number in ensemble.numbers] == [True] * 3
    ensemble.catch_up(2)
    assert at(2, a).exists("/x").err == 0


def test_a_client_that_is_not_connected_is_sent_too(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    a = at(1)
    a.drop()
    ensemble.move(a.session_id, 3)
    assert at.is_refused(1, a)
    assert at(3, a).exists("/").err == 0


def test_a_client_on_its_way_to_another_server(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    a = at(2)
    ensemble.lag(1)
    ensemble.load({"/x": "later"})
    again = at.asking(1, a)  # it is answered behind what server 1 has not applied
    ensemble.leader()
    ensemble.move(a.session_id, 3)
    ensemble.catch_up(1)
    assert again.was_closed
    assert at(3, a).exists("/x").err == 0


def test_with_its_end_the_move_is_over(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    a = at(1)
    ensemble.move(a.session_id, 2)
    ensemble.expire(a.session_id)
    gone = at(1, a)
    assert gone.session_id == 0, "it is told that its session is over, by any server"


def test_what_cannot_be_moved(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    a = at(1)
    with pytest.raises(UnknownSessionError, match="no session 0x7 at any server"):
        ensemble.move(7, 1)
    with pytest.raises(ValueError, match="there is no server 9"):
        ensemble.move(a.session_id, 9)
    ensemble.kill(2)
    with pytest.raises(EnsembleError, match="server 2 serves nobody"):
        ensemble.move(a.session_id, 2)
    assert a.exists("/").err == 0
