"""``sessions``, ``health``, and the question before something is lost."""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
import threading

import pytest
from kazoo.client import KazooClient

from pyzk.cli import four_letter_words
from pyzk.cli.context import hosts_of
from pyzk.cli.status import Failure, Status
from pyzk.cli.verbs.servers import Session, read_connections, read_dump
from pyzk.client import Host
from pyzk.server.testing import EmbeddedServer

from ..support.ports import kept_ports
from .conftest import Run


def test_sessions(pyzk: Run, server: EmbeddedServer) -> None:
    client = KazooClient(server.hosts, timeout=7)
    client.start()
    client.create("/e1", ephemeral=True)
    client.create("/e2", ephemeral=True)
    session = f"0x{client.client_id[0]:x}"
    (line,) = pyzk("sessions", "--json").lines
    found = json.loads(line)
    assert (found["id"], found["timeout"], found["server"]) == (session, 7000, server.hosts)
    assert found["program"].endswith(f"(pid {os.getpid()})") == sys.platform.startswith("linux")
    assert sorted(found["ephemerals"]) == ["/e1", "/e2"]
    header, row = pyzk("sessions").lines
    heads = ["SESSION", "CLIENT", "SERVER", "TIMEOUT", "CONNECTED", "LAST", "EPHEMERALS"]
    assert [head for head in header.split() if head != "PROGRAM"] == heads
    assert row.startswith(session)
    assert row.endswith("2: /e1 and 1 more")
    assert found["program"] in row
    client.stop()
    client.close()


REAL_DUMP = """\
SessionTracker dump:
Session Sets (3)/(2):
0 expire at Sun Nov 22 03:00:00 UTC 2026:
1 expire at Sun Nov 22 03:00:02 UTC 2026:
\t0x10000144ceb001a
1 expire at Sun Nov 22 03:00:04 UTC 2026:
\t0x10000144ceb001b
ephemeral nodes dump:
Sessions with Ephemerals (1):
0x10000144ceb001a:
\t/a
\t/b c
Connections dump:
Connections Sets (1)/(1):
1 expire at Sun Nov 22 03:00:14 UTC 2026:
\tip: /127.0.0.1:51616 sessionId: 0x10000144ceb001a
"""
REAL_CONS = (
    " /127.0.0.1:51616[1](queued=0,recved=8,sent=8,sid=0x10000144ceb001a,lop=ADDW,est=1795164148754,to=10000,"
    "lcxid=0x7,lzxid=0x3b,lresp=1353167,llat=0,minlat=0,avglat=0,maxlat=1)\n"
    " /127.0.0.1:51632[0](queued=0,recved=1,sent=0)\n\n"
)


def test_what_a_real_server_tells_is_read() -> None:
    found: dict[str, Session] = {}
    read_dump(REAL_DUMP, found)
    read_connections(REAL_CONS, "one", found)
    assert list(found) == ["0x10000144ceb001a", "0x10000144ceb001b"]
    first, second = found.values()
    assert (first.client, first.server, first.timeout) == ("127.0.0.1:51616", "one", 10_000)
    assert (first.since, first.last, first.ephemerals) == (1795164148754, "ADDW", ["/a", "/b c"])
    assert (second.client, second.ephemerals) == ("", [])
    read_dump("SessionTracker dump:\nGlobal Sessions(1):\n0x10000144ceb001b\t4000ms\n", found)
    assert second.timeout == 4000, "a follower tells it"


def test_sessions_where_one_server_is_down(pyzk: Run, server: EmbeddedServer) -> None:
    partly = pyzk("--hosts", f"{server.hosts},127.0.0.1:1", "sessions")
    assert partly.status == 0
    assert partly.err == "pyzk: 127.0.0.1:1 does not answer 'dump': Connection refused\n"
    assert pyzk("--hosts", "127.0.0.1:1", "sessions").status == Status.UNAVAILABLE


def test_health(pyzk: Run, server: EmbeddedServer) -> None:
    well = pyzk("health")
    assert well.status == 0
    assert well.lines[1].split()[:3] == [server.hosts, "serves", "standalone"]
    report = json.loads(pyzk("health", "--json").out)
    assert (report["serves"], report["ours"], report["mode"]) == (True, True, "standalone")


def test_health_of_servers_that_are_down(pyzk: Run, server: EmbeddedServer) -> None:
    both = f"127.0.0.1:1,{server.hosts}"
    assert pyzk("--hosts", both, "health").status == 0
    partly = pyzk("--hosts", both, "health", "--all")
    assert (partly.status, partly.err) == (Status.NO, "pyzk: not healthy: 127.0.0.1:1 does not serve\n")
    down = pyzk("--hosts", "127.0.0.1:1", "--connect-timeout", "3600", "health")  # it is told at once
    assert down.status == Status.NO
    assert "127.0.0.1:1 does not answer 'srvr': Connection refused" in down.out
    assert down.err == "pyzk: not healthy: nobody listens at 127.0.0.1:1; check --hosts or PYZK_HOSTS\n"
    server.refuse_connections()
    down = pyzk("--connect-timeout", "0.3", "health")
    assert down.err.startswith(f"pyzk: not healthy: no session with {server.hosts} within 0.3 s")


def test_health_waits(pyzk: Run) -> None:
    with kept_ports(1) as (port,):
        later = EmbeddedServer(port=port)
        timer = threading.Timer(1.0, later.start)
        timer.start()
        waiting = pyzk("--connect-timeout", "0.2", "--hosts", f"127.0.0.1:{port}", "health", "--wait", "30s")
        assert waiting.status == 0
        timer.join()
        later.stop()


def test_a_word_that_is_not_allowed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyzk.cli.main import main

    with EmbeddedServer(four_letter_words=frozenset({"srvr"})) as server:
        assert main(["--hosts", server.hosts, "sessions"]) == Status.REFUSED
        assert capsys.readouterr().err == (
            f"pyzk: {server.hosts} does not allow the word 'dump': add it to 4lw.commands.whitelist"
            " in its zoo.cfg\n"
        )


# --- the question ------------------------------------------------------------------------------------------


@pytest.fixture
def not_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server looks like another's."""
    monkeypatch.setattr(four_letter_words, "OURS", "-nobody's-")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    "argv", [["set", "/a", "x"], ["rm", "/a"], ["acl", "/a", "open"], ["cp", "--overwrite", "/b", "/a"]]
)
def test_nothing_is_lost_without_a_question(
    pyzk: Run, server: EmbeddedServer, not_ours: None, argv: list[str]
) -> None:
    server.load({"a": b"1", "b": b"2"})
    asked = pyzk(*argv)
    assert asked.status == Status.NO
    assert asked.err.startswith("pyzk: not confirmed: ")
    assert asked.err.endswith(f"/a on {server.hosts}, which is no pyzk-server; pass --yes\n")
    assert server.dump() == {"/a": b"1", "/b": b"2"}
    assert pyzk("--yes", *argv).status == 0
    assert pyzk(argv[0], "-y", *argv[1:]).status in (0, Status.NO)


@pytest.mark.parametrize(("answer", "status"), [("y\n", 0), ("yes\n", 0), ("\n", 1), ("no\n", 1), ("", 1)])
def test_the_question_at_a_terminal(
    pyzk: Run,
    server: EmbeddedServer,
    not_ours: None,
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    status: int,
) -> None:
    server.load({"a": b"1"})
    monkeypatch.setattr("sys.stdin", Terminal(answer))
    asked = pyzk("rm", "-r", "/a")
    assert asked.err.startswith(
        f"delete /a and everything below on {server.hosts}, which is no pyzk-server? [y/N] "
    )
    assert asked.status == status
    assert server.dump() == ({} if status == 0 else {"/a": b"1"})


def test_what_loses_nothing_does_not_ask(pyzk: Run, server: EmbeddedServer, not_ours: None) -> None:
    assert pyzk("create", "/a", "1").status == 0
    assert pyzk("cp", "/a", "/b").status == 0


async def test_servers_that_srv_records_list(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([[("a", 1), ("b", 2)], OSError("no such name")])

    async def look_up(name: str) -> list[tuple[str, int]]:
        answer = next(answers)
        if isinstance(answer, OSError):
            raise answer
        return answer

    monkeypatch.setattr("pyzk.client.srv.look_up", look_up)
    options = argparse.Namespace(hosts="srv+zk://_zk._tcp.example/app")
    assert await hosts_of(options) == [Host("a", 1), Host("b", 2)]
    with pytest.raises(Failure, match=r"srv\+zk://_zk\._tcp\.example/app: no such name") as failure:
        await hosts_of(options)
    assert failure.value.status == Status.UNAVAILABLE
