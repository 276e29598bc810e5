"""Access control lists: who may do what, which lists are valid, what getACL shows (semantics.md 8)."""

from __future__ import annotations

from typing import Any

import pytest

from pyzk.protocol import records as r
from pyzk.protocol.operations import OpCode

from ..support.requests import acl, check_op, digest_id, get_op
from ..support.wire import WireClient
from .conftest import Connect
from .known_differences import differs
from .servers import SUPER_CREDENTIALS, Server

READ, WRITE, CREATE, DELETE, ADMIN = 1, 2, 4, 8, 16
ME, YOU = digest_id("me:secret"), digest_id("you:secret")


# --- the permission each operation needs (8.1) -------------------------------------------------------------

OPERATIONS: list[tuple[str, Any, int]] = [
    ("create", lambda c, p: c.create(f"{p}/new").err, CREATE),
    ("delete child", lambda c, p: c.delete(f"{p}/child").err, DELETE),
    ("setData", lambda c, p: c.set(p, b"").err, WRITE),
    ("setACL", lambda c, p: c.set_acl(p, r.OPEN_ACL).err, ADMIN),
    ("getData", lambda c, p: c.get(p).err, READ),
    ("getChildren", lambda c, p: c.children(p).err, READ),
    ("getChildren2", lambda c, p: c.children2(p).err, READ),
    ("getAllChildrenNumber", lambda c, p: c.count_descendants(p).err, READ),
    ("check", lambda c, p: c.multi(check_op(p)).results[0].err, READ),
    ("multiRead", lambda c, p: c.multi_read(get_op(p)).results[0].err, READ),
    ("getACL", lambda c, p: c.get_acl(p).err, READ | ADMIN),
    ("sync", lambda c, p: c.sync(p).err, 31),
    ("addWatch", lambda c, p: c.add_watch(p, 0).err, 31),
]


@pytest.mark.parametrize(
    ("call", "enough"), [row[1:] for row in OPERATIONS], ids=[row[0] for row in OPERATIONS]
)
@pytest.mark.parametrize("perms", [0, READ, WRITE, CREATE, DELETE, ADMIN, 31])
def test_the_permission_an_operation_needs(
    client: WireClient, top: str, call: Any, enough: int, perms: int
) -> None:
    path = f"{top}/n"
    client.create(path)
    client.create(f"{path}/child")
    client.set_acl(path, [acl(perms, "world", "anyone")])
    free = enough == 31
    assert call(client, path) == (0 if free or perms & enough else -102)


def test_exists_needs_read(server: Server, client: WireClient, top: str) -> None:
    client.create(f"{top}/n", acl=[acl(31 & ~READ, "world", "anyone")])
    assert client.exists(f"{top}/n").err == (0 if differs("exists-read-check", server) else -102)


def test_there_is_no_inheritance(client: WireClient, top: str) -> None:
    # 8.1: nothing is needed on ancestors, nothing comes from them
    client.create(f"{top}/closed")
    client.create(f"{top}/closed/open")
    client.set_acl(f"{top}/closed", [acl(0, "world", "anyone")])
    assert client.get(f"{top}/closed/open").err == 0
    assert client.create(f"{top}/closed/open/n").err == 0
    assert client.get_acl(f"{top}/closed/open/n").record.acl == r.OPEN_ACL


def test_any_entry_suffices(connect: Connect, top: str) -> None:
    # 8.2
    me, you, nobody = connect(), connect(), connect()
    me.auth("digest", "me:secret")
    you.auth("digest", "you:secret")
    entries = [acl(READ, "digest", ME), acl(WRITE, "digest", YOU), acl(CREATE, "world", "anyone")]
    me.create(f"{top}/n", acl=entries)
    assert (me.get(f"{top}/n").err, me.set(f"{top}/n", b"").err) == (0, -102)
    assert (you.get(f"{top}/n").err, you.set(f"{top}/n", b"").err) == (-102, 0)
    assert (nobody.get(f"{top}/n").err, nobody.set(f"{top}/n", b"").err) == (-102, -102)
    assert {c.create(f"{top}/n/x", flags=2).err for c in (me, you, nobody)} == {0}


def test_the_acl_of_a_deleted_znode_plays_no_role(client: WireClient, top: str) -> None:
    client.create(f"{top}/n", acl=[acl(0, "world", "anyone")])
    assert client.delete(f"{top}/n").err == 0


# --- validation (8.3, 8.4) ---------------------------------------------------------------------------------

VALID = [
    ("world", "anyone", 0),
    ("world", "someone", -114),
    ("world", "", -114),
    ("digest", "u:hash", 0),
    ("digest", ":b", 0),
    ("digest", "abc", -114),
    ("digest", "a:", -114),
    ("digest", "a:b:c", -114),
    ("digest", "", -114),
    ("digest", ":", -114),
    ("digest", "a:b:", 0),
    ("digest", "a:b::", 0),
    ("ip", "10.0.0.1", 0),
    ("ip", "10.0.0.0/8", 0),
    ("ip", "0.0.0.0/0", 0),
    ("ip", "10.0.0.1/32", 0),
    ("ip", "10.0.0.1/33", -114),
    ("ip", "10.0.0.1/-1", -114),
    ("ip", "10.0.0.1/x", -114),
    ("ip", "10.0.0.256", -114),
    ("ip", "10.0.0", -114),
    ("ip", "10.0.0.1.2", -114),
    ("ip", "localhost", -114),
    ("ip", "", -114),
    ("super", "", -114),
    ("super", "anyone", -114),
    ("sasl", "somebody", -114),
    ("nonsense", "x", -114),
    ("", "x", -114),
    (None, "x", -114),
    ("WORLD", "anyone", -114),
]


@pytest.mark.parametrize(("scheme", "identity", "err"), VALID)
def test_which_entries_are_valid(
    client: WireClient, top: str, scheme: str | None, identity: str, err: int
) -> None:
    entries = [acl(31, scheme, identity)]
    assert client.create(f"{top}/n", acl=entries).err == err
    readable = acl(READ, "world", "anyone")
    assert client.set_acl(top, [readable, *entries]).err == err
    client.auth("digest", SUPER_CREDENTIALS)
    assert client.get_acl(top).record.acl == ((readable, *entries) if not err else r.OPEN_ACL)


NULLS = [
    ([acl(1, "no", "x"), acl(1, None, "x")], -5),
    ([acl(1, "no", "x"), acl(2, None, "x")], -114),
    ([acl(1, None, "x"), acl(1, "no", "x")], -114),
    ([acl(1, "auth", None), acl(1, "auth", None)], -5),
    ([acl(1, "no", "x"), acl(1, "no", None)], -5),
    ([acl(1, "no", None), acl(1, "no", "x")], -114),
    ([acl(1, "no", "x"), acl(1, "world", None)], -114),
    ([acl(31, "world", "anyone"), acl(31, "world", None)], -5),
]


@pytest.mark.parametrize(("entries", "err"), NULLS)
def test_entries_with_nulls_cannot_be_compared(
    client: WireClient, top: str, entries: list[r.ACL], err: int
) -> None:
    # semantics.md 8.3
    assert client.create(f"{top}/n", acl=entries).err == err
    assert client.set_acl(top, entries).err == err


@pytest.mark.parametrize("identity", ["::1", "fe80::1/10", "1:2:3:4:5:6:7:8", "::"])
def test_ipv6_entries(server: Server, client: WireClient, top: str, identity: str) -> None:
    assert client.create(f"{top}/n", acl=[acl(31, "ip", identity)]).err == (
        -114 if differs("ipv6-acl", server) else 0
    )


@pytest.mark.parametrize(
    "identity",
    ["1::2::3", ":::", "g::", "12345::", "::1%eth0", "::ffff:1.2.3.4", "::1/129", "1:2:3", "[::1]"],
)
def test_ipv6_entries_that_are_none(client: WireClient, top: str, identity: str) -> None:
    assert client.create(f"{top}/n", acl=[acl(31, "ip", identity)]).err == -114


@pytest.mark.parametrize("entries", [None, []], ids=["null", "empty"])
def test_a_list_without_entries_is_invalid(client: WireClient, top: str, entries: Any) -> None:
    assert client.create(f"{top}/n", acl=entries).err == -114
    assert client.set_acl(top, entries).err == -114


def test_a_negative_count_reads_as_an_empty_list(client: WireClient, top: str) -> None:
    # wire.md section 2
    body = r.CreateRequest(f"{top}/n", b"", [], 0).encode()
    assert client.request(OpCode.CREATE, body[:-8] + b"\xff\xff\xff\xf9" + body[-4:]).err == -114


@pytest.mark.parametrize(
    ("scheme", "err"), [("world", -5), ("digest", -5), ("ip", -5), ("auth", -114), ("nonsense", -114)]
)
def test_a_null_id(client: WireClient, top: str, scheme: str, err: int) -> None:
    # wire.md section 15: looking at it fails inside the server; where nobody looks, the entry is just invalid
    assert client.create(f"{top}/n", acl=[acl(31, scheme, None)]).err == err


@pytest.mark.parametrize("perms", [0, -1, 64, 31, 2**31 - 1])
def test_permissions_are_stored_as_given(client: WireClient, top: str, perms: int) -> None:
    # 8.3, rule 4; super reads them where nobody else may
    client.create(f"{top}/n", acl=[acl(perms, "world", "anyone")])
    client.auth("digest", SUPER_CREDENTIALS)
    assert client.get_acl(f"{top}/n").record.acl == (acl(perms, "world", "anyone"),)


def test_exact_duplicates_are_dropped(client: WireClient, top: str) -> None:
    # 8.3, rule 1
    one, two = acl(READ, "world", "anyone"), acl(31, "world", "anyone")
    client.create(f"{top}/n", acl=[one, two, one, two, two])
    assert client.get_acl(f"{top}/n").record.acl == (one, two)


# --- the pseudo scheme auth (8.3, 8.4) ---------------------------------------------------------------------


def test_auth_without_identities_is_invalid(client: WireClient, top: str) -> None:
    # ip does not count
    assert client.create(f"{top}/n", acl=[acl(31, "auth", "")]).err == -114


def test_auth_expands_to_every_identity(client: WireClient, top: str) -> None:
    client.auth("digest", "me:secret")
    client.auth("digest", "you:secret")
    client.create(f"{top}/n", acl=[acl(ADMIN | READ, "auth", "whatever")])
    entries = client.get_acl(f"{top}/n").record.acl
    assert sorted(entry.id.id for entry in entries) == sorted([ME, YOU])
    assert {(entry.perms, entry.id.scheme) for entry in entries} == {(ADMIN | READ, "digest")}


def test_expansion_may_produce_duplicates(client: WireClient, top: str) -> None:
    # 8.3, rule 5
    client.auth("digest", "me:secret")
    client.create(f"{top}/n", acl=[acl(31, "auth", "a"), acl(31, "auth", "b"), acl(31, "digest", ME)])
    assert client.get_acl(f"{top}/n").record.acl == (acl(31, "digest", ME),) * 3


def test_auth_of_super_expands_to_its_digest(client: WireClient, top: str) -> None:
    # 8.4 and trap 29
    client.auth("digest", SUPER_CREDENTIALS)
    client.create(f"{top}/n", acl=[acl(31, "auth", "")])
    assert client.get_acl(f"{top}/n").record.acl == (acl(31, "digest", digest_id(SUPER_CREDENTIALS)),)


# --- ip (8.4) ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("identity", "allowed"),
    [
        ("127.0.0.1", True),
        ("127.0.0.1/32", True),
        ("127.0.0.0/8", True),
        ("127.255.255.255/8", True),
        ("0.0.0.0/0", True),
        ("127.0.0.2", False),
        ("127.0.0.2/31", False),
        ("127.0.0.0/31", True),
        ("10.0.0.0/8", False),
    ],
)
def test_ip_entries_match_masked(client: WireClient, top: str, identity: str, allowed: bool) -> None:
    client.create(f"{top}/n", acl=[acl(31, "ip", identity)])
    assert client.get(f"{top}/n").err == (0 if allowed else -102)


# --- super (8.2, 8.4, trap 30) -----------------------------------------------------------------------------


def test_super_bypasses_acls_and_nothing_else(connect: Connect, top: str) -> None:
    owner, boss = connect(), connect()
    owner.create(f"{top}/n")
    owner.create(f"{top}/n/child")
    owner.set_acl(f"{top}/n", [acl(0, "world", "anyone")])
    boss.auth("digest", SUPER_CREDENTIALS)
    assert boss.get(f"{top}/n").err == 0
    assert boss.create(f"{top}/n/new").err == 0
    assert boss.delete(f"{top}/n/new").err == 0
    assert boss.set(f"{top}/n", b"", 7).err == -103
    assert boss.delete(f"{top}/n").err == -111
    assert boss.set_acl(f"{top}/n", []).err == -114
    assert boss.set_acl(f"{top}/n", r.OPEN_ACL).err == 0


# --- getACL (8.6) ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("perms", "shown"),
    [
        (READ, ["me:x", "u:x", "10.0.0.1", "anyone"]),
        (READ | WRITE, ["me:x", "u:x", "10.0.0.1", "anyone"]),
        (ADMIN, [ME, "u:hash", "10.0.0.1", "anyone"]),
        (READ | ADMIN, [ME, "u:hash", "10.0.0.1", "anyone"]),
    ],
)
def test_get_acl_masks_digests_unless_admin(
    client: WireClient, top: str, perms: int, shown: list[str]
) -> None:
    entries = [
        acl(31, "digest", ME),
        acl(31, "digest", "u:hash"),
        acl(31, "ip", "10.0.0.1"),
        acl(perms, "world", "anyone"),
    ]
    client.create(f"{top}/n", acl=entries)
    reply = client.get_acl(f"{top}/n")
    assert [entry.id.id for entry in reply.record.acl] == shown
    assert reply.record.stat.aversion == 0


def test_get_acl_shows_super_everything(client: WireClient, top: str) -> None:
    client.create(f"{top}/n", acl=[acl(31, "digest", ME)])
    client.auth("digest", SUPER_CREDENTIALS)
    assert client.get_acl(f"{top}/n").record.acl == (acl(31, "digest", ME),)


def test_identities_apply_to_later_requests(client: WireClient, top: str) -> None:
    # 8.5
    client.create(f"{top}/n", acl=[acl(31, "digest", ME)])
    assert client.get(f"{top}/n").err == -102
    client.auth("digest", "me:secret")
    assert client.get(f"{top}/n").err == 0
    client.auth("digest", "you:secret")
    assert client.get(f"{top}/n").err == 0
