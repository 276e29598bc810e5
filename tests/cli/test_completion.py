"""The completions of bash, zsh and fish, each in the shell itself at a terminal.

A test types a line, TAB and Enter. What stands for ``pyzk`` on the PATH passes on what the completion asks,
and writes its arguments down for any other line: so a test sees what the shell has made of the line.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pyzk.cli.completing import unquoted
from pyzk.cli.main import main
from pyzk.cli.parser import VERBS
from pyzk.cli.status import Status
from pyzk.protocol.digest import digest_id
from pyzk.server.testing import EmbeddedServer

from ..support.forking import forking
from ..support.needs import need
from ..support.renaming import renaming
from ..support.terminal import terminal
from ..support.waiting import wait_until

COMMAND = [sys.executable, "-W", "error", "-m", "pyzk.cli"]
SHELLS = ["bash", "zsh", "fish"]
START = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
    "fish": ["fish", "--no-config", "--interactive"],
}
SETUP = {
    "bash": "PS1='>>> '; set +o history; eval \"$(pyzk completion bash)\"\r",
    "zsh": "PS1='>>> '; autoload -Uz compinit && compinit -D; eval \"$(pyzk completion zsh)\"\r",
    "fish": "function fish_prompt; echo '>>> '; end; pyzk completion fish | source\r",
}
PATIENT = "--connect-timeout 30"
NAMES = [
    "$(touch ran)",
    "`touch ran`",
    "${x:=$(touch ran)}",
    "a; touch ran; b",
    "a && touch ran",
    "a | touch ran",
    "a 'b' \"c",
    "'$(touch ran)'",
    '"$(touch ran)"',
    "a b  c",
    "back\\slash\\n",
    "*",
    "[a-z]?{1,2}",
    "-rf",
    "--hosts=evil:1",
    "!touch ran",
    "#a",
    "~",
    "127.0.0.1:2181",
    "dc=a,b",
    "<(touch ran)>b",
    "(touch ran)",
    "a\u00e9\u4e16",
    "%1^~",
]


Type = Callable[..., list[list[str]]]


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> str:
    shell: str = request.param
    need(None if shutil.which(shell) else f"no {shell} on the PATH")
    return shell


@pytest.fixture(scope="module")
def completing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The command that answers what a completion asks."""
    with forking(tmp_path_factory.mktemp("forking")) as command:
        yield command


@pytest.fixture
def home(tmp_path: Path, completing: str) -> Path:
    """A directory in which ``pyzk`` and the others are programs."""
    (tmp_path / "bin").mkdir()
    for name in ("pyzk", "pyzk-lock", "pyzk-server"):
        program = tmp_path / "bin" / name
        program.write_text(
            "#!/bin/sh\n"
            f'if [ "$1" = completion ]; then exec {completing} "$@"; fi\n'
            f"cd {tmp_path} && printf '%s\\0' \"$@\" > new && mv new arguments\n"
        )
        program.chmod(0o755)
    (tmp_path / "empty").mkdir()
    return tmp_path


@pytest.fixture
def typed(shell: str, home: Path, server: EmbeddedServer) -> Type:
    """Types lines in the shell; returns the arguments that each time ``pyzk`` gets."""

    def type(*lines: str, hosts: str = server.hosts) -> list[list[str]]:
        environment = {
            **os.environ,
            "PATH": f"{home / 'bin'}:{os.environ['PATH']}",
            "PYZK_HOSTS": hosts,
            "HOME": str(home),
        }
        found, arguments = [], home / "arguments"
        with terminal(["env", "-C", str(home / "empty"), *START[shell]], environment) as screen:
            screen.type(SETUP[shell] + "echo rea''dy\r")
            screen.wait_for("ready\r\n")
            for line in lines:
                screen.type(line)
                try:
                    wait_until(lambda: screen.read() and arguments.exists())
                except AssertionError:
                    raise AssertionError(f"{line!r} ended in {screen.shown.decode()}") from None
                found.append(arguments.read_text().split("\0")[:-1])
                arguments.unlink()
        return found

    return type


@pytest.fixture
def other() -> Iterator[EmbeddedServer]:
    """A server that only the command line names."""
    with EmbeddedServer() as other:
        other.load({"theirs": b""})
        yield other


def test_a_name_is_completed_to_itself_and_nothing_of_it_runs(
    typed: Type, home: Path, server: EmbeddedServer
) -> None:
    server.load({f"{number:02}": {name: b""} for number, name in enumerate(NAMES)})
    lines = [f"pyzk {PATIENT} get /{number:02}/\t\r" for number in range(len(NAMES))]
    expected = [[*PATIENT.split(), "get", f"/{number:02}/{name}"] for number, name in enumerate(NAMES)]
    assert typed(*lines) == expected
    assert list((home / "empty").iterdir()) == []


def test_what_is_begun_is_completed(shell: str, typed: Type, home: Path, server: EmbeddedServer) -> None:
    """Begun with a backslash, with a quote, behind a colon and an equals sign. zsh leaves a quote open."""
    server.load({"x": {"a b$(touch ran)": b"", "1.2.3.4:2181": b"", "dc=a,b": b"", "it's": {"c": b""}}})
    begun = {
        "/x/a\\ b": "/x/a b$(touch ran)",
        "/x/1.2.3.4:": "/x/1.2.3.4:2181",
        "/x/1.2.3.4:21": "/x/1.2.3.4:2181",
        "/x/dc=": "/x/dc=a,b",
        "/x/it\\'s/": "/x/it's/c",
        "'/x/a": "/x/a b$(touch ran)",
        '"/x/a': "/x/a b$(touch ran)",
        '"/x/i': "/x/it's",
    }
    closing = {line: line[0] if shell == "zsh" and line[0] != "/" else "" for line in begun}
    found = typed(*(f"pyzk {PATIENT} get {line}\t{closing[line]}\r" for line in begun))
    assert [arguments[-1] for arguments in found] == list(begun.values())
    assert list((home / "empty").iterdir()) == []


def test_names_that_no_server_may_have_are_not_offered(
    typed: Type, home: Path, server: EmbeddedServer
) -> None:
    """As those with a line feed or an escape sequence, which only a hostile server sends."""
    server.load({"x": {"n-touch ran-": b"", "n-c-": b"", "n-tame": b""}})
    changes = {b"n-touch ran-": b"n\ntouch ran\n", b"n-c-": b"n\x1bc\x07"}
    with renaming(server.hosts, changes) as hosts:
        assert typed(f"pyzk {PATIENT} get /x/\t\r", hosts=hosts) == [[*PATIENT.split(), "get", "/x/n-tame"]]
    assert list((home / "empty").iterdir()) == []


def test_the_server_that_the_line_names_is_asked(
    typed: Type, server: EmbeddedServer, other: EmbeddedServer
) -> None:
    server.load({"ours": b""})
    lines = [
        "pyzk {patient} --hosts={hosts} rm -r /",
        "pyzk {patient} --hosts {hosts} rm -r /",
        "pyzk rm {patient} --hosts={hosts} -r /",
        "pyzk rm {patient} -r --hosts '{hosts}' /",
        'PYZK_AUTH= pyzk {patient} --session-timeout 9 --hosts "{hosts}" rm -r /',
        "pyzk-lock {patient} --hosts={hosts} --try /",
        "pyzk-lock --layout kazoo {patient} --hosts '{hosts}' /",
    ]
    found = typed(*(line.format(patient=PATIENT, hosts=other.hosts) + "th\t\r" for line in lines))
    assert [completed for *_, completed in found] == ["/theirs"] * len(lines)


def test_the_options_of_the_server(typed: Type) -> None:
    assert typed("pyzk-server --emul\t 3.8\r") == [["--emulate", "3.8"]]


def test_over_tls_and_as_the_line_says_who_we_are(
    shell: str, typed: Type, home: Path, tls: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(home))
    hosts, folder = tls
    (home / "folder").symlink_to(folder)
    (home / "auth file").write_text("digest:user:password\n")
    files = ["--ca-file", str(folder / "ca.pem"), "--cert-file", str(folder / "ann.pem")]
    run = ["--hosts", hosts, *files, "--auth-file", str(home / "auth file")]
    main([*run, "create", f"/{shell}"])
    assert main([*run, "create", f"/{shell}/inner"]) == 0
    assert main([*run, "acl", f"/{shell}", f"digest:{digest_id('user:password')}:cdrwa"]) == 0
    begun = f"pyzk {PATIENT} --hosts {hosts} --ca-file ~/folder/ca.pem --cert-file={folder}/ann.pem"
    assert main(["completion", "zsh", "--", *begun.split(), "get", f"/{shell}/"]) == Status.FORBIDDEN
    ((*_, completed),) = typed(f"{begun} --auth-file ~/'auth file' get /{shell}/\t\r")
    assert completed == f"/{shell}/inner"


@pytest.mark.parametrize(
    "line",
    [
        "pyzk --hosts 127.0.0.1:1 set /a --file /et",
        "pyzk --hosts 127.0.0.1:1 exec -- ls /et",
        "pyzk --hosts 127.0.0.1:1 inspect /et",
        "pyzk-lock --hosts 127.0.0.1:1 --auth-file /et",
        "pyzk-lock --hosts 127.0.0.1:1 /lock -- ls /et",
    ],
)
def test_where_a_file_is_wanted_no_server_is_asked(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "zsh", "--", *line.split()]) == Status.NO
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("/a\\ b", "/a b"),
        ("'/a\\ $b`'", "/a\\ $b`"),
        ('"/a\\$ \\b \\" c', '/a$ \\b " c'),
        ("/a'b'\"c\"d\\", "/abcd"),
        ("--hosts='a b'", "--hosts=a b"),
    ],
)
def test_quotes_of_bash_are_taken_away(word: str, expected: str) -> None:
    assert unquoted(word) == expected


@pytest.mark.parametrize("shell", SHELLS)
def test_a_completion_is_one_the_shell_reads(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(verb in script for verb in VERBS)
    need(None if shutil.which(shell) else f"no {shell} on the PATH")
    subprocess.run([shell, "-n"], input=script, text=True, check=True)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (["pyzk", "hea"], ["health"]),
        (["pyzk", "ls", "--rec"], ["--recursive"]),
        (["pyzk", "--hos"], ["--hosts"]),
        (["pyzk", "get", "/ap"], ["/app", "/apple"]),
        (["pyzk", "get", "/app/"], ["/app/config"]),
        (["pyzk", "completion", ""], ["bash", "zsh", "fish"]),
        (["pyzk", "fault", ""], ["set", "list", "rm"]),
        (["pyzk", "fault", "set", "--acti"], ["--action"]),
        (["pyzk", "exp"], ["expire"]),
        (["pyzk-lock", "--lay"], ["--layout"]),
        (["pyzk-lock", "--try", "/ap"], ["/app", "/apple"]),
        (["pyzk-lock", "/app", "--", "--lay"], []),
        (["pyzk-server", "--emul"], ["--emulate"]),
    ],
)
def test_bash_completes(
    server: EmbeddedServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    line: list[str],
    expected: list[str],
) -> None:
    need(None if shutil.which("bash") else "no bash on the PATH")
    server.load({"app": {"config": b""}, "apple": b""})
    main(["completion", "bash"])
    program = tmp_path / "pyzk"
    program.write_text(f'#!/bin/sh\nexec {" ".join(COMMAND)} "$@"\n')
    program.chmod(0o755)
    words = " ".join(f'"{word}"' for word in line)
    script = (
        capsys.readouterr().out
        + f"compopt() {{ :; }}\nCOMP_WORDS=({words}); COMP_CWORD={len(line) - 1}; _pyzk\n"
        + 'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(
        ["bash", "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYZK_HOSTS": server.hosts},
    )
    assert done.stdout.split() == expected
