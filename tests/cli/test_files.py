"""``inspect``, and the files of a server as arguments of ``load``, ``dump`` and ``--load``."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from pyzk.cli.main import main
from pyzk.protocol.dump import Choice
from pyzk.protocol.files import places
from pyzk.server.app import tree_files
from pyzk.server.testing import EmbeddedServer, Node

from .conftest import Result, Run

Offline = Callable[..., Result]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A data directory: a snapshot, and a log behind it."""
    folder = tmp_path_factory.mktemp("data")
    with EmbeddedServer(data=folder, initial_zxid=0, extended_types=True) as server:
        zk = KazooClient(server.hosts)
        zk.start()
        zk.create("/a", b"text")
        zk.create("/a/b", b"x" * 2000)
        zk.create("/a/e", b"", ephemeral=True)
        zk.set("/a", b"\xff\x00")
        transaction = zk.transaction()
        transaction.create("/m", b"1")
        transaction.delete("/none")
        transaction.commit()
        server.load({"/c": Node(kind="container"), "/t": Node(kind="ttl", ttl=5000)})
        zk.stop()
        zk.close()
        yield folder


@pytest.fixture
def offline(capsys: pytest.CaptureFixture[str]) -> Offline:
    """Runs ``pyzk`` without a server."""

    def run(*arguments: object) -> Result:
        capsys.readouterr()
        status = main(["--hosts", "127.0.0.1:1", *map(str, arguments)])
        return Result(status, *capsys.readouterr())

    return run


def log_of(data: Path) -> Path:
    (log,) = (data / "version-2").glob("log.*")
    return log


def objects(result: Result) -> list[dict[str, Any]]:
    assert result.status == 0, result.err
    return [json.loads(line) for line in result.lines]


# --- inspect -----------------------------------------------------------------------------------------------


def test_a_directory_is_one_tree(offline: Offline, data: Path) -> None:
    result = offline("inspect", data)
    assert result.status == 0
    assert result.lines[0].startswith("8 znodes, 2.0 KiB of data, 0 sessions, zxid 0x8, digest ")
    shown = [line.split("  ")[0] for line in result.lines[1:]]
    assert shown == ["/", "/a", "/a/b", "/c", "/t"]
    assert any("TTL 5 s" in line for line in result.lines)
    (found,) = objects(offline("--json", "inspect", data, "/a/b"))[1:]
    assert found["data"] == "x" * 2000
    assert (found["path"], found["czxid"], found["kind"]) == ("/a/b", "0x3", "persistent")


def test_a_log_is_one_line_for_each_transaction(offline: Offline, data: Path) -> None:
    lines = offline("inspect", log_of(data)).lines
    assert [line.split("  ")[0] for line in lines] == [f"0x{zxid:x}" for zxid in range(1, 9)]
    for line, words in zip(
        lines,
        (
            "create_session timeout 10000 ms",
            "create /a text",
            "create /a/b xxx",
            "create /a/e (ephemeral)",
            "set_data /a 0xff00 v1",
            "failed: NoNodeError (-101)",
            "multi: create_container /c + create_ttl /t (TTL 5000 ms)",
            "close_session /a/e",
        ),
        strict=True,
    ):
        assert words in line
    entries = objects(offline("--json", "inspect", log_of(data)))
    assert len({entry["session"] for entry in entries} - {None}) == 1, "who asked for it"
    assert entries[1]["data"] == "text"
    assert entries[6]["session"] is None, "the server itself, or a test"


def test_the_history_of_a_znode(offline: Offline, data: Path) -> None:
    lines = offline("inspect", data, "--history", "/a/e").lines
    assert [line.split("  ")[0] for line in lines] == ["0x4", "0x8"]
    assert offline("inspect", data, "--history", "/never").status == 1


def test_sums_and_the_largest(offline: Offline, data: Path) -> None:
    found = objects(offline("--json", "inspect", data, "--sums"))[1:]
    assert {each["path"]: (each["znodes"], each["size"]) for each in found}["/a"] == (2, 2002)
    assert found[0]["path"] == "/"
    (largest,) = objects(offline("--json", "inspect", data, "--largest", "1"))[1:]
    assert largest == {"path": "/a/b", "size": 2000}
    below = objects(offline("--json", "inspect", data, "/a", "--sums", "1"))[1:]
    assert {each["path"] for each in below} == {"/a", "/a/b"}


def test_damage_is_one_line(offline: Offline, data: Path, tmp_path: Path) -> None:
    broken = tmp_path / "log.1"
    content = bytearray(log_of(data).read_bytes())
    content[100] ^= 1
    broken.write_bytes(bytes(content))
    result = offline("inspect", broken)
    assert result.status == 1
    assert result.err.count("\n") == 1
    assert "log.1: byte " in result.err
    broken.write_bytes(log_of(data).read_bytes()[:-5])
    result = offline("inspect", broken)
    assert (result.status, len(result.lines)) == (0, 7)
    assert "the last entry is incomplete" in result.err
    for name, text in (("snapshot.1", b"ZKSN" + bytes(50)), ("other", b"other")):
        (tmp_path / name).write_bytes(text)
        assert offline("inspect", tmp_path / name).status != 0
    assert "cannot read" in offline("inspect", tmp_path / "none").err


# --- load, dump --------------------------------------------------------------------------------------------


def test_a_part_of_a_directory_is_loaded(pyzk: Run, server: EmbeddedServer, data: Path) -> None:
    result = pyzk("load", "/copy", str(data), "--subtree", "/a", "--mask", "/b")
    assert result.status == 0, result.err
    assert server.dump() == {"/copy": b"\xff\x00", "/copy/b": b"***"}
    assert pyzk("load", "/copy", str(data), "--subtree", "/none").status == 1


def test_kinds_are_kept(pyzk: Run, server: EmbeddedServer, data: Path) -> None:
    assert pyzk("load", "/", str(data)).status == 0
    nodes = server.dump(form="nodes")
    assert (nodes["/c"].kind, nodes["/t"].kind, nodes["/t"].ttl) == ("container", "ttl", 5000)


def test_an_export_is_loaded(pyzk: Run, server: EmbeddedServer, tmp_path: Path) -> None:
    server.load({"/a": "1", "/a/b": "2"})
    snapshot = server.export(tmp_path / "out")
    assert pyzk("load", "/copy", str(snapshot)).status == 0
    assert server.dump("/copy") == {"/copy": b"", "/copy/a": b"1", "/copy/a/b": b"2"}
    with pytest.raises(Exception, match="already contains data"):
        server.export(tmp_path / "out")


def test_files_become_a_dump(offline: Offline, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "dump"
    assert offline("dump", "/", out, "--data", data, "--mask", "/a/*").status == 0
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(line["path"], line.get("kind")) for line in lines] == [
        ("/", None),
        ("/a", None),
        ("/a/b", None),
        ("/c", "container"),
        ("/t", "ttl"),
    ]
    assert lines[2]["data"] == "***"


def test_files_are_copied_to_files(offline: Offline, data: Path, tmp_path: Path) -> None:
    """Each znode keeps what the source has of it."""
    assert offline("cp", f"file:{data}", f"file:{tmp_path}/two/").out == "5 znodes, 2.0 KiB\n"
    source, copy = places.image_at(data), places.image_at(tmp_path / "two")
    copied = {path: node for path, node in source.nodes.items() if not path.startswith("/zookeeper")}
    for path, node in copied.items():
        assert copy.nodes[path] == node
    assert copy.zxid == source.zxid
    refused = offline("cp", f"file:{data}", f"file:{tmp_path}/two/")
    assert refused.status == 2
    assert "already contains data" in refused.err
    with EmbeddedServer(data=tmp_path / "two", extended_types=True) as server:
        assert server.dump(form="nodes")["/t"].ttl == 5000


def test_a_dump_is_named(pyzk: Run, server: EmbeddedServer, tmp_path: Path) -> None:
    file, other = tmp_path / "dump", tmp_path / "other"
    assert pyzk("dump", "/", str(file)).status == 0
    other.write_text("{}")
    assert "it is a file of pyzk dump" in pyzk("inspect", str(file)).err
    assert pyzk("inspect", str(other)).err.startswith(
        f"pyzk: {other} is not a snapshot, a log or a data directory; give one of these ("
    )


def test_a_dump_becomes_a_snapshot(offline: Offline, tmp_path: Path) -> None:
    dump, snapshot = tmp_path / "dump", tmp_path / "snapshot.5"
    dump.write_text(
        '{"path": "/", "data": ""}\n{"path": "/x", "data": "1"}\n'
        '{"path": "/x/c", "data": null, "kind": "container"}\n'
        '{"path": "/x/e", "data": "2", "kind": "ephemeral", "owner": "0x10000000000002a"}\n'
        '{"path": "/x/f", "data": "3", "kind": "ephemeral", "owner": "0x2b", "timeout": 12.5}\n'
        '{"path": "/x/t", "data": "3", "kind": "ttl", "ttl": 60,'
        ' "acl": [{"scheme": "ip", "id": "::1", "perms": "r"}]}\n'
    )
    choice = ("--subtree", "/x", "--ephemerals")
    assert offline("cp", f"file:{dump}", f"file:{snapshot}", *choice, "keep").status == 0
    assert stat.S_IMODE(snapshot.stat().st_mode) == 0o600
    again = objects(offline("dump", "/", "--data", snapshot))
    assert again == [
        {"path": "/", "data": "1"},
        {"path": "/c", "data": None, "kind": "container"},
        {"path": "/e", "data": "2", "kind": "ephemeral", "owner": "0x10000000000002a", "timeout": 30.0},
        {"path": "/f", "data": "3", "kind": "ephemeral", "owner": "0x2b", "timeout": 12.5},
        {
            "path": "/t",
            "data": "3",
            "acl": [{"scheme": "ip", "id": "::1", "perms": "r"}],
            "kind": "ttl",
            "ttl": 60.0,
        },
    ]
    assert "exists; name another" in offline("cp", f"file:{dump}", f"file:{snapshot}").err
    more = ("persist", "--no-acl", "--mask", "/t", "--overwrite")
    assert offline("cp", f"file:{dump}", f"file:{snapshot}", *choice, *more).status == 0
    lines = objects(offline("dump", "/", "--data", snapshot))
    assert lines[2:] == [
        {"path": "/e", "data": "2"},
        {"path": "/f", "data": "3"},
        {"path": "/t", "data": "***", "kind": "ttl", "ttl": 60.0},
    ]


def test_sessions_keep_their_timeouts_in_a_copy(offline: Offline, tmp_path: Path) -> None:
    with EmbeddedServer(data=tmp_path / "one") as server:
        zk = KazooClient(server.hosts, timeout=7)
        zk.start()
        zk.create("/e", ephemeral=True)
        session = zk.client_id[0]
        server.stop()  # the session lives on in the files
    assert offline("cp", f"file:{tmp_path}/one", f"file:{tmp_path}/two/", "--ephemerals", "keep").status == 0
    sessions = places.image_at(tmp_path / "two").sessions
    assert sessions == {session: 7000}
    zk.stop()
    zk.close()


@pytest.mark.parametrize("timeout", ["0", "-1", '"soon"', "1e400", "true"])
def test_a_timeout_in_a_dump_is_a_number_of_seconds(offline: Offline, tmp_path: Path, timeout: str) -> None:
    dump = tmp_path / "dump"
    dump.write_text(f'{{"path": "/", "data": "", "kind": "ephemeral", "timeout": {timeout}}}\n')
    refused = offline("cp", f"file:{dump}", f"file:{tmp_path}/snapshot.1", "--ephemerals", "keep")
    assert (refused.status, "timeout is a number of seconds" in refused.err) == (2, True)


def test_a_server_is_copied_to_files_and_back(pyzk: Run, server: EmbeddedServer, tmp_path: Path) -> None:
    """The counter of sequential znodes is kept."""
    server.load({"/a": "1", "/a/b": "2"})
    zk = KazooClient(server.hosts)
    zk.start()
    for _ in range(3):
        zk.delete(zk.create("/a/s-", sequence=True))
    place = f"file:{tmp_path}/copy/"
    assert pyzk("cp", "/a", place).status == 0
    with EmbeddedServer(data=tmp_path / "copy") as copy:
        assert copy.dump() == {"/": b"1", "/b": b"2"}
        there = KazooClient(copy.hosts)
        there.start()
        assert there.create("/s-", sequence=True) == "/s-0000000004"
        there.stop()
        there.close()
    assert pyzk("cp", place, "/back", "--subtree", "/b").status == 0
    assert zk.get("/back")[0] == b"2"
    assert "name the path in SOURCE" in pyzk("cp", "/a", place, "--subtree", "/b").err
    assert pyzk("cp", f"file:{tmp_path}/none", "/x").status == 2
    zk.stop()
    zk.close()


def test_the_server_starts_with_a_part_of_files(data: Path, tmp_path: Path) -> None:
    found = tree_files.read(str(data), Choice("/a", False, "persist", ("/b",)))
    assert [(node.path, node.data, node.acl) for node in found] == [
        ("/", b"\xff\x00", None),
        ("/b", b"***", None),
    ]
    dump = tmp_path / "dump"
    dump.write_text('{"path": "/a", "data": ""}\n{"path": "/a/b", "data": "x"}\n')
    assert [node.path for node in tree_files.read(str(dump), Choice("/a"))] == ["/", "/b"]
    with pytest.raises(tree_files.DumpError, match="has no /none"):
        tree_files.read(str(dump), Choice("/none"))


def test_the_server_starts_with_files(data: Path) -> None:
    assert [node.path for node in tree_files.read(str(data))] == ["/", "/a", "/a/b", "/c", "/t"]
    (snapshot,) = (data / "version-2").glob("snapshot.*")
    assert [node.path for node in tree_files.read(str(snapshot))] == ["/"]


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "snapshot.1").write_bytes(b"ZKSN" + bytes(50))
    with pytest.raises(tree_files.DumpError, match="byte "):
        tree_files.read(str(tmp_path / "snapshot.1"))
