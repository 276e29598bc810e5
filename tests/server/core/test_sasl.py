"""Logins by SASL DIGEST-MD5, on a connection without a socket (sasl.md sections 2, 5 and 6)."""

from __future__ import annotations

import logging
import subprocess
import sys
from typing import Any

import pytest

from benchmarks import wire
from pyzk.protocol import records as r
from pyzk.protocol.operations import OpCode
from pyzk.protocol.records import ACL, Id
from pyzk.server.net.requests import MAX_NULL_TOKENS

from ...support.sasl import CLOSED, IN, OUT, PASSWORDS, TOKENS, USERS, Answer, Make, nonce_of
from ...support.wire import Reply
from ...support.world import Peer, World

BOB = Id("sasl", "bob")


def random_bytes(size: int) -> bytes:
    return bytes(range(size))


@pytest.fixture
def world() -> World:
    return World(sasl_users=USERS)


def step(peer: Peer, token: bytes, xid: int | None = None) -> Reply:
    return peer.request(OpCode.SASL, r.GetSASLRequest(token), xid=xid)


def log_in(peer: Peer, user: str = "bob", password: str = "bobsecret", **options: Any) -> Reply:
    nonce = nonce_of(step(peer, b"").record.token)
    return step(peer, Answer(nonce, user, password).token(**options))


def outcome(peer: Peer, token: bytes) -> str:
    """What follows a second token."""
    peer.send(OpCode.SASL, r.GetSASLRequest(token), xid=7)
    arrivals = peer.take_all()
    if not arrivals:
        assert peer.closed
        return CLOSED
    [reply] = arrivals
    assert isinstance(reply, Reply)
    assert (reply.xid, reply.zxid) == (7, 0)
    if reply.err:
        assert (reply.err, reply.body, peer.closed) == (-115, b"\xff\xff\xff\xff", True)
        return OUT
    assert not peer.closed
    return IN


# --- the exchange ------------------------------------------------------------------------------------------


def test_a_login_in_two_rounds(world: World, client: Peer) -> None:
    challenge = step(client, b"", xid=2**31 - 1)
    assert (challenge.xid, challenge.zxid, challenge.err) == (2**31 - 1, 0, 0)
    nonce = nonce_of(challenge.record.token)
    answer = Answer(nonce)
    reply = step(client, answer.token(), xid=0)
    assert (reply.xid, reply.zxid, reply.err) == (0, 0, 0)
    assert reply.record.token == b"rspauth=" + answer.response(check=b":")
    assert client.connection.identities == [Id("ip", "127.0.0.1"), BOB]
    assert world.zxid == 1  # that of the session


def test_each_connection_has_a_nonce_of_its_own(world: World) -> None:
    nonces = {nonce_of(step(world.connect(), b"hello").record.token) for _ in range(3)}
    assert len(nonces) == 3
    one, other = world.connect(), world.connect()
    nonce = nonce_of(step(one, b"").record.token)
    step(other, b"")
    assert outcome(other, Answer(nonce).token()) == OUT
    assert outcome(one, Answer(nonce).token()) == IN


@pytest.mark.parametrize("size", [4096, 4097])
def test_the_first_token_may_be_anything_of_4096_bytes(client: Peer, size: int) -> None:
    assert (outcome(client, b"x" * size) == OUT) is (size > 4096)


@pytest.mark.parametrize(("make", "expected"), TOKENS.values(), ids=TOKENS)
def test_second_tokens(client: Peer, make: Make, expected: str) -> None:
    nonce = nonce_of(step(client, b"").record.token)
    assert outcome(client, make(Answer(nonce))) == expected
    assert (BOB in client.connection.identities) is (expected == IN)


@pytest.mark.parametrize(("user", "password", "expected"), PASSWORDS.values(), ids=PASSWORDS)
def test_passwords(client: Peer, user: str, password: str, expected: str) -> None:
    nonce = nonce_of(step(client, b"").record.token)
    assert outcome(client, Answer(nonce, user, password).token()) == expected
    assert (Id("sasl", user) in client.connection.identities) is (expected == IN)


def test_without_charset_names_and_passwords_are_in_iso_8859_1(world: World) -> None:
    def without_charset(user: str, password: str, on_the_wire: bytes) -> str:
        peer = world.connect()
        token = Answer(nonce_of(step(peer, b"").record.token), user, password).token()
        return outcome(peer, token.removeprefix(b"charset=utf-8,").replace(user.encode(), on_the_wire))

    assert without_charset("müller", "pässword", "müller".encode("latin-1")) == IN
    assert without_charset("müller", "pässword", "müller".encode()) == OUT


# --- where the real server is not safe ---------------------------------------------------------------------


def test_an_unknown_user_never_has_the_password_of_somebody_else(world: World) -> None:
    assert log_in(world.connect(), "bob", "bobsecret").err == 0
    assert log_in(world.connect(), "ghost", "bobsecret").err == -115
    assert log_in(world.connect(), "ghost", "nobody's password").err == -115


@pytest.mark.parametrize(("authzid", "err"), [(b"root", -115), (b"", -115), (b"f@g", 0)])
def test_nobody_takes_another_name(client: Peer, authzid: bytes, err: int) -> None:
    assert log_in(client, "f@g", "p1", authzid=authzid).err == err


def test_a_letter_that_iso_8859_1_lacks_is_no_question_mark() -> None:
    peer = World(sasl_users={"li": "密码"}).connect()
    token = Answer(nonce_of(step(peer, b"").record.token), "li", "??").token()
    assert outcome(peer, token.removeprefix(b"charset=utf-8,")) == OUT


def test_requests_behind_a_refused_login_are_lost(world: World, client: Peer) -> None:
    nonce = nonce_of(step(client, b"").record.token)
    refused = wire.request(OpCode.SASL, r.GetSASLRequest(Answer(nonce, password="x").token()), 2)
    client.expect(2, OpCode.SASL)
    client.feed(refused + wire.request(OpCode.CREATE, r.CreateRequest("/a", b"", r.OPEN_ACL, 0), 3))
    [reply] = client.take_all()
    assert isinstance(reply, Reply)
    assert (reply.err, "/a" in world.tree.nodes) == (-115, False)


@pytest.mark.parametrize(
    ("users", "words"), [(None, "switch SASL off in the client"), (USERS, "correct name and password")]
)
def test_a_client_that_spins_on_null_tokens_is_ended(
    users: dict[str, str] | None, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    client = World(sasl_users=users, allow_sasl_failed_clients=True).connect()
    if users:
        log_in(client, password="wrong")
    for _ in range(MAX_NULL_TOKENS - bool(users)):
        reply = step(client, b"")
        assert (reply.err, reply.record.token) == (0, None)
    assert outcome(client, b"") == OUT
    assert words in caplog.text


def test_only_ascii_is_compared_without_case(client: Peer) -> None:
    """Java holds a dotted capital I for an i."""
    nonce = nonce_of(step(client, b"").record.token)
    assert outcome(client, Answer(nonce).token(",d\u0130gest-uri=x".encode())) == IN


def test_a_server_without_users_loads_nothing_for_them() -> None:
    code = (
        "import sys\n"
        "from pyzk.server.testing import EmbeddedServer\n"
        "with EmbeddedServer(): assert not [name for name in sys.modules if name.endswith('.sasl')]\n"
        "with EmbeddedServer(sasl_users={'a': 'b'}) as server: server.running.engine.new_login()\n"
        "assert 'pyzk.protocol.sasl' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


# --- failures ----------------------------------------------------------------------------------------------


def test_op_102_after_a_login_is_refused(client: Peer) -> None:
    assert log_in(client).err == 0
    assert outcome(client, b"") == OUT


def test_an_enforced_login_that_fails(world: World) -> None:
    world = World(sasl_users=USERS, required_auth_schemes=frozenset({"sasl"}), allow_sasl_failed_clients=True)
    peer = world.connect()
    reply = log_in(peer, password="wrong")
    assert (reply.zxid, reply.err, reply.body, peer.closed) == (0, -124, b"\xff\xff\xff\xff", True)


@pytest.mark.parametrize("op", [OpCode.PING, OpCode.CLOSE_SESSION, OpCode.EXISTS, 9999])
def test_who_must_log_in_does_so_first(op: int) -> None:
    world = World(sasl_users=USERS, required_auth_schemes=frozenset({"sasl"}))
    peer = world.connect()
    reply = peer.request(op, b"", 5)
    assert (reply.xid, reply.zxid, reply.err, reply.body, peer.closed) == (5, 0, -124, b"", True)
    again = peer.reconnect()  # the session lives
    assert log_in(again).err == 0
    assert again.create("/a").err == 0


def test_a_digest_does_not_help_who_must_log_in_and_the_other_way_round() -> None:
    peer = World(sasl_users=USERS, required_auth_schemes=frozenset({"sasl"})).connect()
    assert peer.request(OpCode.AUTH, r.AuthPacket(0, "digest", b"a:b"), -4).err == 0
    assert peer.create("/a").err == -124
    world = World(sasl_users=USERS, required_auth_schemes=frozenset({"digest"}))
    peer = world.connect()
    assert log_in(peer).err == 0
    assert peer.create("/a").err == -124
    assert log_in(world.connect(), password="wrong").err == -115


def test_a_client_may_go_on_without_its_login() -> None:
    world = World(sasl_users=USERS, allow_sasl_failed_clients=True)
    peer = world.connect()
    failed = log_in(peer, password="wrong")
    assert (failed.err, failed.record.token, peer.closed) == (0, None, False)
    assert log_in_again(peer) is None  # no second try
    assert peer.connection.identities == [Id("ip", "127.0.0.1")]
    assert peer.create("/a").err == 0

    peer = world.connect()
    log_in(peer)
    assert log_in_again(peer) is None
    assert BOB in peer.connection.identities


def log_in_again(peer: Peer) -> bytes | None:
    reply = step(peer, b"")
    assert (reply.err, peer.closed) == (0, False)
    token: bytes | None = reply.record.token
    return token


def test_a_login_keeps_no_session_alive(world: World, client: Peer) -> None:
    world.pass_time(8.0)
    step(client, b"")
    world.pass_time(8.0)
    assert client.closed


def test_the_next_connection_of_a_session_is_anonymous(client: Peer) -> None:
    log_in(client)
    again = client.reconnect()
    assert again.connection.identities == [Id("ip", "127.0.0.1")]
    assert log_in(again, "alice", "alicesecret").err == 0
    assert again.connection.identities == [Id("ip", "127.0.0.1"), Id("sasl", "alice")]


def test_identities_have_a_bound(client: Peer) -> None:
    for number in range(31):
        client.request(OpCode.AUTH, r.AuthPacket(0, "digest", b"%d:x" % number), -4)
    assert log_in(client).err == -115


# --- identities and ACLs -----------------------------------------------------------------------------------

MINE = (ACL(31, BOB),)


def test_an_acl_for_a_user(world: World, client: Peer, other: Peer) -> None:
    log_in(client)
    assert client.create("/a", acl=MINE).err == 0
    assert client.create("/b", acl=(ACL(31, Id("auth", "")),)).err == 0
    assert client.get_acl("/b").record.acl == MINE
    for path in ("/a", "/b"):
        assert other.get(path).err == -102
    log_in(other, "alice", "alicesecret")
    assert other.get("/a").err == -102
    assert client.get("/a").err == 0
    assert ("sasl", "bob") in client.who_am_i().identities


def test_a_super_user() -> None:
    world = World(sasl_users=USERS, sasl_super_users=frozenset({"alice"}))
    bob, alice = world.connect(), world.connect()
    log_in(bob)
    bob.create("/a", acl=MINE)
    assert alice.get("/a").err == -102
    log_in(alice, "alice", "alicesecret")
    assert alice.get("/a").err == 0
    assert sorted(alice.who_am_i().identities) == [("ip", "127.0.0.1"), ("sasl", "alice"), ("super", "")]


@pytest.mark.parametrize("more", [0, 20])
def test_the_user_super_matches_every_entry_of_sasl_and_no_other(world: World, more: int) -> None:
    bob, root = world.connect(), world.connect()
    filling = tuple(ACL(1, Id("sasl", f"u{number}")) for number in range(more))
    log_in(bob)
    bob.request(OpCode.AUTH, r.AuthPacket(0, "digest", b"a:b"), -4)
    bob.create("/read", acl=(ACL(1, BOB), ACL(31, Id("auth", ""))))
    bob.create("/s", acl=(ACL(1, BOB), *filling))
    bob.create(
        "/d", acl=(ACL(31, Id("digest", "a:b")), *(ACL(31, Id("digest", f"u{n}:x")) for n in range(more)))
    )
    log_in(root, "super", "adminsecret")
    assert root.get("/s").err == 0
    assert root.set("/s", b"").err == -102
    assert root.get("/d").err == -102


@pytest.mark.parametrize("more", [0, 20])
def test_an_entry_for_any_user(more: int) -> None:
    world = World(sasl_users=USERS, sasl_any_user="anybody")
    bob, nobody = world.connect(), world.connect()
    log_in(bob)
    filling = tuple(ACL(1, Id("sasl", f"u{number}")) for number in range(more))
    bob.create("/a", acl=(ACL(1, Id("sasl", "anybody")), *filling))
    assert (bob.get("/a").err, nobody.get("/a").err) == (0, -102)


IDS = ["", "a@", "@", "a/b", 'a b"中', "a/b@C"], ["a@b@c", "a/b/c@D"]


@pytest.mark.parametrize("name", [*IDS[0], *IDS[1]])
def test_which_ids_are_valid(client: Peer, name: str) -> None:
    assert client.create("/a", acl=(ACL(31, Id("sasl", name)),)).err == (0 if name in IDS[0] else -114)


def test_a_null_id(client: Peer) -> None:
    assert client.create("/a", acl=(ACL(31, Id("sasl", None)),)).err == -5


@pytest.mark.parametrize("users", [None, USERS])
@pytest.mark.parametrize("provider", [False, True])
def test_users_and_provider_are_two_things(users: dict[str, str] | None, provider: bool) -> None:
    """The table of sasl.md section 1."""
    peer = World(sasl_users=users, sasl_enabled=provider).connect()
    if users is None:
        assert step(peer, b"").record.token is None
    else:
        assert log_in(peer).err == 0
        assert ("sasl", "bob" if provider else "") in peer.who_am_i().identities
        assert peer.create("/auth", acl=(ACL(31, Id("auth", "")),)).err == (0 if provider else -114)
    assert peer.create("/a", acl=MINE).err == (0 if provider else -114)


# --- what is told ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fail", [False, True])
def test_the_log_has_names_and_no_secrets(caplog: pytest.LogCaptureFixture, fail: bool) -> None:
    caplog.set_level(logging.DEBUG)
    world = World(sasl_users=USERS, allow_sasl_failed_clients=fail)
    for make, _ in TOKENS.values():
        peer = world.connect()
        nonce = nonce_of(step(peer, b"").record.token)
        answer = Answer(nonce, cnonce=b"s3cretcnonce")
        token = make(answer)
        peer.send(OpCode.SASL, r.GetSASLRequest(token))
        told = caplog.text
        for secret in (nonce, answer.response(), b"bobsecret", b"s3cretcnonce"):
            assert secret.decode() not in told
    log_in(world.connect(), "ghost")
    assert "there is no user 'ghost' with this password" in caplog.text
    assert "there is DIGEST-MD5 here" in caplog.text
    assert "bobsecret" not in repr(world.service.settings)
