"""What programs ask of the sweep over HTTP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from pyzk.server.net.http import Request
from pyzk.server.sweep.lab import BaseLab
from pyzk.server.sweep.model import Outcome
from pyzk.server.sweep.programs.asking import Desk, Scene

from .sweeping import Sweep, Write

NO_STAGE: Any = None
ASKS = """
def tried(what, headers={}, method="POST"):
    request = urllib.request.Request(os.environ["PYZK_SWEEP"] + what, headers=headers, method=method)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read().decode().strip()
    except HTTPError as error:
        return error.code, error.read().decode().strip()

zk = connect("a")
answer = %s
zk.exists("/")
import json
print(json.dumps(answer))
sys.exit(5)
"""


@pytest.mark.parametrize(
    ("ask", "status", "said"),
    [
        ('"/sweep/point?client=a"', 200, "200 OK"),
        ('"/sweep/point?client=c"', 400, "client must be one of a, b, not 'c'"),
        ('"/sweep/point"', 400, "client must be one of a, b, not ''"),
        ('"/sweep/enter?client=a&most=x"', 400, "most must be a number of clients, not 'x'"),
        ('"/sweep/leave?client=a"', 200, "200 OK"),
        ('"/sweep/stop"', 200, "200 OK"),
        ('"/sweep/finish"', 404, "use one of /sweep/start, /sweep/stop"),
        ('"/sweep/start", method="GET"', 405, "use POST"),
        ('"/sweep/start", {"Origin": "http://example.com"}', 403, "a web page may have sent it"),
        ('"/sweep/start", {"Host": "example.com"}', 403, "a web page may have sent it"),
    ],
)
def test_answers(ask: str, status: int, said: str, sweep: Sweep, program: Write, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    sweep("--replay", "o1-", "--json", str(report), program(ASKS % f"tried({ask})"))
    code, text = json.loads(json.loads(report.read_text())["findings"][0]["written"].splitlines()[-1])
    assert code == status
    assert said in text


def test_points_are_steps_of_their_own(
    sweep: Sweep, program: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    text = """
order = []
def work(zk, name):
    ask(f"point?client={name}")
    order.append(name)

a, b = connect("a"), connect("b")
ask("start")
at_once(lambda: work(a, "a"), lambda: work(b, "b"))
ask("stop")
sys.exit(order == ["b", "a"])
"""
    assert sweep("--faults", "none", program(text)) == 1
    report = capsys.readouterr().out
    assert "replay: o1-b." in report
    assert "a point of the scenario" in report


async def test_only_one_program_waits_for_the_next_run(autojump_clock: trio.testing.MockClock) -> None:
    desk = Desk()
    desk.scene = Scene(NO_STAGE, BaseLab(None), Outcome(), {"a": "127.0.0.1:1"})
    answers: list[tuple[int, bytes]] = []

    async def ask() -> None:
        answer = await desk.answer(Request("POST", "/sweep/next", {"host": "127.0.0.1"}))
        answers.append((answer.status, answer.body))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await trio.sleep(1)
        await ask()
        assert answers == [(409, b"another program already waits for the next run")]
        await desk.close()
    assert answers[1:] == [(204, b"")]
