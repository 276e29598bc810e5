"""The create family: order of checks, kinds of znodes, names (semantics.md 3, 4.1, 6)."""

from __future__ import annotations

import pytest

from pyzk.protocol import records as r
from pyzk.protocol.constants import CreateMode
from pyzk.protocol.operations import OpCode

from ..support.requests import acl
from ..support.wire import WireClient
from .servers import SUPER_CREDENTIALS

PLAIN, CREATE2, CONTAINER, TTL = OpCode.CREATE, OpCode.CREATE2, OpCode.CREATE_CONTAINER, OpCode.CREATE_TTL
MAX_TTL = 2**40 - 1


def lay_out(client: WireClient, top: str) -> None:
    """The tree that the tables below speak of."""
    client.create(f"{top}/open")
    client.create(f"{top}/open/child")
    client.create(f"{top}/closed/child")
    client.create(f"{top}/closed", acl=[acl(31 & ~4, "world", "anyone")])
    client.create(f"{top}/ephemeral", flags=CreateMode.EPHEMERAL)
    client.create(f"{top}/full")
    client.create(f"{top}/full/ephemeral", flags=CreateMode.EPHEMERAL)
    quota = f"/zookeeper/quota{top}"
    for path in (quota, f"{quota}/full"):
        client.create(path)
    client.create(f"{quota}/full/zookeeper_limits", b"count=-1,bytes=-1=;countHardLimit=2")
    client.create(f"{quota}/full/zookeeper_stats")


# What fails in a create comes in this order: each row fails the check it names and all that its later parts
# violate, and only the first counts (semantics.md 4.1).
ORDER = [
    ("flag before path", PLAIN, "nosl", r.OPEN_ACL, 7, -8),
    ("flag before ACL", PLAIN, "/open/n", [], 7, -8),
    ("flag before parent", PLAIN, "/none/n", r.OPEN_ACL, -1, -8),
    ("TTL before ACL", PLAIN, "/none/n", [], 5, -8),
    ("TTL before parent", PLAIN, "/none/n", r.OPEN_ACL, 6, -8),
    ("no slash before ACL", PLAIN, None, [], 0, -8),
    ("NUL before ACL", PLAIN, "/open/\0", [], 0, -8),
    ("ACL before parent", PLAIN, "/none/n", [], 0, -114),
    ("ACL before node", PLAIN, "/open/child", [], 0, -114),
    ("ACL before bad name", PLAIN, "/open/.", [], 0, -114),
    ("parent before bad name", PLAIN, "/none/.", r.OPEN_ACL, 0, -101),
    ("parent", PLAIN, "/none/n", r.OPEN_ACL, 0, -101),
    ("permission before bad name", PLAIN, "/closed/.", r.OPEN_ACL, 0, -102),
    ("permission before node", PLAIN, "/closed/child", r.OPEN_ACL, 0, -102),
    ("permission", PLAIN, "/closed/n", r.OPEN_ACL, 0, -102),
    ("bad name", PLAIN, "/open/.", r.OPEN_ACL, 0, -8),
    ("bad name before ephemeral parent", PLAIN, "/ephemeral/..", r.OPEN_ACL, 0, -8),
    ("node", PLAIN, "/open/child", r.OPEN_ACL, 0, -110),
    ("node before quota", PLAIN, "/full/ephemeral", r.OPEN_ACL, 0, -110),
    ("ephemeral parent", PLAIN, "/ephemeral/n", r.OPEN_ACL, 0, -108),
    ("ephemeral parent before quota", PLAIN, "/full/ephemeral/n", r.OPEN_ACL, 0, -108),
    ("sequential under an ephemeral", PLAIN, "/ephemeral/n", r.OPEN_ACL, 2, -108),
    ("quota", PLAIN, "/full/n", r.OPEN_ACL, 0, -125),
    ("fine", PLAIN, "/open/n", r.OPEN_ACL, 0, 0),
]


@pytest.mark.parametrize(
    ("path", "entries", "flags", "err"),
    [(row[2], row[3], row[4], row[5]) for row in ORDER],
    ids=[row[0] for row in ORDER],
)
@pytest.mark.parametrize("op", [PLAIN, CREATE2, CONTAINER], ids=lambda op: op.name)
def test_the_first_failing_check_decides(
    client: WireClient, top: str, op: OpCode, path: str | None, entries: list[r.ACL], flags: int, err: int
) -> None:
    lay_out(client, top)
    full = path if path == "nosl" else "without a slash" if path is None else top + path
    reply = client.create(full, acl=entries, flags=flags, op=op)
    assert reply.err == err


@pytest.mark.parametrize(
    ("path", "entries", "ttl", "err"),
    [
        ("/none/n", [], 0, -8),
        ("/none/n", [], 1000, -114),
        ("/none/n", r.OPEN_ACL, 1000, -101),
        ("/closed/n", r.OPEN_ACL, 1000, -102),
        ("/open/child", r.OPEN_ACL, 1000, -110),
        ("/ephemeral/n", r.OPEN_ACL, 1000, -108),
        ("/full/n", r.OPEN_ACL, 1000, -125),
        ("/open/n", r.OPEN_ACL, 100_000, 0),
    ],
)
def test_the_first_failing_check_of_a_ttl_create(
    client: WireClient, top: str, path: str, entries: list[r.ACL], ttl: int, err: int
) -> None:
    lay_out(client, top)
    assert client.create(top + path, acl=entries, flags=5, ttl=ttl).err == err


@pytest.mark.parametrize("flags", [5, 6])
@pytest.mark.parametrize("op", [PLAIN, CREATE2, CONTAINER], ids=lambda op: op.name)
def test_ttl_flags_need_the_ttl_op(client: WireClient, top: str, op: OpCode, flags: int) -> None:
    # semantics.md 4.1, check 3: the other ops carry an implicit ttl of -1
    assert client.create(f"{top}/n", flags=flags, op=op).err == -8


@pytest.mark.parametrize("flags", [5, 6])
@pytest.mark.parametrize(
    ("ttl", "err"),
    [(1, 0), (MAX_TTL, 0), (0, -8), (-1, -8), (MAX_TTL + 1, -8), (-(2**63), -8), (2**63 - 1, -8)],
)
def test_the_range_of_a_ttl(client: WireClient, top: str, flags: int, ttl: int, err: int) -> None:
    # semantics.md 4.1, check 3
    assert client.create(f"{top}/n", flags=flags, ttl=ttl).err == err


@pytest.mark.parametrize("flags", [-(2**31), -1, 7, 8, 100, 2**31 - 1])
@pytest.mark.parametrize("op", [PLAIN, CREATE2, CONTAINER, TTL], ids=lambda op: op.name)
def test_flags_are_an_enumeration(client: WireClient, top: str, op: OpCode, flags: int) -> None:
    # wire.md section 14
    assert client.create(f"{top}/n", flags=flags, op=op, ttl=1000 if op == TTL else None).err == -8


KINDS = [  # op, flags, sequential, ephemeral (semantics.md 4.1, second table)
    (PLAIN, 0, False, False),
    (PLAIN, 1, False, True),
    (PLAIN, 2, True, False),
    (PLAIN, 3, True, True),
    (PLAIN, 4, False, False),
    (CREATE2, 0, False, False),
    (CREATE2, 1, False, True),
    (CREATE2, 2, True, False),
    (CREATE2, 3, True, True),
    (CREATE2, 4, False, False),
    (CONTAINER, 0, False, False),
    (CONTAINER, 1, False, False),
    (CONTAINER, 2, True, False),
    (CONTAINER, 3, True, False),
    (CONTAINER, 4, False, False),
    (TTL, 5, False, False),
    (TTL, 6, True, False),
]


@pytest.mark.parametrize(
    ("op", "flags", "sequential", "ephemeral"), KINDS, ids=[f"{row[0].name}-{row[1]}" for row in KINDS]
)
def test_what_kind_of_znode_results(
    client: WireClient, top: str, op: OpCode, flags: int, sequential: bool, ephemeral: bool
) -> None:
    client.create(f"{top}/first")
    reply = client.create(f"{top}/n", b"data", flags=flags, op=op, ttl=10**6 if op == TTL else None)
    final = f"{top}/n0000000001" if sequential else f"{top}/n"
    assert (reply.err, reply.record.path) == (0, final)
    stat = client.exists(final).record.stat
    assert stat.ephemeralOwner == (client.session_id if ephemeral else 0)
    assert (stat.dataLength, stat.numChildren) == (4, 0)
    assert (stat.version, stat.cversion, stat.aversion) == (0, 0, 0)
    assert stat.czxid == stat.mzxid == stat.pzxid == reply.zxid
    assert stat.ctime == stat.mtime
    if op != PLAIN:
        assert reply.record.stat == stat
    child = client.create(f"{final}/child").err
    assert child == (-108 if ephemeral else 0)


def test_create_answers_without_a_stat(client: WireClient, top: str) -> None:
    # wire.md 9.3
    assert client.create(f"{top}/n").body == r.CreateResponse(f"{top}/n").encode()


@pytest.mark.parametrize("data", [None, b"", b"\0", b"x" * 1000], ids=["null", "empty", "NUL", "long"])
def test_null_and_empty_data_differ(client: WireClient, top: str, data: bytes | None) -> None:
    # wire.md section 2
    client.create(f"{top}/n", data)
    reply = client.get(f"{top}/n")
    assert reply.record.data == data
    assert reply.record.stat.dataLength == len(data or b"")
    client.set(f"{top}/n", b"other")
    client.set(f"{top}/n", data)
    assert client.get(f"{top}/n").record.data == data


GOOD_NAMES = ["...", ".x", "..x", " ", "a b", "é", "日本", "\u00a0", "\uf900", "\uffef", "~", "x" * 5000]
BAD_NAMES = [
    ".",
    "..",
    "\x01",
    "\x1f",
    "\x7f",
    "\x9f",
    "\ue000",
    "\uf8ff",
    "\ufff0",
    "\ufffd",
    "\uffff",
    "😀",
]


@pytest.mark.parametrize("name", GOOD_NAMES, ids=ascii)
def test_names_that_are_allowed(client: WireClient, top: str, name: str) -> None:
    # semantics.md 3
    assert client.create(f"{top}/{name}").record.path == f"{top}/{name}"
    assert name in client.children(top).record.children
    assert client.set(f"{top}/{name}", b"").err == 0


@pytest.mark.parametrize("name", BAD_NAMES, ids=ascii)
def test_names_that_are_not_allowed(client: WireClient, top: str, name: str) -> None:
    # semantics.md 3: setData and setACL apply the same rules
    assert client.create(f"{top}/{name}").err == -8
    assert client.set(f"{top}/{name}", b"").err == -8
    assert client.set_acl(f"{top}/{name}", r.OPEN_ACL).err == -8


@pytest.mark.parametrize(
    ("path", "err"),
    [
        ("", -8),
        ("a", -8),
        ("x/b", -101),
        ("/", -110),
        ("//", -8),
        ("{top}//b", -101),
        ("{top}/", -8),
        ("{top}/none/", -101),
        ("{top}/a\0", -8),
        ("/zookeeper", -110),
        ("/zookeeper/quota", -110),
        ("/zookeeper/config", -110),
        ("/zookeeper/config/n", -102),
    ],
)
def test_odd_paths(client: WireClient, top: str, path: str, err: int) -> None:
    # semantics.md 3, last paragraph
    assert client.create(path.format(top=top)).err == err


def test_a_malformed_path_reads_as_replacement_characters(client: WireClient, top: str) -> None:
    # wire.md section 2: and U+FFFD is forbidden
    good = r.CreateRequest(f"{top}/nn", b"", r.OPEN_ACL, 0).encode()
    assert client.request(PLAIN, good.replace(b"nn", b"\xff\xfe")).err == -8
    assert (
        client.request(
            OpCode.EXISTS, r.ExistsRequest(f"{top}/nn", False).encode().replace(b"nn", b"\xff\xfe")
        ).err
        == -101
    )


# --- sequential names (semantics.md 6) ---------------------------------------------------------------------


def test_the_first_sequential_child_has_number_zero(client: WireClient, top: str) -> None:
    client.create(f"{top}/p")
    assert client.create(f"{top}/p/n-", flags=2).record.path == f"{top}/p/n-0000000000"


def test_every_successful_create_advances_the_number(client: WireClient, top: str) -> None:
    # also a non-sequential one; neither a failed one nor a delete does
    client.create(f"{top}/p")
    client.create(f"{top}/p/plain")
    assert client.create(f"{top}/p/plain").err == -110
    client.delete(f"{top}/p/plain")
    assert client.create(f"{top}/p/a", flags=3).record.path == f"{top}/p/a0000000001"
    assert client.create(f"{top}/p/b", flags=2).record.path == f"{top}/p/b0000000002"


@pytest.mark.parametrize("flags", [2, 3])
def test_the_number_may_be_the_whole_name(client: WireClient, top: str, flags: int) -> None:
    assert client.create(f"{top}/", flags=flags).record.path == f"{top}/0000000000"


def test_a_sequential_name_may_be_taken(client: WireClient, top: str) -> None:
    client.create(f"{top}/n0000000001")
    assert client.create(f"{top}/n", flags=2).err == -110
    client.create(f"{top}/other")
    assert client.create(f"{top}/n", flags=2).record.path == f"{top}/n0000000002"


def test_the_suffix_can_mend_a_bad_name(client: WireClient, top: str) -> None:
    # semantics.md 4.1, check 9 looks at the final name
    assert client.create(f"{top}/.", flags=2).record.path == f"{top}/.0000000000"
    assert client.create(f"{top}/\x01", flags=2).err == -8


# --- the reserved subtree (semantics.md 8.7) ---------------------------------------------------------------


def test_anybody_may_create_below_zookeeper(client: WireClient, top: str) -> None:
    for parent in ("/zookeeper", "/zookeeper/quota"):
        path = parent + top
        assert client.create(path).err == 0
        assert client.delete(path).err == 0


def test_super_may_create_below_config(client: WireClient, top: str) -> None:
    path = f"/zookeeper/config{top}"
    assert client.create(path).err == -102
    client.auth("digest", SUPER_CREDENTIALS)
    assert client.create(path).err == 0
    assert client.delete(path).err == 0
