"""The benchmarks run, small; what they find is not looked at, only that they find it."""

from __future__ import annotations

import contextlib
import itertools
import json
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from benchmarks import cost, sender, server, servers, wire, workloads
from benchmarks.stalls import __main__ as stalls
from benchmarks.wire import BenchmarkError

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the benchmarks need epoll and /proc"
)


def run(name: str, *arguments: str, status: tuple[int, ...] = (0,)) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", f"benchmarks.{name}", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode in status, done.stdout + done.stderr
    assert not done.stderr, done.stderr
    return done.stdout


@contextlib.contextmanager
def running_server() -> Iterator[str]:
    command = [sys.executable, "-m", "pyzk.server", "--port", "0", "--log-level", "warning"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield server.stdout.readline().split()[-1]
        finally:
            server.kill()


def load(file: Path) -> Any:
    return json.loads(file.read_text())


@pytest.mark.skipif(shutil.which("cc") is None, reason="the load is compiled by a C compiler")
def test_the_load_in_c_says_which_process_bounds_a_row() -> None:
    output = run("sender", "--rounds", "1", "--seconds", "0.05", "--only", "50 clients")
    head, *rows = output.splitlines()
    assert head.split()[-1] == "the"
    assert [row.partition(",")[0] for row in rows][-1] == "create + delete"
    for row in rows:
        *figures, bound = row.rsplit(maxsplit=6)[1:]
        python, c, server_cost, in_python, in_c = (float(figure.replace(",", "")) for figure in figures)
        assert min(python, c, server_cost, in_python, in_c) > 0
        assert bound == ("load" if in_python > server_cost else "server") or in_python == server_cost


@pytest.mark.skipif(shutil.which("cc") is None, reason="the load is compiled by a C compiler")
def test_a_load_in_c_whose_requests_fail_is_no_measurement(tmp_path: Path) -> None:
    missing = workloads.Workload("missing", lambda client: itertools.repeat(wire.get("/missing")), 2, 20)
    with servers.ours() as ours, pytest.raises(BenchmarkError, match="failed"):
        sender.send(sender.compile_sender(tmp_path), missing, ours.addresses, 0.01)


def test_every_row_of_the_server_benchmark(tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    printed = run(
        "server",
        *("--alone", "--rounds", "1", "--seconds", "0.03", "--znodes", "2000", "--watchers", "50"),
        *("--processes", "2", "--json", str(file)),
    )
    for caveat in ("without fsync", "not an ensemble", "lower bounds"):
        assert caveat in printed
    found = load(file)
    rows = {row["row"]: row for row in found["rows"]}
    assert all(len(row["ours"]) == 1 for row in rows.values())
    assert not any(row["theirs"] or row["ratio"] for row in rows.values())
    for part in (
        "get, 50",
        "get, 1,000",
        "64 in flight",
        "multi",
        "lock",
        "sessions",
        "start",
        "idle",
        "per znode",
    ):
        assert any(part in row for row in rows), part
    assert found["machine"]["pyzk-server"]
    assert any("replicated" in caveat for caveat in found["caveats"])


def test_the_comparison_with_a_server_that_runs_elsewhere(tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    with running_server() as address:
        run(
            "server",
            *("--theirs", address, "--rounds", "2", "--seconds", "0.03", "--only", "one client"),
            *("--json", str(file)),
        )
    assert [row["kind"] for row in load(file)["rows"]] == ["rate", "p50", "p99"] * 2
    for row in load(file)["rows"]:
        assert len(row["ours"]) == len(row["theirs"]) == 2
        assert row["ratio"] is not None


def test_the_figures_of_an_ensemble(tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    printed = run(
        "ensemble",
        *("--alone", "--rounds", "1", "--seconds", "0.03", "--znodes", "20000", "--json", str(file)),
    )
    assert "Nothing is replicated" in printed
    rows = load(file)["rows"]
    assert [row["name"].partition(",")[0] for row in rows] == [
        *("get", "set", "mixed (90 % get", "create + delete"),
        *("three servers up", "start of the command to first session", "tree of 20"),
    ]
    assert [row["kept"] for row in rows[:4]] == [None] * 4, "there is nothing beside them"
    assert all(row["three"] > 0 and row["judged"] for row in rows[4:])


def test_every_curve_of_growth(tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    run("growth", "--largest", "100", "--json", str(file), "--seconds", "0.05", status=(0, 1))
    sizes = {curve["name"]: [size for size, _ in curve["points"]] for curve in load(file)["curves"]}
    assert sizes["request, by connections (sockets)"] == [10, 100]
    assert sizes["expire sessions in one tick"] == [100]


def test_a_curve_that_is_too_steep_is_flagged() -> None:
    program = (
        "from benchmarks.growth import Curve; "
        "print([Curve('', [], 1, float, [(n, n ** power * 1e-6) for n in (10, 100, 1000)]).verdict "
        "for power in (0.5, 1, 1.2, 1.5, 2)])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(["good", "good", "good", "TOO STEEP", "TOO STEEP"])


def test_a_short_soak(tmp_path: Path) -> None:
    """Memory still settles in so short a run; but nothing may be left behind."""
    file = tmp_path / "found.json"
    run("soak", "--requests", "8000", "--tolerance", "0.2", "--json", str(file))
    found = load(file)
    assert found["left"] == {}
    assert len(found["samples"]) > 1


def test_fairness_is_measured() -> None:
    printed = run("fairness", "--rounds", "1", "--seconds", "0.1", status=(0, 1))
    assert "the same server, by HTTP" in printed


def test_the_cost_of_control_is_measured() -> None:
    printed = run("control", "--rounds", "3")
    for word in ("expire a session", "POST /servers", "once HTTP was used", "text", "json"):
        assert word in printed


def test_stalls_are_measured(tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    only = ("multi-check", "api-children", "crst-crowd")
    printed = run(
        "stalls", "--quick", *(f"--only={name}" for name in only), "--json", str(file), status=(0, 1)
    )
    found = {(row["case"], row["history"]): row for row in load(file)}
    assert found.keys() == {*itertools.product(only, (False, True))}
    assert found["multi-check", True]["elements"] == 5_263
    assert not any(row["troubles"] for row in found.values())
    assert all(row["wait"] >= 0 < row["cpu"] and row["verdict"] in printed for row in found.values())


def test_two_servers_are_measured_in_turns() -> None:
    other = f"{sys.executable} -m pyzk.server"
    printed = run("stalls", "--quick", "--only", "multi-check", "--compare", other, status=(0, 1))
    rows = [re.split(r"\s{2,}", line)[0] for line in printed.splitlines() if line.startswith("multi-check")]
    assert rows == [f"multi-check {which}" for which in ("A", "A history", "B", "B history")]


def stalled(name: str, history: bool, seconds: float) -> dict[str, Any]:
    """The figures of a case, as the benchmark keeps them."""
    case = next(case for case in stalls.CASES if case.name == name)
    found = stalls.Found(55, 0.001, seconds, 0.1, 0.0, 0, [])
    good, verdict = found.verdict(case)
    of_run = {"case": name, "history": history, "good": good, "verdict": verdict}
    return attrs.asdict(found) | of_run


def test_the_page_of_the_stalls_has_columns_for_the_history() -> None:
    found = [
        *(stalled("unread", history, seconds) for history, seconds in ((False, 0.005), (True, 0.2))),
        *(stalled("half-open", history, seconds) for history, seconds in ((False, 0.06), (True, 0.02))),
        *(stalled("first-http", history, 0.001) for history in (False, True)),
    ]
    text = stalls.page("here", found)
    head, rule, *shown = (line.split(" | ") for line in text.splitlines() if line.startswith("|"))
    assert len(head) == len(rule) == 5
    assert [[row[0].split()[1], *row[1:]] for row in shown] == [
        ["55", "5", "200", "0", "TOO LONG |"],
        ["55", "60", "20", "0", "good |"],
    ]
    assert "The other 1 cases stay below 50 ms and 50 MB." in text


def test_the_stalls_keep_the_figures_of_other_cases() -> None:
    old = [stalled(name, history, 0.01) for name in ("unread", "half-open") for history in (False, True)]
    new = stalled("half-open", True, 0.02)
    assert stalls.merged(old, [new]) == [*old[:3], new]


def test_the_page_of_the_stalls_is_made_of_the_kept_figures() -> None:
    kept = json.loads(stalls.RESULTS.read_text())
    assert stalls.PAGE.read_text() == stalls.page(kept["about"], kept["found"])


def test_the_page_of_the_figures_is_made_of_the_kept_ones() -> None:
    rows = json.loads((ROOT / "benchmarks" / "results" / "server.json").read_text())["rows"]
    figures = [server.Figure(row["row"], row["kind"], row["ours"], row["theirs"]) for row in rows]
    shown = server.page(figures)
    assert shown in (ROOT / "docs" / "performance-table.md").read_text()
    names = {line.split(" | ")[0].removeprefix("| ") for line in shown.splitlines()}
    assert names >= {figure.row for figure in figures}


def test_the_cost_of_files_is_measured() -> None:
    printed = run("data", "--rounds", "1", "--seconds", "0.1", "--only", "set, one client", "--digest")
    assert re.search(r"^set, one client +[\d,.]+ +[\d,.]+ +\d+\.\d\d$", printed, re.MULTILINE)


def test_the_report_explains_itself() -> None:
    assert "docs/performance-table.md" in run("report", "--help")


def test_the_cost_of_a_request_is_measured(tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    printed = run(
        "cost",
        *(
            "--python",
            sys.executable,
            "--requests",
            "100",
            "--rounds",
            "2",
            "--only",
            "create",
            "--json",
            str(file),
        ),
    )
    assert "own / echo" in printed
    rows = load(file)["rows"]
    assert [row["depth"] for row in rows] == ["one client", "50 clients", "one client, 64 in flight"]
    for row in rows:
        assert row["python"] == platform.python_version()
        assert row["operation"] == "create + delete"
        assert row["requests"] >= 200
        assert row["total"] > 0 < row["echo_total"]


def test_a_python_without_what_the_server_needs_is_refused(tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text("#!/bin/sh\necho 'No module named trio' >&2\nexit 1\n")
    bare.chmod(0o755)
    with pytest.raises(BenchmarkError, match="lacks what the server needs: No module named trio"):
        cost.pythons([str(bare)])
    assert cost.pythons([sys.executable]) == {platform.python_version(): sys.executable}


def test_the_processor_time_of_a_request_is_split() -> None:
    spent = cost.Cost()
    assert spent.ticks == (0, 0)
    spent.add(100, 0.003, 1, 2)
    spent.add(100, 0.001, 2, 3)
    assert (spent.own, spent.kernel) == (pytest.approx(7.5), pytest.approx(12.5))
