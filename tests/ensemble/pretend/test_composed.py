"""The verbs of an ensemble together with what a test can do to a single server."""

from __future__ import annotations

import pytest

from pyzk.server.testing import EmbeddedEnsemble, EnsembleError, open_ensemble, open_server

from ...support.wire import Reply, StreamClient
from .client import Clients


def test_a_fault_behind_a_write_that_waits_for_the_log(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    a, b, c = at(1), at(1), at(1)
    ensemble.lag(1)
    with ensemble[1].fault("create", when="after"):
        a.later.create("/a")
        assert a.was_closed
    with ensemble[1].fault("create", when="after", action="drop_reply"):
        b.later.create("/b")
        assert b.arrivals() == []
    with ensemble[1].fault("create", when="after", action="delay", seconds=1):
        c.later.create("/c")
        assert c.arrivals() == []
    ensemble.catch_up(1)
    assert set(ensemble.dump()) == {"/a", "/b", "/c"}
    assert c.arrivals() == b.arrivals() == []
    ensemble.advance(1)
    assert len(c.arrivals()) == 1
    assert b.arrivals() == []


def test_a_fault_instead_of_a_write_takes_a_zxid_of_the_log(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    a = at(1)
    zxid = ensemble.zxid()
    with ensemble[1].fault("create", action="error", error=-4):
        assert a.create("/a").err == -4
    assert {ensemble.applied(number) for number in ensemble.numbers} == {zxid + 1}
    assert a.create("/a").zxid == zxid + 2


def test_a_reply_is_held_behind_the_log(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    a = at(1)
    ensemble.lag(1)
    ensemble[1].hold("reply", op="create")
    a.later.create("/a")
    assert ensemble[1].held() == []
    ensemble.catch_up(1)
    assert a.arrivals() == []
    assert [message.text for message in ensemble[1].held()] == ["create /a -> ok"]
    ensemble[1].release()
    (reply,) = a.arrivals()
    assert isinstance(reply, Reply)
    assert reply.err == 0


def test_one_server_hangs(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    a, b = at(1), at(2)
    ensemble[1].pause()
    a.later.create("/a")
    assert a.arrivals() == []
    assert b.exists("/a").err == -101
    ensemble[1].resume()
    assert len(a.arrivals()) == 1


def test_snapshots_come_back_through_the_log(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    a = at(1)
    ensemble.load({"/a": "old"})
    snapshot = ensemble.snapshot()
    a.set("/a", b"new")
    ensemble.lag(1)
    ensemble.restore(snapshot)
    assert (ensemble[1].dump(), ensemble[2].dump()) == ({"/a": b"new"}, {"/a": b"old"})
    ensemble.catch_up(1)
    assert a.data("/a") == b"old"


def test_no_session_expires_while_it_is_connected() -> None:
    with EmbeddedEnsemble(3, clock="frozen", expire_connected=False) as ensemble:
        at = Clients(ensemble)
        a, b = at(1), at(2)
        b.drop()
        ensemble.advance(100)
        assert [session.id for session in ensemble.sessions()] == [a.session_id]
        at.close()


def test_clients_that_are_kept_alive_stay(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    a, b, c = at(1), at(2), at(3)
    b.drop()
    ensemble.advance(60, keep_alive=True)
    assert {session.id for session in ensemble.sessions()} == {a.session_id, c.session_id}


async def test_in_a_trio_run_without_sockets() -> None:
    async with open_ensemble(3, clock="frozen") as ensemble:
        a = await StreamClient(ensemble[1].open_stream()).connect()
        b = await StreamClient(ensemble[3].open_stream()).connect()
        ensemble.lag(1)
        assert (await b.create("/x")).err == 0
        assert (await a.exists("/x")).err == -101
        await a.send(9, b"\0\0\0\1/")
        assert await a.is_silent()
        ensemble.catch_up(1)
        assert (await a.next()).err == 0
        assert (await a.exists("/x")).err == 0
        ensemble.elect()


def test_a_pause_ends_with_the_process(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    ensemble[1].pause()
    ensemble[1].refuse_connections()
    with ensemble[1].fault("create"):
        ensemble.kill(1)
        ensemble[1].accept_connections()
        assert ensemble[1].running.service.refusing, "nobody is there to accept them"
        ensemble.start(1)
        a = at(1)
        assert a.exists("/").err == 0
        a.later.create("/x")
        assert a.was_closed, "faults go on"


def test_a_process_that_is_down_can_be_killed_again_but_not_frozen(ensemble: EmbeddedEnsemble) -> None:
    ensemble.kill(1)
    ensemble.kill(1)
    with pytest.raises(EnsembleError, match="server 1 is down: start it first"):
        ensemble.freeze(1)
    ensemble.start(1)
    assert ensemble.role(1) == "follower"


def test_a_fault_that_expires_a_session_needs_a_leader_for_that(
    ensemble: EmbeddedEnsemble, at: Clients, caplog: pytest.LogCaptureFixture
) -> None:
    a, b = at(1), at(2)
    ensemble.lag(2)
    ensemble.expire(b.session_id)
    ensemble.hold_acks()
    for server, client in ((2, b), (1, a)):
        if server == 1:
            ensemble.partition([1], [2], [3])
            ensemble.freeze(3)
        with ensemble[server].fault("exists", action="expire"):
            client.later.exists("/")
            assert client.was_closed
    assert [each for each in caplog.records if each.levelname == "ERROR"] == []


def test_sessions_at_all_servers(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    a, b, c = at(1), at(2), at(3)
    a.create("/mine", flags=1)
    a.exists("/watched", watch=True)
    b.drop()
    ensemble.leader()
    found = ensemble.sessions()
    assert [(info.id, info.server) for info in found] == [
        (a.session_id, 1),
        (b.session_id, 0),
        (c.session_id, 3),
    ]
    assert (found[0].ephemerals, found[0].watches) == (("/mine",), ("/watched",))
    assert ensemble.leaks() == [
        f"session 0x{a.session_id:x} is still connected; ephemerals left: /mine; watches not fired: /watched",
        f"session 0x{b.session_id:x} was never closed",
        f"session 0x{c.session_id:x} is still connected",
    ]


def test_names_of_sessions_are_known_at_all_servers(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    ensemble[1].name_session("worker")
    a = at(3)
    ensemble[2].name_session("other", at(1).session_id)
    assert dict(ensemble[2].running.names.all).get(a.session_id) == "worker"
    text = ensemble.format_timeline()
    assert "worker" in text
    assert "other" in text


async def test_a_server_and_an_ensemble_have_the_same_words_for_time_and_tree() -> None:
    async with open_server(clock="frozen") as server, open_ensemble(3, clock="frozen") as ensemble:
        for controls in (server, ensemble):
            controls.load({"a": {"b": b"x"}})
            assert controls.dump("/a", form="nested") == {"a": {"b": b"x"}}
            assert controls.dump("/a", form="nodes")["/a/b"].data == b"x"
            assert controls.dump("/a/b", form="flat") == {"/a/b": b"x"}
            with pytest.raises(ValueError, match="'flat', 'nested' or 'nodes'"):
                controls.dump(form="other")  # type: ignore[call-overload]
            controls.advance(2)
            controls.clock.advance(3)
            assert controls.clock.now() == 5
