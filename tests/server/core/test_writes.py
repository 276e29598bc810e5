"""The resolvers of writes: the first failing check decides (semantics.md section 4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from pyzk.protocol import paths
from pyzk.protocol import records as r
from pyzk.protocol.errors import ZooKeeperError
from pyzk.protocol.operations import OpCode
from pyzk.server.core.operations.writes import RESOLVERS, check_reaping
from pyzk.server.core.txn import Check, Create, Delete, Effect, SetACL, SetData
from pyzk.server.core.znode import CONTAINER_OWNER, MAX_TTL, ttl_owner

from ...support.invariants import snapshot
from ...support.requests import acl
from ...support.world import World, creation, deletion, set_create_counter

SESSION = 0x0100000000000001
OPEN = r.OPEN_ACL
BAD_ACL: Sequence[r.ACL] = ()
CREATE, CREATE2, CONTAINER, TTL = (
    OpCode.CREATE.value,
    OpCode.CREATE2.value,
    OpCode.CREATE_CONTAINER.value,
    OpCode.CREATE_TTL.value,
)


class Bench:
    """A tree with one of everything that a check can trip over, and a client that asks for writes."""

    def __init__(self, **settings: Any) -> None:
        self.world = World(**{"extended_types": True, "enforce_quota": True, **settings})
        self.engine, self.tree = self.world.engine, self.world.tree
        self.client = self.world.open("10.0.0.1").connection
        self.client.session_id = SESSION
        self.add("/open")
        self.add("/open/child", b"12345")
        self.add("/open/parent")
        self.add("/open/parent/child")
        self.add("/closed")
        self.add("/closed/child")
        self.add("/ephemeral", owner=SESSION)
        self.add("/full", b"12345")
        self.add("/full/child", b"12345")
        self.add("/full/ephemeral", owner=SESSION)
        self.add("/container", owner=CONTAINER_OWNER)
        self.add("/ttl", owner=ttl_owner(5))
        self.add("/zookeeper/quota/full")
        self.add(
            "/zookeeper/quota/full/zookeeper_limits", b"count=-1,bytes=-1=;byteHardLimit=10;countHardLimit=3"
        )
        self.add("/zookeeper/quota/full/zookeeper_stats")
        for path in ("/closed", "/closed/child"):
            self.tree.apply(SetACL(path, (acl(31, "ip", "10.9.9.9"),), 1), 9, 9)

    def add(self, path: str, data: bytes = b"", owner: int = 0) -> None:
        self.tree.apply(creation(path, data, owner), len(self.tree), 1)

    def resolve(self, op: int, *fields: Any) -> Effect:
        """The effect of a write, which is not applied."""
        kind, resolved, at = RESOLVERS[op][0](self.engine, self.client, fields)
        effect = kind(*resolved)
        assert at is self.tree.nodes[effect.parent if isinstance(effect, Create | Delete) else effect.path]
        return effect

    def create(
        self, path: str | None, entries: Any = OPEN, flags: int = 0, op: int = CREATE, ttl: int = -1
    ) -> Create:
        more = (ttl,) if op == TTL else ()
        effect = self.resolve(op, path, b"1", entries, flags, *more)
        assert isinstance(effect, Create)
        return effect

    def delete(self, path: str | None, version: int) -> Effect:
        return self.resolve(OpCode.DELETE, path, version)

    def set_data(self, path: str | None, data: bytes, version: int) -> Effect:
        return self.resolve(OpCode.SET_DATA, path, data, version)

    def set_acl(self, path: str | None, entries: Any, version: int) -> Effect:
        return self.resolve(OpCode.SET_ACL, path, entries, version)

    def check(self, path: str | None, version: int) -> Effect:
        return self.resolve(OpCode.CHECK, path, version)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def code_of(call: Callable[[], object]) -> int:
    """The error code of a resolver, 0 if it succeeds."""
    try:
        call()
    except ZooKeeperError as error:
        return error.code
    return 0


# --- 4.1: create -------------------------------------------------------------------------------------------

# Each row fails the check it names and, where they can be combined, checks further down; the first counts.
CREATE_ORDER: list[tuple[str, str | None, Any, int, int]] = [
    ("1 flags, before path", None, BAD_ACL, 7, -8),
    ("1 flags, before parent", "/none/x", BAD_ACL, -1, -8),
    ("3 ttl, before path", "noslash", BAD_ACL, 5, -8),
    ("3 ttl, before parent", "/none/x", BAD_ACL, 6, -8),
    ("5 null path, before ACL", None, BAD_ACL, 0, -5),
    ("5 no slash, before ACL", "noslash", BAD_ACL, 0, -8),
    ("5 empty, before ACL", "", BAD_ACL, 0, -8),
    ("5 null character, before ACL", "/none/\0", BAD_ACL, 0, -8),
    ("6 ACL, before parent", "/none/x", BAD_ACL, 0, -114),
    ("6 ACL, before permission", "/closed/x", BAD_ACL, 0, -114),
    ("6 ACL, before name", "/open/.", BAD_ACL, 0, -114),
    ("6 ACL, before node", "/open/child", BAD_ACL, 0, -114),
    ("7 parent, before name", "/none/..", OPEN, 0, -101),
    ("7 parent, of a relative path", "x/b", OPEN, 0, -101),
    ("7 parent, of an empty component", "/open//b", OPEN, 0, -101),
    ("7 parent, of a trailing slash", "/none/", OPEN, 0, -101),
    ("8 permission, before name", "/closed/.", OPEN, 0, -102),
    ("8 permission, before node", "/closed/child", OPEN, 0, -102),
    ("9 name", "/open/\u0001", OPEN, 0, -8),
    ("9 name, before ephemeral parent", "/ephemeral/.", OPEN, 0, -8),
    ("9 name, before quota", "/full/..", OPEN, 0, -8),
    ("9 trailing slash", "/open/", OPEN, 0, -8),
    ("9 empty first component", "//x", OPEN, 0, -8),
    ("9 only slashes", "//", OPEN, 0, -8),
    ("9 emoji", "/open/😀", OPEN, 0, -8),
    ("10 node", "/open/child", OPEN, 0, -110),
    ("10 node, the root", "/", OPEN, 0, -110),
    ("10 node, before quota", "/full/child", OPEN, 0, -110),
    ("11 ephemeral parent", "/ephemeral/x", OPEN, 0, -108),
    ("11 ephemeral parent, before quota", "/full/ephemeral/x", OPEN, 0, -108),
    ("12 quota", "/full/x", OPEN, 0, -125),
    ("all well", "/open/x", OPEN, 0, 0),
]


@pytest.mark.parametrize("op", [CREATE, CREATE2, CONTAINER])
@pytest.mark.parametrize(
    ("path", "entries", "flags", "code"),
    [row[1:] for row in CREATE_ORDER],
    ids=[row[0] for row in CREATE_ORDER],
)
def test_the_order_of_checks_of_create(
    bench: Bench, op: int, path: str | None, entries: Any, flags: int, code: int
) -> None:
    before = snapshot(bench.tree)
    assert code_of(lambda: bench.create(path, entries, flags, op)) == code
    assert snapshot(bench.tree) == before


@pytest.mark.parametrize(
    ("path", "flags", "ttl", "code"),
    [
        ("/none/x", 7, 0, -8),
        ("/none/x", 5, 0, -8),
        ("/none/x", 5, 1, -101),
        ("/closed/x", 6, 1, -102),
        ("/open/child", 5, 1, -110),
        ("/ephemeral/x", 5, 1, -108),
        ("/full/x", 6, 1, -125),
        ("/open/x", 5, 1, 0),
    ],
)
def test_the_order_of_checks_of_create_ttl(bench: Bench, path: str, flags: int, ttl: int, code: int) -> None:
    assert code_of(lambda: bench.create(path, flags=flags, op=TTL, ttl=ttl)) == code


@pytest.mark.parametrize("flags", [5, 6])
@pytest.mark.parametrize("op", [CREATE, CREATE2, CONTAINER, TTL])
def test_ttl_flags_while_extended_types_are_disabled(op: int, flags: int) -> None:
    # check 2 comes before check 3, and so before everything else
    bench = Bench(extended_types=False)
    ttl = 0 if op == TTL else -1
    assert code_of(lambda: bench.create(None, BAD_ACL, flags, op, ttl)) == -6


@pytest.mark.parametrize("flags", [5, 6])
@pytest.mark.parametrize(
    ("ttl", "code"), [(1, 0), (MAX_TTL, 0), (0, -8), (-1, -8), (MAX_TTL + 1, -8), (-(2**63), -8)]
)
def test_the_range_of_a_ttl(bench: Bench, flags: int, ttl: int, code: int) -> None:
    assert code_of(lambda: bench.create("/open/x", flags=flags, op=TTL, ttl=ttl)) == code


@pytest.mark.parametrize("flags", [5, 6])
@pytest.mark.parametrize("op", [CREATE, CREATE2, CONTAINER])
def test_the_other_ops_carry_an_implicit_ttl_that_is_invalid(bench: Bench, op: int, flags: int) -> None:
    assert code_of(lambda: bench.create("/open/x", flags=flags, op=op)) == -8


@pytest.mark.parametrize("flags", [-(2**31), -1, 7, 8, 2**31 - 1])
@pytest.mark.parametrize("op", [CREATE, CREATE2, CONTAINER, TTL])
def test_flags_are_an_enumeration(bench: Bench, op: int, flags: int) -> None:
    assert code_of(lambda: bench.create("/open/x", flags=flags, op=op, ttl=5 if op == TTL else -1)) == -8


# op, flags, stored owner, sequential (section 4.1, second table)
KINDS = [
    *(
        (op, flags, SESSION if flags in (1, 3) else 0, flags in (2, 3))
        for op in (1, 15)
        for flags in range(4)
    ),
    *((op, 4, 0, False) for op in (1, 15)),
    *((19, flags, CONTAINER_OWNER, flags in (2, 3)) for flags in range(5)),
    (21, 5, ttl_owner(77), False),
    (21, 6, ttl_owner(77), True),
]


@pytest.mark.parametrize(
    ("op", "flags", "owner", "sequential"), KINDS, ids=[f"op{row[0]}-flags{row[1]}" for row in KINDS]
)
def test_op_and_flags_decide_the_kind(
    bench: Bench, op: int, flags: int, owner: int, sequential: bool
) -> None:
    effect = bench.create("/open/x", flags=flags, op=op, ttl=77 if op == TTL else -1)
    assert effect == creation("/open/x0000000002" if sequential else "/open/x", b"1", owner)


@pytest.mark.parametrize("parent", ["/container", "/ttl", "/open"])
@pytest.mark.parametrize("flags", [0, 1, 2, 3])
def test_all_but_ephemerals_may_have_children(bench: Bench, parent: str, flags: int) -> None:
    assert paths.parent(bench.create(f"{parent}/x", flags=flags).path) == parent


# --- 6: sequential names -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counter", "suffix"),
    [(0, "0000000000"), (41, "0000000041"), (9_999_999_999 % 2**31, "1410065407"), (2**31 - 1, "2147483647")],
)
def test_the_suffix_is_the_parents_create_counter(bench: Bench, counter: int, suffix: str) -> None:
    set_create_counter(bench.tree, "/open", counter)
    assert bench.create("/open/x-", flags=2).path == f"/open/x-{suffix}"
    assert bench.create("/open/", flags=3).path == f"/open/{suffix}"


@pytest.mark.parametrize(
    ("path", "code"),
    [("/open/.", 0), ("/open/..", 0), ("/open/\u0001", -8), ("//", -8), ("/", 0), ("/open/x//", -101)],
    ids=ascii,
)
def test_the_full_rules_look_at_the_final_name(bench: Bench, path: str, code: int) -> None:
    assert code_of(lambda: bench.create(path, flags=2)) == code


def test_a_sequential_name_may_be_taken_already(bench: Bench) -> None:
    bench.add("/open/x0000000003")
    assert code_of(lambda: bench.create("/open/x", flags=2)) == -110


def test_the_counter_at_its_end_gives_the_same_name_again(bench: Bench) -> None:
    set_create_counter(bench.tree, "/open", 2**31 - 1)
    effect = bench.create("/open/x", flags=2)
    bench.tree.apply(effect, 50, 50)
    assert code_of(lambda: bench.create("/open/x", flags=2)) == -110


# --- 4.2 to 4.6: the other writes --------------------------------------------------------------------------

DELETE_ORDER: list[tuple[str | None, int, int]] = [
    (None, -1, -5),
    ("noslash", -1, -8),
    ("/none/\0", -1, -8),
    *((path, 99, -8) for path in ("/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config")),
    ("/none/x", 99, -101),
    ("/closed/none", 99, -102),  # NoAuth beats NoNode of the znode itself
    ("/closed/child", 99, -102),
    ("/open/none", 99, -101),
    ("/open/", -1, -101),  # names are never validated
    ("/open/.", -1, -101),
    ("/open/parent", 99, -103),  # BadVersion beats NotEmpty
    ("/open/parent", 0, -111),
    ("/open/parent", -1, -111),
    ("/open/child", 1, -103),
    ("/open/child", 0, 0),
    ("/open/child", -1, 0),
    ("/closed", -1, -111),  # the znode's own ACL plays no role
]


@pytest.mark.parametrize(("path", "version", "code"), DELETE_ORDER, ids=ascii)
def test_the_order_of_checks_of_delete(bench: Bench, path: str | None, version: int, code: int) -> None:
    assert code_of(lambda: bench.delete(path, version)) == code


def test_delete_needs_no_permission_on_the_znode_itself(bench: Bench) -> None:
    bench.tree.apply(deletion("/closed/child"), 50, 50)
    assert bench.delete("/closed", -1) == deletion("/closed")


def test_not_even_super_may_delete_a_built_in_znode(bench: Bench) -> None:
    bench.client.identities.append(r.Id("super", ""))
    assert code_of(lambda: bench.delete("/zookeeper/quota", -1)) == -8


SET_ORDER: list[tuple[str | None, bytes, int, int]] = [
    (None, b"", -1, -8),  # section 3, rule 1
    ("", b"", -1, -8),
    ("relative", b"", -1, -8),
    ("/none/..", b"", -1, -8),
    ("/open/child/", b"", -1, -8),
    ("/none", b"", 99, -101),
    ("/closed/child", b"", 99, -102),
    ("/full/child", b"123456", 99, -125),  # quota beats version
    ("/full/child", b"54321", 99, -103),  # the same size passes although the quota is used up
    ("/full/child", b"54321", 0, 0),
    ("/full/child", b"1", -1, 0),
    ("/open/child", b"x" * 1000, 0, 0),
    ("/", b"x", 0, 0),
]


@pytest.mark.parametrize(("path", "data", "version", "code"), SET_ORDER, ids=ascii)
def test_the_order_of_checks_of_set_data(
    bench: Bench, path: str | None, data: bytes, version: int, code: int
) -> None:
    assert code_of(lambda: bench.set_data(path, data, version)) == code


SET_ACL_ORDER: list[tuple[str | None, Any, int, int]] = [
    (None, BAD_ACL, -1, -8),
    ("/none/.", BAD_ACL, -1, -8),
    ("/none", BAD_ACL, 99, -114),  # InvalidACL beats NoNode
    ("/closed/child", BAD_ACL, 99, -114),
    ("/none", OPEN, 99, -101),
    ("/closed/child", OPEN, 99, -102),
    ("/open/child", OPEN, 99, -103),
    ("/open/child", OPEN, 0, 0),
    ("/zookeeper/config", OPEN, -1, -102),
    ("/", OPEN, 0, 0),
]


@pytest.mark.parametrize(("path", "entries", "version", "code"), SET_ACL_ORDER, ids=ascii)
def test_the_order_of_checks_of_set_acl(
    bench: Bench, path: str | None, entries: Any, version: int, code: int
) -> None:
    assert code_of(lambda: bench.set_acl(path, entries, version)) == code


CHECK_ORDER: list[tuple[str | None, int, int]] = [
    (None, -1, -8),
    ("/none/.", -1, -8),
    ("/none", 99, -101),
    ("/closed/child", 99, -102),
    ("/open/child", 99, -103),
    ("/open/child", 0, 0),
    ("/open/child", -1, 0),
]


@pytest.mark.parametrize(("path", "version", "code"), CHECK_ORDER, ids=ascii)
def test_the_order_of_checks_of_check(bench: Bench, path: str | None, version: int, code: int) -> None:
    assert code_of(lambda: bench.check(path, version)) == code


@pytest.mark.parametrize(
    ("path", "code"),
    [("/none", -101), ("/open", -111), ("/container", 0), ("/ttl", 0)],
)
def test_the_order_of_checks_of_reaping(bench: Bench, path: str, code: int) -> None:
    assert code_of(lambda: check_reaping(bench.tree, path)) == code


@pytest.mark.parametrize("path", ["/open/child", "/ephemeral"])
def test_only_containers_and_ttl_znodes_are_reaped(bench: Bench, path: str) -> None:
    assert code_of(lambda: check_reaping(bench.tree, path)) < 0


# --- versions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "following"), [(0, 1), (41, 42), (2**31 - 1, -(2**31)), (-2, -1)])
def test_versions_count_as_java_does(bench: Bench, version: int, following: int) -> None:
    # semantics.md section 1.4: releases up to 3.9 deliver -1
    node = bench.tree.nodes["/open/child"]
    node.version = node.aversion = version
    assert bench.set_data("/open/child", b"", version) == SetData("/open/child", b"", following)
    acls = bench.set_acl("/open/child", OPEN, version)
    assert acls == SetACL("/open/child", OPEN, following)
    assert bench.check("/open/child", version) == Check("/open/child")
