"""Authentication packets and identities (wire.md section 12, semantics.md 8.4 and 8.5)."""

from __future__ import annotations

import pytest

from pyzk.protocol import records as r
from pyzk.protocol.constants import AUTH_XID
from pyzk.protocol.operations import OpCode

from ..support.requests import acl, digest_id
from ..support.wire import WireClient
from .conftest import Connect
from .servers import SUPER_CREDENTIALS

IP = ("ip", "127.0.0.1")


@pytest.mark.parametrize(
    ("credentials", "identity"),
    [
        ("u:p", "u:Jq7wMyA/w2Vd5WIDAKdu4OIIFEQ="),
        ("super:test", "super:D/InIHSb7yEEbrWz8b9l71RjZJU="),
        ("a:b", "a:3OptnM09ILoVSfbZtd3mB0IViII="),
        ("a:b:c", digest_id("a:b:c")),
        ("ü:ß", digest_id("ü:ß")),
    ],
)
def test_digests(client: WireClient, top: str, credentials: str, identity: str) -> None:
    # semantics.md 8.4: the hash is over the whole of it
    assert client.auth("digest", credentials).err == 0
    client.create(f"{top}/n", acl=[acl(31, "auth", "")])
    assert client.get_acl(f"{top}/n").record.acl == (acl(31, "digest", identity),)


@pytest.mark.parametrize(
    ("data", "user"),
    [(b"u:p", "u"), (b"a:b:c", "a"), (b"no colon", "no colon"), (b"", ""), (b":p", "")],
)
def test_digest_accepts_anything(client: WireClient, data: bytes, user: str) -> None:
    # wire.md 12.1
    assert client.auth("digest", data).err == 0
    assert set(client.who_am_i().identities) == {IP, ("digest", user)}


@pytest.mark.parametrize(
    ("scheme", "data"),
    [
        ("nonsense", b"x"),
        ("world", b"anyone"),
        ("auth", b""),
        ("super", b"super:test"),
        ("sasl", b"x"),
        ("", b"x"),
        ("DIGEST", b"u:p"),
        ("digest", None),
    ],
)
def test_refusals_close_the_connection_but_not_the_session(
    connect: Connect, client: WireClient, scheme: str, data: bytes | None
) -> None:
    # wire.md 12.1
    reply = client.auth(scheme, data)
    assert (reply.xid, reply.zxid, reply.err, reply.body) == (AUTH_XID, 0, -115, b"")
    assert client.is_closed()
    assert connect(session_id=client.session_id, password=client.password).session_id == client.session_id


@pytest.mark.parametrize(
    ("packet", "errors"),
    [(r.AuthPacket(0, "nonsense", b"").encode(), [-115]), (b"", [])],
    ids=["refused", "undecodable"],
)
def test_a_refusal_loses_what_is_pipelined(
    connect: Connect, client: WireClient, top: str, packet: bytes, errors: list[int]
) -> None:
    # wire.md 12.1: reading stops at once
    client.send_together(
        (OpCode.AUTH, packet, AUTH_XID), (OpCode.SET_DATA, r.SetDataRequest(top, b"lost", -1), 1)
    )
    assert [client.receive_reply().err for _ in errors] == errors
    assert client.is_closed()
    assert connect().get(top).record.data == b""


@pytest.mark.parametrize("body", [b"", b"\0\0\0\0", b"\0\0\0\0\0\0\0\x06dig"])
def test_an_undecodable_packet_closes_without_reply(client: WireClient, body: bytes) -> None:
    # wire.md 12.1
    client.send(OpCode.AUTH, body, xid=AUTH_XID)
    assert client.is_closed()


def test_ip_is_there_from_the_start_and_may_be_asked_for(client: WireClient) -> None:
    # wire.md 12.1
    assert set(client.who_am_i().identities) == {IP}
    assert client.auth("ip", b"").err == 0
    assert set(client.who_am_i().identities) == {IP}


def test_identities_accumulate_as_a_set(client: WireClient) -> None:
    # wire.md 12.1
    for credentials in ("a:1", "b:2", "a:1"):
        client.auth("digest", credentials)
    reply = client.request(OpCode.WHO_AM_I)
    users = sorted((info.authScheme, info.user) for info in reply.record.clientInfo)
    assert users == [("digest", "a"), ("digest", "b"), IP]


def test_who_am_i_of_super(client: WireClient) -> None:
    # semantics.md, trap 39: an empty name where the scheme has no provider
    client.auth("digest", SUPER_CREDENTIALS)
    assert set(client.who_am_i().identities) == {IP, ("digest", "super"), ("super", "")}


def test_a_wrong_super_password_is_an_ordinary_digest(client: WireClient, top: str) -> None:
    client.create(f"{top}/n", acl=[acl(0, "world", "anyone")])
    assert client.auth("digest", "super:wrong").err == 0
    assert set(client.who_am_i().identities) == {IP, ("digest", "super")}
    assert client.get(f"{top}/n").err == -102


def test_identities_are_the_connections(connect: Connect, client: WireClient) -> None:
    # semantics.md 8.5
    client.auth("digest", "u:p")
    again = connect(session_id=client.session_id, password=client.password)
    assert set(again.who_am_i().identities) == {IP}


def test_the_type_of_an_auth_packet_is_ignored(client: WireClient) -> None:
    # wire.md 9.2
    assert client.request(OpCode.AUTH, r.AuthPacket(7, "digest", b"u:p"), xid=AUTH_XID).err == 0


@pytest.mark.parametrize("token", [b"", b"token"])
def test_sasl_where_it_is_not_configured(client: WireClient, token: bytes) -> None:
    # wire.md 12.2: a null token, and life goes on
    reply = client.request(OpCode.SASL, r.GetSASLRequest(token))
    assert (reply.err, reply.record.token) == (0, None)
    assert client.ping().err == 0


def test_a_null_sasl_token_closes_without_reply(client: WireClient) -> None:
    client.send(OpCode.SASL, r.GetSASLRequest(None))
    assert client.is_closed()
