"""SASL DIGEST-MD5 (sasl.md): both servers give the same answers, and every client logs in to both."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trio
from kazoo.client import KazooClient
from kazoo.protocol.states import KazooState, KeeperState

from pyzk.client import AuthFailedError, connect
from pyzk.protocol import records as r
from pyzk.protocol.operations import OpCode
from pyzk.protocol.records import ACL, Id

from ..support.needs import need
from ..support.sasl import CLOSED, IN, JAAS, OUT, PASSWORDS, TOKENS, USERS, Answer, Make, nonce_of
from ..support.threads import WAIT
from ..support.wire import ClosedError, Reply, WireClient
from ..support.zkcli import ZKCLI, zkcli
from .conftest import KINDS, running
from .kazoo_fixtures import SESSION_TIMEOUT
from .servers import CONFIG, Server

PROVIDER = {"authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"}
NULL = b"\xff\xff\xff\xff"
Connect = Callable[[], WireClient]


@contextlib.contextmanager
def _running(kind: str, folder: Path, **config: str) -> Iterator[Server]:
    jaas = folder / "jaas.conf"
    jaas.write_text(JAAS, encoding="utf-8")
    users = {"java.security.auth.login.config": str(jaas)}
    with running(kind, {**CONFIG, **users, **PROVIDER, **config}) as server:
        yield server


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with _running(request.param, tmp_path_factory.mktemp("sasl"), superUser="alice") as server:
        yield server


@pytest.fixture(scope="module", params=KINDS)
def strict(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Who does not log in may do nothing."""
    folder = tmp_path_factory.mktemp("strict")
    options = {"sessionRequireClientSASLAuth": "true", "allowSaslFailedClients": "true"}
    with _running(request.param, folder, **options) as server:
        yield server


@pytest.fixture(scope="module", params=KINDS)
def lenient(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Who fails to log in goes on without."""
    with _running(request.param, tmp_path_factory.mktemp("lenient"), allowSaslFailedClients="true") as server:
        yield server


@contextlib.contextmanager
def open_client(server: Server) -> Iterator[WireClient]:
    with WireClient((server.host, server.port)) as client:
        client.connect()
        yield client
        with contextlib.suppress(ClosedError, OSError):
            client.close_session()


def step(client: WireClient, token: bytes) -> Reply:
    return client.request(OpCode.SASL, r.GetSASLRequest(token))


def log_in(client: WireClient, user: str = "bob", password: str = "bobsecret") -> Reply:
    return step(client, Answer(nonce_of(step(client, b"").record.token), user, password).token())


def outcome(client: WireClient, token: bytes) -> str:
    try:
        reply = step(client, token)
    except ClosedError:
        return CLOSED
    if reply.err:
        assert (reply.zxid, reply.err, reply.body) == (0, -115, NULL)
        assert client.is_closed()
        return OUT
    assert reply.record.token.startswith(b"rspauth=")
    return IN


@pytest.mark.parametrize(("make", "expected"), TOKENS.values(), ids=TOKENS)
def test_second_tokens(server: Server, make: Make, expected: str) -> None:
    with open_client(server) as client:
        nonce = nonce_of(step(client, b"ignored").record.token)
        assert outcome(client, make(Answer(nonce))) == expected


@pytest.mark.parametrize(("user", "password", "expected"), PASSWORDS.values(), ids=PASSWORDS)
def test_passwords(server: Server, user: str, password: str, expected: str) -> None:
    with open_client(server) as before:  # the password that an unknown user would have: sasl.md section 13
        log_in(before, "super", "adminsecret")
    with open_client(server) as client:
        nonce = nonce_of(step(client, b"").record.token)
        assert outcome(client, Answer(nonce, user, password).token()) == expected
        if expected == IN:
            assert ("sasl", user) in client.who_am_i().identities


@pytest.mark.parametrize("again", [b"", b"x"])
def test_op_102_after_a_login(server: Server, lenient: Server, again: bytes) -> None:
    with open_client(server) as client:
        assert log_in(client).err == 0
        assert outcome(client, again) == OUT
    with open_client(lenient) as client:
        log_in(client)
        for _ in range(3):
            assert (step(client, again).err, client.who_am_i().err) == (0, 0)
        assert ("sasl", "bob") in client.who_am_i().identities


def test_who_fails_may_go_on_without(lenient: Server) -> None:
    with open_client(lenient) as client:
        failed = log_in(client, password="wrong")
        assert (failed.zxid, failed.err, failed.body) == (0, 0, NULL)
        assert step(client, b"").record.token is None
        assert client.who_am_i().identities == [("ip", "127.0.0.1")]


@pytest.mark.parametrize("op", [OpCode.PING, OpCode.CLOSE_SESSION, OpCode.EXISTS, OpCode.CREATE, 9999])
def test_who_must_log_in_does_so_first(strict: Server, op: int) -> None:
    with open_client(strict) as client:
        client.send(op, b"", 5)
        reply = client.receive_reply()
        assert (reply.xid, reply.zxid, reply.err, reply.body) == (5, 0, -124, b"")
        assert client.is_closed()


def test_an_enforced_login(strict: Server) -> None:
    with open_client(strict) as client:
        assert log_in(client).err == 0
        assert client.exists("/").err == 0
    with open_client(strict) as client:
        failed = log_in(client, password="wrong")
        assert (failed.zxid, failed.err, failed.body) == (0, -124, NULL)
        assert client.is_closed()


def test_acls(server: Server, top: str) -> None:
    with open_client(server) as bob, open_client(server) as alice, open_client(server) as root:
        log_in(bob)
        bob.create(f"{top}/a", b"", (ACL(31, Id("auth", "")),))
        assert bob.get_acl(f"{top}/a").record.acl == (ACL(31, Id("sasl", "bob")),)
        assert alice.get(f"{top}/a").err == -102
        log_in(alice, "alice", "alicesecret")
        assert sorted(alice.who_am_i().identities) == [("ip", "127.0.0.1"), ("sasl", "alice"), ("super", "")]
        assert alice.get(f"{top}/a").err == 0
        log_in(root, "super", "adminsecret")
        assert root.get(f"{top}/a").err == 0
        bob.create(f"{top}/d", b"", (ACL(1, Id("sasl", "bob")), ACL(2, Id("digest", "a:b"))))
        assert root.set(f"{top}/d", b"").err == -102


@pytest.mark.parametrize("name", ["", "a@", "@", "a/b", 'a b"中', "a/b@C", "a@b@c", "a/b/c@D"])
def test_which_ids_are_valid(server: Server, top: str, name: str) -> None:
    with open_client(server) as client:
        err = client.create(f"{top}/a", b"", (ACL(31, Id("sasl", name)),)).err
    assert err == (-114 if name in ("a@b@c", "a/b/c@D") else 0)


def test_op_100_knows_no_scheme_sasl(server: Server) -> None:
    with open_client(server) as client:
        reply = client.auth("sasl", b"bob:bobsecret")
        assert (reply.err, reply.body) == (-115, b"")
        assert client.is_closed()


# --- clients -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("user", [user for user in USERS.items() if "@" not in user[0]])
def test_our_client(server: Server, top: str, user: tuple[str, str]) -> None:
    async def main() -> None:
        async with connect(server.hosts, sasl=user, auth=[("digest", "a:b")]) as zk:
            assert ("sasl", user[0]) in [(info.authScheme, info.user) for info in await zk.who_am_i()]
            await zk.create(f"{top}/mine", acl=(ACL(31, Id("sasl", user[0])),))

    trio.run(main)


def test_our_client_with_a_wrong_password(server: Server) -> None:
    async def main() -> None:
        with pytest.raises(AuthFailedError, match="wrong name or password"):
            async with connect(server.hosts, sasl=("bob", "wrong")):
                raise AssertionError("it is in")

    trio.run(main)


def _kazoo(server: Server, password: str) -> KazooClient:
    options = {"mechanism": "DIGEST-MD5", "username": "bob", "password": password}
    return KazooClient(server.hosts, timeout=SESSION_TIMEOUT, sasl_options=options)


def test_kazoo(server: Server, top: str) -> None:
    client = _kazoo(server, "bobsecret")
    try:
        client.start(timeout=WAIT)
        client.create(f"{top}/mine", acl=[ACL(31, Id("sasl", "bob"))])
        with open_client(server) as other:
            assert other.get(f"{top}/mine").err == -102
    finally:
        client.stop()
        client.close()


def test_kazoo_with_a_wrong_password(server: Server) -> None:
    client, lost = _kazoo(server, "wrong"), threading.Event()
    client.add_listener(lambda state: lost.set() if state == KazooState.LOST else None)
    try:
        client.start_async()  # start() may miss the moment between connecting and losing
        assert lost.wait(WAIT)
        assert client.client_state in (KeeperState.AUTH_FAILED, KeeperState.CLOSED)
        assert not client.connected
    finally:
        client.stop()
        client.close()


def test_zkcli_and_with_it_the_java_client(server: Server, top: str, tmp_path: Path) -> None:
    need(None if ZKCLI.exists() else f"no {ZKCLI} (Debian: apt-get install zookeeper)")
    jaas = tmp_path / "client.conf"
    jaas.write_text(
        "Client { org.apache.zookeeper.server.auth.DigestLoginModule required"
        ' username="bob" password="bobsecret"; };'
    )
    script = f"whoami\ncreate {top}/java x sasl:bob:cdrwa\nget {top}/java\nquit\n"
    _, printed = zkcli(server, script=script, flags=f"-Djava.security.auth.login.config={jaas}")
    assert "sasl: bob" in printed
    with open_client(server) as other:
        assert other.get(f"{top}/java").err == -102
