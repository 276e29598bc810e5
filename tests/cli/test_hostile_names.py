"""Names that no znode may have, from a hostile server: no terminal obeys them, and none hides another."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from pyzk.cli.status import Status, say
from pyzk.server.testing import EmbeddedServer

from ..support.renaming import renaming
from .conftest import Run

EVIL = {b"evil-one-": b"\x1b]0;one\x07\n", b"evil-two-": b"a/../b/..", b"evil-csi-": b"\xc2\x9b31mred\n"}
LEFT_OUT = (
    r"pyzk: left out, because no znode can have such a name: /x/\x1b]0;one\x07\n and 2 more; "
    r"distrust this server"
)
BELOW = ["/x", "/x/a", "/x/a/b", "/x/z"]


@pytest.fixture
def hostile(server: EmbeddedServer, pyzk: Run, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    server.load({"x": {"a": {"b": b"1"}, "z": b"2", **{name.decode(): b"" for name in EVIL}}})
    with renaming(server.hosts, EVIL) as hosts:
        monkeypatch.setenv("PYZK_HOSTS", hosts)
        yield hosts


def test_tree_find_and_ls_show_the_rest_of_the_tree(pyzk: Run, hostile: str) -> None:
    done = pyzk("tree", "/x")
    assert done.lines == ["/x", "├── a", "│   └── b", "└── z"]
    assert (done.status, done.err.splitlines()) == (Status.REFUSED, [LEFT_OUT])
    assert pyzk("find", "/x").lines == BELOW
    assert [line.split()[-1] for line in pyzk("ls", "-l", "/x").lines[1:]] == ["a", "z"]
    shown = pyzk("ls", "/x").lines
    assert shown == [r"\x1b]0;one\x07\n", "a", "a/../b/..", "z", r"\x9b31mred\n"]


def test_dump_and_cp_take_the_rest_of_the_tree(pyzk: Run, hostile: str, server: EmbeddedServer) -> None:
    done = pyzk("dump", "/x")
    assert [json.loads(line)["path"] for line in done.lines] == ["/", "/a", "/a/b", "/z"]
    assert (done.status, done.err.splitlines()) == (Status.REFUSED, [LEFT_OUT])
    done = pyzk("cp", "/x", "/y")
    assert (done.status, done.err.splitlines()) == (Status.REFUSED, [LEFT_OUT])
    assert set(server.dump("/y")) == {"/y", "/y/a", "/y/a/b", "/y/z"}


def test_locks_shows_the_locks_beside_them(pyzk: Run, hostile: str, server: EmbeddedServer) -> None:
    server.load(
        {"x": {"l": {"evil-one-": b"", "_c_00000000-0000-0000-0000-000000000001-lock-0000000000": b""}}}
    )
    done = pyzk("locks", "/x")
    assert done.lines[0] == "/x/l: lock (Curator): 1 holding, 0 waiting"
    assert done.status == Status.REFUSED


def test_rm_says_what_is_left(pyzk: Run, hostile: str) -> None:
    done = pyzk("rm", "-r", "/x")
    assert done.status == Status.USAGE
    assert r"/x/\x1b]0;one\x07\n: no znode can have such a name" in done.err


def test_json_holds_nothing_that_a_terminal_obeys(pyzk: Run, server: EmbeddedServer) -> None:
    server.load({"x": "a\x9b31m\u202e".encode()})
    done = pyzk("get", "--json", "/x")
    assert done.out.strip().isprintable()
    assert json.loads(done.out)["data"] == "a\x9b31m\u202e"


def test_messages_and_warnings_are_one_line_of_printable_text(capsys: pytest.CaptureFixture[str]) -> None:
    say("pyzk", "no such \x1b[31m\nznode")
    assert capsys.readouterr().err == "pyzk: no such \\x1b[31m\\nznode\n"
