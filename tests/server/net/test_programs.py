"""Which program is behind a connection of this machine."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from pyzk.cli.main import main
from pyzk.server.net import programs
from pyzk.server.net.connection import Connection
from pyzk.server.net.programs import look_for_programs, script_of
from pyzk.server.testing import Controls, EmbeddedEnsemble, EmbeddedServer

ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="/proc tells it")
WORKER = """
import sys
from kazoo.client import KazooClient
zk = KazooClient(sys.argv[1])
zk.start()
zk.create("/lock/0__lock__0000000001", ephemeral=True, makepath=True)
print(zk.client_id[0], flush=True)
sys.stdin.read()
"""


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    file = tmp_path / "worker.py"
    file.write_text(WORKER)
    running: list[subprocess.Popen[str]] = []

    def start(hosts: str) -> subprocess.Popen[str]:
        command = [sys.executable, str(file), hosts, "--password", "secret"]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        found = subprocess.Popen(command, **pipes)
        running.append(found)
        assert found.stdout is not None
        assert found.stdout.readline(), "it is connected"
        return found

    yield start
    for each in running:
        each.kill()
        each.communicate()


def ask(server: Controls, path: str) -> str:
    with urllib.request.urlopen(f"{server.url}api/v1{path}") as answer:
        return str(answer.read().decode())


@ON_LINUX
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_the_program_behind_a_session(host: str, worker: Callable[[str], subprocess.Popen[str]]) -> None:
    with EmbeddedServer(host=host) as server:
        process = worker(server.hosts)
        program = f"{Path(sys.executable).name} worker.py (pid {process.pid})"
        [client] = json.loads(ask(server, "/clients"))["clients"]
        assert client["program"] == program
        assert json.loads(ask(server, f"/clients/{client['id']}"))["program"] == program
        lock = json.loads(ask(server, "/locks").splitlines()[0])
        assert [each["program"] for each in lock["holders"]] == [program]
        process.kill()
        process.communicate()
        assert "worker.py" not in ask(server, f"/clients?text={client['id']}"), "it is not connected any more"


@ON_LINUX
def test_the_program_behind_an_endpoint(worker: Callable[[str], subprocess.Popen[str]]) -> None:
    with EmbeddedServer() as server:
        process = worker(server.endpoint("worker-1").hosts)
        [client] = json.loads(ask(server, "/clients"))["clients"]
        assert f"(pid {process.pid})" in client["program"]


@ON_LINUX
def test_the_programs_behind_the_sessions_of_an_ensemble(
    worker: Callable[[str], subprocess.Popen[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Each server of the ensemble shows the clients of all servers."""
    with EmbeddedEnsemble(3) as ensemble:
        process = worker(ensemble[3].hosts)
        program = f"{Path(sys.executable).name} worker.py (pid {process.pid})"
        for number in (1, 3):
            [client] = json.loads(ask(ensemble[number], "/clients"))["clients"]
            assert (client["program"], client["server"]) == (program, 3)
            assert client["peer"] == f"127.0.0.1:{client['peer'].rpartition(':')[2]}"
            lock = json.loads(ask(ensemble[number], "/locks").splitlines()[0])
            assert [each["program"] for each in lock["holders"]] == [program]
        hosts = ["--hosts", ensemble[1].hosts]
        for verb in ("sessions", "locks"):
            assert main([*hosts, verb]) == 0
            assert program in capsys.readouterr().out
        assert f"  A  session {client['id']}  {program}\n" in ensemble.format_timeline()


@ON_LINUX
def test_a_timeline_names_the_programs_of_others(worker: Callable[[str], subprocess.Popen[str]]) -> None:
    with EmbeddedServer() as server:
        process = worker(server.hosts)
        own = KazooClient(server.hosts)
        own.start()
        shown = server.format_timeline().splitlines()
        [line] = [line for line in shown if "(pid " in line]
        assert line.endswith(f"worker.py (pid {process.pid})")
        assert line.startswith("  A  session 0x")
        assert shown[2].startswith("  B  session 0x"), "this process needs no name"
        assert line in ask(server, "/timeline")
        narrow = ask(server, "/timeline?width=60").splitlines()
        assert f"  0x{own.client_id[0]:x}" not in narrow[1:3], "lines name their sessions: no other head"
        assert [line.split("  ")[-1] for line in narrow if "(pid " in line] == [line.split("  ")[-1]]
        own.stop()
        own.close()


def a_connection(host: str) -> Connection:
    found = Connection.__new__(Connection)
    found.peer = host, 40_000
    return found


async def test_other_machines_are_not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "_find", lambda peers, ports: pytest.fail("it looks"))
    connections = [a_connection("10.0.0.1"), a_connection("fe80:0:0:0:0:0:0:1")]
    await look_for_programs(connections, {2181})
    assert [each.program for each in connections] == ["", ""]


async def test_each_connection_is_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[object] = []

    def find(peers: object, ports: object) -> dict[object, str]:
        looks.append(peers)
        return {}

    monkeypatch.setattr(programs, "_find", find)
    monkeypatch.setattr(sys, "platform", "linux")
    connections = [a_connection("127.0.0.1")]
    for _ in range(3):
        await look_for_programs(connections, {2181})
    assert looks == [{("127.0.0.1", 40_000)}]


def test_nothing_is_looked_for_among_processes_if_no_socket_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "_owners", lambda sockets: pytest.fail("it looks"))
    assert programs._find({("127.0.0.1", 1)}, {2}) == {}


async def test_where_the_system_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "_find", lambda peers, ports: pytest.fail("it looks"))
    monkeypatch.setattr(sys, "platform", "darwin")
    connections = [a_connection("127.0.0.1")]
    await look_for_programs(connections, {2181})
    assert connections[0].program == ""


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("/usr/bin/python3 -u /srv/worker.py --token secret", "worker.py"),
        ("python3.11 -m celery worker --password secret", "-m celery"),
        ("python -m secret=1", ""),
        ("python -c print(1)", ""),
        ("node --require x /srv/app.mjs secret", "app.mjs"),
        ("node secret", ""),
        ("python worker.py -m secret", "worker.py"),
        ("python -W ignore -m celery worker", "-m celery"),
        ("python -m", ""),
        ("python -c import_x secret.py", ""),
        ("node server secret.js", ""),
        ("node -e code secret.js", ""),
        ("deno run --allow-net /srv/main.ts", "main.ts"),
        ("bash -e /srv/run.sh", "run.sh"),
        ("java -cp a.jar:b.jar -Xmx1g com.example.Main secret", "com.example.Main"),
        ("java --add-opens java.base/java.lang=ALL-UNNAMED -jar /srv/app.jar secret", "-jar app.jar"),
        ("java -Dpassword=secret", ""),
        ("bash /srv/run.sh secret", "run.sh"),
        ("/srv/server --password secret", ""),
        ("redis-server secret.py", ""),
        ("python3 /bin/sh worker --password secret", "sh"),
        ("python3 /etc/passwd", ""),
        ("python3 /bin/there-is-no-such-secret", ""),
    ],
)
def test_what_is_shown_of_a_command_line(line: str, shown: str) -> None:
    assert " ".join(script_of(line.split())) == shown
