"""What directories are recognised as: a corpus of what libraries leave in the tree, with the expected answer.

Each directory is written down as its children by a letter. The expected answer has the shape, the letters of
those who hold, and ``b>a`` for each who waits and for whom (``b>`` if for nobody that has a name).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyzk.protocol.layouts import (
    Child,
    Directory,
    Layout,
    Library,
    Shape,
    number_after,
    parse,
    parts,
    recognise,
)
from pyzk.protocol.layouts.waiting import contenders, looks_at
from pyzk.protocol.records import Stat

PATH = "/app"
U = [f"e5d7c9ac-3b4e-4c55-9b5b-0c6f3f7a1d{n:02x}" for n in range(10)]
H = [text.replace("-", "") for text in U]


def stat(session: int, czxid: int = 1) -> Stat:
    return Stat(czxid, czxid, 0, 0, 0, 0, 0, session, 0, 0, czxid)


def curator(n: int, marker: str = "-lock-", number: int | None = None) -> str:
    return f"_c_{U[n]}{marker}{n if number is None else number:010d}"


def kazoo(n: int, marker: str = "__lock__") -> str:
    return f"{H[n]}{marker}{n:010d}"


def go(n: int) -> str:
    return f"_c_{H[n]}-lock-{n:010d}"


def aiozk(n: int, label: str = "lock") -> str:
    return f"{label}-{H[n]}-{n:010d}"


def ours(n: int, marker: str = "-lock-", other: str = "__lock__") -> tuple[str, str]:
    """The two names of one of ours, whose numbers follow each other."""
    return f"_c_{U[n]}{marker}{n:010d}", f"z{H[n]}{other}{n + 1:010d}"


WRITE_LOCK = "x-72057594037927937-{:010d}".format
OFFER = "n_{:010d}".format


@attrs.frozen
class Case:
    """A directory and what is to be said of it.

    :ivar children: by letter: a name, or two of one contender.
    :ivar parts: the names of children of other directories.
    :ivar persistent: letters of znodes that belong to no session; all others belong to one each.
    """

    id: str
    children: Mapping[str, str | tuple[str, str]]
    expected: str | None
    data: bytes | None = b""
    contents: Mapping[str, bytes] = {}
    persistent: str = ""
    parts: Mapping[str, Mapping[str, str]] = {}
    libraries: tuple[Library, ...] | None = None
    sessions: Mapping[str, int] = {}
    czxids: Mapping[str, int] = {}

    def names(self) -> dict[str, str]:
        """Letters by name."""
        found = {}
        for children in (self.children, *self.parts.values()):
            for letter, names in children.items():
                for name in (names,) if isinstance(names, str) else names:
                    found[name] = letter
        return found

    def directories(self) -> dict[str, Directory]:
        built = {}
        for path, children in ((PATH, self.children), *self.parts.items()):
            known = {}
            for letter, names in children.items():
                for name in (names,) if isinstance(names, str) else names:
                    session = 0 if letter in self.persistent else self.sessions.get(letter, ord(letter))
                    known[name] = Child(
                        stat(session, self.czxids.get(letter, 1)), self.contents.get(letter, b"")
                    )
            built[path] = Directory(known, self.data if path == PATH else b"")
        return built


def described(layout: Layout, letters: Mapping[str, str]) -> str:
    """The answer, in the words of this file."""
    words = [letters[entry.name] for entry in layout.holders]
    words += [
        f"{letters[entry.name]}>{letters[entry.waits_for] if entry.waits_for else ''}"
        for entry in layout.waiters
    ]
    if layout.items is not None:
        words.append(f"items={layout.items}")
    if layout.limit is not None:
        words.append(f"limit={layout.limit}")
    return " ".join([f"{layout.shape.name}:", *words])


CURATOR, KAZOO, GO, AIOZK, ZOOKEEPER = (
    Library.CURATOR,
    Library.KAZOO,
    Library.GO,
    Library.AIOZK,
    Library.ZOOKEEPER,
)

CORPUS = [
    # --- locks of one library -----------------------------------------------------------------------------
    Case("curator mutex", {"a": curator(1), "b": curator(2), "c": curator(3)}, "LOCK: a b>a c>b"),
    Case("order is that of numbers", {"a": curator(3), "b": curator(2, number=9)}, "LOCK: a b>a"),
    Case("kazoo lock", {"a": kazoo(1), "b": kazoo(2)}, "LOCK: a b>a", libraries=(KAZOO,)),
    Case("go lock", {"a": go(1), "b": go(2)}, "LOCK: a b>a", libraries=(GO,)),
    Case("aiozk lock", {"a": aiozk(1), "b": aiozk(2)}, "LOCK: a b>a", libraries=(AIOZK,)),
    Case(
        "write lock recipe", {"a": WRITE_LOCK(1), "b": WRITE_LOCK(2)}, "LOCK: a b>a", libraries=(ZOOKEEPER,)
    ),
    Case("ours, both names", {"a": ours(1), "b": ours(3)}, "LOCK: a b>a", libraries=(Library.PYZK,)),
    Case("half of a pair", {"a": ours(1)[1], "b": ours(3)}, "LOCK: a b>a"),
    Case("official text", {"a": f"{U[1]}-lock-0000000001", "b": f"{U[2]}-lock-0000000002"}, "LOCK: a b>a"),
    # --- read-write locks ---------------------------------------------------------------------------------
    Case(
        "curator readers and a writer",
        {"a": curator(1, "-__READ__"), "b": curator(2, "-__READ__"), "c": curator(3, "-__WRIT__")},
        "READ_WRITE_LOCK: a b c>b",
    ),
    Case(
        "curator readers behind writers",
        {
            "a": curator(1, "-__WRIT__"),
            "b": curator(2, "-__WRIT__"),
            "c": curator(3, "-__READ__"),
            "d": curator(4, "-__READ__"),
        },
        "READ_WRITE_LOCK: a b>a c>b d>b",
    ),
    Case(
        "curator downgrade with the writer's number",
        {"a": curator(1, "-__WRIT__"), "b": curator(2, "-__READ__", 1), "c": curator(3, "-__WRIT__")},
        "READ_WRITE_LOCK: a b c>b",
        sessions={"a": 7, "b": 7},
    ),
    Case(
        "curator downgrade with the next number",
        {"a": curator(1, "-__WRIT__"), "b": curator(2, "-__READ__")},
        "READ_WRITE_LOCK: a b",
        sessions={"a": 7, "b": 7},
    ),
    Case(
        "a reader of the session of a waiting writer waits",
        {"a": curator(0, "-__WRIT__"), "b": curator(1, "-__WRIT__"), "c": curator(2, "-__READ__")},
        "READ_WRITE_LOCK: a b>a c>b",
        sessions={"b": 7, "c": 7},
    ),
    Case(
        "kazoo readers and writers",
        {"a": kazoo(1, "__rlock__"), "b": kazoo(2, "__rlock__"), "c": kazoo(3), "d": kazoo(4, "__rlock__")},
        "READ_WRITE_LOCK: a b c>b d>c",
    ),
    Case(
        "aiozk shared lock",
        {"a": aiozk(1, "read"), "b": aiozk(2, "write"), "c": aiozk(3, "read")},
        "READ_WRITE_LOCK: a b>a c>b",
    ),
    Case(
        "our readers, both names",
        {
            "a": ours(1, "-__READ__", "__rlock__"),
            "b": ours(3, "-__READ__", "__rlock__"),
            "c": ours(5, "-__WRIT__"),
        },
        "READ_WRITE_LOCK: a b c>b",
    ),
    # --- several libraries on one path --------------------------------------------------------------------
    Case(
        "curator does not wait for kazoo",
        {"a": kazoo(1), "b": curator(2)},
        "LOCK: a b",
        libraries=(KAZOO, CURATOR),
    ),
    Case("kazoo does not wait for curator", {"a": curator(1), "b": kazoo(2)}, "LOCK: a b"),
    Case("both wait for ours", {"a": ours(1), "b": curator(3), "c": kazoo(4)}, "LOCK: a b>a c>a"),
    Case("ours waits for both", {"a": curator(1), "b": kazoo(2), "c": ours(3)}, "LOCK: a b c>b"),
    Case("go waits for curator and kazoo", {"a": curator(1), "b": kazoo(2), "c": go(3)}, "LOCK: a b c>b"),
    Case("curator waits for go", {"a": go(1), "b": curator(2)}, "LOCK: a b>a", libraries=(GO, CURATOR)),
    Case("kazoo does not wait for go", {"a": go(1), "b": kazoo(2)}, "LOCK: a b"),
    Case("aiozk waits for all", {"a": kazoo(1), "b": aiozk(2)}, "LOCK: a b>a"),
    Case("write lock recipe waits for curator", {"a": curator(1), "b": WRITE_LOCK(2)}, "LOCK: a b>a"),
    Case("write lock recipe does not wait for kazoo", {"a": kazoo(1), "b": WRITE_LOCK(2)}, "LOCK: a b"),
    Case(
        "four libraries and ours",
        {"a": ours(0), "b": curator(2), "c": kazoo(3), "d": go(4), "e": WRITE_LOCK(5)},
        "LOCK: a b>a c>a d>c e>d",
    ),
    Case(
        "curator reader and kazoo writer",
        {"a": kazoo(1), "b": curator(2, "-__READ__")},
        "READ_WRITE_LOCK: a b",
    ),
    # --- strange children ---------------------------------------------------------------------------------
    Case("a strange child is left alone", {"a": curator(1), "s": "strange"}, "LOCK: a"),
    Case("a digit before curator's", {"a": curator(1), "s": "0"}, "LOCK: a>s"),
    Case("a digit is nothing to kazoo", {"a": kazoo(1), "s": "0"}, "LOCK: a"),
    Case("numbers used up", {"a": curator(1, number=2**31 - 1)}, "LOCK: a"),
    Case("persistent contender", {"a": kazoo(1), "b": kazoo(2)}, "LOCK: a b>a", persistent="a"),
    # --- elections ----------------------------------------------------------------------------------------
    Case("curator latch", {"a": curator(1, "-latch-"), "b": curator(2, "-latch-")}, "ELECTION: a b>a"),
    Case("aiozk election", {"a": aiozk(1, "candidate"), "b": aiozk(2, "candidate")}, "ELECTION: a b>a"),
    Case("election support", {"a": OFFER(1), "b": OFFER(2)}, "ELECTION: a b>a", libraries=(ZOOKEEPER,)),
    Case(
        "patroni",
        {"a": "leader", "m": "members", "i": "initialize"},
        "ELECTION: a",
        persistent="mi",
        libraries=(Library.PATRONI,),
    ),
    Case(
        "hadoop",
        {"a": "ActiveStandbyElectorLock", "b": "ActiveBreadCrumb"},
        "ELECTION: a",
        persistent="b",
        libraries=(Library.HADOOP,),
    ),
    Case(
        "kafka",
        {"a": "controller", "b": "brokers", "c": "config"},
        "ELECTION: a",
        persistent="bc",
        libraries=(Library.KAFKA,),
    ),
    Case("hbase", {"a": "master", "b": "hbaseid"}, "ELECTION: a", persistent="b", libraries=(Library.HBASE,)),
    Case("one ephemeral as a lock", {"a": "lock"}, "LOCK: a", libraries=()),
    Case(
        "a leader of nobody known", {"a": "leader", "b": "data"}, "ELECTION: a", persistent="b", libraries=()
    ),
    # --- semaphores ---------------------------------------------------------------------------------------
    Case(
        "curator semaphore",
        {"l": "locks", "m": "leases"},
        "SEMAPHORE: a b c> d>c",
        persistent="lm",
        parts={
            f"{PATH}/leases": {"a": curator(1, "-lease-"), "b": curator(2, "-lease-")},
            f"{PATH}/locks": {"c": curator(3), "d": curator(4)},
        },
    ),
    Case(
        "curator semaphore, a lease that is not granted yet",
        {"l": "locks", "m": "leases"},
        "SEMAPHORE: a d c> e>c",
        persistent="lm",
        sessions={"b": 7, "c": 7, "d": 7},
        czxids={"a": 1, "d": 2, "c": 3, "b": 4, "e": 5},
        parts={
            f"{PATH}/leases": {
                "a": curator(1, "-lease-"),
                "b": curator(3, "-lease-"),
                "d": curator(2, "-lease-"),
            },
            f"{PATH}/locks": {"c": curator(4), "e": curator(5)},
        },
    ),
    Case("leases alone", {"a": curator(1, "-lease-"), "b": curator(2, "-lease-")}, "SEMAPHORE: a b"),
    Case("idle curator semaphore", {"l": "locks", "m": "leases"}, "SEMAPHORE:", libraries=(CURATOR,)),
    Case(
        "kazoo semaphore",
        {"a": H[1], "b": H[2]},
        "SEMAPHORE: a b c> limit=2",
        data=b"2",
        parts={f"{PATH}-__lock__": {"c": kazoo(3)}},
    ),
    Case("kazoo semaphore without its gate", {"a": H[1]}, "SEMAPHORE: a limit=1", data=b"1"),
    Case("idle kazoo semaphore", {}, "SEMAPHORE: limit=3", data=b"3", parts={f"{PATH}-__lock__": {}}),
    # --- barriers -----------------------------------------------------------------------------------------
    Case("curator double barrier, closed", {"a": U[1], "b": U[2]}, "DOUBLE_BARRIER: a> b>"),
    Case("curator double barrier, open", {"a": U[1], "r": "ready"}, "DOUBLE_BARRIER: a", persistent="r"),
    Case(
        "kazoo double barrier, closed",
        {"a": H[1], "b": H[2]},
        "DOUBLE_BARRIER: a> b>",
        contents={"a": b"host-123", "b": b"host-124"},
    ),
    Case("kazoo double barrier, open", {"a": H[1], "r": "ready"}, "DOUBLE_BARRIER: a"),
    Case("aiozk double barrier", {"a": aiozk(1, "worker"), "s": "sentinel"}, "DOUBLE_BARRIER: a"),
    # --- queues -------------------------------------------------------------------------------------------
    Case("simple queue", {"a": "qn-0000000001", "b": "qn-0000000002"}, "QUEUE: items=2", persistent="ab"),
    Case("curator queue", {"a": "queue-0000000001"}, "QUEUE: items=1", persistent="a", libraries=(CURATOR,)),
    Case(
        "priorities",
        {"a": "queue-1000000050000000001", "b": "queue-0FFFFFFFB0000000002"},
        "QUEUE: items=2",
        persistent="ab",
    ),
    Case("delays", {"a": "queue-|1234ABCD|0000000001"}, "QUEUE: items=1", persistent="a"),
    Case("claims of a curator queue", {"a": "queue-0000000001"}, "QUEUE: a"),
    Case("kazoo queue", {"a": "entry-100-0000000001"}, "QUEUE: items=1", persistent="a", libraries=(KAZOO,)),
    Case(
        "kazoo locking queue",
        {"e": "entries", "t": "taken"},
        "QUEUE: a items=2",
        persistent="et",
        parts={
            f"{PATH}/entries": {"x": "entry-100-0000000001", "y": "entry-100-0000000002"},
            f"{PATH}/taken": {"a": "entry-100-0000000001"},
        },
    ),
    # --- membership ---------------------------------------------------------------------------------------
    Case("kazoo party", {"a": f"{H[1]}__party__", "b": f"{H[2]}__party__"}, "GROUP: a b", libraries=(KAZOO,)),
    Case("shallow party", {"a": f"{H[1]}-worker", "b": f"{H[2]}-worker"}, "GROUP: a b", libraries=(KAZOO,)),
    Case("aiozk party", {"a": aiozk(1, "people")}, "GROUP: a", libraries=(AIOZK,)),
    Case("group of ephemerals", {"a": "web-1", "b": "web-2"}, "GROUP: a b", libraries=()),
    Case("lease by the clock", {"a": "lease_holder"}, "LEASE: a", persistent="a", libraries=(KAZOO,)),
    # --- not recognised -----------------------------------------------------------------------------------
    Case("empty", {}, None),
    Case("settings", {"a": "timeout", "b": "size"}, None, persistent="ab"),
    Case("some ephemeral, some not", {"a": "x", "b": "y"}, None, persistent="b"),
    Case("a leader that is persistent", {"a": "leader"}, None, persistent="a"),
    Case("a number and nobody", {}, None, data=b"42"),
    Case(
        "locks beside leases, of something else",
        {"l": "locks", "m": "leases"},
        None,
        persistent="lm",
        parts={f"{PATH}/leases": {"a": kazoo(1)}},
    ),
]


@pytest.mark.parametrize("case", CORPUS, ids=[case.id for case in CORPUS])
def test_a_directory_is_recognised(case: Case) -> None:
    found = recognise(PATH, case.directories())
    letters = case.names()
    assert (described(found, letters) if found else None) == case.expected
    if found and case.libraries is not None:
        assert found.libraries == case.libraries


def test_the_corpus_has_every_shape() -> None:
    shown = {case.expected.partition(":")[0] for case in CORPUS if case.expected}
    assert shown == {shape.name for shape in Shape}
    assert len(CORPUS) >= 40


@pytest.mark.parametrize("case", CORPUS, ids=[case.id for case in CORPUS])
def test_names_alone_are_enough_for_contenders(case: Case) -> None:
    """Nothing that was not read stands in the way of the answer."""
    bare = {
        path: Directory(dict.fromkeys(directory.children, Child()))
        for path, directory in case.directories().items()
    }
    found = recognise(PATH, bare)
    if any(parse(name) for name in bare[PATH].children) and not case.sessions:
        assert found is not None
        assert described(found, case.names()) == case.expected


def test_parts_are_named_before_anything_is_read() -> None:
    assert parts("/s", ["locks", "leases", "x"]) == ("/s/locks", "/s/leases")
    assert parts("/", ["locks", "leases"]) == ("/locks", "/leases")
    assert parts("/q", ["entries"]) == ("/q/entries", "/q/taken")
    assert parts("/s", [H[1]]) == parts("/s", []) == ("/s-__lock__",)
    assert parts("/", []) == ()
    assert parts("/s", [H[1], "x"]) == parts("/s", ["locks"]) == ()


def remarks(case_id: str) -> str:
    case = next(case for case in CORPUS if case.id == case_id)
    found = recognise(PATH, case.directories())
    assert found is not None
    return " ".join(found.remarks)


@pytest.mark.parametrize(
    ("case_id", "words"),
    [
        ("curator does not wait for kazoo", "2 hold it at the same time"),
        ("a digit before curator's", "waits for 0, which is no contender: delete 0"),
        ("numbers used up", "has a number after the last possible one"),
        ("persistent contender", "is persistent"),
    ],
)
def test_what_is_wrong_is_said(case_id: str, words: str) -> None:
    assert words in remarks(case_id)


@pytest.mark.parametrize(
    "case_id", ["curator mutex", "curator downgrade with the next number", "curator semaphore"]
)
def test_nothing_is_said_where_nothing_is_wrong(case_id: str) -> None:
    assert remarks(case_id) == ""


def test_a_lease_by_the_clock_says_who_and_until_when() -> None:
    data = b'{"version": 1, "holder": "worker-2", "end": "2026-11-22T03:00:00"}'
    found = recognise("/l", {"/l": Directory({"lease_holder": Child(stat(0), data)})})
    assert found is not None
    assert found.remarks == (
        "worker-2 holds it until 2026-11-22T03:00:00, in UTC, by the clock of its machine.",
    )


@pytest.mark.parametrize("data", [b"", None, b"{", b"[]", b"{}", b"[" * 100_000, b"\xff"])
def test_a_lease_by_the_clock_may_hold_anything(data: bytes | None) -> None:
    found = recognise("/l", {"/l": Directory({"lease_holder": Child(stat(0), data)})})
    assert found is not None
    assert found.remarks == ()


def test_a_number_of_any_length_is_not_read() -> None:
    assert recognise("/s", {"/s": Directory({}, b"9" * 10_000), "/s-__lock__": Directory({})}) == Layout(
        Shape.SEMAPHORE, parts=("/s-__lock__",), library=Library.KAZOO
    )


def test_a_foreign_child_of_a_semaphore_is_told() -> None:
    directories = {
        "/s": Directory({"locks": Child(), "leases": Child()}),
        "/s/leases": Directory({"x": Child()}),
    }
    found = recognise("/s", directories)
    assert found is not None
    assert found.unknown == ("x",)
    assert "counts x" in found.remarks[0]


def test_names_say_whose_they_are() -> None:
    names = {curator(1): CURATOR, kazoo(1): KAZOO, go(1): GO, aiozk(1): AIOZK, ours(1)[1]: Library.PYZK}
    for name, library in names.items():
        place = parse(name)
        assert place is not None
        assert place.library is library
    one, two = map(parse, ours(1))
    assert one is not None
    assert two is not None
    assert one.attempt == two.attempt == H[1]


_NAMES = st.lists(
    st.tuples(
        st.sampled_from(
            [
                lambda n: curator(0, number=n),
                lambda n: curator(0, "-__READ__", n),
                lambda n: curator(0, "-__WRIT__", n),
                lambda n: curator(0, "-latch-", n),
                lambda n: f"{H[0]}__lock__{n:010d}",
                lambda n: f"{H[0]}__rlock__{n:010d}",
                lambda n: f"z{n:032x}__lock__{n:010d}",
                lambda n: f"_c_{H[0]}-lock-{n:010d}",
                lambda n: f"lock-{H[0]}-{n:010d}",
                lambda n: f"read-{H[0]}-{n:010d}",
                WRITE_LOCK,
                OFFER,
            ]
        ),
        st.integers(0, 30),
    ),
    max_size=20,
    unique_by=lambda pair: pair[1],
)


@given(_NAMES)
def test_each_waits_for_the_nearest_one_that_it_looks_at(
    pairs: list[tuple[Callable[[int], str], int]],
) -> None:
    names = [make(number) for make, number in pairs]
    found, unknown = contenders(dict.fromkeys(names, Child()))
    assert unknown == []
    before: list[str] = []
    for contender in found:
        own = parse(contender.name)
        assert own is not None
        blocking = [name for name in before if (other := parse(name)) and other.kind in looks_at(own)]
        assert contender.waits_for == (blocking[-1] if blocking else None)
        before.append(contender.name)
    assert len(before) == len(names)


def test_a_thousand_contenders_take_no_time_squared() -> None:
    children = {curator(1, number=n): Child() for n in range(20_000)}
    found = recognise(PATH, {PATH: Directory(children)})
    assert found is not None
    assert len(found.waiters) == 19_999


@pytest.mark.parametrize(
    ("prefix", "name", "number"),
    [
        ("_c_1-lock-", "_c_1-lock-0000000007", 7),
        ("_c_1-lock-", "_c_1-lock--000000001", -1),
        ("_c_1-lock-", "_c_1-lock-7", None),
        ("_c_1-lock-", "_c_2-lock-0000000007", None),
    ],
)
def test_the_number_after_a_prefix(prefix: str, name: str, number: int | None) -> None:
    assert number_after(prefix, name) == number
