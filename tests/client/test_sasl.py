"""Logins by SASL DIGEST-MD5, from the client's side (sasl.md sections 2, 3 and 11)."""

from __future__ import annotations

import logging
import random
import re
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from pyzk.client import ACL, AuthFailedError, Id, SessionState, connect
from pyzk.client.auth import Credential, SaslLogin, SaslUser
from pyzk.protocol.constants import AUTH_XID
from pyzk.protocol.operations import OpCode
from pyzk.protocol.records import GetSASLRequest, SetSASLResponse
from pyzk.protocol.sasl import MAX_TOKEN, URI, directives
from pyzk.server.core.sasl import Login
from pyzk.server.testing import Controls, EmbeddedServer

from ..support.sasl import USERS
from .memory import client, open_memory_server
from .scripted import Script
from .tampered import tampered

BOB = ("bob", "bobsecret")
CHALLENGE = b'realm="zk-sasl-md5",nonce="N",charset=utf-8,algorithm=md5-sess'


@pytest.fixture
async def server() -> AsyncIterator[Controls]:
    assert isinstance(trio.lowlevel.current_clock(), MockClock), "ask for autojump_clock too"
    async with open_memory_server(sasl_users=USERS) as server:
        yield server


# --- against a server --------------------------------------------------------------------------------------


@pytest.mark.parametrize("user", [user for user in USERS.items() if "@" not in user[0]])
async def test_a_login(autojump_clock: MockClock, server: Controls, user: tuple[str, str]) -> None:
    async with client(server, sasl=user, auth=[("digest", "a:b")]) as zk:
        who = [(info.authScheme, info.user) for info in await zk.who_am_i()]
    assert ("sasl", user[0]) in who
    assert ("digest", "a") in who


async def test_each_connection_logs_in_before_watches_are_armed(
    autojump_clock: MockClock, server: Controls
) -> None:
    async with client(server, sasl=BOB) as bob, client(server, sasl=("alice", "alicesecret")) as alice:
        await bob.create("/a", acl=[ACL(31, Id("sasl", "bob")), ACL(31, Id("sasl", "alice"))])
        _, _, watch = await bob.get_and_watch("/a")
        with watch:
            server.disconnect(bob.session.id)
            await alice.set("/a", b"new")
            assert await watch.wait()
        assert (await bob.get("/a"))[0] == b"new"


@pytest.mark.parametrize("on_expired", ["cancel", "new_session"])
async def test_a_wrong_password_is_final(
    autojump_clock: MockClock, server: Controls, on_expired: Any
) -> None:
    with pytest.raises(AuthFailedError, match="wrong name or password"):
        async with client(server, sasl=("bob", "wrong"), on_expired=on_expired):
            raise AssertionError("it is in")
    assert trio.current_time() < 1


async def test_a_server_without_users_is_refused(autojump_clock: MockClock) -> None:
    async with open_memory_server() as server:
        with pytest.raises(AuthFailedError, match="the server has no SASL users"):
            async with client(server, sasl=BOB):
                raise AssertionError("it is in")


async def test_servers_that_refuse_the_user_later_are_asked_once_each(
    autojump_clock: MockClock, server: Controls
) -> None:
    asked: list[str] = []
    bad = tampered(server, lambda payload: [payload.replace(b"rspauth=", b"rspauth-") if asked else payload])

    async def choose(host: str, port: int) -> trio.abc.Stream:
        if "begun" in asked:
            asked.append(host)
        return await bad(host, port)

    with pytest.raises(AuthFailedError, match="does not prove"):
        async with connect("a,b,c", connector=choose, sasl=BOB, rng=random.Random(1)):
            await trio.sleep(5)
            asked.append("begun")
            server.disconnect_all()
            await trio.sleep_forever()
    assert sorted(asked) == ["a", "b", "begun", "c"]


@pytest.mark.parametrize("sasl", ["bob:bobsecret", ("bob",), ("", "x"), ("bob", b"x"), ("b", "\ud800"), 5])
async def test_what_is_no_user(sasl: Any) -> None:
    with pytest.raises(ValueError, match=r"sasl must be \(name, password\), .*as in \(\"user\"") as caught:
        async with connect("nowhere:1", sasl=sasl):
            raise AssertionError("it is in")
    assert "bobsecret" not in str(caught.value)


def test_the_example_of_the_documentation_runs(capsys: pytest.CaptureFixture[str]) -> None:
    text = (Path(__file__).parents[2] / "docs" / "client.md").read_text()
    [example] = re.findall(r"## Identities.*?```python\n(.*?)```", text, re.DOTALL)
    names: dict[str, Any] = {"connect": connect}
    with EmbeddedServer(sasl_users={"bob": "secret"}) as server:
        exec("async def main():\n" + textwrap.indent(example, "    "), names)
        names["connect"] = lambda hosts, **options: connect(server.hosts, **options)
        trio.run(names["main"])
    assert "ClientInfo(authScheme='sasl', user='bob')" in capsys.readouterr().out


def test_a_login_shows_no_secret(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    user = SaslUser("bob", "bobsecret")
    assert "bobsecret" not in repr(user)
    script = Script(sasl=user)
    script.connect()
    [start] = script.requests()
    script.reply(start, SetSASLResponse(CHALLENGE))
    [answer] = script.requests()
    script.reply(answer, SetSASLResponse(b"rspauth=" + b"0" * 32))
    said = GetSASLRequest.decode(answer.body).token or b""
    assert b"bobsecret" not in said
    for secret in re.findall(rb'(?:cnonce|response)="?(\w+)', said):
        assert secret.decode() not in caplog.text + str(script.machine.fatal)


# --- against a script --------------------------------------------------------------------------------------


def test_the_login_comes_before_credentials_and_these_before_all_else() -> None:
    script = Script(auth=(Credential("digest", b"u:p"),), sasl=SaslUser(*BOB))
    script.connect()
    script.write()
    [start] = script.requests()
    assert (start.op, GetSASLRequest.decode(start.body).token) == (OpCode.SASL, b"")
    login = Login(USERS, bytes)
    script.reply(start, SetSASLResponse(login.answer(b"")))
    [proof] = script.requests()
    assert (proof.op, proof.xid) == (OpCode.SASL, start.xid + 1)
    script.reply(proof, SetSASLResponse(login.answer(GetSASLRequest.decode(proof.body).token or b"")))
    assert login.user == "bob"
    [auth] = script.requests()
    assert (auth.op, auth.xid) == (OpCode.AUTH, AUTH_XID)
    assert script.machine.state is SessionState.CONNECTING
    script.reply(AUTH_XID)
    assert script.machine.state is SessionState.CONNECTED
    assert [request.op for request in script.requests()] == [OpCode.SET_DATA]


@pytest.mark.parametrize(
    ("token", "err", "words"),
    [
        (None, -115, "wrong name or password"),
        (None, -124, "wrong name or password"),
        (None, 0, "has no SASL users"),
        (b"", 0, "not DIGEST-MD5"),
        (b"\x60\x82\x02\x00", 0, "perhaps it is GSSAPI"),
        (b"=x", 0, "no key"),
        (CHALLENGE.replace(b"md5-sess", b"sha-256-sess"), 0, "not DIGEST-MD5"),
        (CHALLENGE.replace(b'"N"', b'""'), 0, "not DIGEST-MD5"),
        (CHALLENGE + b",nonce=x", 0, "two nonces"),
        (CHALLENGE + b',qop="auth-int,auth-conf"', 0, "qop"),
        (CHALLENGE.ljust(5000, b","), 0, "5,000 bytes"),
        (CHALLENGE.replace(b"zk-sasl-md5", b"\xff"), 0, "characters"),
    ],
)
def test_what_a_server_may_answer_to_the_first_token(token: bytes | None, err: int, words: str) -> None:
    script = Script(sasl=SaslUser(*BOB))
    script.connect()
    write = script.write()
    script.reply(script.requests()[0], SetSASLResponse(token), err=err)
    assert script.machine.state is SessionState.CLOSED
    with pytest.raises(AuthFailedError, match=words):
        write.result()


@pytest.mark.parametrize("token", [b"", b"rspauth=" + b"0" * 32, CHALLENGE])
def test_a_server_that_does_not_have_the_password_is_refused(token: bytes) -> None:
    script = Script(sasl=SaslUser(*BOB))
    script.connect()
    script.reply(script.requests()[0], SetSASLResponse(CHALLENGE))
    script.reply(script.requests()[0], SetSASLResponse(token))
    assert script.machine.state is SessionState.CLOSED
    assert "does not prove" in str(script.machine.fatal)


@pytest.mark.parametrize("xid", [5, AUTH_XID, 0])
def test_nothing_else_may_be_answered_meanwhile(xid: int) -> None:
    script = Script(sasl=SaslUser(*BOB))
    script.connect()
    script.requests()
    script.reply(xid, SetSASLResponse(CHALLENGE))
    assert script.machine.should_close
    assert script.machine.state is SessionState.CONNECTING
    script.lose()
    assert "broke the protocol" in script.machine.why


def test_nothing_is_sent_after_the_last_token() -> None:
    login, server = SaslLogin(SaslUser(*BOB)), Login(USERS, bytes)
    said = login.answer(server.answer(b""))
    assert not login.over
    assert login.answer(server.answer(said)) == b""
    assert login.over


@pytest.mark.parametrize("qop", [b"", b',qop="auth"', b',qop="auth-int, auth"'])
@pytest.mark.parametrize("realms", [b'realm="zk-sasl-md5",', b'realm="zk-sasl-md5",realm=x,', b""])
def test_what_a_challenge_may_be(qop: bytes, realms: bytes) -> None:
    challenge = CHALLENGE.replace(b'realm="zk-sasl-md5",', realms) + qop
    said = SaslLogin(SaslUser(*BOB)).answer(challenge)
    assert (b'realm="zk-sasl-md5"' if realms else b'realm=""') in said


def test_what_the_charset_of_a_server_lacks() -> None:
    plain = CHALLENGE.replace(b"charset=utf-8,", b"")
    assert b'username="m\xfcller"' in SaslLogin(SaslUser("müller", "ü")).answer(plain)
    with pytest.raises(AuthFailedError, match="characters that are not in the server's charset"):
        SaslLogin(SaslUser("bob", "密码")).answer(plain)


@pytest.mark.parametrize(
    ("size", "words"), [(MAX_TOKEN, "is not DIGEST-MD5"), (MAX_TOKEN + 1, "the limit is")]
)
def test_the_largest_token(size: int, words: str) -> None:
    with pytest.raises(AuthFailedError, match=words):
        SaslLogin(SaslUser("bob", "secret")).answer(b"x" * size)


def test_a_login_is_over_when_the_server_has_proved_itself() -> None:
    login = SaslLogin(SaslUser("bob", "secret", random_bytes=lambda size: b"\1" * size))
    answer = login.answer(b'nonce="n",qop="auth",algorithm=md5-sess,charset=utf-8')
    assert not login.over
    assert b'cnonce="' + b"01" * 15 + b'"' in answer
    assert dict(directives(answer)) == {
        "username": b"bob",
        "realm": b"",
        "nonce": b"n",
        "nc": b"00000001",
        "cnonce": b"01" * 15,
        "digest-uri": URI,
        "qop": b"auth",
        "response": dict(directives(answer))["response"],
        "charset": b"utf-8",
    }
    assert login._expected is not None
    assert login.answer(login._expected) == b""
    assert login.over
