"""``pyzk-sweep --ensemble``: the followers of a pretend ensemble lag, and its leader dies."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyzk.server.sweep.programs.command import main

from .sweeping import Sweep, Write

READ = """
a, b = connect("a"), connect("b")
a.create("/configuration", b"old")
b.sync("/configuration")
ask("start")
a.retry(a.set, "/configuration", b"new")
{sync}
data, _ = b.retry(b.get, "/configuration")
sys.exit(data != b"new")
"""
"""A client is told that a znode has changed, and reads it at a server that may not know yet."""
SYNC = 'b.retry(b.sync, "/configuration")'


@pytest.mark.breaks_rules("the reply to a ping passes those that the sweep holds")
@pytest.mark.parametrize(("sync", "bad"), [("", {"a1-lag-others": "wrong"}), (SYNC, {})], ids=["bad", "good"])
def test_a_stale_read_is_found(
    sync: str, bad: dict[str, str], sweep: Sweep, program: Write, tmp_path: Path
) -> None:
    report = tmp_path / "report.json"
    options = ("--ensemble", "3", "--orders", "none", "--budget", "600", "--json", str(report))
    faults = ("--faults", "reply-lost,leader-mid,lag-others")
    assert sweep(*options, *faults, program(READ.format(sync=sync))) == bool(bad)
    found = json.loads(report.read_text())
    assert found["bad_cells"] == bad
    assert found["cells"] == found["all_cells"] >= 6


def test_faults_and_servers_that_do_not_fit(capsys: pytest.CaptureFixture[str]) -> None:
    for options, reason in (
        (["--ensemble", "2"], "--ensemble must be 3 to 9 servers, not 2"),
        (["--faults", "lag-own"], "lag-own needs an ensemble"),
        (["--ensemble", "3", "--faults", "restart-empty"], "restart-empty is only for a single server"),
    ):
        with pytest.raises(SystemExit):
            main([*options, "--", "true"])
        assert reason in capsys.readouterr().err


def test_a_late_reply_is_a_step(
    sweep: Sweep, program: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = program(
        """
listens = threading.Event()
a, b = connect("a"), connect("b")

def serve():
    a.create("/service")
    listens.set()

def call():
    b.exists("/log")
    if b.exists("/service") and not listens.is_set():
        os._exit(1)

ask("start")
at_once(serve, call)
"""
    )
    assert sweep("--faults", "none", "--orders", "all", path) == 0
    capsys.readouterr()
    assert sweep("--faults", "none", "--orders", "all", "--replies", path) == 1
    assert "replay: r1-" in capsys.readouterr().out
