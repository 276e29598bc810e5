"""``pyzk`` on real Apache ZooKeeper servers."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from pyzk.cli.status import Status
from pyzk.server.testing import EmbeddedServer

from ..support import jvm, real
from ..support.needs import need
from .conftest import Run


@pytest.fixture(scope="module")
def ensemble() -> Iterator[real.Ensemble]:
    need(jvm.missing())
    with real.Ensemble(3) as ensemble:
        yield ensemble


@pytest.fixture
def real_pyzk(pyzk: Run, ensemble: real.Ensemble, monkeypatch: pytest.MonkeyPatch) -> Run:
    """``pyzk``, on the ensemble; the znodes of a test are deleted behind it."""
    monkeypatch.setenv("PYZK_HOSTS", ensemble.hosts)
    return pyzk


def test_what_one_command_writes_the_next_one_reads(real_pyzk: Run) -> None:
    """At whichever server."""
    for n in range(10):
        assert real_pyzk("create", "-p", f"/seen/{n}", str(n)).status == 0
        assert real_pyzk("get", f"/seen/{n}").out == f"{n}\n"
    assert real_pyzk("ls", "/seen").lines == list("0123456789")
    assert real_pyzk("rm", "-r", "-y", "/seen").status == 0
    assert real_pyzk("stat", "/seen").status == Status.NO


def test_it_asks_before_something_is_lost(real_pyzk: Run) -> None:
    real_pyzk("create", "/asked", "1")
    refused = real_pyzk("set", "/asked", "2")
    assert refused.status == Status.NO
    assert "which is no pyzk-server; pass --yes" in refused.err
    assert real_pyzk("set", "/asked", "2", "--yes").status == 0
    assert real_pyzk("rm", "/asked", "--yes").status == 0


def test_health(real_pyzk: Run, ensemble: real.Ensemble) -> None:
    reports = [json.loads(line) for line in real_pyzk("health", "--all", "--json").lines]
    assert sorted(report["mode"] for report in reports) == ["follower", "follower", "leader"]
    assert not any(report["ours"] for report in reports)


def test_sessions(real_pyzk: Run, ensemble: real.Ensemble) -> None:
    client = KazooClient(ensemble.hosts, timeout=7)
    client.start()
    client.create("/owned", ephemeral=True)
    found = {line["id"]: line for line in map(json.loads, real_pyzk("sessions", "--json").lines)}
    session = found[f"0x{client.client_id[0]:x}"]
    assert (session["timeout"], session["ephemerals"]) == (7000, ["/owned"])
    assert session["server"] in ensemble.hosts.split(",")
    client.stop()
    client.close()


def test_trees_go_from_ours_to_a_real_one_and_back(real_pyzk: Run, server: EmbeddedServer) -> None:
    server.load({f"/app/{a}/{b}": f"{a}{b}" for a in "abc" for b in range(100)})
    assert real_pyzk("cp", f"{server.hosts}/app", "/app").out == "304 znodes, 870 B\n"
    assert real_pyzk("diff", f"{server.hosts}/app", "/app").status == 0
    assert real_pyzk("cp", "/app", f"{server.hosts}/back").status == 0
    assert server.dump("/back") == {f"/back{path[4:]}": data for path, data in server.dump("/app").items()}
    assert real_pyzk("rm", "-ry", "/app").status == 0
    assert real_pyzk("ls").lines == ["zookeeper"]


@pytest.mark.parametrize("arguments", [["trace"], ["expire", "0x1"], ["reset"], ["fault", "list"]])
def test_the_verbs_for_ours_alone_do_nothing_here(
    pyzk: Run, ensemble: real.Ensemble, arguments: list[str]
) -> None:
    done = pyzk("--hosts", ensemble.hosts.partition(",")[0], *arguments)
    assert (done.status, "needs a pyzk-server; " in done.err) == (Status.REFUSED, True), done.err
