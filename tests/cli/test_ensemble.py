"""``pyzk ensemble``, and what other verbs do with an ensemble."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from kazoo.client import KazooClient

from pyzk.cli.ensembles import VERBS
from pyzk.cli.main import main
from pyzk.cli.status import Status
from pyzk.server.testing import EmbeddedEnsemble, EmbeddedServer

from ..support.waiting import wait_until
from .conftest import Result, Run

HEADER = ["SERVER", "ADDRESS", "ROLE", "EPOCH", "ZXID", "BEHIND", "CLIENTS", "WAITING", "TROUBLES"]


@pytest.fixture
def ensemble() -> Iterator[EmbeddedEnsemble]:
    with EmbeddedEnsemble(3, observers=1, clock="frozen", tick_time=500) as ensemble:
        yield ensemble


@pytest.fixture
def pyzk(
    ensemble: EmbeddedEnsemble, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Run:
    """Runs ``pyzk`` with these arguments, with all servers in ``PYZK_HOSTS``."""
    monkeypatch.setenv("PYZK_HOSTS", ensemble.hosts)

    def run(*arguments: str) -> Result:
        capsys.readouterr()
        status = main(arguments)
        return Result(status, *capsys.readouterr())

    return run


@pytest.fixture
def client(ensemble: EmbeddedEnsemble) -> Iterator[KazooClient]:
    client = KazooClient(ensemble[1].hosts)
    client.start()
    client.set_hosts(ensemble.hosts)
    yield client
    client.stop()
    client.close()


def test_the_servers(pyzk: Run, ensemble: EmbeddedEnsemble, client: KazooClient) -> None:
    header, *rows = [line.split(maxsplit=8) for line in pyzk("ensemble").lines]
    assert header == HEADER
    epoch, zxid = f"0x{ensemble.zxid() >> 32:x}", f"0x{ensemble.zxid():x}"
    assert [row[2:] for row in rows] == [
        ["follower", epoch, zxid, "0", "1", "0", "-"],
        ["follower", epoch, zxid, "0", "0", "0", "-"],
        ["leader", epoch, zxid, "0", "0", "0", "-"],
        ["observer", epoch, zxid, "0", "0", "0", "-"],
    ]
    assert [row[1] for row in rows] == ensemble.hosts.split(",")


def shown(done: Result) -> list[str]:
    """What the table tells of each server: its role, how far it is behind, and its troubles."""
    assert done.status == 0, done.err
    rows = [line.split(maxsplit=8) for line in done.lines[1:]]
    return [" ".join((row[2], row[5], row[8])) for row in rows]


def test_trouble_and_its_end(pyzk: Run, ensemble: EmbeddedEnsemble) -> None:
    well = ["follower 0 -", "follower 0 -", "leader 0 -", "observer 0 -"]
    assert shown(pyzk("ensemble", "lag", "1"))[0] == "follower 0 lags"
    ensemble.load({"/x": "1", "/y": "2"})
    assert shown(pyzk("ensemble"))[0] == "follower 1 lags"
    assert shown(pyzk("ensemble", "catch-up")) == well
    assert shown(pyzk("ensemble", "lag", "2", "5s"))[1] == "follower 0 lags"
    ensemble.load({"/z": "1"})
    assert shown(pyzk("ensemble"))[1] == "follower 1 lags"
    assert shown(pyzk("ensemble", "catch-up", "2")) == well
    assert shown(pyzk("ensemble", "isolate", "1", "--reset"))[:2] == [
        "looking 0 cut off from 2 3 4",
        "follower 0 cut off from 1",
    ]
    assert shown(pyzk("ensemble", "heal", "1")) == well
    assert shown(pyzk("ensemble", "partition", "1,2", "3,4"))[2] == "leader 0 cut off from 1 2"
    assert shown(pyzk("ensemble", "heal")) == well
    assert shown(pyzk("ensemble", "freeze", "leader"))[2] == "leader 0 frozen"
    assert shown(pyzk("ensemble", "thaw", "3")) == well
    assert shown(pyzk("ensemble", "hold-acks"))[2] == "leader 0 acks held"
    assert shown(pyzk("ensemble", "release-acks")) == well
    assert shown(pyzk("ensemble", "hold-proposals"))[2] == "leader 0 proposals held"
    assert shown(pyzk("ensemble", "calm")) == well


def test_the_life_of_servers(pyzk: Run, ensemble: EmbeddedEnsemble) -> None:
    assert shown(pyzk("ensemble", "kill", "leader", "--pending", "lost"))[2:] == ["down 0 -", "looking 0 -"]
    no_leader = pyzk("ensemble", "kill", "leader")
    assert no_leader.status == Status.REFUSED
    assert no_leader.err.startswith(
        "pyzk: no server leads (1 is looking, 2 is looking, 3 is down, 4 is looking)"
    )
    assert shown(pyzk("ensemble", "advance", "1", "--keep-alive"))[1] == "leader 0 -"
    assert shown(pyzk("ensemble", "start", "3"))[2] == "follower 0 -"
    assert shown(pyzk("ensemble", "elect", "1"))[0] == "leader 0 -"
    assert shown(pyzk("ensemble", "elect"))[0] == "follower 0 -"
    pyzk("ensemble", "roll")
    assert ensemble.leader() is not None
    assert shown(pyzk("ensemble", "nemesis", "7", "--rate", "5"))
    ensemble.advance(20)
    pyzk("ensemble", "calm")
    ensemble.advance(1)
    assert {ensemble.role(number) for number in ensemble.numbers} == {"leader", "follower", "observer"}


def test_sessions(pyzk: Run, ensemble: EmbeddedEnsemble, client: KazooClient) -> None:
    session = client.client_id[0]
    client.create("/lock", ephemeral=True)
    assert pyzk("ensemble", "move", "owner-of:/lock", "2").status == 0
    assert client.retry(client.exists, "/lock") is not None
    assert (client.client_id[0], ensemble[1].sessions()[0].connected) == (session, False)
    assert ensemble[2].sessions()[0].connected
    assert pyzk("ensemble", "disconnect", f"0x{session:x}").status == 0
    ends = [entry.text for entry in ensemble.history(kind="connection", session=session)]
    assert "disconnected: a control has disconnected it (over HTTP)" in ends
    assert pyzk("ensemble", "expire", f"0x{session:x}").status == 0
    assert session not in {info.id for info in ensemble.sessions()}
    again = pyzk("ensemble", "expire", f"0x{session:x}")
    assert (again.status, "there is no session" in again.err) == (Status.NO, True)


def test_json(pyzk: Run, ensemble: EmbeddedEnsemble) -> None:
    found = [json.loads(line) for line in pyzk("ensemble", "--json", "lag", "2", "--upto", "0x7").lines]
    assert [(each["server"], each["lags_at"]) for each in found] == [
        (1, None),
        (2, "0x7"),
        (3, None),
        (4, None),
    ]


def test_any_server_that_runs_answers_for_all(pyzk: Run, ensemble: EmbeddedEnsemble) -> None:
    ensemble.kill(1)
    ensemble.freeze(2)
    assert shown(pyzk("ensemble"))[:2] == ["down 0 -", "follower 0 frozen"]


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["burn"], Status.USAGE, "invalid choice: 'burn'"),
        (["kill"], Status.USAGE, "the following arguments are required: SERVER"),
        (["kill", "x"], Status.USAGE, "argument SERVER"),
        (["kill", "9"], Status.USAGE, "there is no server 9; there are 1, 2, 3, 4"),
        (["partition", "1,2", "2"], Status.USAGE, "server 2 is in two groups"),
        (["start", "1"], Status.REFUSED, "server 1 runs already"),
        (["elect", "4"], Status.REFUSED, "server 4 cannot lead"),
        (["nemesis", "1", "--rate", "0"], Status.USAGE, "a rate above 0"),
        (["kill", "1", "--pending", "lost"], Status.USAGE, "server 1 does not lead"),
    ],
)
def test_what_makes_no_sense(pyzk: Run, arguments: list[str], status: Status, said: str) -> None:
    done = pyzk("ensemble", *arguments)
    assert (done.status, said in done.err) == (status, True), done.err


def test_every_verb_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    for verb in VERBS:
        with pytest.raises(SystemExit):
            main(["ensemble", verb, "--help"])
        assert capsys.readouterr().out.startswith(f"usage: pyzk ensemble {verb}")
    with pytest.raises(SystemExit):
        main(["ensemble", "--help"])
    text = capsys.readouterr().out
    assert all(f"\n  {verb} " in text for verb in VERBS)


def test_a_single_server_is_no_ensemble(capsys: pytest.CaptureFixture[str]) -> None:
    with EmbeddedServer() as one, EmbeddedServer() as other:
        assert main(["--hosts", one.hosts, "ensemble"]) == Status.REFUSED
        assert "this is a single server" in capsys.readouterr().err
        for verb in (["ensemble"], ["timeline"], ["advise"]):
            assert main(["--hosts", f"{one.hosts},{other.hosts}", *verb]) == Status.USAGE
            assert f"{verb[0]} works with one server only, but --hosts names 2" in capsys.readouterr().err


# --- other verbs ------------------------------------------------------------------------------------------


def test_the_timeline_of_all_servers_or_of_one(
    pyzk: Run, ensemble: EmbeddedEnsemble, client: KazooClient
) -> None:
    client.create("/a")
    ensemble.elect(1)
    text = pyzk("timeline").out
    assert "[1] create /a -> ok" in text
    assert "== elect server 1" in text
    assert "[1] ** is LEADER of epoch" in text
    assert "[1]" not in pyzk("--hosts", ensemble[1].hosts, "timeline").out
    entries = [json.loads(line) for line in pyzk("timeline", "--json").lines]
    assert {entry["server"] for entry in entries if entry["kind"] == "role"} == {1, 2, 3, 4}
    assert (pyzk("advise").status, pyzk("pause").status) == (0, Status.USAGE)
    for _ in range(30):
        client.exists("/ready")
    for number in ensemble.numbers:
        assert "polling" in pyzk("--hosts", ensemble[number].hosts, "advise").out, "the client is at server 1"


def test_the_trace_of_all_servers_or_of_one(
    pyzk: Run, ensemble: EmbeddedEnsemble, client: KazooClient
) -> None:
    history = ensemble.running.history

    def act() -> None:
        wait_until(lambda: history.listeners)
        client.create("/a")
        ensemble.kill(4)

    def traced(*arguments: str) -> list[Any]:
        thread = threading.Thread(target=act)
        thread.start()
        done = pyzk("trace", "--json", *arguments)
        thread.join()
        wait_until(lambda: not history.listeners)
        return [json.loads(line) for line in done.lines]

    found = traced("--count", "5")
    assert [(each["kind"], each.get("server")) for each in found] == [
        ("request", 1),
        ("reply", 1),
        ("control", None),
        ("role", 4),
        ("role", 4),
    ]
    assert found[1]["latency_ms"] > 0
    client.delete("/a")
    ensemble.start(4)
    assert [each["text"] for each in traced("--server", "4", "--count", "1")] == [
        "serves nobody: it was killed"
    ]
