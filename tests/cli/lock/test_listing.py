"""Who holds a lock and who waits, for people and for programs."""

from __future__ import annotations

import json

import attrs
import pytest
from kazoo.client import KazooClient

from pyzk.cli.lock.listing import Entry, Survey, as_json, entries, table
from pyzk.cli.units import age
from pyzk.client import Stat
from pyzk.recipes import Contender, ContenderKind

from .process import Start, queue_up


def entry(kind: str = "lock", data: bytes = b"ann", **changes: object) -> Entry:
    made = Entry(kind, ("curator",), kind == "read", 0x1A, 1000.0, 77, ("/x/n",), data)
    return attrs.evolve(made, **changes)  # type: ignore[arg-type]


LONG = f"/x/_c_{'a' * 32}-lock-0000000000"


def test_the_table() -> None:
    found = Survey(
        [entry("read", paths=(LONG,)), entry("read", b"bob", session=0x1B, came=900.0)],
        [
            entry("lock", b"\xff\x00", libraries=("curator", "kazoo")),
            entry("lock", b"a\nb"),
            entry("lock", b"x" * 200),
        ],
    )
    assert table("/x", found, 1002.0, {}) == "\n".join(
        [
            "/x: 2 holding, 3 waiting",
            "   STATE  AS    LIBRARY        SESSION  AGE         ZNODE                     DATA",
            "1  holds  read  curator        0x1a     2 s         …aaaaaaa-lock-0000000000  ann",
            "2  holds  read  curator        0x1b     1 min 42 s  n                         bob",
            r"3  waits  lock  curator+kazoo  0x1a     2 s         n                         b'\xff\x00'",
            r"4  waits  lock  curator        0x1a     2 s         n                         b'a\nb'",
            f"5  waits  lock  curator        0x1a     2 s         n                         {'x' * 119}…",
        ]
    )


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"ann", "ann"),
        (b"", "a contender without data"),
        (b"x" * 200, "x" * 200),
        (b"x" * 900_000, "x" * 200 + "… (900,000 bytes)"),
        (b"\x1b[2J\n", r"b'\x1b[2J\n'"),
        ("\u202egnp".encode(), r"b'\xe2\x80\xaegnp'"),
        (b"\x1b" * 1000, "b'" + r"\x1b" * 49 + r"\x… (1,000 bytes)"),
    ],
)
def test_a_holder_in_a_few_words(data: bytes, shown: str) -> None:
    words = entry(data=data).describe(1002.0)
    assert words == f"{shown} (session 0x1a, for 2 s)"
    assert words.isprintable()


def test_the_table_of_nobody() -> None:
    assert table("/x", Survey([], []), 1000.0, {}) == "/x: nobody holds it"


def test_the_table_for_machines() -> None:
    found = json.loads(as_json("/x", Survey([entry(came=2000.0)], [entry(token=2**60 + 1)]), 1002.5, {}))
    assert found["path"] == "/x"
    holder, waiting = found["contenders"]
    assert holder == {
        "holds": True,
        "position": 0,
        "kind": "lock",
        "libraries": ["curator"],
        "session": "0x1a",
        "client": None,
        "program": None,
        "token": "77",
        "age": 0.0,
        "data": "ann",
        "nodes": ["/x/n"],
    }
    assert (waiting["holds"], waiting["position"], waiting["token"]) == (False, 1, str(2**60 + 1))
    assert waiting["age"] == 2.5


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "0 s"), (59.4, "59 s"), (60, "1 min 0 s"), (3725, "1 h 2 min"), (200_000, "2 d 7 h")],
)
def test_ages(seconds: float, text: str) -> None:
    assert age(seconds) == text


def test_one_with_two_names_is_one() -> None:
    def contender(name: str, kind: ContenderKind, session: int, zxid: int) -> Contender:
        stat = Stat(zxid, zxid, 5000, 5000, 0, 0, 0, session, 0, 0, zxid)
        return Contender(f"/x/{name}", name, kind, 0, b"d", stat)

    found = entries(
        [
            contender("a", ContenderKind.CURATOR_LOCK, 1, 10),
            contender("b", ContenderKind.KAZOO_LOCK, 1, 10),
            contender("c", ContenderKind.KAZOO_READ, 1, 11),
            contender("d", ContenderKind.AIOZK_WRITE, 2, 11),
        ]
    )
    assert [(one.kind, one.libraries, one.paths) for one in found] == [
        ("lock", ("curator", "kazoo"), ("/x/a", "/x/b")),
        ("read", ("kazoo",), ("/x/c",)),
        ("write", ("aiozk",), ("/x/d",)),
    ]
    assert found[0].came == 5.0


def test_readers_hold_until_the_first_writer(start: Start, other: KazooClient) -> None:
    queue_up(other, "-__READ__", "-__READ__", "-__WRIT__", "-__READ__")
    found = json.loads(start("--list", "--json", "/x").end()[1])["contenders"]
    assert {one["client"].rpartition(":")[0] for one in found} == {"127.0.0.1"}
    assert [(one["kind"], one["position"], one["data"]) for one in found] == [
        ("read", 0, "Zoë"),
        ("read", 0, "Zoë"),
        ("write", 1, "Zoë"),
        ("read", 2, "Zoë"),
    ]


def test_a_terminal_that_cannot_show_everything(start: Start, other: KazooClient) -> None:
    queue_up(other, "-lock-", "-__READ__")
    status, output, _ = start("--list", "/x", PYTHONIOENCODING="ascii").end()
    assert status == 0
    assert "CLIENT" in output.splitlines()[1]
    _, _, *rows = (line.split() for line in output.splitlines())
    assert [(row[1], row[2], row[-1]) for row in rows] == [
        ("holds", "lock", r"Zo\xeb"),
        ("waits", "read", r"Zo\xeb"),
    ]
