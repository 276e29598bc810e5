"""Arguments, the environment, and what makes no sense."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import pytest

from pyzk.cli.lock import main
from pyzk.cli.status import Failure, Status
from pyzk.protocol.version import __version__

from .process import options


def test_defaults() -> None:
    found = options("/x", "--", "git", "log", "--", "file")
    assert found.command == ("git", "log", "--", "file")
    assert found.hosts == "127.0.0.1:2181"
    assert found.timeout == float("inf")
    assert found.kill_after == 5
    assert found.auth == ()
    assert found.data.decode().endswith(f" pid {os.getpid()}: git"), "arguments may be secrets"


def test_the_environment_gives_what_the_arguments_do_not() -> None:
    environ = {"PYZK_HOSTS": "zk1,zk2/app", "PYZK_AUTH": "digest:ann:s3cret"}
    assert options("/x", "--", "true", **environ).hosts == "zk1,zk2/app"
    assert options("--hosts", "zk3", "/x", "--", "true", **environ).hosts == "zk3"
    assert options("/x", "--", "true", **environ).auth == (("digest", "ann:s3cret"),)
    assert "s3cret" not in repr(options("/x", "--", "true", **environ))


@pytest.mark.parametrize("limit", [("--try",), ("-n",), ("--timeout", "0"), ("-w", "0")])
def test_ways_not_to_wait(limit: tuple[str, ...]) -> None:
    assert options(*limit, "/x", "--", "true").timeout == 0


def test_the_file_of_identities_wins(tmp_path: Path) -> None:
    file = tmp_path / "auth"
    file.write_text("\n# both of us\ndigest:ann:s3cret\nip:10.0.0.1\n")
    found = options("--auth-file", str(file), "/x", "--", "true", PYZK_AUTH="digest:bob:other")
    assert found.auth == (("digest", "ann:s3cret"), ("ip", "10.0.0.1"))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "the following arguments are required: PATH"),
        ("/x", "no command to run: pyzk-lock /x -- COMMAND"),
        ("/x --", "no command to run: pyzk-lock /x -- COMMAND"),
        ("/x make all", "put -- before the command: pyzk-lock /x -- make all"),
        ("/x --wait -- true", "no such option: --wait"),
        ("/x /y -- true", "there must be only one PATH; put -- before the command, or leave out: /y"),
        ("--list /x -- true", "--list runs no command; leave out -- and the command"),
        ("--json /x -- true", "--json needs --list"),
        ("x -- true", "a path must start with /: x"),
        ("/x/ -- true", "a path must not end with / and must not have an empty component: /x/"),
        ("--hosts : /x -- true", "':' is not host:port"),
        ("--timeout soon /x -- true", "argument -w/--timeout: invalid seconds value: 'soon'"),
        ("--timeout -1 /x -- true", "argument -w/--timeout: invalid seconds value: '-1'"),
        ("--kill-after nan /x -- true", "argument -k/--kill-after: invalid seconds value: 'nan'"),
        ("--session-timeout 0 /x -- true", "--session-timeout must be more than 0"),
        ("--slots 0 /x -- true", "argument --slots: invalid number value: '0'"),
        ("-n -w 1 /x -- true", "argument -w/--timeout: not allowed with argument -n/--try"),
        ("--slots 2 --shared /x -- true", "argument -s/--shared: not allowed with argument --slots"),
        (
            "--slots 2 --layout both /x -- true",
            "--slots and --layout both exclude each other: choose the layout of Curator or of kazoo",
        ),
        ("--auth-file /nowhere /x -- true", "cannot read --auth-file /nowhere: No such file or directory"),
    ],
)
def test_arguments_that_make_no_sense(line: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line.split()) == 2
    assert capsys.readouterr().err == f"pyzk-lock: {message} (see pyzk-lock --help)\n"


@pytest.mark.parametrize("text", ["s3cret", ":s3cret", "digest:ann:pass\ns3cret"])
def test_a_malformed_identity_is_not_shown(text: str) -> None:
    with pytest.raises(Failure, match=r"PYZK_AUTH, line \d: it must be SCHEME:CREDENTIAL") as caught:
        options("/x", "--", "true", PYZK_AUTH=text)
    assert caught.value.status is Status.USAGE
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_and_version(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([option])
    assert caught.value.code == 0
    assert {"--help": "usage: pyzk-lock [OPTIONS] PATH", "--version": f"pyzk-lock {__version__}"}[
        option
    ] in capsys.readouterr().out


def test_it_is_installed_as_a_command() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())
    assert project["project"]["scripts"]["pyzk-lock"] == f"{main.__module__}:{main.__qualname__}"
