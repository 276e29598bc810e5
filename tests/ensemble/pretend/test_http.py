"""The verbs over HTTP, on the port of any server."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from pyzk.protocol.control_verbs import VERBS
from pyzk.server.testing import EmbeddedEnsemble, EmbeddedServer, EnsembleControls
from pyzk.server.testing.observers import Wait

from ...support.waiting import wait_until
from .asking import ask
from .client import Client, Clients


def test_the_verbs(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    url = ensemble[2].url
    shown = ask(url, "/ensemble")
    assert (shown["hosts"], shown["leader"]) == (ensemble.hosts, 3)
    assert [server["role"] for server in shown["servers"]] == ["follower", "follower", "leader"]
    a = at(1)
    ask(url, "/ensemble/lag", {"server": 1})
    a.later.create("/x")
    first = ask(url, "/ensemble")["servers"][0]
    assert (first["troubles"], first["outstanding"]) == (["lags"], 1)
    assert (first["behind"], first["connections"], first["lags_at"]) == (1, 1, first["zxid"])
    assert shown["server"] == 2
    assert first["epoch"] == f"0x{ensemble.zxid() >> 32:x}"
    ask(url, "/ensemble/catch_up", {"servers": [1]})
    assert a.receive_reply().err == 0
    first = ask(url, "/ensemble/lag", {"server": 1, "seconds": 0.25})["servers"][0]
    assert (first["troubles"], first["lags_by"], first["lags_at"]) == (["lags"], 0.25, None)
    ask(url, "/ensemble/catch_up", {})
    ask(url, "/ensemble/partition", {"groups": [[1], [2, 3]], "silent": False})
    assert a.was_closed
    cuts = [server["cuts"] for server in ask(url, "/ensemble")["servers"]]
    both = [{"server": other, "silent": False} for other in (2, 3)]
    assert cuts == [both, [{"server": 1, "silent": False}], [{"server": 1, "silent": False}]]
    ask(url, "/ensemble/heal", {})
    assert ask(url, "/ensemble/elect", {"to": 1})["leader"] == 1
    ask(url, "/ensemble/kill", {"server": 1, "pending": "lost"})
    assert ask(url, "/ensemble/advance", {"seconds": 0.2})["leader"] == 3
    assert ask(url, "/ensemble/start", {"server": 1})["servers"][0]["role"] == "follower"
    assert "== kill server 1" in ask(url, "/ensemble/timeline?format=json")["timeline"]


FIELDS: dict[str, dict[str, Any]] = {
    "partition": {"groups": [[1], [2, 3]]},
    "reconfig": {"leaving": "1"},
    "advance": {"seconds": 1},
    "nemesis": {"seed": 7, "rate": 1000},
}
"""The fields of a verb, where they are neither a server nor a session."""
REFUSED = {"start", "reconfig"}
"""Nothing can be started or changed here; there is a line about what was asked for in any case."""


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_says_that_it_came_over_http(ensemble: EmbeddedEnsemble, at: Clients, verb: str) -> None:
    fields = FIELDS.get(verb) or {
        name: {"server": 1, "session": f"0x{at(2).session_id:x}"}[name]
        for name, field in VERBS[verb].arguments.items()
        if field.required
    }
    answer = ask(ensemble[2].url, f"/ensemble/{verb}", fields)
    assert ("servers" in answer) == (verb not in REFUSED), answer
    (line,) = [entry.text for entry in ensemble.history(kind="control")]
    assert line.endswith(" (over HTTP)")
    assert not [entry for entry in ensemble.history(kind="role") if "HTTP" in entry.text]


def test_what_a_nemesis_does_says_who_asked_for_it(ensemble: EmbeddedEnsemble) -> None:
    def done() -> list[str]:
        return [entry.text for entry in ensemble.history(kind="role") if "nemesis: " in entry.text]

    with ensemble.nemesis(7, rate=1000):
        ensemble.advance(0.1)
    own = len(done())
    ask(ensemble[2].url, "/ensemble/nemesis", {"seed": 7, "rate": 1000})
    ensemble.advance(0.1)
    ensemble.calm()
    marked = [text.endswith(" (over HTTP)") for text in done()]
    assert own > 0
    assert len(marked) > own
    assert marked == [False] * own + [True] * (len(marked) - own)
    *_, begun, advanced, calmed = [entry.text for entry in ensemble.history(kind="control")]
    assert begun.endswith(" (over HTTP)")
    assert (advanced, calmed) == ("clock advanced by 0.1 s", "calm")


def test_what_cannot_be_done_is_said(ensemble: EmbeddedEnsemble) -> None:
    url = ensemble[1].url
    assert ask(url, "/ensemble/lag", {"server": 9})["status"] == 400
    assert ask(url, "/ensemble/start", {"server": 1})["status"] == 409
    assert ask(url, "/ensemble/elect", {"to": "x"})["status"] == 400


def test_a_single_server_has_no_ensemble() -> None:
    with EmbeddedServer() as server:
        assert ask(server.url, "/ensemble")["status"] == 409


def test_an_ensemble_for_each_test() -> None:
    with EmbeddedServer() as server:
        made = ask(server.url, "/servers", {"ensemble": 3, "observers": 1, "clock": "frozen"})
        assert len(made["hosts"].split(",")) == 4
        url = made["url"]
        assert ask(url, "/ensemble")["leader"] == 3
        assert ask(url, "/ensemble/isolate", {"server": 4})["servers"][3]["troubles"] == ["cut off"]
        assert ask(server.url, "/servers", {"ensemble": 0})["status"] == 400
        assert ask(server.url, "/servers", {"observers": 1})["status"] == 400
        assert ask(server.url, "/servers", {"ensemble": 3, "hostile": 1})["status"] == 400


def test_an_ensemble_by_the_lines_of_a_zoo_cfg() -> None:
    lines = {f"server.{number}": f"zk{number}:2888:3888" for number in (1, 2, 3)}
    config = {"tickTime": 500, "syncLimit": 2, "initLimit": 5, **lines}
    with EmbeddedServer() as server:
        url = ask(server.url, "/servers", {"config": config, "clock": "frozen"})["url"]
        ask(url, "/ensemble/isolate", {"server": 1})
        assert ask(url, "/ensemble/advance", {"seconds": 0.9})["servers"][0]["role"] == "follower"
        assert ask(url, "/ensemble/advance", {"seconds": 0.1})["servers"][0]["role"] == "looking"
        assert ask(server.url, "/servers", {"config": config, "ensemble": 5})["status"] == 400


def test_the_times_of_an_ensemble() -> None:
    config = {"tickTime": 500, "syncLimit": 2}
    with EmbeddedServer() as server:
        asked = {"config": config, "ensemble": 3, "election_ms": 50, "clock": "frozen"}
        url = ask(server.url, "/servers", asked)["url"]
        ask(url, "/ensemble/isolate", {"server": 3})
        assert ask(url, "/ensemble/advance", {"seconds": 0.99})["servers"][0]["role"] == "follower"
        assert ask(url, "/ensemble/advance", {"seconds": 0.01})["servers"][0]["role"] == "looking"
        assert ask(url, "/ensemble/advance", {"seconds": 0.049})["servers"][1]["role"] == "looking"
        assert ask(url, "/ensemble/advance", {"seconds": 0.001})["servers"][1]["role"] == "leader"
        alone = ask(server.url, "/servers", {"election_ms": 50})
        assert (alone["status"], "election_ms is only for an ensemble" in alone["detail"]) == (400, True)
        wrong = ask(server.url, "/servers", {"ensemble": 3, "election_ms": -1})
        assert (wrong["status"], "election_ms must be at least 0, not -1" in wrong["detail"]) == (400, True)
        none = ask(server.url, "/servers", {"ensemble": 3, "config": {"syncLimit": 0}})
        assert (none["status"], "of at least 1 tick" in none["detail"]) == (400, True)


def test_a_wait_for_a_write_that_waits(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    a, b = at(2), at(2)
    ask(ensemble[1].url, "/ensemble/hold_acks", {})
    met: list[Any] = []

    def wait() -> None:
        met.append(ask(ensemble[1].url, "/wait", {"until": "outstanding", "timeout": 60}))

    waiter = threading.Thread(target=wait)
    waiter.start()
    gate = ensemble.running.parts[2].gate
    wait_until(lambda: any(isinstance(observer, Wait) for observer in gate.observers))
    a.later.create("/x")
    waiter.join()
    b.later.create("/y")
    met.append(ask(ensemble[3].url, "/wait", {"until": "outstanding", "count": 2}))
    assert [each["outstanding"] for each in met] == [1, 2]
    assert ask(ensemble[1].url, "/wait", {"until": "outstanding", "count": 3, "timeout": 0})["status"] == 408
    ask(ensemble[1].url, "/ensemble/release_acks", {})
    assert a.receive_reply().err == 0
    with EmbeddedServer() as server:
        assert ask(server.url, "/wait", {"until": "outstanding"})["status"] == 409


def test_a_field_in_the_place_of_a_key_is_refused() -> None:
    with EmbeddedServer() as server:
        wrong = ask(server.url, "/servers", {"config": {"ensemble": 3}})
        assert wrong["status"] == 400
        assert wrong["detail"].startswith(
            "config: ensemble is not a key of zoo.cfg; it belongs beside config"
        )


def test_faults_holds_snapshots_and_names_over_http(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    one, two = ensemble[1].url, ensemble[2].url
    a = at(1)
    ask(two, "/names", {"name": "worker", "session": f"0x{at(2).session_id:x}"})
    ask(one, "/tree", {"znodes": {"/x": "old"}})
    snapshot = ask(two, "/snapshots", {})["snapshot"]
    fault = ask(one, "/faults", {"op": "set", "when": "after"})["fault"]
    ask(one, "/ensemble/lag", {"server": 1})
    a.later.set("/x", b"new")
    assert a.was_closed
    assert ask(one, f"/faults/{fault}")["fired"] == 1
    ask(two, f"/snapshots/{snapshot}/restore", {})
    ask(one, "/ensemble/catch_up", {})
    assert ask(one, "/tree?path=/x")["znodes"] == {"/x": {"data": "old"}}
    moved = ask(one, "/ensemble/move", {"session": "worker", "server": 3})
    assert [server["connections"] for server in moved["servers"]] == [0, 0, 0]
    sessions = ask(one, "/ensemble/sessions")["sessions"]
    assert [(each["name"], each["server"]) for each in sessions] == [(None, None), ("worker", None)]
    entries = ask(two, "/ensemble/history?kind=fault,control")["entries"]
    assert [entry["server"] for entry in entries if entry["kind"] == "fault"] == [1]
    ask(one, "/ensemble/notes", {"text": "now"})
    for server in (2, 3):
        ask(one, "/ensemble/kill", {"server": server})
    refused = ask(one, "/tree", {"znodes": {"/y": ""}})
    assert (refused["status"], "no server leads" in refused["detail"]) == (409, True)
    assert ask(one, "/reset", {})["status"] == 409
    assert "## now" in ask(one, "/ensemble/timeline?format=json")["timeline"]


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_is_one_of_python(verb: str) -> None:
    assert callable(getattr(EnsembleControls, verb))


@pytest.mark.parametrize("verb", VERBS)
def test_no_input_is_a_surprise(ensemble: EmbeddedEnsemble, verb: str) -> None:
    fields = VERBS[verb].arguments
    usual = {
        name: value for name, value in {"server": 2, "seconds": 0, "groups": []}.items() if name in fields
    }
    for value in (None, 0, -1, 9, 2**63 - 1, 1.5, "x", [], [[]], [[1], [1]], [["x"]], {}, True):
        for name in fields:
            answer = ask(ensemble[1].url, f"/ensemble/{verb}", {**usual, name: value})
            assert "servers" in answer or answer["status"] in (400, 409)
            ask(ensemble[1].url, "/ensemble/thaw", {"server": 2})


def test_the_leader_alone_knows_when_a_session_expires(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    a = at(1)
    for number in ensemble.numbers:
        [client] = ask(ensemble[number].url, "/clients")["clients"]
        assert client["peer"] is not None, "each server knows to which server a client is connected"
        assert (client["left_ms"] is not None) == (number == ensemble.leader())
    assert client["left_ms"] > 0
    assert int(client["id"], 16) == a.session_id


def test_a_server_knows_when_its_local_sessions_expire() -> None:
    with EmbeddedEnsemble(3, local_sessions=True) as ensemble, Client(ensemble, 1) as client:
        client.connect()
        [shown] = ask(ensemble[1].url, "/clients")["clients"]
        assert int(shown["id"], 16) == client.session_id
        assert shown["left_ms"] > 0
        assert ask(ensemble[3].url, "/clients")["clients"] == []
