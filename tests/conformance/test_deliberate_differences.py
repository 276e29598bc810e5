"""Where ours differs from the real server on purpose (semantics.md section 16): ours alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyzk.protocol.operations import OpCode

from ..support.wire import Reply, WireClient
from .conftest import running
from .servers import CONFIG, Server


@pytest.fixture(scope="module")
def ours() -> Iterator[Server]:
    with running("ours", CONFIG) as server:
        yield server


@pytest.fixture
def client(ours: Server) -> Iterator[WireClient]:
    with WireClient((ours.host, ours.port)) as client:
        client.connect()
        yield client


@pytest.mark.parametrize("flags", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("ttl", [-1, 0, 1000])
def test_the_ttl_op_wants_a_ttl_flag(client: WireClient, flags: int, ttl: int) -> None:
    assert client.create("/n", flags=flags, ttl=ttl).err == -8
    assert client.exists("/n").err == -101
    assert client.ping().err == 0


@pytest.mark.parametrize("op", [OpCode.DELETE_CONTAINER, OpCode.CREATE_SESSION], ids=lambda op: op.name)
def test_internal_ops_are_unknown(client: WireClient, op: OpCode) -> None:
    body = b"\0\0\0\x02/c" if op == OpCode.DELETE_CONTAINER else b"\0\0\x10\0"
    assert client.request(op, body, xid=5) == Reply(5, -1, -6, b"", op)
    assert client.is_closed()


@pytest.mark.parametrize("password", [b"wrong" * 3 + b"!", bytes(16), None, b"short"])
def test_a_wrong_password_leaves_the_owner_alone(
    ours: Server, client: WireClient, password: bytes | None
) -> None:
    with WireClient((ours.host, ours.port)) as thief:
        thief.connect(session_id=client.session_id, password=password)
        assert thief.session_id == 0
        assert thief.is_closed()
    assert client.ping().err == 0


@pytest.mark.parametrize("name", ["zookeeper_limits", "zookeeper_stats"])
def test_a_quotas_name_elsewhere_is_an_ordinary_znode(client: WireClient, name: str) -> None:
    client.create("/elsewhere")
    for path in (f"/elsewhere/{name}", f"/zookeeper/{name}", f"/zookeeper/quota/{name}", f"/{name}"):
        assert client.create(path, b"not a quota").err == 0, path
        assert client.get(path).record.data == b"not a quota", path
        client.create("/elsewhere/n", b"12345")
        client.delete("/elsewhere/n")
        assert client.get(path).record.data == b"not a quota", path
        assert client.delete(path).err == 0
    client.delete("/elsewhere")


@pytest.mark.parametrize(
    "text", [b"nonsense", b"", None, b"count=x,bytes=y", b"\xff\xfe", b"countHardLimit="]
)
def test_text_that_is_no_quota_sets_no_limit(client: WireClient, text: bytes | None) -> None:
    client.create("/odd")
    client.create("/zookeeper/quota/odd")
    assert client.create("/zookeeper/quota/odd/zookeeper_limits", text).err == 0
    assert client.create("/zookeeper/quota/odd/zookeeper_stats").err == 0
    assert client.create("/odd/n", b"123").err == 0
    assert client.set("/odd", b"1234").err == 0
    assert client.get("/zookeeper/quota/odd/zookeeper_stats").record.data == b"count=2,bytes=7"
    for path in (
        "/odd/n",
        "/odd",
        "/zookeeper/quota/odd/zookeeper_limits",
        "/zookeeper/quota/odd/zookeeper_stats",
    ):
        assert client.delete(path).err == 0
    assert client.delete("/zookeeper/quota/odd").err == 0


def test_broken_stats_are_computed_afresh(client: WireClient) -> None:
    client.create("/again", b"12")
    client.create("/zookeeper/quota/again")
    client.create("/zookeeper/quota/again/zookeeper_limits", b"count=-1,bytes=-1")
    client.create("/zookeeper/quota/again/zookeeper_stats")
    assert client.set("/zookeeper/quota/again/zookeeper_stats", b"broken").err == 0
    assert client.create("/again/n", b"345").err == 0
    assert client.get("/zookeeper/quota/again/zookeeper_stats").record.data == b"count=2,bytes=5"


def test_a_word_with_a_blank_behind_it_is_none(ours: Server) -> None:
    with WireClient((ours.host, ours.port)) as stranger:
        stranger.send_bytes(b"ruok / HTTP/1.1\r\n\r\n")
        assert stranger.receive_rest() == b""


def test_http_is_answered_where_the_real_server_closes(ours: Server) -> None:
    with WireClient((ours.host, ours.port)) as stranger:
        stranger.send_bytes(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert stranger.receive_bytes(15) == b"HTTP/1.1 200 OK"
