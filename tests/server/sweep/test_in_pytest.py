"""Sweeps by marker, by fixture, with the options of the command line."""

from __future__ import annotations

import json

import pytest

pytest_plugins = "pytester"

TESTS = """
from functools import partial
import pytest

async def scenario(lab):
    lab.server.load({"/n": "0"})
    a, b = await lab.client("a"), await lab.client("b")

    async def add(zk):
        data, _ = await zk.get("/n")
        await zk.set("/n", b"%d" % (int(data) + 1))

    await lab.together(partial(add, a), partial(add, b))
    assert lab.server.dump()["/n"] == b"2", "an increment is lost"

def test_by_fixture(zk_sweep):
    zk_sweep(scenario, faults=None)

@pytest.mark.zk_sweep(faults=["lost"], orders=None)
async def test_by_marker(zk_lab, tmp_path):
    assert tmp_path.is_dir()
    zk = await zk_lab.client("a")
    await zk_lab.together(partial(zk.exists, "/x"))

@pytest.mark.zk_sweep(faults=["lost"], orders=None)
def test_in_threads(zk_lab):
    zk = zk_lab.client("a")
    zk_lab.together(lambda: zk.retry(zk.exists, "/x"))

@pytest.mark.zk_sweep
def test_without_a_lab():
    pass
"""


def test_findings_are_shown_kept_and_replayed(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TESTS)
    options = ("-p", "no:trio", "-p", "no:randomly", "-p", "no:asyncio")
    found = pytester.runpytest_subprocess(
        "--zk-sweep-json=found.json", "--zk-sweep-html=found.html", *options
    )
    found.assert_outcomes(passed=2, failed=2)
    found.stdout.fnmatch_lines(["*an increment is lost*", "*replay: o1-*"])
    found.stdout.fnmatch_lines(["*the marker zk_sweep is for tests with the fixture zk_lab*"])
    found.stdout.no_fnmatch_line("*def sweep(*")  # a reader sees the report, not the code of the sweep
    found.stdout.no_fnmatch_line("*server at 127.0.0.1:*")
    reports = (pytester.path / "found.json").read_text()
    first, _ = json.JSONDecoder().raw_decode(reports)
    (token,) = [finding["token"] for finding in first["findings"]]
    assert f'"token": "{token}"' in (pytester.path / "found.html").read_text()
    again = pytester.runpytest_subprocess(f"--zk-sweep-replay={token}", "-k", "fixture", *options)
    again.assert_outcomes(failed=1, deselected=3)
    cached = next((pytester.path / ".pytest_cache").rglob("*test_by_fixture*"))
    assert json.loads(cached.read_text()) == [token]
