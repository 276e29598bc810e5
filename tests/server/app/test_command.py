"""The command as a process: its flags do what they say to clients."""

from __future__ import annotations

import json
import os
import re
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from benchmarks.wire import hello, request
from pyzk.protocol import records as r
from pyzk.protocol.constants import CreateMode
from pyzk.protocol.operations import OpCode
from pyzk.server.app import cli

from ...support.waiting import wait_until
from ...support.wire import WireClient


@contextmanager
def command(*flags: str, **options: Any) -> Iterator[tuple[tuple[str, int], subprocess.Popen[str]]]:
    """A server on a free port: its address, and the process, which has ended in order afterwards."""
    argv = [sys.executable, "-m", "pyzk.server", "--port", "0", *flags]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(argv, **pipes, **options) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            match = re.match(r"pyzk-server is ready at 127\.0\.0\.1:(\d+)", process.stdout.readline())
            assert match, process.stderr.read()
            yield ("127.0.0.1", int(match[1])), process
            process.terminate()
            assert process.wait(10) == 0
        finally:
            process.kill()


def refusal(capsys: pytest.CaptureFixture[str], *flags: str) -> str:
    """Why the command does not start."""
    assert cli.main(flags) == 2
    return capsys.readouterr().err


# --- the trace --------------------------------------------------------------------------------------------


def test_the_trace_goes_to_standard_output() -> None:
    with command("--trace") as (address, process):
        with WireClient(address) as client:
            client.connect()
            client.create("/a", b"x")
        process.terminate()
        assert process.stdout is not None
        lines = process.stdout.read()
    assert "-> create /a 'x'\n" in lines
    assert "<- create /a: ok" in lines
    assert "\x1b" not in lines


def test_the_trace_goes_to_a_file_for_its_owner(tmp_path: Path) -> None:
    file = tmp_path / "trace"
    flags = ["--trace-file", str(file), "--trace-format", "json", "--trace-op", "create"]
    for _ in range(2):
        with command(*flags) as (address, process):
            with WireClient(address) as client:
                client.connect()
                client.create("/a", b"x")
                client.exists("/a")
            process.terminate()
            assert process.stdout is not None
            assert "create" not in process.stdout.read()
    assert [json.loads(line)["kind"] for line in file.read_text().splitlines()] == ["request", "reply"] * 2
    assert file.stat().st_mode & 0o777 == 0o600


# --- the history ------------------------------------------------------------------------------------------


def timeline(address: tuple[str, int]) -> str:
    with urllib.request.urlopen("http://{}:{}/api/v1/timeline".format(*address)) as answer:
        return str(answer.read().decode())


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ([], ["create /a 'x'"]),
        (["--record", "recent"], ["create /a 'x'"]),
        (["--record", "all"], ["create /a 'x'"]),
        (["--record", "none"], ["the history begins here"]),
        (["--ensemble", "3"], ["create /a 'x'"]),
        (["--ensemble", "3", "--record", "none"], ["the history begins here"]),
        (["--ensemble", "3", "--record", "all"], ["create /a 'x'"]),
    ],
    ids=lambda given: " ".join(given),
)
def test_the_history_is_recorded_from_the_start(flags: list[str], says: list[str]) -> None:
    with command(*flags) as (address, _), WireClient(address) as client:
        client.connect()
        client.create("/a", b"x")
        told = timeline(address)
        assert [words for words in ("create /a 'x'", "the history begins here") if words in told] == says


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--trace-op", "destroy"], "--trace-op: unknown op 'destroy'; there are: add_watch"),
        (["--trace-session", "me"], "--trace-session"),
        (
            ["--otlp", "there"],
            "--otlp: the URL of a collector must be like http://127.0.0.1:4318, not 'there'",
        ),
        (["--trace-format", "xml"], "--trace-format"),
        (["--trace-file", "/nowhere/trace"], "cannot write to /nowhere/trace: No such file or directory"),
    ],
)
def test_a_trace_that_cannot_be_had(flags: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert words in refusal(capsys, *flags)


# --- settings ---------------------------------------------------------------------------------------------


def conf(address: tuple[str, int]) -> dict[str, str]:
    """The answer to ``conf``."""
    with WireClient(address) as client:
        client.send_bytes(b"conf")
        return dict(line.split("=", 1) for line in client.receive_rest().decode().splitlines() if "=" in line)


def test_keys_come_from_flags_the_environment_and_the_file_in_this_order(tmp_path: Path) -> None:
    (tmp_path / "zoo.cfg").write_text("clientPort=1\ntickTime=10\nmaxClientCnxns=10\nminSessionTimeout=10\n")
    variables = {"PYZK_MAX_CLIENT_CNXNS": "20", "PYZK_TICK_TIME": "20", "PYZK_CLIENT_PORT": "2"}
    flags = ["--config", str(tmp_path / "zoo.cfg"), "--set", "tickTime=30", "--set", "maxSessionTimeout=99"]
    with command(*flags, env=os.environ | variables) as (address, _):
        found = conf(address)
    assert (found["tickTime"], found["maxClientCnxns"], found["minSessionTimeout"]) == ("30", "20", "10")
    assert found["maxSessionTimeout"] == "99"
    assert found["clientPort"] == str(address[1])


def test_keys_need_no_file() -> None:
    env = os.environ | {"PYZK_EXTENDED_TYPES_ENABLED": "true"}
    with command("--set", "maxCnxns=7", env=env) as (address, _), WireClient(address) as client:
        client.connect()
        ttl = r.CreateTTLRequest("/t", b"", r.OPEN_ACL, CreateMode.PERSISTENT_WITH_TTL, 1000)
        assert client.request(OpCode.CREATE_TTL, ttl).err == 0


def test_a_key_that_does_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert refusal(capsys, "--set", "ticktime=1") == (
        "pyzk-server: --set: there is no key 'ticktime'; perhaps tickTime\n"
    )


@pytest.mark.parametrize("flags", [[], ["--no-expiry"]])
def test_without_expiry_a_silent_client_keeps_its_session_while_it_is_connected(flags: list[str]) -> None:
    times = ["--tick-time", "20", "--min-session-timeout", "20"]
    with command(*times, *flags) as (address, _), WireClient(address) as client, WireClient(address) as other:
        client.connect(timeout=500)
        other.connect(timeout=20_000)
        assert client.create("/e", flags=CreateMode.EPHEMERAL).err == 0
        if flags:
            time.sleep(1)
            assert other.exists("/e").err == 0
            client.drop()
        wait_until(lambda: other.exists("/e").err == -101)


def test_a_hostile_server(capsys: pytest.CaptureFixture[str]) -> None:
    names = [f"{n}" for n in range(8)]
    with command("--hostile", "5", "--trace-op", "create") as (address, process):
        with WireClient(address) as client:
            client.connect()
            for name in names:
                client.create(f"/{name}")
            orders = {tuple(client.children("/").record.children) for _ in range(5)}
            assert len(orders) > 1
            assert {tuple(sorted(order)) for order in orders} == {(*names, "zookeeper")}
        process.terminate()
        assert process.wait(10) == 0
        assert process.stdout is not None
        assert process.stderr is not None
        assert "create /7" in process.stdout.read()
        assert "hostile, seed 5" in process.stderr.read()
    assert "--hostile: invalid int value" in refusal(capsys, "--hostile", "x")


# --- the tree in a file -----------------------------------------------------------------------------------


def test_what_one_server_saves_another_one_loads(tmp_path: Path) -> None:
    file = tmp_path / "tree.jsonl"
    acl = (r.ACL(1, r.Id("digest", "ann:x")), r.ACL(31, r.Id("world", "anyone")))
    types = ["--set", "extendedTypesEnabled=true", "--save", str(file)]
    with command(*types) as (address, _), WireClient(address) as client:
        client.connect()
        client.create("/a", b"\x00\xff")
        client.create("/a/b", "größe".encode())
        client.request(OpCode.CREATE, r.CreateRequest("/a/acl", None, acl, 0))
        client.request(OpCode.CREATE, r.CreateRequest("/e", b"", r.OPEN_ACL, CreateMode.EPHEMERAL))
        client.request(OpCode.CREATE_CONTAINER, r.CreateRequest("/c", b"", r.OPEN_ACL, CreateMode.CONTAINER))
        ttl = r.CreateTTLRequest("/t", b"", r.OPEN_ACL, CreateMode.PERSISTENT_WITH_TTL, 90_500)
        client.request(OpCode.CREATE_TTL, ttl)
        client.set("/", b"top")
    saved = file.read_text()
    lines = {line.pop("path"): line for line in map(json.loads, saved.splitlines())}
    assert lines.pop("/e")["kind"] == "ephemeral"
    assert lines == {
        "/": {"data": "top"},
        "/a": {"hex": "00ff"},
        "/a/acl": {
            "data": None,
            "acl": [
                {"scheme": "digest", "id": "ann:x", "perms": "r"},
                {"scheme": "world", "id": "anyone", "perms": "cdrwa"},
            ],
        },
        "/a/b": {"data": "größe"},
        "/c": {"data": "", "kind": "container"},
        "/t": {"data": "", "kind": "ttl", "ttl": 90.5},
    }
    assert file.stat().st_mode & 0o777 == 0o600
    with command(*types, "--load", str(file)) as (address, _), WireClient(address) as client:
        client.connect()
        assert client.exists("/e").err == -101
    assert file.read_text() == "".join(line for line in saved.splitlines(True) if '"/e"' not in line)
    assert [path.name for path in tmp_path.iterdir()] == ["tree.jsonl"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "tree: No such file or directory"),
        ("{", "tree, line 1: "),
        ('{"path": "/a", "data": ""}\n{"path": "/b/c", "data": ""}', "The znode does not exist: /b/c"),
        ('{"path": "/t", "data": "", "kind": "ttl", "ttl": 1}', "TTL znodes need extendedTypesEnabled=true"),
        ('{"path": "/t", "data": "\udc80"}', "is not text in UTF-8"),
    ],
)
def test_a_file_that_cannot_be_loaded(
    tmp_path: Path, text: str | None, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "tree"
    if text is not None:
        file.write_text(text, errors="surrogateescape")
    message = refusal(capsys, "--port", "0", "--load", str(file), "--save", str(file)).splitlines()[-1]
    assert message.startswith("pyzk-server: --load: ")
    assert words in message
    assert not file.exists() or file.read_bytes() == (text or "").encode(errors="surrogateescape")


def test_a_place_where_nothing_can_be_saved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in (tmp_path, tmp_path / "nowhere" / "tree"):
        message = refusal(capsys, "--port", "0", "--save", str(path))
        assert message.startswith(f"pyzk-server: --save: cannot write {path}")


# --- the end ----------------------------------------------------------------------------------------------


def test_the_server_ends_with_its_standard_input(tmp_path: Path) -> None:
    file = tmp_path / "tree"
    argv = [sys.executable, "-m", "pyzk.server", "--port", "0", "--end-with-stdin", "--save", str(file)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            assert process.stdout.readline().startswith(b"pyzk-server is ready")
            process.stdin.write(b"what it reads has no effect\n")
            process.stdin.flush()
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.1)
            process.stdin.close()
            assert process.wait(10) == 0
        finally:
            process.kill()
    assert file.exists(), "it has ended in order"


def test_a_server_that_ends_with_its_standard_input_ends_by_a_signal_too() -> None:
    with command("--end-with-stdin", stdin=subprocess.PIPE):
        pass


def test_a_server_without_standard_input_ends_at_once() -> None:
    argv = [sys.executable, "-m", "pyzk.server", "--port", "0", "--end-with-stdin"]
    subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=10, check=True)


# --- TLS --------------------------------------------------------------------------------------------------


def test_certificates_are_made_on_the_spot_and_used_again(tmp_path: Path) -> None:
    folder = tmp_path / "tls"
    kept: dict[str, bytes] = {}
    for _ in range(2):
        with command("--tls", str(folder)) as (address, _process):
            context = ssl.create_default_context(cafile=folder / "ca.pem")
            for shown in (False, True):
                if shown:
                    context.load_cert_chain(folder / "client.pem")
                port = secure_port(address)
                with (
                    socket.create_connection(("127.0.0.1", port)) as plain,
                    context.wrap_socket(plain, server_hostname="localhost") as secure,
                ):
                    secure.sendall(hello(10_000) + request(OpCode.WHO_AM_I, b"", 1))
                    answer = b""
                    while len(answer) < 41 + 4 + 16 + 4:
                        answer += secure.recv(10_000)
                    assert (b"CN=client,OU=development,O=pyzk-server" in answer) is shown
        files = {path.name: path.read_bytes() for path in folder.iterdir()}
        assert sorted(files) == ["ca.pem", "client.pem", "server.pem"]
        assert all(path.stat().st_mode & 0o077 == 0 for path in (folder, *folder.iterdir()))
        assert kept in ({}, files)
        kept = files


def secure_port(address: tuple[str, int]) -> int:
    return int(conf(address)["secureClientPort"])


def test_without_a_directory_the_certificates_go_with_the_server() -> None:
    with command("--tls") as (_, process):
        assert process.stderr is not None
        (path,) = re.findall(r"trust this server by (\S+);", process.stderr.readline())
        assert Path(path).exists()
    assert not Path(path).parent.exists()


def test_certificates_that_cannot_be_had(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    message = refusal(capsys, "--tls", str(tmp_path / "file"))
    assert message.startswith(f"pyzk-server: --tls: cannot write to {tmp_path / 'file'}: ")
    assert "--tls-port works only with --tls" in refusal(capsys, "--tls-port", "1")
    monkeypatch.setitem(sys.modules, "trustme", None)
    message = refusal(capsys, "--tls", str(tmp_path / "new"))
    assert message == "pyzk-server: --tls needs more: pip install trustme\n"
