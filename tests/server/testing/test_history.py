"""The flight recorder and its timeline."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyzk.protocol import records as r
from pyzk.protocol.constants import AddWatchMode
from pyzk.protocol.multi import MultiOp, encode_multi
from pyzk.protocol.operations import OpCode
from pyzk.server import open_server
from pyzk.server.testing import Controls
from pyzk.server.testing.describe import describe_reply, describe_request
from pyzk.server.testing.operations import paths_in

from ...support.wire import ClosedError, StreamClient
from .helpers import create


@asynccontextmanager
async def world(**settings: Any) -> AsyncIterator[tuple[Controls, StreamClient, StreamClient]]:
    async with open_server(clock="frozen", **settings) as server:
        a = await StreamClient(server.open_stream()).connect()
        yield server, a, await StreamClient(server.open_stream()).connect(timeout=20_000)


async def test_everything_is_recorded_with_its_circumstances() -> None:
    async with world() as (server, a, b):
        await b.exists("/a", watch=True)
        server.clock.advance(1)
        zxid = (await a.create("/a", b"1")).zxid
        await a.exists("/nowhere")
        server.expire(a.session_id)
        request, event, reply = server.history(path="/a", since=0.5)
        assert (request.kind, request.session, request.op, request.xid) == (
            "request",
            a.session_id,
            "create",
            1,
        )
        assert (request.time, request.connection, request.text) == (1.0, 1, "create /a '1'")
        assert (event.kind, event.session, event.connection, event.zxid) == ("event", b.session_id, 2, zxid)
        assert event.text == "created /a"
        assert (reply.kind, reply.session, reply.zxid, reply.err, reply.xid) == (
            "reply",
            a.session_id,
            zxid,
            0,
            1,
        )
        failed = server.history(kind="reply", op="exists", session=a.session_id)[-1]
        assert (failed.err, failed.text, failed.zxid) == (-101, "NoNodeError", zxid)
        begun, ended = server.history(kind="session", session=a.session_id)
        assert ended.text == "SESSION EXPIRED"
        assert ended.zxid == zxid + 1
        assert begun.text == "session begins, timeout 10 s"
        first, last = server.history(kind="connection", session=a.session_id)
        assert first.text == "new session, timeout 10 s, from 127.0.0.1:1"
        assert last.text.startswith("disconnected: its session")
        controls = server.history(kind="control")
        assert [e.text for e in controls] == ["clock advanced by 1 s", f"expire 0x{a.session_id:x}"]
        assert server.history(kind=["session", "control"])[-1] == ended


async def test_filters_that_make_no_sense() -> None:
    async with world() as (server, _, _):
        with pytest.raises(ValueError, match="unknown op 'make'"):
            server.history(op="make")
        with pytest.raises(ValueError, match=r"unknown kind.*request, reply"):
            server.history(kind="answer")  # type: ignore[arg-type]


async def test_requests_in_words() -> None:
    async with world(extended_types=True) as (server, a, _):
        step = r.CheckVersionRequest("/a", 7)
        requests: list[tuple[int, Any]] = [
            (OpCode.CREATE2, r.CreateRequest("/a", None, r.OPEN_ACL, 0)),
            (OpCode.CREATE_CONTAINER, create("/a/c", 4)),
            (OpCode.CREATE_TTL, r.CreateTTLRequest("/a/t", b"\xff\x00", r.OPEN_ACL, 5, 100)),
            (OpCode.CREATE, create("/a/s-", 3)),
            (OpCode.SET_DATA, r.SetDataRequest("/a", b"x" * 2000, 0)),
            (OpCode.GET_DATA, r.GetDataRequest("/a", True)),
            (OpCode.GET_CHILDREN2, r.GetChildren2Request("/a", False)),
            (OpCode.GET_ACL, r.GetACLRequest("/a")),
            (OpCode.SET_WATCHES, r.SetWatches(2**60, ["/a"], ["/b"], [])),
            (OpCode.ADD_WATCH, r.AddWatchRequest("/a", AddWatchMode.PERSISTENT_RECURSIVE)),
            (OpCode.MULTI, encode_multi([MultiOp(OpCode.DELETE, r.DeleteRequest("/a/c", -1))])),
            (OpCode.MULTI, encode_multi([MultiOp(OpCode.CREATE, create("/b")), MultiOp(OpCode.CHECK, step)])),
            (OpCode.MULTI, b"nonsense"),
            (OpCode.DELETE, r.DeleteRequest("/a", 3)),
            (OpCode.CREATE, r.CreateRequest("/a/bad", b"", r.OPEN_ACL, 99)),
            (OpCode.WHO_AM_I, b""),
        ]
        for op, record in requests:
            await a.request(op, record)
        await a.send(999)
        lines = [f"{e.text}" for e in server.history(session=a.session_id, kind=["request", "reply"])]
        assert [f"{ask} -> {told}" for ask, told in zip(lines[::2], lines[1::2], strict=True)] == [
            "create /a -> ok",
            "create /a/c (container) -> ok",
            "create /a/t <2 bytes> (TTL) -> ok",
            "create /a/s- (ephemeral, sequential) -> ..0000000002",
            "set_data /a 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'.. (2,000 bytes) if version 0 -> version 1",
            "get_data /a +watch -> 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'.. (2,000 bytes) version 1",
            "get_children /a -> [c, s-0000000002, t]",
            "get_acl /a -> ok",
            "set_watches [/a, /b] -> ok",
            "add_watch /a recursive -> ok",
            "multi [delete /a/c] -> ok",
            "multi [create /b, check /a if version 7] -> BadVersionError at operation 1",
            "multi (malformed) -> MarshallingError",
            "delete /a if version 3 -> BadVersionError",
            "create /a/bad (flags 99) -> BadArgumentsError",
            "who_am_i -> ok",
            "op 999 -> UnimplementedError",
        ]


@given(st.sampled_from([*OpCode, 999]), st.binary(max_size=60), st.text(max_size=5), st.integers(-130, 0))
async def test_anything_can_be_put_into_words(op: int, body: bytes, path: str, err: int) -> None:
    header = r.RequestHeader(1, op).encode()
    as_path = header + r.GetACLRequest(path).encode() + body
    for frame in (header + body, as_path):
        assert isinstance(describe_request(op, frame).text, str)
        assert isinstance(paths_in(op, frame), list)
    assert isinstance(describe_reply(op, path, err, body), str)


async def test_memory_is_bounded() -> None:
    async with world(history_limit=100) as (server, a, _):
        for n in range(200):
            await a.exists(f"/{n}")
        entries = server.history()
        assert len(entries) == 100
        assert entries[-1].path == "/199"
        assert "the oldest 306 entries are gone" in server.format_timeline()


async def test_a_timeline() -> None:
    async with world() as (server, a, b):
        server.load({"locks": {"x": {}}})
        await b.exists("/locks/x/n-0000000000", watch=True)
        server.note("the holder loses its reply")
        with server.fault("create", "/locks/*/*", when="after"), pytest.raises(ClosedError):
            await a.create("/locks/x/n-", flags=3)
        server.clock.advance(13, keep_alive=True)
        told = await StreamClient(server.open_stream()).connect(session_id=a.session_id, password=a.password)
        assert told.session_id == 0
        server.restart(keep_data=False)
        text = server.format_timeline(width=100)
    lines = text.splitlines()
    assert lines[0].startswith("Timeline of 127.0.0.1:")
    assert lines[1:3] == [f"  A  session 0x{a.session_id:x}", f"  B  session 0x{b.session_id:x}"]
    # when exactly a session expires depends on where the ticks are
    assert re.sub(r"\b1[0-2]\.\d{3}", "1?.???", "\n".join(lines[3:])) == TIMELINE


TIMELINE = """\
   seconds    zxid | A                                     | B
-------------------+---------------------------------------+--------------------------------------
     0.000       1 | new session, timeout 10 s, from       |
                   |    127.0.0.1:1                        |
                 2 |                                       | new session, timeout 20 s, from
                   |                                       |    127.0.0.1:2
                     == load [locks]
                   |                                       | exists /locks/x/n-0000000000 +watch
                   |                                       |    -> NoNodeError
                     ## the holder loses its reply
                   | create /locks/x/n- (ephemeral,        |
                   |    sequential)                        |
                 4 |                                       | << created /locks/x/n-0000000000
                 4 | !! APPLIED (..0000000000), REPLY      |
                   |    LOST: the connection is cut        |
                     == clock advanced by 13 s, clients kept alive
    1?.???       5 | SESSION EXPIRED, its ephemerals       |
                   |    deleted: /locks/x/n-0000000000     |
    13.000         | learns that its session is gone       |
                     == restart, data lost
                   |                                       | disconnected: the server restarts"""


async def test_a_timeline_of_some_sessions() -> None:
    async with world() as (server, a, b):
        await a.create("/of-a")
        await b.create("/of-b")
        await b.send(OpCode.PING)
        text = server.format_timeline(sessions=[b.session_id])
        assert "/of-a" not in text
        assert "/of-b" in text
        assert "ping" not in text.partition("\n")[2]
        assert "2 pings and pongs are left out" in text
        assert "ping -> ok" in server.format_timeline(pings=True)
        text = server.format_timeline(limit=1)
        assert "  .. 3 earlier lines\n" in text
        assert text.endswith("create /of-b -> ok")
        long = "x" * 60
        await a.create(f"/lock-0f8fad5b-d9cb-469f-a165-70867728950e-{long}")
        assert "/lock-0f8f..-xxxxxxxx" in server.format_timeline(width=200)


async def test_of_many_syncs_in_turn_the_first_and_the_last_have_lines() -> None:
    async with world() as (server, a, b):
        for count, shown in ((2, ["sync / -> ok"] * 2), (3, ["sync / -> ok (and 3 more)", "sync / -> ok"])):
            for _ in range(count):
                await a.request(OpCode.SYNC, r.SyncRequest("/"))
            await b.create(f"/{count}")
            lines = server.format_timeline(sessions=[a.session_id]).splitlines()
            assert [line.partition("| ")[2] for line in lines if "sync" in line] == shown
        await a.create("/between")
        for _ in range(2):
            await a.request(OpCode.SYNC, r.SyncRequest("/"))
        text = server.format_timeline(limit=2)
        assert text.count("sync / -> ok") == 2, "nothing is folded over another request"
        assert "more)" not in text


async def test_of_many_sessions_each_line_names_its_own() -> None:
    async with world() as (server, _, _):
        for _ in range(30):
            await StreamClient(server.open_stream()).connect()
        for width, limit in ((None, None), (80, None), (100, 5)):
            lines = server.format_timeline(width=width, limit=limit).splitlines()
            assert max(map(len, lines)) <= (width or 120)
            assert sum("| new session" in line for line in lines) == (limit or 32)
        lines = server.format_timeline(limit=12).splitlines()
        assert lines[1].startswith("  U  session 0x"), "the sessions before have no line left"
        assert len(lines[13].split("|")) == 1 + 12


async def test_the_timeline_of_a_fresh_server_says_that_nothing_has_happened() -> None:
    async with open_server() as server:
        assert server.format_timeline().endswith("\n  nothing has happened")
        assert server.format_tree() == "(no znodes)"


async def test_no_path_steers_a_terminal_from_the_timeline() -> None:
    async with open_server() as server:
        client = await StreamClient(server.open_stream()).connect()
        await client.exists("/a\N{RIGHT-TO-LEFT OVERRIDE}b")
        text = server.format_timeline()
        assert "\\u202eb" in text
        assert all(line.isprintable() for line in text.splitlines())
