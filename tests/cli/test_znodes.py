"""``get``, ``set``, ``create``, ``stat``, ``acl`` and ``rm``."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from pyzk.cli.main import main
from pyzk.cli.status import Status
from pyzk.server.testing import EmbeddedServer, Node

from .conftest import Run


def test_create_get_set(pyzk: Run, server: EmbeddedServer) -> None:
    refused = pyzk("create", "/a/b", "one")
    assert (refused.status, refused.err) == (
        1,
        "pyzk: /a/b: its parent does not exist; -p creates the parent too\n",
    )
    assert pyzk("create", "-p", "/a/b", "one").out == "/a/b\n"
    assert pyzk("get", "/a/b").out == "one\n"
    assert pyzk("set", "/a/b", "two").out == "version 1\n"
    assert server.dump() == {"/a": b"", "/a/b": b"two"}


def test_what_cannot_be_read_as_text_is_shown_as_hex(pyzk: Run) -> None:
    pyzk("create", "/a", "--hex", "00ff41")
    assert pyzk("get", "/a").out == f"00000000  {'00 ff 41':<47}  ..A\n"
    assert pyzk("get", "/a", "--json").out == '{"path": "/a", "hex": "00ff41", "version": 0}\n'
    pyzk("create", "/b", "text")
    assert pyzk("get", "/b", "--hex").out == f"00000000  {'74 65 78 74':<47}  text\n"
    for name, data in (("escape", "\x1b[2J"), ("hidden", "bad\rgood"), ("turned", "\u202etxt")):
        pyzk("create", f"/{name}", data)
        assert pyzk("get", f"/{name}").out.startswith("00000000  ")
    pyzk("create", "/lines", "one\r\ntwo\tthree\n")
    assert pyzk("get", "/lines").out == "one\r\ntwo\tthree\n"


def test_raw_data_comes_as_it_is(pyzk: Run, server: EmbeddedServer) -> None:
    pyzk("create", "/a", "--hex", "00ff")
    command = [sys.executable, "-m", "pyzk.cli", "--hosts", server.hosts, "get", "--raw", "/a"]
    assert subprocess.run(command, capture_output=True, check=True).stdout == b"\x00\xff"


def test_data_from_files(
    pyzk: Run, server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").write_bytes(b"\x00file")
    pyzk("create", "/a", "--file", str(tmp_path / "data"))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"input\xff")))
    pyzk("create", "/b", "--file", "-")
    assert server.dump() == {"/a": b"\x00file", "/b": b"input\xff"}
    missing = pyzk("create", "/c", "--file", str(tmp_path / "nothing"))
    assert (missing.status, missing.err) == (
        Status.USAGE,
        f"pyzk: cannot read {tmp_path}/nothing: No such file or directory (see pyzk --help)\n",
    )


def test_kinds_of_znodes(pyzk: Run, server: EmbeddedServer) -> None:
    pyzk("create", "-c", "/container")
    pyzk("create", "--ttl", "5m", "/ttl")
    assert pyzk("create", "-s", "/seq-").out == "/seq-0000000002\n"
    nodes = server.dump(form="nodes")
    assert nodes["/container"].kind == "container"
    assert (nodes["/ttl"].kind, nodes["/ttl"].ttl) == ("ttl", 300_000)
    assert pyzk("create", "-c", "-s", "/x").status == Status.USAGE


def test_versions_are_checked(pyzk: Run) -> None:
    pyzk("create", "/a", "one")
    assert pyzk("set", "/a", "two", "--version", "7").status == Status.NO
    assert pyzk("rm", "/a", "--version", "7").err == (
        "pyzk: /a: version conflict: another client has changed the znode; read it again\n"
    )
    assert pyzk("rm", "-r", "/a", "--version", "0").status == Status.USAGE
    assert pyzk("rm", "/a", "--version", "0").status == 0


def test_stat(pyzk: Run, server: EmbeddedServer) -> None:
    pyzk("create", "/a", "1234")
    out = pyzk("stat", "/a").out
    assert "data      4 B, version 0" in out
    fields = json.loads(pyzk("stat", "/a", "--json").out)
    assert (fields["path"], fields["size"], fields["owner"]) == ("/a", 4, None)
    assert "kind      persistent" in pyzk("get", "--stat", "/a").out
    assert pyzk("stat", "/b").status == Status.NO


def test_acl(pyzk: Run, server: EmbeddedServer) -> None:
    server.load({"a": {"b": b""}})
    assert pyzk("acl", "/a").out == "world:anyone:cdrwa\n"
    assert pyzk("acl", "-R", "/a", "world:anyone:ra").status == 0
    assert pyzk("acl", "-R", "/a").lines == ["/a  world:anyone:ra", "/a/b  world:anyone:ra"]
    assert json.loads(pyzk("acl", "/a", "--json").out)["acl"] == [
        {"scheme": "world", "id": "anyone", "perms": "ra"}
    ]
    denied = pyzk("set", "/a", "x")
    assert (denied.status, denied.err) == (
        Status.FORBIDDEN,
        "pyzk: Not allowed by the znode's ACL: /a; check --auth-file or PYZK_AUTH\n",
    )


def test_identities(pyzk: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "auth").write_text("digest:ann:secret\n")
    with_auth = ["--auth-file", str(tmp_path / "auth")]
    assert pyzk(*with_auth, "create", "/a", "mine", "--acl", "auth::cdrwa").status == 0
    assert pyzk("get", "/a").status == Status.FORBIDDEN
    assert pyzk(*with_auth, "get", "/a").out == "mine\n"
    monkeypatch.setenv("PYZK_AUTH", "digest:ann:secret")
    assert pyzk("get", "/a").out == "mine\n"


def test_a_user_of_sasl(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with EmbeddedServer(sasl_users={"bob": "a:b"}) as server:
        monkeypatch.setenv("PYZK_HOSTS", server.hosts)
        monkeypatch.setenv("PYZK_AUTH", "sasl:bob:a:b\ndigest:ann:x")
        assert main(["create", "/a", "--acl", "sasl:bob:cdrwa"]) == 0
        for users, status in (
            ("sasl:bob:a:b", 0),
            ("digest:ann:x", Status.FORBIDDEN),
            ("sasl:bob:a", Status.FORBIDDEN),
            ("sasl::x", Status.USAGE),
        ):
            monkeypatch.setenv("PYZK_AUTH", users)
            assert main(["get", "/a"]) == status
        assert "a:b" not in capsys.readouterr().err


@pytest.mark.parametrize("text", ["x", "world:anyone", "world:anyone:rz", ""])
def test_acls_that_are_none(pyzk: Run, text: str) -> None:
    assert pyzk("create", "/a", "--acl", text).status == Status.USAGE


def test_rm(pyzk: Run, server: EmbeddedServer) -> None:
    server.load({"a": {"b": {"c": b""}, "d": b""}, "e": b"", "f": b""})
    full = pyzk("rm", "/a")
    assert (full.status, full.err) == (Status.NO, "pyzk: /a: it has children; -r deletes the children too\n")
    assert pyzk("rm", "-r", "/a", "/e").status == 0
    assert server.dump() == {"/f": b""}
    assert pyzk("rm", "-r", "/a").status == Status.NO
    assert pyzk("rm", "-r", "/").status == 0
    assert server.dump() == {}


def test_rm_ends_where_it_may_not_delete(pyzk: Run, server: EmbeddedServer) -> None:
    server.load({"a": {"b": {"c": b""}, "d": b""}})
    pyzk("acl", "/a/b", "world:anyone:a")
    refused = pyzk("rm", "-r", "/a")
    assert (refused.status, refused.err) == (
        Status.FORBIDDEN,
        "pyzk: Not allowed by the znode's ACL: /a/b; check --auth-file or PYZK_AUTH\n",
    )
    assert server.dump() == {"/a": b"", "/a/b": b"", "/a/b/c": b""}


def test_rm_of_a_big_tree(pyzk: Run, server: EmbeddedServer) -> None:
    server.load({f"/a/{i}/{j}": b"" for i in range(30) for j in range(50)})
    assert pyzk("rm", "-r", "/a").status == 0
    assert server.dump() == {}


def test_what_does_not_exist_and_what_does(pyzk: Run) -> None:
    pyzk("create", "/a")
    again = pyzk("create", "/a")
    assert (again.status, again.err) == (
        Status.NO,
        "pyzk: /a: it exists already; pyzk set replaces its data\n",
    )
    assert pyzk("create", "/x/y").status == Status.NO
    assert pyzk("get", "/x").err == "pyzk: /x: no such znode; pyzk ls shows the znodes that exist\n"


def test_null_is_told_from_nothing(pyzk: Run, server: EmbeddedServer) -> None:
    server.load({"null": Node(data=None), "empty": b""})
    assert pyzk("get", "/null").out == "(null)\n"
    assert pyzk("get", "/empty").out == ""
    assert json.loads(pyzk("get", "/null", "--json").out)["data"] is None


def test_only_one_source_of_data(pyzk: Run) -> None:
    assert pyzk("create", "/a", "x", "--hex", "00").status == Status.USAGE
    assert pyzk("create", "/a", "--hex", "0").status == Status.USAGE
    assert pyzk("set", "/a").status == Status.USAGE


def test_who_may_do_what(pyzk: Run, server: EmbeddedServer) -> None:
    server.load({"/app": {"a": {"b": ""}, "c": ""}})
    pyzk("acl", "/app/a/b", "ip:10.0.0.1:cdrwa,world:anyone:rw")
    for path in ("/app/a", "/app/c", "/app"):
        assert pyzk("acl", path, "world:anyone:r").status == 0
    assert pyzk("acls", "/app").lines == [
        "/app  world:anyone:r",
        "/app/a/b  ip:10.0.0.1:cdrwa,world:anyone:rw",
    ]
    found = pyzk("acls", "--world-writable", "/app")
    assert (found.status, found.lines) == (Status.NO, ["/app/a/b  world:anyone:rw"])
    none = pyzk("acls", "--world-writable", "/app/c")
    assert (none.status, none.out) == (0, "")
    everything = pyzk("acls", "--world-writable", "--json")
    assert json.loads(everything.lines[0])["path"] == "/"
