"""``pyzk-sweep``: programs that run for themselves, swept from outside."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pyzk.server.sweep.programs.command import main

from ....support.waiting import wait_until
from .sweeping import ADD, REPEATED, Sweep, Write

NO_FAULTS = ("--faults", "none")
NO_ORDERS = ("--orders", "none")


def token_of(report: str) -> str:
    found = re.search(r"replay: (\S+)", report)
    assert found is not None, report
    return found[1]


def test_a_race_is_found_and_its_token_replays(
    sweep: Sweep, program: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    path = program(ADD)
    assert sweep(*NO_FAULTS, path) == 1
    report = capsys.readouterr().out
    assert "wrong: the command ended with exit status 1" in report
    assert "| the number is b'1'" in report, "what it has printed"
    assert sweep("--replay", token_of(report), path) == 1
    assert token_of(capsys.readouterr().out) == token_of(report)


def test_a_lost_reply_is_found(
    sweep: Sweep, program: Write, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    as_json, as_html = tmp_path / "report.json", tmp_path / "report.html"
    options = (
        "--clients",
        "a",
        "--json",
        str(as_json),
        "--html",
        str(as_html),
        "--faults",
        "lost,reply-lost",
    )
    assert sweep(*options, *NO_ORDERS, program(REPEATED)) == 1
    assert token_of(capsys.readouterr().out) == "f1-a2-reply-lost"
    report = json.loads(as_json.read_text())
    assert report["bad_cells"] == {"a2-reply-lost": "wrong"}
    assert report["cells"] == report["all_cells"] == 4, "get and set, each with both faults"
    assert "f1-a2-reply-lost" in as_html.read_text()


def test_what_is_known_of_is_allowed(
    sweep: Sweep, program: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--clients", "a", "--faults", "reply-lost", "--allow", "a2-*")
    assert sweep(*options, *NO_ORDERS, program(REPEATED)) == 0
    assert "all 2 fault cells hold" in capsys.readouterr().out


LOCK = """
def work(zk, name):
    with zk.Lock("/lock"):
        ask(f"enter?client={name}&what=lock")
        ask(f"leave?client={name}&what=lock")

a, b = connect("a"), connect("b")
a.ensure_path("/lock")
ask("start")
at_once(lambda: work(a, "a"), lambda: work(b, "b"))
ask("stop")
"""


def test_a_lock_holds_in_all_orders(sweep: Sweep, program: Write, capsys: pytest.CaptureFixture[str]) -> None:
    assert sweep(*NO_FAULTS, "--orders", "all", program(LOCK)) == 0
    assert re.search("all [0-9]+ orders that differ hold", capsys.readouterr().out)


def test_two_that_are_inside_at_once(
    sweep: Sweep, program: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    path = program(LOCK.replace('with zk.Lock("/lock"):', "if zk.exists('/lock'):"))
    assert sweep(*NO_FAULTS, path) == 1
    assert "a and b are inside of 'lock' at once" in capsys.readouterr().out


EACH = """
zk = KazooClient(os.environ["ZOOKEEPER_HOSTS"])
zk.start()
name = os.environ["PYZK_SWEEP_CLIENT"]
assert os.environ["ZOOKEEPER_HOSTS"] == os.environ["ZOOKEEPER_HOSTS_" + name.upper()]
try:
    zk.create("/leader", name.encode())
except NodeExistsError:
    zk.set("/leader", name.encode())
zk.stop()
"""


def test_a_program_for_each_client_between_two_others(
    sweep: Sweep, program: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    look = """
zk = KazooClient(os.environ["PYZK_HOSTS"])
zk.start()
leader = zk.get("/leader")[0] if zk.exists("/leader") else b"nobody"
print("it is", leader)
sys.exit(leader != %r)
"""
    python = f"exec {sys.executable} -S"
    options = ("--each", "--before", f"{python} {program(look % b'nobody')}")
    options += ("--after", f"{python} {program(look % b'b')}")
    assert sweep(*NO_FAULTS, *options, program(EACH)) == 1
    report = capsys.readouterr().out
    assert "wrong: --after ended with exit status 1" in report
    assert "| it is b'a'" in report, "who wrote last"


def test_what_fails_without_a_fault(sweep: Sweep, program: Write, capsys: pytest.CaptureFixture[str]) -> None:
    assert sweep(program("connect('a').create('/n'); print('no \\x1b[31m'); sys.exit(4)")) == 1
    report = capsys.readouterr().out
    assert "it fails without a fault" in report
    assert "error: the command ended with exit status 4" in report
    assert "\x1b" not in report, "no control character of a program reaches the terminal"


def test_a_program_that_waits_for_ever(
    sweep: Sweep, program: Write, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    mark = tmp_path / "processes"
    waits = f"""
child = os.fork()
with open({str(mark)!r}, "a") as file:
    print(os.getpid(), file=file)
if not child:
    time.sleep(1000)
zk = connect("a")
zk.exists("/never", watch=print)
time.sleep(1000)
"""
    assert sweep("--patience", "0.3", "--clients", "a", program(waits)) == 1
    report = capsys.readouterr().out
    assert "hang: no client acts any more" in report
    assert "a watches /never" in report
    processes = mark.read_text().split()
    assert len(processes) > 2
    wait_until(lambda: not any(map(is_alive, processes)))  # a killed process takes a moment to end


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_programs_too(number: int, program: Write, tmp_path: Path) -> None:
    mark = tmp_path / "processes"
    waits = f"""
connect("a")
with open({str(mark)!r}, "a") as file:
    print(os.getpid(), file=file)
time.sleep(1000)
"""
    command = [Path(sys.executable).parent / "pyzk-sweep", "--", sys.executable, program(waits)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as sweeping:
        while not (mark.exists() and mark.read_text().endswith("\n")):
            assert sweeping.poll() is None
            time.sleep(0.01)
        sweeping.send_signal(number)
        _, errors = sweeping.communicate()
    assert sweeping.returncode == 128 + number
    assert "Traceback" not in errors
    wait_until(lambda: not is_alive(mark.read_text().strip()))


def is_alive(process: str) -> bool:
    try:
        status = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


GIVES_UP = """
zk = connect("a")
zk.create("/n", ephemeral=True)
ask("start")
while True:
    try:
        if zk.exists("/n"):
            break
        sys.exit(75)
    except (ConnectionLoss, SessionExpiredError):
        time.sleep(0.01)
"""


def test_a_program_that_gives_up_because_its_session_has_ended(
    sweep: Sweep, program: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--clients", "a", "--faults", "reply-lost,gone-mid", *NO_ORDERS)
    assert sweep(*options, program(GIVES_UP)) == 0
    assert "fault cells hold" in capsys.readouterr().out


def test_status_75_is_a_failure_where_no_session_ends(
    sweep: Sweep, program: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sweep(program("connect('a').create('/n'); sys.exit(75)")) == 1
    assert "exit status 75" in capsys.readouterr().out


KEPT = """
verdict = ""
while answer := ask("next", verdict):
    hosts = dict(line.split("=") for line in answer.splitlines())
    assert sorted(hosts) == ["a", "b"]
    os.environ.update({f"ZOOKEEPER_HOSTS_{name.upper()}": hosts[name] for name in hosts})
    a, b = connect("a"), connect("b")
    a.create("/n", b"0")
    ask("start")
    at_once(lambda: a.set("/n", b"a"), lambda: b.set("/n", b"b"))
    ask("stop")
    verdict = "a is last" if a.get("/n")[0] == b"a" else ""
    print(os.getpid(), file=open(sys.argv[0] + ".runs", "a"))
    a.stop(); b.stop(); a.close(); b.close()
"""


def test_a_program_that_is_kept(sweep: Sweep, program: Write, capsys: pytest.CaptureFixture[str]) -> None:
    path = program(KEPT)
    assert sweep(*NO_FAULTS, path) == 1
    said = capsys.readouterr()
    assert "wrong: a is last" in said.out
    runs = Path(path + ".runs").read_text().split()
    failed = 2  # a program that has failed is started anew
    assert len(set(runs)) <= 2 + failed * len(runs) // 2
    assert len(runs) > len(set(runs)), "one program has made several runs"


def test_a_kept_program_that_ends(sweep: Sweep, program: Write, capsys: pytest.CaptureFixture[str]) -> None:
    assert sweep(*NO_FAULTS, program(KEPT.replace('    ask("stop")', "    sys.exit(9)"))) == 1
    assert "error: the program ended with exit status 9" in capsys.readouterr().out


def test_a_command_that_does_not_connect(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--", "/bin/sh", "-c", "echo hello"]) == 3
    assert (
        "no program has connected: it must connect to the addresses in ZOOKEEPER_HOSTS"
        in capsys.readouterr().err
    )


def test_commands_that_cannot_be_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--", "/no/such/command"]) == 2
    assert main(["--before", "echo broken; exit 5", "--", "true"]) == 2
    said = capsys.readouterr().err
    assert "/no/such/command: No such file or directory" in said
    assert "--before ended with exit status 5. It wrote:\nbroken" in said


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--clients", "a,a"], "--clients must be different names"),
        (["--clients", "A"], "--clients must be different names"),
        (["--faults", "flood"], "there is no fault 'flood'"),
        (["--budget", "-1"], "invalid number of seconds"),
        (["--session-timeout", "1"], "200 to 60000 ms"),
        (["--replay", "x"], "--replay: 'x' is no token of a sweep"),
    ],
)
def test_a_wrong_command_line(arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--", "true"])
    assert ended.value.code == 2
    assert reason in capsys.readouterr().err


def test_the_command_is_installed() -> None:
    command = Path(sys.executable).parent / "pyzk-sweep"
    shown = subprocess.run([command, "--help"], capture_output=True, text=True, check=True, env=os.environ)
    assert "ZOOKEEPER_HOSTS_A" in shown.stdout
