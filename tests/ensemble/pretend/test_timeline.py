"""The history of all servers, and the timeline with the number of the server in each line."""

from __future__ import annotations

import trio

from pyzk.server.config.members import made_up
from pyzk.server.config.settings import Settings
from pyzk.server.ensemble.host import EnsembleHost
from pyzk.server.net.clock import Clock
from pyzk.server.testing import EmbeddedEnsemble
from pyzk.server.testing.ensemble import take_over
from pyzk.server.testing.history import Entry

from ...support.wire import StreamClient
from .client import Clients


def test_the_timeline_tells_servers_and_roles(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    a = at(1)
    a.create("/x", b"0")
    ensemble.kill(3)
    ensemble.advance(0.2)
    at(2, a).get("/x")
    text = ensemble.format_timeline()
    lines = [line.split("   ")[-1].strip() for line in text.splitlines()]
    for expected in (
        "== kill server 3",
        "[3] ** is down",
        "[1] ** serves nobody: it has lost its leader",
        "[1] ** is follower of server 2",
    ):
        assert expected in lines
    assert "0:2 | [1] create /x '0' -> ok" in text
    assert "[2] get_data /x -> '0' version 0" in text
    assert "epochs are counted from 0x" in text


def test_what_happens_at_all_servers_is_told_once(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    at(1)
    ensemble.note("now")
    began = ensemble.history(kind="session")
    assert len(began) == 1
    ensemble.lag(1)
    ensemble[2].pause()
    for kind, told in (("note", [(0, "now")]), ("control", [(0, "server 1 lags"), (2, "pause")])):
        assert [(entry.server, entry.text) for entry in ensemble.history(kind=kind)] == told


def test_a_client_from_the_future_is_named(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    a = at(3)
    ensemble.lag(1)
    a.create("/x")
    assert at.is_refused(1, a)
    (entry,) = [each for each in ensemble.history(kind="connection") if each.facts.step == "ahead"]
    assert (entry.server, entry.session, entry.zxid) == (1, a.session_id, a.seen)
    shown = "0:2 | [1] closed without a word: it has seen more than this server"
    assert shown in ensemble.format_timeline(width=200)


def test_a_late_end_of_a_session_is_told_again(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    a = at(2)
    ensemble.lag(1)
    ensemble.expire(a.session_id)
    ensemble.advance(0.1)
    ensemble.catch_up(1)
    ends = [entry for entry in ensemble.history(kind="session") if "EXPIRED" in entry.text]
    assert [(entry.server, round(entry.time, 3)) for entry in ends] == [(3, 0.0), (1, 0.1)]


def test_the_history_is_selected_as_a_single_servers(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    a, b = at(1), at(2)
    a.create("/x")
    b.create("/y")
    found = ensemble.history(kind="request", op="create")
    assert [(entry.server, entry.path) for entry in found] == [(1, "/x"), (2, "/y")]
    assert [entry.path for entry in ensemble.history(session=b.session_id, kind="request")] == ["/y"]
    assert [entry.path for entry in ensemble[1].history(kind="request")] == ["/x"]


def test_what_happens_at_all_servers_is_told_once_while_the_clock_runs() -> None:
    with EmbeddedEnsemble(3) as ensemble:
        at = Clients(ensemble)
        at(1)
        ensemble.note("now")
        ensemble.note("now")
        assert len(ensemble.history(kind="session")) == 1
        assert [entry.text for entry in ensemble.history(kind="note")] == ["now", "now"]
        assert all(0 <= entry.time < 60 for entry in ensemble.history())
        at.close()


async def test_a_further_server_is_told_of_too() -> None:
    async with trio.open_nursery() as nursery:
        servers = EnsembleHost(Settings(port=0), Clock(frozen=True), made_up(3))
        await nursery.start(servers.run)
        ensemble = take_over(servers)
        told: list[Entry] = []
        ensemble.running.listen(told.append)
        ensemble.start(4)
        assert (4, "is up") in [(entry.server, entry.text) for entry in told]
        assert ensemble.history() == []
        ensemble[1].running.begin_history()
        ensemble.start(5)
        assert 5 in {entry.server for entry in ensemble.history(kind="role")}
        ensemble.running.stop_listening(told.append)
        assert not ensemble.running.history.listeners
        nursery.cancel_scope.cancel()


async def test_a_history_that_begins_late_says_so_once() -> None:
    async with trio.open_nursery() as nursery:
        servers = EnsembleHost(Settings(port=0), Clock(frozen=True), made_up(3))
        await nursery.start(servers.run)
        ensemble = take_over(servers)
        client = await StreamClient(ensemble[2].running.open_stream()).connect()
        await client.create("/a")
        ensemble[1].running.begin_history()
        [note] = ensemble.history()
        assert (note.kind, note.server) == ("note", 0)
        assert note.text.startswith("the history begins here: what came before was not recorded")
        nursery.cancel_scope.cancel()
