"""The arguments of ``pyzk``, how it ends, and how it follows, completes and runs commands."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pyzk.cli.main import main
from pyzk.cli.parser import VERBS
from pyzk.cli.status import Status
from pyzk.protocol.version import __version__
from pyzk.server.testing import EmbeddedServer

from ..support.waiting import PATIENCE, wait_until
from .conftest import Run

COMMAND = [sys.executable, "-W", "error", "-m", "pyzk.cli"]


# --- arguments and ends ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["nonsense"], "there is no verb 'nonsense'"),
        (["get"], "PATH"),
        (["get", "a"], "a path must start with /: a"),
        (["get", "/a", "/b"], "unrecognized arguments: /b (see pyzk get --help)"),
        (["--hosts", "a:b", "ls"], "'a:b' is not host:port"),
        (["--hosts", "a:99999", "ls"], "a port is a number from 1 to 65535, not 99999"),
        (["-server", "a:1", "ls"], "unrecognized arguments: -server; for -server write --hosts"),
        (["--session-timeout", "0", "ls"], "--session-timeout must be more than 0"),
        (["ls", "--", "x"], "-- goes with exec only"),
        (["exec"], "no command to run"),
        (["--auth-file", "/nothing", "ls"], "cannot read --auth-file /nothing"),
        (["--tls", "--ca-file", "/nothing", "ls"], "cannot use /nothing: No such file"),
        (["tree", "--depth", "0"], "--depth"),
        (["find", "--older", "soon"], "--older"),
    ],
)
def test_arguments_that_make_no_sense(
    capsys: pytest.CaptureFixture[str], argv: list[str], words: str
) -> None:
    assert main(argv) == Status.USAGE
    out, err = capsys.readouterr()
    assert not out
    assert words in err
    assert err.startswith("pyzk: ")
    assert err.count("\n") == 1


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"pyzk {__version__}\n"
    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    assert all(f"\n  {verb} " in text for verb in VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_and_a_function(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([verb, "--help"])
    assert capsys.readouterr().out.startswith(f"usage: pyzk {verb}")
    module, _, function = VERBS[verb].run.partition(":")
    assert callable(getattr(__import__(f"pyzk.cli.verbs.{module}", fromlist=[function]), function))


def test_no_server(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--hosts", "127.0.0.1:1", "--connect-timeout", "0.2", "ls"]) == Status.UNAVAILABLE
    message = (
        r"pyzk: no session with 127\.0\.0\.1:1 within 0\.2 s \(.*Connection refused\); check --hosts .*\n"
    )
    assert re.fullmatch(message, capsys.readouterr().err)


def test_a_verb_as_the_value_of_an_option(pyzk: Run, server: EmbeddedServer) -> None:
    assert pyzk("--auth-file", os.devnull, "--hosts", server.hosts, "ls").status == 0
    pyzk("create", "/find", "ls")
    assert pyzk("get", "/find").out == "ls\n"


def test_a_reader_that_has_enough(server: EmbeddedServer) -> None:
    server.load({f"/{n:05}": b"" for n in range(20_000)})
    process = subprocess.Popen(
        [*COMMAND, "--hosts", server.hosts, "ls"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout
    assert process.stderr
    with process:
        assert process.stdout.read(6) == b"00000\n"
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 128 + signal.SIGPIPE


def test_a_lost_answer(pyzk: Run, server: EmbeddedServer) -> None:
    """Nobody knows what has become of the request: it is for the user to look."""
    with server.fault("create", when="after", action="disconnect"):
        lost = pyzk("create", "/a")
    assert (lost.status, lost.err) == (
        Status.UNAVAILABLE,
        "pyzk: /a: the connection was lost before the answer; check whether the change was made\n",
    )
    assert server.dump() == {"/a": b""}


# --- TLS ---------------------------------------------------------------------------------------------------


def test_tls(tls: tuple[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    address, folder = tls
    options = [
        "--hosts",
        address,
        "--ca-file",
        str(folder / "ca.pem"),
        "--cert-file",
        str(folder / "ann.pem"),
    ]
    assert main([*options, "create", "/a", "secret"]) == 0
    assert main([*options, "set", "/a", "more"]) == 0
    assert main([*options, "health"]) == 0
    assert main([*options, "get", "/a"]) == 0
    assert capsys.readouterr().out.endswith("more\n")
    insecure = ["--hosts", address, "--insecure", "--cert-file", str(folder / "ann.pem")]
    assert main([*insecure, "get", "/a"]) == 0
    stranger = ["--hosts", address, "--connect-timeout", "0.5", "--tls", "get", "/a"]
    assert main(stranger) == Status.UNAVAILABLE
    assert "CERTIFICATE_VERIFY_FAILED" in capsys.readouterr().err


# --- watch -------------------------------------------------------------------------------------------------


def heed_signals() -> None:
    """Whoever runs the tests may ignore signals."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def watching(server: EmbeddedServer) -> bool:
    return any(session.watches for session in server.sessions())


def test_watch(pyzk: Run, server: EmbeddedServer) -> None:
    def change() -> None:
        wait_until(lambda: watching(server))
        server.load({"a": {"b": b"new"}})
        server.load({"a": {"b": b"newer"}})

    server.load({"a": b""})
    thread = threading.Thread(target=change)
    thread.start()
    seen = pyzk("watch", "-R", "/a", "--count", "2")
    thread.join()
    assert [line.split()[1:3] for line in seen.lines] == [["created", "/a/b"], ["changed", "/a/b"]]
    assert seen.lines[1].endswith("changed  /a/b  v1  newer")


def test_watch_says_that_it_may_have_missed_something(pyzk: Run, server: EmbeddedServer) -> None:
    def cut() -> None:
        wait_until(lambda: watching(server))
        server.disconnect_all()

    thread = threading.Thread(target=cut)
    thread.start()
    seen = pyzk("watch", "/a", "--count", "1")
    thread.join()
    assert seen.out.split(maxsplit=1)[1].startswith("missed   /a  look again: the connection was lost")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_watch_until_a_signal_comes(server: EmbeddedServer, number: signal.Signals) -> None:
    process = subprocess.Popen(
        [*COMMAND, "--hosts", server.hosts, "watch", "/a", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_signals,
    )
    assert process.stdout
    assert process.stderr
    timer = threading.Timer(PATIENCE, process.kill)
    timer.start()
    with process:
        wait_until(lambda: watching(server))
        server.load({"a": b"1"})
        assert process.stdout.readline().startswith('{"event": "created", "path": "/a"')
        process.send_signal(number)
        assert process.wait(PATIENCE) == 128 + number
        assert process.stderr.read() == ""
    timer.cancel()
    assert server.sessions() == [], "the session is closed"


def test_an_ephemeral_stays_until_interrupted(server: EmbeddedServer) -> None:
    process = subprocess.Popen(
        [*COMMAND, "--hosts", server.hosts, "create", "-e", "/e"],
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=heed_signals,
    )
    assert process.stdout
    with process:
        assert process.stdout.readline() == "/e\n"
        assert server.dump(form="nodes")["/e"].kind == "ephemeral"
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 128 + signal.SIGINT
    assert server.dump() == {}


# --- exec --------------------------------------------------------------------------------------------------


def test_exec_runs_beside_a_fresh_server(tmp_path: Path) -> None:
    script = 'test "$ZOOKEEPER_HOSTS" = "$PYZK_HOSTS"; "$@" create /a 1; "$@" get /a; exit 7'
    done = subprocess.run(
        [*COMMAND, "exec", "--", "sh", "-c", script, "sh", *COMMAND], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (7, "/a\n1\n", "")


def test_exec_takes_settings(tmp_path: Path) -> None:
    (tmp_path / "zoo.cfg").write_text("tickTime=123\n")
    print_hosts = [sys.executable, "-c", "import os; print(os.environ['ZOOKEEPER_HOSTS'])"]
    command = [*COMMAND, "exec", "--config", str(tmp_path / "zoo.cfg"), "--", *print_hosts]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    (tmp_path / "zoo.cfg").write_text("tickTime=soon\n")
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == Status.REFUSED
    assert "tickTime: 'soon' is not a whole number" in done.stderr
    assert done.stderr.splitlines()[1].startswith("pyzk: pyzk-server has not started")


def test_exec_passes_signals_on_and_ends_with_the_command() -> None:
    script = "trap 'echo got it; exit 3' TERM; echo $ZOOKEEPER_HOSTS; while :; do sleep 0.02; done"
    process = subprocess.Popen(
        [*COMMAND, "exec", "--", "sh", "-c", script],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout
    timer = threading.Timer(PATIENCE, process.kill)
    timer.start()
    with process:
        hosts = process.stdout.readline().strip()
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "got it\n"
        assert process.wait(PATIENCE) == 3
    timer.cancel()
    assert main(["--hosts", hosts, "--connect-timeout", "0.2", "ls"]) == Status.UNAVAILABLE


def test_exec_of_what_cannot_be_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["exec", "--", "no-such-command"]) == Status.NOT_FOUND
    (tmp_path / "file").write_text("")
    assert main(["exec", "--", str(tmp_path / "file")]) == Status.NOT_EXECUTABLE
    assert capsys.readouterr().err.startswith("pyzk: no-such-command: No such file or directory\n")


def test_bare_pyzk_is_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("usage: pyzk [OPTIONS] VERB")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["gte", "/a"], "pyzk: there is no verb 'gte'; did you mean get? (see pyzk --help)\n"),
        (["xyzzy"], "pyzk: there is no verb 'xyzzy' (see pyzk --help)\n"),
        (["--auth", "digest:ann:secret", "ls"], "write SCHEME:CREDENTIAL into a file for --auth-file"),
        (["ls", "--auth=digest:ann:secret"], "write SCHEME:CREDENTIAL into a file for --auth-file"),
    ],
)
def test_a_mistake_gets_an_answer_that_fits(pyzk: Run, arguments: list[str], expected: str) -> None:
    done = pyzk(*arguments)
    assert done.status == Status.USAGE
    assert expected in done.err
    assert "secret" not in done.err


def test_the_server_may_be_named_behind_the_verb(
    server: EmbeddedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.load({"a": b"1"})
    nobody = ["--hosts", "127.0.0.1:1", "--connect-timeout", "0.1"]
    assert main([*nobody, "get", "/a"]) == Status.UNAVAILABLE
    capsys.readouterr()
    assert main([*nobody, "get", "--hosts", server.hosts, "/a", "--connect-timeout=30"]) == 0
    assert capsys.readouterr().out == "1\n"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["sh", "-c", "exit 7"], 7),
        (["--", "sh", "-c", "exit 7"], 7),
        (["sh", "-c", 'test "$*" = "-- -x" && exit 8', "sh", "--", "-x"], 8),
    ],
)
def test_exec_needs_no_dashes(words: list[str], expected: int) -> None:
    assert main(["exec", *words]) == expected


def test_a_server_that_refuses_is_told_after_a_second(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--hosts", "127.0.0.1:1", "--connect-timeout", "4", "ls"]  # long for a busy machine
    assert main(arguments) == Status.UNAVAILABLE
    first, last = capsys.readouterr().err.splitlines()
    assert first == "pyzk: no server yet (127.0.0.1:1: Connection refused); trying for 4 s in all"
    assert last.startswith("pyzk: no session with 127.0.0.1:1 within 4")


def test_pyzk_loads_no_recipe_to_list_children(server: EmbeddedServer) -> None:
    """What is not needed is not imported: the start is what people wait for."""
    script = (
        "import sys; from pyzk.cli.main import main;"
        f" main(['--hosts', '{server.hosts}', 'ls']);"
        " print([name for name in sys.modules if name.startswith(('pyzk.recipes', 'pyzk.server', 'kazoo'))])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "zookeeper\n[]\n"
