"""The verbs for a pyzk-server alone."""

from __future__ import annotations

import json
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from kazoo.client import KazooClient

from pyzk.blocking import connect
from pyzk.cli import api
from pyzk.cli.main import main
from pyzk.cli.parser import VERBS
from pyzk.cli.status import Status
from pyzk.server.testing import EmbeddedServer

from ..support.waiting import wait_until
from .conftest import Run

OURS_ALONE = [
    ["trace"],
    ["timeline"],
    ["advise"],
    ["expire", "0x1"],
    ["pause"],
    ["resume"],
    ["endpoint"],
    ["advance", "1"],
    ["fault", "list"],
    ["ensemble"],
    ["reset"],
]


@pytest.fixture
def client(server: EmbeddedServer) -> Iterator[KazooClient]:
    client = KazooClient(server.hosts)
    client.start()
    yield client
    client.stop()
    client.close()


def test_expire(pyzk: Run, server: EmbeddedServer, client: KazooClient) -> None:
    client.create("/lock", ephemeral=True)
    session = f"0x{client.client_id[0]:x}"
    done = pyzk("expire", "owner-of:/lock")
    assert (done.status, done.out) == (0, f"{session} has expired; deleted with it: /lock\n")
    assert server.dump() == {}
    again = pyzk("expire", session)
    assert (again.status, "there is no session" in again.err) == (Status.NO, True)


def test_expire_who_holds_a_lock(pyzk: Run, server: EmbeddedServer, client: KazooClient) -> None:
    lock = client.Lock("/locks/x", "me")
    lock.acquire()
    done = pyzk("expire", "holder-of:/locks/x")
    assert (done.status, done.out.count("/locks/x/")) == (0, 1)
    again = pyzk("expire", "holder-of:/locks/x")
    assert (again.status, "/locks/x is held by nobody" in again.err) == (Status.NO, True)


def test_expire_by_the_name_that_a_test_gave(pyzk: Run, server: EmbeddedServer, client: KazooClient) -> None:
    server.name_session("worker", client.client_id[0])
    done = json.loads(pyzk("expire", "worker", "--json").out)
    assert (done["name"], done["ephemerals"]) == ("worker", [])


def test_pause_and_resume(pyzk: Run, server: EmbeddedServer, client: KazooClient) -> None:
    session = f"0x{client.client_id[0]:x}"
    assert pyzk("pause", session).out == f"{session} neither reads nor answers until pyzk resume\n"
    assert len(server.running.gate.cut_off) == 1
    assert pyzk("pause").out == "the server neither reads nor answers until pyzk resume\n"
    assert server.running.gate.paused
    assert pyzk("resume").out == "the server continues\n"
    assert not server.running.gate.paused
    assert not server.running.gate.cut_off
    assert client.exists("/") is not None


def test_the_listing_says_what_is_cut_paused_or_slow(pyzk: Run, server: EmbeddedServer) -> None:
    point = server.endpoint("worker-1")
    client = KazooClient(point.hosts)
    client.start()
    client.create("/locks/a/0__lock__0000000001", ephemeral=True, makepath=True)
    assert "STATE" not in pyzk("sessions").lines[0], "nothing is unusual"
    assert "disconnected: answered dump\n" in server.format_timeline()
    point.delay(0.5)
    point.pause()
    words = "endpoint worker-1: paused, slow by 0.5 s"
    assert words in pyzk("sessions").lines[1]
    assert f"({words})" in pyzk("locks").out
    assert json.loads(pyzk("sessions", "--json").out)["state"] == words
    point.resume()
    point.cut()
    assert "endpoint worker-1: cut" in pyzk("sessions").lines[1]
    assert "not connected (endpoint worker-1: cut)" in pyzk("locks").out
    point.resume()
    server.pause("worker-1")
    assert " paused " in pyzk("sessions").lines[1]
    server.resume("worker-1")
    client.stop()
    client.close()


def test_an_endpoint(pyzk: Run, server: EmbeddedServer) -> None:
    made = json.loads(pyzk("endpoint", "worker-1", "--json").out)
    assert (made["endpoint"], made["hosts"]) == ("worker-1", server.endpoint("worker-1").hosts)
    shown = pyzk("endpoint", "worker-1", "cut").out
    assert shown.splitlines()[1].split() == ["worker-1", made["hosts"], "0", "cut"]
    assert server.running.gate.cut_endpoints == {"worker-1"}
    assert "paused" in pyzk("endpoint", "worker-1", "pause").out
    assert "open" in pyzk("endpoint", "worker-1", "resume").out
    assert "slow by 0.2 s" in pyzk("endpoint", "worker-1", "delay", "0.2").out
    pyzk("endpoint", "other")
    names = [line.split()[0] for line in pyzk("endpoint").out.splitlines()]
    assert names == ["ENDPOINT", "worker-1", "other"]


@pytest.mark.parametrize("arguments", [["worker-1", "delay"], ["worker-1", "cut", "3"]])
def test_only_a_delay_takes_a_time(pyzk: Run, server: EmbeddedServer, arguments: list[str]) -> None:
    done = pyzk("endpoint", *arguments)
    assert (done.status, "delay needs a time, such as 0.2" in done.err) == (Status.USAGE, True)
    assert server.running.endpoints == {}


def test_advance(pyzk: Run, server: EmbeddedServer, client: KazooClient) -> None:
    client.create("/lock", ephemeral=True)
    before = server.clock.now()
    assert pyzk("advance", "5m", "--keep-alive").out.endswith(
        " s since the start of the server; its time continues\n"
    )
    assert server.clock.now() >= before + 300
    assert server.dump() == {"/lock": b""}
    server.clock.freeze()
    assert json.loads(pyzk("advance", "1d", "--json").out)["frozen"] is True
    assert server.dump() == {}
    assert pyzk("advance", "soon").status == Status.USAGE


def test_faults(pyzk: Run, server: EmbeddedServer) -> None:
    given = ["--op", "create", "--op", "set", "--path", "/x/*", "--action", "error", "--error", "NoAuth"]
    header, row = pyzk("fault", "set", *given, "--times", "2").lines
    assert header.split() == ["FAULT", "SEEN", "FIRED", "WHEN", "ACTION", "REQUESTS"]
    number, *rest = row.split(maxsplit=5)
    assert rest == ["0", "0", "before", "error", "create or set on /x/*"]
    assert pyzk("create", "/x").status == 0
    for _ in range(2):
        assert pyzk("create", "/x/y").status == Status.FORBIDDEN
    assert pyzk("create", "/x/y").status == 0
    [found] = [json.loads(line) for line in pyzk("fault", "list", "--json").lines]
    assert (found["fired"], found["seen"]) == (2, 3)
    assert pyzk("fault", "rm", "77").status == Status.NO
    assert pyzk("fault", "rm", number).lines[1].split()[:3] == [number, "3", "2"]
    assert [line.split() for line in pyzk("fault", "list").lines] == [header.split()]


def test_faults_of_all_requests_and_their_end(pyzk: Run, server: EmbeddedServer) -> None:
    for arguments in (
        ["--op", "create", "--times", "all", "--when", "after", "--action", "drop_reply"],
        ["--op", "get", "--nth", "3", "--action", "error", "--error", "-101"],
        ["--op", "delete", "--action", "delay", "--seconds", "90s", "--session", "127.0.0.1"],
    ):
        done = pyzk("fault", "set", *arguments)
        assert done.status == (Status.NO if "--session" in arguments else 0), "nobody is connected"
    assert len(pyzk("fault", "list", "--json").lines) == 2
    assert len(pyzk("fault", "rm", "all").lines) == 3
    assert pyzk("fault", "list", "--json").lines == []
    assert pyzk("create", "/a").status == 0, "none is in force any more"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["set", "--action", "error"], "action='error' needs error="),
        (["set", "--op", "nonsense"], "unknown op"),
        (["set", "--error", "Nonsense", "--action", "error"], "such as NoNode"),
        (["set", "1"], "set takes no number"),
        (["rm"], "rm needs the numbers of faults, or all"),
        (["burn"], "invalid choice"),
        (["set", "--times", "0"], "--times"),
    ],
)
def test_faults_that_make_no_sense(pyzk: Run, arguments: list[str], said: str) -> None:
    done = pyzk("fault", *arguments)
    assert (done.status, said in done.err) == (Status.USAGE, True), done.err


def test_advice(pyzk: Run, server: EmbeddedServer, client: KazooClient) -> None:
    assert (pyzk("advise").status, pyzk("advise").out) == (0, "")
    for _ in range(20):
        client.exists("/\x1b[31m")
    session = f"0x{client.client_id[0]:x}"
    done = pyzk("advise")
    assert done.status == Status.NO
    assert done.lines[0] == r"polling: exists of /\x1b[31m had the same answer 20 times in turn"
    assert done.lines[1].startswith("    seen from ")
    assert done.lines[1].endswith(f" s; sessions: {session}")
    assert max(map(len, done.lines)) <= 120
    server.name_session("worker", client.client_id[0])
    assert pyzk("advise").lines[1].endswith(" s; sessions: worker")
    (found,) = [json.loads(line) for line in pyzk("advise", "--json").lines]
    assert (found["rule"], found["count"], found["paths"]) == ("polling", 20, ["/\x1b[31m"])
    assert found["sessions"] == [{"id": f"0x{client.client_id[0]:x}", "name": "worker"}]
    ignored = pyzk("advise", "--ignore", "polling")
    assert (ignored.status, ignored.out) == (0, "")
    assert ignored.err == "pyzk: no problems found in the recorded history; pyzk timeline shows the history\n"


def test_no_advice_is_given_on_what_was_not_recorded(pyzk: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with EmbeddedServer(record=False) as server:
        monkeypatch.setenv("PYZK_HOSTS", server.hosts)
        done = pyzk("advise")
        assert (done.status, done.out) == (Status.REFUSED, "")
        assert "nothing is recorded yet" in done.err


def test_no_advice_is_given_on_a_history_that_has_begun_now(
    pyzk: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with EmbeddedServer(record=None) as server, connect(server.hosts) as zk:
        zk.exists("/a")
        monkeypatch.setenv("PYZK_HOSTS", server.hosts)
        assert "nothing is recorded yet" in pyzk("advise").err
        assert "nothing is recorded yet" in pyzk("advise").err, "a note says where it begins"
        zk.exists("/a")
        assert pyzk("advise").status == 0


def test_the_timeline(pyzk: Run, server: EmbeddedServer, client: KazooClient) -> None:
    client.create("/a")
    client.exists("/a")
    server.note("here \x1b[2J")
    session = f"0x{client.client_id[0]:x}"
    done = pyzk("timeline")
    assert "create /a" in done.out
    assert "## here \\x1b[2J" in done.out, "no terminal is steered"
    assert "connect" not in pyzk("timeline", "--limit", "1").out
    assert pyzk("timeline", "--since", "1h").out.endswith("nothing has happened\n")
    entries = [json.loads(line) for line in pyzk("timeline", "--json", "--session", session).lines]
    assert {entry["op"] for entry in entries if entry["kind"] == "request"} == {"create", "exists"}
    assert len(pyzk("timeline", "--json", "--limit", "2").lines) == 2


def test_the_trace(pyzk: Run, server: EmbeddedServer, client: KazooClient) -> None:
    recorder = server.running.recorder
    assert recorder is not None

    def act() -> None:
        wait_until(lambda: recorder.listeners)
        client.create("/other")
        client.create("/locks")
        client.create("/locks/1")

    for arguments, found in (
        (["--path", "/locks/*"], ["-> create /locks/1", "<- create /locks/1: ok"]),
        (["--op", "create", "--json", "--session", f"0x{client.client_id[0]:x}"], ["/other", "/other"]),
    ):
        thread = threading.Thread(target=act)
        thread.start()
        done = pyzk("trace", "--count", "2", *arguments)
        thread.join()
        assert done.status == 0
        wait_until(lambda: not recorder.listeners)
        if "--json" in arguments:
            assert [json.loads(line)["path"] for line in done.lines] == found
        else:
            assert [line[54:].partition("  ")[0] for line in done.lines] == found
        for path in ("/locks/1", "/locks", "/other"):
            client.delete(path)


def test_a_trace_ends_with_its_server(capsys: pytest.CaptureFixture[str]) -> None:
    with EmbeddedServer() as server:
        status: list[int] = []
        thread = threading.Thread(target=lambda: status.append(in_a_thread("--hosts", server.hosts, "trace")))
        thread.start()
        recorder = server.running.recorder
        assert recorder is not None
        wait_until(lambda: recorder.listeners)
    thread.join(20)
    assert status == [Status.UNAVAILABLE]


def in_a_thread(*arguments: str) -> int:
    """Run ``pyzk`` where no signals can be heeded."""
    import trio

    from pyzk.cli.context import Context
    from pyzk.cli.parser import parse
    from pyzk.cli.status import Failure
    from pyzk.cli.verbs.control import trace

    async def run() -> int:
        return await trace(Context(parse(arguments)))

    try:
        return trio.run(run)
    except Failure as failure:
        return failure.status


def test_a_reader_that_has_enough_of_the_trace_is_no_fault_of_the_server(server: EmbeddedServer) -> None:
    command = [sys.executable, "-m", "pyzk.cli", "--hosts", server.hosts, "trace"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout
    assert process.stderr
    with process:
        recorder = server.running.recorder
        assert recorder is not None
        wait_until(lambda: recorder.listeners)
        process.stdout.close()
        server.note("somebody reads this")
        assert process.stderr.read() == b""
    assert process.returncode == 128 + signal.SIGPIPE


def test_reset(pyzk: Run, server: EmbeddedServer, client: KazooClient) -> None:
    client.create("/a")
    assert pyzk("reset").out == "the server is empty\n"
    assert server.dump() == {}
    assert server.history(kind="request", op="create") == []


# --- who answers ------------------------------------------------------------------------------------------


def test_the_verbs_for_ours_alone_are_these() -> None:
    assert {verb for verb, *_ in OURS_ALONE} == {
        name for name, verb in VERBS.items() if verb.run.startswith(("control:", "ensemble:"))
    }


@pytest.mark.parametrize("arguments", OURS_ALONE, ids=lambda arguments: arguments[0])
def test_another_server_is_told_apart(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with foreign() as hosts:
        assert main(["--hosts", hosts, *arguments]) == Status.REFUSED
    told = capsys.readouterr().err
    version = "3.9.3-c26634f34490bb0ea7a09cc51e05ede3b4e320ee"
    assert f"{arguments[0]} needs a pyzk-server; {hosts} is Apache ZooKeeper {version}" in told


class foreign:
    """A server that answers like a ZooKeeper of another make: it closes what it cannot read."""

    def __enter__(self) -> str:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def _serve(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            with sock:
                if sock.recv(4) == b"srvr":
                    sock.sendall(
                        b"Zookeeper version: 3.9.3-c26634f34490bb0ea7a09cc51e05ede3b4e320ee, built on 2024\n"
                    )

    def __exit__(self, *exception: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


def test_where_http_is_switched_off(capsys: pytest.CaptureFixture[str]) -> None:
    with EmbeddedServer(http_on_client_port=False) as server:
        assert main(["--hosts", server.hosts, "pause"]) == Status.REFUSED
    assert "httpOnClientPort=false" in capsys.readouterr().err


def test_where_nobody_listens(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--hosts", "127.0.0.1:1", "pause"]) == Status.UNAVAILABLE
    assert "127.0.0.1:1 does not answer: Connection refused; check --hosts" in capsys.readouterr().err
    assert main(["--hosts", "127.0.0.1:1,127.0.0.1:2", "pause"]) == Status.USAGE
    assert "pause works with one server only, but --hosts names 2" in capsys.readouterr().err


def test_a_server_that_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(api, "_PATIENCE", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        hosts = f"127.0.0.1:{listener.getsockname()[1]}"
        assert main(["--hosts", hosts, "pause"]) == Status.UNAVAILABLE
    assert "nothing within 0.1 s" in capsys.readouterr().err


def test_the_token(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with EmbeddedServer(host="0.0.0.0", control_token="secret") as server:
        assert main(["--hosts", server.hosts, "pause"]) == Status.FORBIDDEN
        told = capsys.readouterr().err
        assert "control.token; pyzk takes it from --token or PYZK_TOKEN" in told
        assert main(["--hosts", server.hosts, "--token", "wrong", "pause"]) == Status.FORBIDDEN
        assert "wrong" not in capsys.readouterr().err
        assert main(["--hosts", server.hosts, "--token", "secret", "pause"]) == 0
        monkeypatch.setenv("PYZK_TOKEN", "secret")
        assert main(["--hosts", server.hosts, "resume"]) == 0
    with EmbeddedServer(host="0.0.0.0") as server:
        assert main(["--hosts", server.hosts, "pause"]) == Status.FORBIDDEN
        assert "set control.token" in capsys.readouterr().err


def test_over_tls(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    trusted = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(trusted)
    with EmbeddedServer(secure_port=0, ssl_context=context) as server:
        hosts = f"127.0.0.1:{server.secure_port}"
        assert main(["--hosts", hosts, "--ca-file", str(trusted), "advance", "1"]) == 0
        assert main(["--hosts", hosts, "--tls", "advance", "1"]) == Status.UNAVAILABLE
        assert "certificate" in capsys.readouterr().err.lower()
