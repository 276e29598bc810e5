"""``cp``, ``diff``, ``dump`` and ``load``."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from pyzk.cli import pipeline, walking
from pyzk.cli.status import Status
from pyzk.cli.verbs import copying
from pyzk.client import ACL, Id
from pyzk.server.testing import EmbeddedServer, Node

from .conftest import Run

ANN = "ann:7RJfAeIvrl4zdj6sS2fXrQHDvHM="
"""Whose password is ``secret``."""
READ_ONLY = (ACL(1, Id("world", "anyone")), ACL(31, Id("digest", ANN)))
TREE = {
    "app": Node(
        data=b"top",
        children={
            "config": Node(data=b"\x00\xff", acl=READ_ONLY),
            "jobs": {"a": b"1", "b": Node(data=None)},
            "jobs.old": b"x",
            "é": "ü",
        },
    )
}


@pytest.fixture
def other() -> Iterator[EmbeddedServer]:
    with EmbeddedServer() as other:
        yield other


@pytest.fixture
def ann(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who runs ``pyzk`` may see and change everything."""
    monkeypatch.setenv("PYZK_AUTH", "digest:ann:secret")


FOR_READERS = (ACL(1, Id("world", "anyone")),)
CLOSED: dict[str, Any] = {
    "ro": Node(
        data=b"1",
        acl=FOR_READERS,
        children={"a": Node(data=b"2", acl=FOR_READERS, children={"b": b"3"}), "c": b"4"},
    ),
}


def acl_of(server: EmbeddedServer, pyzk: Run, top: str) -> list[str]:
    return pyzk("acl", "-R", top).lines


@pytest.mark.parametrize("way", ["cp", "load"])
def test_a_tree_that_may_only_be_read_is_copied_with_its_acls(
    pyzk: Run, server: EmbeddedServer, tmp_path: Path, way: str
) -> None:
    server.load(CLOSED)
    file = str(tmp_path / "dump")
    assert pyzk("dump", "/ro", file).status == 0
    for _ in range(2):  # the second time all is there
        done = pyzk("cp", "/ro", "/copy") if way == "cp" else pyzk("load", "/copy", file)
        assert (done.status, done.err) == (0, "")
    assert pyzk("diff", "/ro", "/copy").status == 0
    assert [line.split()[1] for line in acl_of(server, pyzk, "/copy")] == [
        "world:anyone:r",
        "world:anyone:r",
        "world:anyone:cdrwa",
        "world:anyone:cdrwa",
    ]


def test_a_copy_that_ended_halfway_says_so_and_goes_on(pyzk: Run, server: EmbeddedServer) -> None:
    """Its znodes have entries more in their ACLs until all are there; with those it goes on."""
    server.load(CLOSED)
    assert pyzk("create", "/copy", "1").status == 0
    assert pyzk("acl", "/copy", "world:anyone:r,world:anyone:ca").status == 0
    assert pyzk("create", "/copy/c", "other").status == 0
    done = pyzk("cp", "/ro", "/copy")
    assert done.status == Status.NO
    partial, failure = done.err.splitlines()
    assert partial == "pyzk: partial: 3 of 4 znodes exist; run it again to continue"
    assert failure.startswith("pyzk: /copy/c exists and has other data")
    assert pyzk("set", "/copy/c", "4").status == 0
    assert pyzk("cp", "/ro", "/copy").status == 0
    assert pyzk("diff", "/ro", "/copy").status == 0


def test_an_acl_that_somebody_has_set_is_left(pyzk: Run, server: EmbeddedServer) -> None:
    server.load(CLOSED)
    assert pyzk("create", "/copy", "1").status == 0
    assert pyzk("acl", "/copy", "world:anyone:rca").status == 0
    assert pyzk("cp", "/ro", "/copy").status == 0
    assert pyzk("acl", "/copy").out == "world:anyone:cra\n"


def test_digests_that_are_hidden_are_not_copied(pyzk: Run, server: EmbeddedServer) -> None:
    """The server shows them to who may change them; to others it shows an x."""
    server.load(TREE)
    hidden = pyzk("cp", "/app", "/copy")
    assert hidden.status == Status.FORBIDDEN
    assert hidden.err.startswith(
        "pyzk: /app/config: the server shows the digests of the ACL only to clients that may"
    )
    assert pyzk("cp", "--no-acl", "/app", "/copy").status == 0
    assert pyzk("diff", "--no-acl", "/app", "/copy").status == 0
    assert pyzk("dump", "/app").status == Status.FORBIDDEN
    assert "acl" not in pyzk("dump", "--no-acl", "/app").out


def test_without_its_acl_a_copy_leaves_those_that_are_there(pyzk: Run, server: EmbeddedServer) -> None:
    server.load({"a": b"1", "b": b"2"})
    pyzk("acl", "/b", "world:anyone:cdrw")
    assert pyzk("cp", "--no-acl", "--overwrite", "/a", "/b").status == 0
    assert pyzk("acl", "/b").out == "world:anyone:cdrw\n"
    assert pyzk("get", "/b").out == "1\n"


def test_cp_between_servers(ann: None, pyzk: Run, server: EmbeddedServer, other: EmbeddedServer) -> None:
    server.load(TREE)
    done = pyzk("cp", "/app", f"{other.hosts}/copies/app")
    assert (done.out, done.status) == ("7 znodes, 9 B\n", 0)
    assert other.dump("/copies/app", form="nodes") == {
        f"/copies{path}": node for path, node in server.dump("/app", form="nodes").items()
    }
    assert pyzk("diff", "/app", f"{other.hosts}/copies/app").status == 0
    assert pyzk("cp", f"{other.hosts}/copies", "/back").status == 0
    assert pyzk("diff", "/back/app", "/app").status == 0


def test_cp_leaves_what_is_there_unless_told(pyzk: Run, server: EmbeddedServer) -> None:
    server.load({"a": {"x": b"1", "y": b"2"}, "b": {"x": b"9", "z": b"3"}})
    refused = pyzk("cp", "/a", "/b")
    assert (refused.status, refused.err) == (
        Status.NO,
        "pyzk: partial: 1 of 3 znodes exist; run it again to continue\n"
        "pyzk: /b/x exists and has other data; pass --overwrite to replace the data\n",
    )
    assert pyzk("cp", "--overwrite", "/a", "/b").status == 0
    assert server.dump("/b") == {"/b": b"", "/b/x": b"1", "/b/y": b"2", "/b/z": b"3"}
    assert pyzk("cp", "/a", "/b").status == 0, "the same once more changes nothing"
    inside = pyzk("cp", "/a", "/a/copy")
    assert (inside.status, inside.err) == (
        Status.USAGE,
        "pyzk: /a/copy is part of /a: copy it to another place\n",
    )


def test_ephemerals_stay_where_they_are(pyzk: Run, server: EmbeddedServer) -> None:
    client = KazooClient(server.hosts)
    client.start()
    session, _ = client.client_id
    server.load({"a": {"e": Node(kind="ephemeral", owner=session), "p": b""}})
    copied = pyzk("cp", "/a", "/b")
    assert copied.err == (
        "pyzk: left out 1 ephemeral znodes: they belong to sessions, and end with them;"
        " --ephemerals persist copies them too\n"
    )
    assert server.dump("/b") == {"/b": b"", "/b/p": b""}
    lines = [json.loads(line) for line in pyzk("dump", "/a").lines]
    assert lines[1] == {"path": "/e", "data": "", "kind": "ephemeral", "owner": f"0x{session:x}"}
    assert len(pyzk("dump", "/a", "--ephemerals", "omit").lines) == 2
    assert pyzk("cp", "/a", "/c", "--ephemerals", "persist").status == 0
    assert server.dump("/c", form="nodes")["/c/e"].kind == "persistent"
    assert "keep works only for files" in pyzk("cp", "/a", "/d", "--ephemerals", "keep").err
    client.stop()
    client.close()


def test_a_copy_of_the_root_leaves_the_servers_own_out(
    pyzk: Run, server: EmbeddedServer, other: EmbeddedServer
) -> None:
    server.load({"a": b"1"})
    assert pyzk("cp", "/", f"{other.hosts}/").out == "2 znodes, 1 B\n"
    assert other.dump() == {"/a": b"1"}


@pytest.mark.parametrize("ahead", [1, 200])
def test_big_trees(
    pyzk: Run, server: EmbeddedServer, other: EmbeddedServer, monkeypatch: pytest.MonkeyPatch, ahead: int
) -> None:
    monkeypatch.setattr(pipeline, "AHEAD", ahead)
    monkeypatch.setattr(pipeline, "BYTES_AHEAD", 10_000)
    monkeypatch.setattr(walking, "BYTES_AHEAD", 10_000)
    server.load({f"/a/{i}/{j}": bytes(j * 40) for i in range(10) for j in range(40)})
    assert pyzk("cp", "/a", f"{other.hosts}/a").status == 0
    assert other.dump() == server.dump()


def test_progress_is_shown_at_a_terminal(
    pyzk: Run, server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(copying, "_SHOW_EVERY", -1)
    server.load({f"/a/{n}": b"12" for n in range(10)})
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    assert pyzk("cp", "/a", "/b").out == "11 znodes, 20 B\n"
    assert terminal.getvalue().startswith("\r1 of 11 znodes, 0 B\x1b[K\r2 of 11 znodes, 2 B\x1b[K")
    assert terminal.getvalue().endswith("\r\x1b[K"), "it is wiped out at the end"


def test_diff(pyzk: Run, server: EmbeddedServer) -> None:
    server.load(
        {"a": {"x": b"1", "only": b"left", "same": b""}, "b": {"x": b"2", "same": b"", "zz": b"\xff"}}
    )
    server.load({"b": {"same": {"below": b""}}})
    pyzk("acl", "/b/same", "world:anyone:cdra")
    found = pyzk("diff", "/a", "/b")
    assert found.lines == [
        "- /only  left",
        "! /same  acl: world:anyone:cdrwa | world:anyone:cdra",
        "+ /same/below",
        "! /x  data: 1 | 2",
        "+ /zz  0xff",
    ]
    assert found.status == Status.NO
    assert "acl" not in pyzk("diff", "--no-acl", "/a", "/b").out
    assert [json.loads(line)["path"] for line in pyzk("diff", "--json", "/a", "/b").lines] == [
        "/only",
        "/same",
        "/same/below",
        "/x",
        "/zz",
    ]
    assert pyzk("diff", "/a", "/nothing").status == Status.NO
    assert pyzk("diff", "/a", "nonsense").status == Status.USAGE


def test_dump_and_load(
    ann: None,
    pyzk: Run,
    server: EmbeddedServer,
    other: EmbeddedServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server.load(TREE)
    file = tmp_path / "tree"
    assert pyzk("dump", "/app", str(file)).out == "7 znodes, 9 B\n"
    written = pyzk("dump", "/app").out
    assert file.read_text() == written
    assert pyzk("--hosts", other.hosts, "load", "/app", str(file)).out == "7 znodes, 9 B\n"
    assert other.dump("/app", form="nodes") == server.dump("/app", form="nodes")
    monkeypatch.setattr("sys.stdin", io.StringIO(written))
    assert pyzk("load", "/other/place").status == 0
    assert pyzk("diff", "/app", "/other/place").status == 0


def test_load_creates_containers_and_ttl_znodes(pyzk: Run, server: EmbeddedServer, tmp_path: Path) -> None:
    file = tmp_path / "tree"
    file.write_text(
        '{"path": "/", "data": ""}\n\n{"path": "/c", "data": "", "kind": "container"}\n'
        '{"path": "/t", "data": null, "kind": "ttl", "ttl": 60}\n'
    )
    assert pyzk("load", "/a", str(file)).status == 0
    nodes = server.dump(form="nodes")
    assert nodes["/a/c"].kind == "container"
    assert (nodes["/a/t"].kind, nodes["/a/t"].ttl, nodes["/a/t"].data) == ("ttl", 60_000, None)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("nonsense", "line 2: Expecting value"),
        ("[]", "line 2: list indices"),
        ('{"data": ""}', "line 2: no 'path'"),
        ('{"path": "x", "data": ""}', "line 2: a path must start with /: x"),
        ('{"path": "/x"}', "line 2: no 'data'"),
        ('{"path": "/x", "hex": "0"}', "line 2: "),
        ('{"path": "/x", "data": "", "kind": "odd"}', "line 2: there is no kind 'odd'"),
        ('{"path": "/x", "data": 5}', "line 2: data is text or null, not 5"),
        ('{"path": "/x", "data": "", "kind": "ttl", "ttl": Infinity}', "line 2: "),
        ('{"path": "/x", "data": "", "kind": "ttl"}', "line 2: no 'ttl'"),
        ("[" * 100_000, "line 2: "),
        (
            '{"path": "/x", "data": "", "acl": [{"perms": "z", "scheme": "", "id": ""}]}',
            "'z' are no permissions",
        ),
        ("\xff", "is not text in UTF-8"),
    ],
)
def test_a_line_that_is_no_znode(pyzk: Run, tmp_path: Path, line: str, words: str) -> None:
    file = tmp_path / "tree"
    file.write_bytes(b'{"path": "/", "data": ""}\n' + line.encode("latin-1"))
    refused = pyzk("load", "/a", str(file))
    assert refused.status == Status.USAGE
    assert re.search(re.escape(words), refused.err)
    assert refused.err.count("\n") == 1


def test_files_that_cannot_be_had(pyzk: Run, tmp_path: Path) -> None:
    assert pyzk("load", "/a", str(tmp_path / "nothing")).err.startswith("pyzk: cannot read ")
    assert pyzk("dump", "/", str(tmp_path / "no" / "folder")).err.startswith("pyzk: cannot write ")
