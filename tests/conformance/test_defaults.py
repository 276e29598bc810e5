"""What depends on the configuration: servers with other settings than the rest of the tests have."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

import pytest

from pyzk.protocol import records as r
from pyzk.protocol.operations import OpCode

from ..support.requests import acl, create_op
from ..support.waiting import wait_until
from ..support.wire import ClosedError, Reply, WireClient
from .conftest import KINDS, running
from .servers import Server, four_letter_word

# Few connections, few words, no extended types, no enforced quotas.
PLAIN = {
    "tickTime": "250",
    "maxSessionTimeout": "60000",
    "maxClientCnxns": "8",
    "reconfigEnabled": "true",
    "4lw.commands.whitelist": "ruok, stat",
    "jute.maxbuffer": "4096",
}


@pytest.fixture(scope="module", params=KINDS)
def plain(request: pytest.FixtureRequest) -> Iterator[Server]:
    with running(request.param, PLAIN) as server:
        yield server


@pytest.fixture
def client(plain: Server) -> Iterator[WireClient]:
    with WireClient((plain.host, plain.port)) as client:
        client.connect()
        yield client
        with contextlib.suppress(ConnectionError):  # a test may have lost the connection
            client.send(OpCode.CLOSE_SESSION)
        client.receive_rest()


# --- a fresh server (semantics.md 1.2) ---------------------------------------------------------------------

EMPTY = r.Stat(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
INITIAL = {  # path: (wire cversion, numChildren, aversion, ACL)
    "/": (-1, 1, 0, r.OPEN_ACL),
    "/zookeeper": (-2, 2, 0, r.OPEN_ACL),
    "/zookeeper/config": (0, 0, -1, r.READ_ACL),
    "/zookeeper/quota": (0, 0, 0, r.OPEN_ACL),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_fresh_server(kind: str) -> None:
    with running(kind, {"tickTime": "1000"}) as server, WireClient((server.host, server.port)) as client:
        client.connect()
        first = client.create("/first").zxid
        assert client.ping().zxid == first
        client.delete("/first")
        for path, (cversion, children, aversion, entries) in INITIAL.items():
            reply = client.get(path)
            stat = reply.record.stat
            if path == "/":  # a child came and went
                assert (stat.cversion, stat.pzxid) == (cversion + 2, first + 1)
            else:
                assert stat == r.Stat(0, 0, 0, 0, 0, cversion, aversion, 0, 0, children, 0)
            assert not reply.record.data
            assert stat.numChildren == children
            assert client.get_acl(path).record.acl == entries
        assert client.count_descendants("/").record.totalNumber == 3
        answer = four_letter_word((server.host, server.port), b"srvr").decode()
        assert answer.endswith("Node count: 5\n")
        assert client.close_session().zxid == first + 2
        with WireClient((server.host, server.port)) as hasty:
            assert hasty.connect(timeout=1).timeout == 2000  # two ticks


@pytest.mark.parametrize("kind", KINDS)
def test_the_greatest_default_timeout(kind: str) -> None:
    with running(kind, {"tickTime": "100"}) as server, WireClient((server.host, server.port)) as client:
        assert client.connect(timeout=10**6).timeout == 2000  # twenty ticks


# --- extended types off (semantics.md 4.1 and 13) ----------------------------------------------------------


@pytest.mark.parametrize(("flags", "ttl"), [(5, 1000), (6, 1000), (5, 0), (6, -1)])
def test_ttl_znodes_are_not_implemented(client: WireClient, flags: int, ttl: int) -> None:
    reply = client.create("/t", flags=flags, ttl=ttl)
    assert reply.err == -6
    assert client.ping().zxid == reply.zxid  # open, and the zxid is consumed


def test_ttl_flags_of_other_ops_are_not_implemented_either(client: WireClient) -> None:
    # check 2 comes before check 3
    assert client.create("/t", flags=5).err == -6
    assert client.create("/t", flags=6, acl=[]).err == -6
    assert client.create("/t", flags=7).err == -8


def test_containers_work_regardless(client: WireClient) -> None:
    assert client.create("/c", flags=4, op=OpCode.CREATE_CONTAINER).err == 0
    assert client.delete("/c").err == 0


# --- quotas without enforcement (semantics.md 9.3) ---------------------------------------------------------


def test_quotas_are_kept_but_not_enforced(client: WireClient) -> None:
    client.create("/q", b"12345")
    client.create("/zookeeper/quota/q")
    client.create("/zookeeper/quota/q/zookeeper_limits", b"count=1,bytes=1=;byteHardLimit=1;countHardLimit=1")
    client.create("/zookeeper/quota/q/zookeeper_stats")
    assert client.create("/q/n", b"123").err == 0
    assert client.set("/q", b"1234567890").err == 0
    assert client.get("/zookeeper/quota/q/zookeeper_stats").record.data == b"count=2,bytes=13"
    for path in ("/q/n", "/q", "/zookeeper/quota/q/zookeeper_limits", "/zookeeper/quota/q/zookeeper_stats"):
        assert client.delete(path).err == 0
    assert client.delete("/zookeeper/quota/q").err == 0


# --- reconfig enabled (semantics.md 4.7) -------------------------------------------------------------------


def test_reconfig_is_not_implemented_in_standalone(client: WireClient) -> None:
    before = client.ping().zxid
    reply = client.request(OpCode.RECONFIG, r.ReconfigRequest("server.1=x", None, None, -1))
    assert (reply.err, reply.zxid) == (-6, before + 1)
    assert client.ping().err == 0


# --- four-letter words (operator-surface.md 1.2) ------------------------------------------------------------


@pytest.mark.parametrize("word", ["mntr", "cons", "conf", "dump", "isro", "wchs", "envi", "crst"])
def test_a_word_that_is_not_on_the_list(plain: Server, word: str) -> None:
    answer = four_letter_word((plain.host, plain.port), word.encode()).decode()
    assert answer == f"{word} is not executed because it is not in the whitelist.\n"


def test_telnets_close_is_a_word(plain: Server) -> None:
    answer = four_letter_word((plain.host, plain.port), b"\xff\xf4\xff\xfd").decode()
    assert answer == "telnet close is not executed because it is not in the whitelist.\n"


def test_the_words_on_the_list(plain: Server) -> None:
    # srvr always is
    address = (plain.host, plain.port)
    assert four_letter_word(address, b"ruok") == b"imok"
    assert b"Clients:\n" in four_letter_word(address, b"stat")
    assert re.match(rb"Zookeeper version: ", four_letter_word(address, b"srvr"))


# --- limits (semantics.md 14) ------------------------------------------------------------------------------


def test_surplus_connections_are_closed_at_once(plain: Server) -> None:
    # maxClientCnxns counts every open socket of the address, those of earlier tests too until they are gone
    def exactly_eight() -> bool:
        with contextlib.ExitStack() as stack:
            clients: list[WireClient] = []
            with contextlib.suppress(ClosedError, ConnectionError):
                while len(clients) < 10:
                    client = stack.enter_context(WireClient((plain.host, plain.port)))
                    client.connect()
                    clients.append(client)
            assert len(clients) <= 8
            for client in clients:
                assert client.close_session().err == 0
                assert client.is_closed()
            return len(clients) == 8

    wait_until(exactly_eight)
    wait_until(exactly_eight)  # what is closed makes room again


@pytest.mark.parametrize("kind", KINDS)
def test_a_silent_connection_is_closed(kind: str) -> None:
    # rounded up; a server of its own, because it has no patience with a machine that stands still either
    with running(kind, {"tickTime": "250", "nio.sessionlessCnxnTimeout": "400"}) as server:
        with WireClient((server.host, server.port)) as silent:
            assert silent.is_closed()
        with WireClient((server.host, server.port)) as slow:
            slow.send_bytes(b"\0\0\0\x2d\0\0")
            assert slow.is_closed()


def test_the_size_limit_can_be_set(plain: Server, client: WireClient) -> None:
    # wire.md section 15
    overhead = len(r.CreateRequest("/n", b"", r.OPEN_ACL, 0).encode()) + 8
    assert client.create("/n", b"x" * (4096 - overhead)).err == 0
    assert client.delete("/n").err == 0
    client.send(OpCode.CREATE, r.CreateRequest("/n", b"x" * (4097 - overhead), r.OPEN_ACL, 0))
    assert client.is_closed()


def test_nobody_is_super_here(client: WireClient) -> None:
    assert client.auth("digest", "super:test").err == 0
    assert ("super", "") not in client.who_am_i().identities
    assert client.multi(create_op("/n", acl=[acl(0, "world", "anyone")])).err == 0
    assert client.get("/n").err == -102
    assert client.delete("/n").err == 0


# --- enforced authentication, and no ACLs (semantics.md 8.2, 8.5) ------------------------------------------

STRICT = {
    "tickTime": "250",
    "maxSessionTimeout": "60000",
    "enforce.auth.enabled": "true",
    "enforce.auth.schemes": "digest",
    "skipACL": "yes",
}


@pytest.fixture(scope="module", params=KINDS)
def strict(request: pytest.FixtureRequest) -> Iterator[Server]:
    with running(request.param, STRICT) as server:
        yield server


@pytest.mark.parametrize(
    ("op", "request_"),
    [
        (OpCode.PING, b""),
        (OpCode.EXISTS, r.ExistsRequest("/", False)),
        (OpCode.CREATE, r.CreateRequest("/n", b"", r.OPEN_ACL, 0)),
        (OpCode.CLOSE_SESSION, b""),
    ],
    ids=["ping", "read", "write", "closeSession"],
)
def test_clients_that_must_authenticate_are_told_so(
    strict: Server, op: OpCode, request_: r.Record | bytes
) -> None:
    address = (strict.host, strict.port)
    with WireClient(address) as stranger:
        stranger.connect()
        assert stranger.request(op, request_, xid=9) == Reply(9, 0, -124, b"", op)
        assert stranger.is_closed()
        with WireClient(address) as again:  # the session does not suffer
            again.connect(session_id=stranger.session_id, password=stranger.password)
            assert again.auth("digest", "u:p").err == 0
            assert again.exists("/n").err == -101
            assert again.close_session().err == 0


def test_skip_acl_skips_checks_but_not_validation(strict: Server) -> None:
    # trap 31; semantics.md 8.6: getACL shows everything
    with WireClient((strict.host, strict.port)) as client:
        client.connect()
        client.auth("digest", "u:p")
        entries = [acl(0, "digest", "somebody:else")]
        assert client.create("/locked", acl=entries).err == 0
        assert client.get("/locked").err == client.set("/locked", b"").err == 0
        assert client.get_acl("/locked").record.acl == tuple(entries)
        assert client.set_acl("/locked", [acl(1, "nonsense", "x")]).err == -114
        assert client.create("/other", acl=[]).err == -114
        assert client.set("/zookeeper/config", b"").err == 0
        assert client.delete("/locked").err == 0
        assert client.delete("/zookeeper").err == -8
        assert client.close_session().err == 0
