"""``pyzk-server --data`` as a process: killed with SIGKILL, refused, repaired."""

from __future__ import annotations

import resource
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import pytest
from kazoo.client import KazooClient

from pyzk.server.app import cli
from pyzk.server.storage.directory import DataDirectory
from pyzk.server.testing import EmbeddedServer, ServerDied
from pyzk.server.testing.process import ProcessServer

from ...support.threads import join
from ...support.waiting import wait_until
from ...support.wire import ClosedError, WireClient


def server_of(data: Path, *more: str) -> ProcessServer:
    return ProcessServer(arguments=["--data", str(data), *more])


def kill(server: ProcessServer) -> None:
    process = server._process
    assert process is not None
    process.kill()
    process.wait()
    server.stop()


def test_what_was_answered_outlives_a_kill(tmp_path: Path) -> None:
    """Clients pipeline writes until the server is killed; each that was answered is there afterwards."""
    server = server_of(tmp_path).start()
    answered: list[int] = [0] * 4

    def write(client: int, zk: KazooClient) -> None:
        pending = [zk.create_async(f"/{client}-{number}", b"") for number in range(600)]
        for each in pending:
            each.wait()
            if each.successful():
                answered[client] += 1

    clients = [KazooClient(server.hosts, connection_retry={"max_tries": 0}) for _ in answered]
    for zk in clients:
        zk.start()
    threads = [threading.Thread(target=write, args=item, daemon=True) for item in enumerate(clients)]
    for thread in threads:
        thread.start()
    try:
        wait_until(lambda: min(answered) >= 100, patience=60)  # there is something to lose
    finally:
        kill(server)
    for zk in clients:
        zk.stop()
    join(*threads)
    with server_of(tmp_path) as again:
        zk = KazooClient(again.hosts)
        zk.start()
        names = set(zk.get_children("/"))
        zk.stop()
        zk.close()
    for client, count in enumerate(answered):
        assert {f"{client}-{number}" for number in range(count)} <= names
    for zk in clients:
        zk.close()


def test_a_client_goes_on_with_its_session_after_a_kill(tmp_path: Path) -> None:
    server = server_of(tmp_path).start()
    with WireClient((server.host, server.port)) as client:
        client.connect()
        client.create("/e", b"", flags=1)
        session, password = client.session_id, client.password
        kill(server)
    with server_of(tmp_path) as again, WireClient((again.host, again.port)) as client:
        client.connect(session_id=session, password=password)
        assert client.session_id == session
        assert client.exists("/e").err == 0
        client.close_session()


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (["--data-repair"], "--data-repair is for --data"),
        (["--data", "{}", "--load", "x"], "--load and --data both name the data to start with"),
        (["--data", "{}/file"], "--data: cannot use"),
        (["--data-log", "{}"], "--data-log is for --data"),
        (["--load-mask", "/secret"], "--load-mask is for --load"),
    ],
)
def test_what_makes_no_sense_is_refused(
    flags: list[str], reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert cli.main([flag.format(tmp_path) for flag in flags]) == 2
    assert reason in capsys.readouterr().err


def test_damage_is_one_line_and_the_repair_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kill(server_of(tmp_path).start())
    (snapshot,) = (tmp_path / "version-2").glob("snapshot.*")
    snapshot.write_bytes(snapshot.read_bytes()[:-60])
    assert cli.main(["--data", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert f"{snapshot.name}, byte " in error
    assert "--data-repair" in error
    server = server_of(tmp_path, "--data-repair").start()
    assert "left out by the repair" in server.log()
    kill(server)
    assert (tmp_path / "version-2" / "set-aside-1" / snapshot.name).exists()
    with server_of(tmp_path):
        pass


def test_a_log_that_cannot_be_written_ends_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What would be lost is not answered."""
    from pyzk.server.storage import journal

    server = EmbeddedServer(data=tmp_path).start()
    zk = KazooClient(server.hosts, connection_retry={"max_tries": 0})
    zk.start()

    def full(fd: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(journal.os, "write", full)
    pending = zk.create_async("/a")
    pending.wait(10)
    assert not pending.successful()
    zk.stop()
    zk.close()
    with pytest.raises(ServerDied, match=r"cannot write the log.*No space left on device"):
        server.stop()


def test_the_command_ends_where_its_log_cannot_be_written(tmp_path: Path) -> None:
    """As on a full disk: a file may have 16 KiB. What was answered is there when there is room again.

    ``-B``: the compiled modules are files, too, and CPython 3.11 would leave them cut off for everybody.
    """
    limited = ("bash", "-c", 'ulimit -f 16; exec "$@"', "bash", sys.executable, "-B", "-m", "pyzk.server")
    server = ProcessServer(arguments=["--data", str(tmp_path)], executable=limited).start()
    answered = 0
    with WireClient((server.host, server.port)) as client, suppress(ClosedError, OSError):
        client.connect()
        for answered in range(1000):
            assert client.create(f"/{answered}", bytes(100)).err == 0
    assert 0 < answered < 999
    process = server._process
    assert process is not None
    assert process.wait(10) == 2
    error = server.log()
    assert "--data: cannot write the log" in error
    assert "Traceback" not in error
    server.stop()
    with server_of(tmp_path) as again, WireClient((again.host, again.port)) as client:
        client.connect()
        names = client.children("/").record.children
        assert {str(number) for number in range(answered)} <= set(names)


def test_what_was_answered_outlives_a_lack_of_memory(tmp_path: Path) -> None:
    """The address space is limited. Either the server has ended by itself, or it refuses all clients."""
    server = server_of(tmp_path).start()
    process = server._process
    assert process is not None
    used = int(Path(f"/proc/{process.pid}/statm").read_text().split()[0]) * resource.getpagesize()
    limit = used + 4 * 2**20
    resource.prlimit(process.pid, resource.RLIMIT_AS, (limit, limit))
    answered = []
    for number in range(10):  # a client may lose its connection before the server ends
        with suppress(ClosedError, OSError), WireClient((server.host, server.port)) as client:
            client.connect()
            for more in range(100_000):
                path = f"/{number}-{more}"
                assert client.create(path, bytes(100)).err == 0
                answered.append(path)
    assert process.poll() in (None, 3)
    kill(server)
    assert len(answered) > 1000
    with server_of(tmp_path) as again, WireClient((again.host, again.port)) as client:
        client.connect()
        assert {path[1:] for path in answered} <= set(client.children("/").record.children)


@pytest.mark.parametrize("place", ["change", "entry", "frame", "write"])
def test_memory_that_runs_out_during_a_write_ends_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """The tree may hold what the log does not: a later write on it would be lost."""
    server = EmbeddedServer(data=tmp_path).start()
    zk = KazooClient(server.hosts, connection_retry={"max_tries": 0})
    zk.start()
    zk.create("/before")

    def fail(*args: object) -> NoReturn:
        raise MemoryError

    name = {
        "change": "pyzk.server.core.tree.DataTree.change",
        "entry": "pyzk.server.storage.log_writer.COUNTED",
        "frame": "pyzk.server.storage.log_writer.adler32",
        "write": "pyzk.server.storage.journal.Journal._write",
    }[place]
    monkeypatch.setattr(name, fail)
    pending = zk.delete_async("/before")
    pending.wait(10)
    assert not pending.successful()
    zk.stop()
    zk.close()
    with pytest.raises(ServerDied):
        server.stop()
    monkeypatch.undo()
    with EmbeddedServer(data=tmp_path) as again:
        assert again.dump() == {"/before": b""}


def test_a_first_snapshot_that_cannot_be_written_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(directory: DataDirectory, path: Path, zxid: int, compression: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(DataDirectory, "finish", full)
    assert cli.main(["--port", "0", "--data", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("pyzk-server: --data: cannot write a snapshot in ")
    assert error.endswith(": No space left on device\n")


def test_a_server_in_a_test_starts_again_with_its_data(tmp_path: Path) -> None:
    server = EmbeddedServer(data=tmp_path)
    for number in range(3):
        with server:
            server.load({f"/{number}": str(number)})
            assert server.dump() == {f"/{each}": str(each).encode() for each in range(number + 1)}


def test_a_server_in_a_test_may_be_reset_and_restarted(tmp_path: Path) -> None:
    with EmbeddedServer(data=tmp_path) as server:
        server.load({"/a": "1"})
        server.restart(keep_data=True)
        assert server.dump() == {"/a": b"1"}
        server.restart(keep_data=False)
        server.load({"/b": "2"})
    with EmbeddedServer(data=tmp_path) as server:
        assert server.dump() == {"/b": b"2"}
        server.reset()
    with EmbeddedServer(data=tmp_path) as server:
        assert server.dump() == {}
