"""The trace: what is shown, what is left out, and that nobody waits for its reader."""

from __future__ import annotations

import json
import os
import re
from typing import Any

import pytest

from pyzk.protocol import records as r
from pyzk.protocol.constants import CreateMode
from pyzk.protocol.multi import encode_multi
from pyzk.protocol.operations import OpCode
from pyzk.server import lines, open_server
from pyzk.server.testing.host import LocalServer
from pyzk.server.testing.trace import Selection, Trace, Traced, Tracer

from ...support.requests import set_op
from ...support.wire import StreamClient

SECRET = "s3cret"


class Scene:
    """A server that is traced.

    :ivar told: what was traced.
    """

    def __init__(self, server: LocalServer, **selection: Any) -> None:
        self.told: list[Traced] = []
        self.tracer = Tracer(server.running, Selection.of(**selection), self.told.append)

    def lines(self) -> list[str]:
        """What the lines say behind the time, the client and the session; the latency as T."""
        found = [re.sub(r"  \d+\.\d+ ms", "  T", text.as_text()[54:]).strip() for text in self.told]
        self.told.clear()
        return found


async def connect(server: LocalServer) -> StreamClient:
    return await StreamClient(server.open_stream()).connect()


async def test_a_line_for_each_thing_that_happens() -> None:
    async with open_server(clock="frozen", initial_zxid=0) as server:
        scene = Scene(server)
        a = await connect(server)
        assert scene.lines() == [
            "opened from 127.0.0.1:1",
            "session begins, timeout 10 s",
            "new session, timeout 10 s, from 127.0.0.1:1",
        ]
        await a.create("/a", b"1")
        await a.exists("/a", watch=True)
        await a.exists("/none")
        await a.set("/a", b"2")
        assert scene.lines() == [
            "-> create /a '1'",
            "<- create /a: ok  zxid 0x2  T",
            "-> exists /a +watch",
            "<- exists /a: version 0  zxid 0x2  T",
            "-> exists /none",
            "<- exists /none: NoNodeError  zxid 0x2  T",
            "-> set_data /a '2'",
            "<< changed /a  zxid 0x3",
            "<- set_data /a: version 1  zxid 0x3  T",
        ]
        with server.fault(op="exists", action="error", error=-4):
            await a.exists("/a")
        server.expire(a.session_id)
        assert any(line.startswith("!! ") for line in scene.lines())


async def test_each_line_names_the_client_and_the_session() -> None:
    async with open_server() as server:
        scene = Scene(server, ops=["exists"])
        a = await connect(server)
        await a.exists("/")
        for traced in scene.told:
            line = traced.as_text()
            assert re.match(r"\d\d:\d\d:\d\d\.\d\d\d 127\.0\.0\.1:1 +0x", line)
            assert f"0x{a.session_id:x}" in line


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        ({"ops": ["create"]}, ["create /a", "create /a/b"]),
        ({"ops": ["getData", "exists"]}, ["exists /a"]),
        ({"path": "/a/*"}, ["create /a/b", "multi [set_data /a/b 'x', set_data /c 'y']"]),
        ({"path": "/**", "ops": ["multi"]}, ["multi [set_data /a/b 'x', set_data /c 'y']"]),
        ({"ops": ["ping"]}, ["ping"]),
        ({"session": 1}, []),
        ({}, ["create /a", "create /a/b", "exists /a", "multi [set_data /a/b 'x', set_data /c 'y']"]),
    ],
)
async def test_what_is_selected(selection: dict[str, Any], expected: list[str]) -> None:
    async with open_server() as server:
        a = await connect(server)
        scene = Scene(server, **selection)
        await a.create("/a")
        await a.create("/a/b")
        await a.exists("/a")
        await a.request(OpCode.PING, xid=-2)
        await a.request(OpCode.MULTI, encode_multi([set_op("/a/b", b"x"), set_op("/c", b"y")]))
        assert [line[3:] for line in scene.lines() if line.startswith("-> ")] == expected


async def test_a_session_is_selected() -> None:
    async with open_server() as server:
        a, b = await connect(server), await connect(server)
        scene = Scene(server, session=b.session_id)
        await a.create("/a")
        await b.create("/b")
        assert scene.lines()[0] == "-> create /b"
        assert len(scene.told) == 0


def test_an_unknown_operation_is_refused() -> None:
    with pytest.raises(ValueError, match=r"unknown op 'destroy'; there are: .*create"):
        Selection.of(["destroy"])


async def test_a_refusal_says_why_and_shows_no_secret() -> None:
    async with open_server(extended_types=False) as server:
        scene = Scene(server)
        a, b = await connect(server), await connect(server)
        for client, user in ((a, "ann"), (b, "bob")):
            packet = r.AuthPacket(0, "digest", f"{user}:{SECRET}".encode())
            assert (await client.request(OpCode.AUTH, packet, xid=-4)).err == 0
        acl = (r.ACL(1, r.Id("auth", "")),)
        body = r.CreateRequest("/a", b"", acl, CreateMode.PERSISTENT)
        assert (await a.request(OpCode.CREATE, body)).err == 0
        scene.lines()
        await b.set("/a", b"x")
        (line,) = [line for line in scene.lines() if line.startswith("<-")]
        assert "NoAuthError" in line
        assert line.endswith(
            "(w is needed for /a; the ACL is [digest:ann:***=r], "
            "the client is [ip:127.0.0.1, digest:bob:***])"
        )
        await b.request(OpCode.MULTI, encode_multi([set_op("/a", b"")]))
        assert "(w is needed for /a; " in scene.lines()[-1]
        ttl = r.CreateTTLRequest("/t", b"", r.OPEN_ACL, CreateMode.PERSISTENT_WITH_TTL, 1000)
        await b.request(OpCode.CREATE_TTL, ttl)
        assert "(TTL znodes need extendedTypesEnabled=true: /t)" in scene.lines()[-1]
        await b.request(OpCode.RECONFIG, r.ReconfigRequest(None, None, None, 0))
        assert "reconfigEnabled is false" in scene.lines()[-1]
        bad = r.SetACLRequest("/t", (r.ACL(1, r.Id("digest", f"bob:x:{SECRET}")),), -1)
        await a.request(OpCode.SET_ACL, bad)
        await a.exists("/t")
        assert SECRET not in str(scene.told)


async def test_what_clients_write_cannot_steer_a_terminal() -> None:
    async with open_server() as server:
        a = await connect(server)
        scene = Scene(server)
        await a.exists("/\u202eevil")
        for traced in scene.told:
            assert traced.as_text().isprintable()
            assert r"\u202e" in traced.as_text()
            assert traced.as_text(colours=True).count("\x1b") == 4


async def test_json() -> None:
    async with open_server(initial_zxid=0) as server:
        a = await connect(server)
        scene = Scene(server)
        await a.exists("/none")
        request, reply = (json.loads(traced.as_json()) for traced in scene.told)
        time, latency = reply.pop("time"), reply.pop("latency_ms")
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", time)
        assert 0 < latency < 1000
        assert request["text"] == "exists /none"
        assert reply == {
            "kind": "reply",
            "client": "127.0.0.1:1",
            "connection": 1,
            "session": f"0x{a.session_id:x}",
            "xid": 1,
            "op": "exists",
            "path": "/none",
            "zxid": "0x1",
            "error": "NoNodeError",
            "text": "NoNodeError",
        }


async def test_it_can_be_stopped() -> None:
    async with open_server() as server:
        a = await connect(server)
        scene = Scene(server)
        scene.tracer.stop()
        scene.tracer.stop()
        await a.exists("/")
        assert scene.told == []


async def test_a_listener_that_fails_ends_nothing(tracebacks: list[str]) -> None:
    async with open_server() as server:
        a = await connect(server)
        server.running.listen(lambda entry: 1 / 0)
        assert (await a.exists("/")).err == 0
    assert {message.partition(";")[0] for message in tracebacks} == {
        "an entry of the history was not passed on"
    }


# --- its output -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("style", ["text", "json"])
async def test_nobody_waits_for_the_reader_of_a_full_pipe(
    style: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "_WAITING", 10_000)
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    trace = Trace(writer, Selection(), style)
    async with open_server(record=False) as server:
        trace.attach(server.running.server)
        a = await connect(server)
        for _ in range(2000):
            assert (await a.exists("/")).err == 0
        found = b""
        while True:
            trace.flush()
            try:
                found += os.read(reader, 2**20)
            except BlockingIOError:
                break
        assert "lines were lost here: the reader of this trace is too slow" in found.decode()
    trace.close()
    os.close(reader)
    os.close(writer)


def test_without_it_there_is_no_gate_and_no_recorder() -> None:
    from pyzk.server.config.settings import Settings
    from pyzk.server.net.service import Service

    service = Service(Settings(), now=0.0, epoch=0.0)
    assert service.gate is service.engine.on_txn is service.engine.on_refusal is None


def test_colours_are_for_terminals_and_not_with_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = os.openpty()
    try:
        monkeypatch.delenv("NO_COLOR", raising=False)
        assert Trace(theirs, Selection())._colours
        assert not Trace(theirs, Selection(), "json")._colours
        monkeypatch.setenv("NO_COLOR", "1")
        assert not Trace(theirs, Selection())._colours
    finally:
        os.close(ours)
        os.close(theirs)
