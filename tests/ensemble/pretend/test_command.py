"""The command with ``--ensemble``, and with a zoo.cfg of an ensemble."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ...support.wire import WireClient

ZOO_CFG = """\
tickTime=2000
initLimit=10
syncLimit=5
clientPort=2181
server.1=zk1:2888:3888
server.2=zk2:2888:3888
server.3=zk3:2888:3888
"""


@contextmanager
def running(*arguments: str) -> Iterator[tuple[str, Sequence[tuple[str, int]]]]:
    """The readiness line, and the addresses in it."""
    command = [sys.executable, "-m", "pyzk.server", "--port", "0", "--log-level", "error", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline().strip()
            hosts = line.split()[4].split(",")
            yield line, [(host.rpartition(":")[0], int(host.rpartition(":")[2])) for host in hosts]
        finally:
            process.terminate()


def test_the_command_pretends_to_be_several_servers() -> None:
    with running("--ensemble", "3", "--observers", "1") as (line, addresses):
        assert line.startswith("pyzk-server is ready at 127.0.0.1:")
        assert line.endswith(" as a pretend ensemble: nothing is replicated")
        assert len(addresses) == 4
        first, last = (WireClient(address) for address in (addresses[0], addresses[3]))
        with first, last:
            first.connect()
            last.connect()
            assert first.create("/x", b"data").err == 0
            assert last.get("/x").record.data == b"data"
            assert (first.session_id >> 56, last.session_id >> 56) == (1, 4)


def test_a_zoo_cfg_of_an_ensemble_is_accepted(tmp_path: Path) -> None:
    file = tmp_path / "zoo.cfg"
    file.write_text(ZOO_CFG)
    with running("--config", str(file)) as (_, addresses), WireClient(addresses[1]) as client:
        client.connect()
        config = client.get("/zookeeper/config").record.data
        assert config.startswith(b"server.1=zk1:2888:3888:participant\nserver.2=zk2")


def test_the_trace_has_the_server_in_each_line() -> None:
    command = [sys.executable, "-m", "pyzk.server", "--port", "0", "--log-level", "error", "--ensemble", "3"]
    with subprocess.Popen([*command, "--trace-server", "2"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first, second, _ = process.stdout.readline().split()[4].split(",")
        process.stdout.readline()  # where HTTP is
        for hosts, path in ((first, "/one"), (second, "/two")):
            host, port = hosts.split(":")
            with WireClient((host, int(port))) as client:
                client.connect()
                client.create(path)
        while "-> create" not in (line := process.stdout.readline()):
            assert line[12:17] == " [2] "
        assert "-> create /two" in line
        process.terminate()


def refusal(*arguments: str) -> str:
    command = [sys.executable, "-m", "pyzk.server", "--port", "0", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2
    return done.stderr.splitlines()[-1]


def test_what_cannot_be_had_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "zoo.cfg"
    file.write_text(ZOO_CFG)
    assert "observers need an ensemble: give the number of servers that vote" in refusal("--observers", "1")
    assert "of a server of an ensemble: use it with --ensemble" in refusal("--trace-server", "1")
    assert "there are 1, 2, 3" in refusal("--ensemble", "3", "--trace-server", "4")
    assert "the configuration has 3 server lines" in refusal("--ensemble", "5", "--config", str(file))


def test_the_groups_of_a_zoo_cfg(tmp_path: Path) -> None:
    file = tmp_path / "zoo.cfg"
    file.write_text(f"{ZOO_CFG}group.1=1:2\ngroup.2=3\nweight.1=2\n")
    with running("--config", str(file)) as (_, addresses), WireClient(addresses[0]) as client:
        client.connect()
        config = client.get("/zookeeper/config").record.data.decode().splitlines()
        assert config[3:8] == ["group.1=1:2", "group.2=3", "weight.1=2", "weight.2=1", "weight.3=1"]
    file.write_text(f"{ZOO_CFG}group.1=1:2\n")
    assert "line 8: group.1: server 3 is in no group" in refusal("--config", str(file))


def test_an_ensemble_of_one(tmp_path: Path) -> None:
    file = tmp_path / "zoo.cfg"
    file.write_text("standaloneEnabled=false\ninitLimit=5\nsyncLimit=5\nserver.1=a:1:2\n")
    with running("--config", str(file)) as (line, addresses), WireClient(addresses[0]) as client:
        assert "a pretend ensemble" in line
        client.connect()
        assert client.create("/x").err == 0
        assert client.get("/zookeeper/config").record.data == b"server.1=a:1:2:participant\nversion=0"


# --- the times of an ensemble -----------------------------------------------------------------------------


def warnings(*arguments: str) -> str:
    """What the command says until it is ready, with the keys that have no effect."""
    command = [sys.executable, "-m", "pyzk.server", "--port", "0", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.terminate()
        return process.communicate()[1]


def conf(address: tuple[str, int]) -> list[str]:
    with socket.create_connection(address, timeout=10) as sock:
        sock.sendall(b"conf")
        return b"".join(iter(lambda: sock.recv(65536), b"")).decode().splitlines()


def test_limits_count_without_lines_of_servers() -> None:
    limits = ("--set", "syncLimit=2", "--set", "initLimit=3", "--election-time", "7")
    with running("--ensemble", "3", *limits) as (_, addresses):
        shown = conf(addresses[0])
        assert {"syncLimit=2", "initLimit=3"} <= set(shown)
    assert "without effect" not in warnings("--ensemble", "3", *limits)
    assert "there is no quorum: syncLimit" in warnings("--set", "syncLimit=2")
    said = warnings("--ensemble", "3", "--set", "leaderServes=no")
    assert "the servers of a pretend ensemble send each other nothing: leaderServes" in said
    said = warnings("--ensemble", "3", "--set", "globalOutstandingLimit=5")
    assert "let 1000 requests wait, and throttle none: globalOutstandingLimit" in said


def test_limits_that_cannot_be_are_refused() -> None:
    assert "an ensemble needs syncLimit, of at least 1 tick" in refusal(
        "--ensemble", "3", "--set", "syncLimit=0"
    )
    assert "works only with --ensemble" in refusal("--election-time", "7")
    assert "at least 0 ms" in refusal("--ensemble", "3", "--election-time", "-7")


def test_one_limit_may_be_given_alone() -> None:
    with running("--ensemble", "3", "--set", "syncLimit=2") as (_, addresses):
        assert {"syncLimit=2", "initLimit=10"} <= set(conf(addresses[1]))
