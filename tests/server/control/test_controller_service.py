"""The commands of ZooKeeper's ControllerService, by plain requests and by ZooKeeper's own client."""

from __future__ import annotations

import subprocess
from functools import partial
from pathlib import Path

import pytest
import trio

from pyzk.protocol.constants import CreateMode
from pyzk.protocol.errors import APIError
from pyzk.protocol.operations import OpCode
from pyzk.protocol.records import OPEN_ACL, CreateRequest
from pyzk.server import open_server
from pyzk.server.control import controller_service
from pyzk.server.net.http import Request
from tests.server.control.client import Api
from tests.support import jvm
from tests.support.needs import need
from tests.support.wire import ClosedError

SOURCE = Path(__file__).parent / "Commands.java"
JARS = (*jvm.ZOOKEEPER, *(f"jetty9-{name}.jar" for name in ("client", "http", "io", "util")))
CREATE = OpCode.CREATE, CreateRequest("/b", b"", OPEN_ACL, 0)


async def command(api: Api, what: str, method: str = "GET") -> int:
    response = await controller_service.answer(api.control, Request(method, f"/command/{what}"))
    assert response.body == f"command/{what}\n".encode()
    assert response.headers["content-type"] == "text/html;charset=utf-8"
    return response.status


async def test_nothing_is_done(api: Api) -> None:
    client = await api.client()
    for what in ("PING", "ping", "PING/x", "ELECTNEWLEADER"):
        assert await command(api, what) == 200
    assert (await client.create("/a")).err == 0


async def test_connections_are_closed(api: Api) -> None:
    first, second, third = [await api.client() for _ in range(3)]
    assert await command(api, f"CLOSECONNECTION/{first.session_id}") == 200
    with pytest.raises(ClosedError):
        await first.next()
    assert await command(api, f"CLOSECONNECTION/0x{second.session_id:x}") == 200
    with pytest.raises(ClosedError):
        await second.next()
    assert await command(api, "CLOSECONNECTION/7") == 200
    assert (await third.create("/a")).err == 0
    assert await command(api, "CLOSECONNECTION") == 200
    with pytest.raises(ClosedError):
        await third.next()
    assert len(api.server.sessions()) == 3


async def test_sessions_expire(api: Api) -> None:
    clients = [await api.client() for _ in range(3)]
    await clients[0].create("/a", flags=CreateMode.EPHEMERAL)
    assert await command(api, f"EXPIRESESSION/{clients[0].session_id}") == 200
    assert len(api.server.sessions()) == 2
    assert api.server.dump() == {}
    assert await command(api, "EXPIRESESSION/7") == 200
    assert await command(api, "EXPIRESESSION") == 200
    assert api.server.sessions() == []


async def test_requests_fail(api: Api) -> None:
    client = await api.client()
    assert await command(api, "FAILREQUESTS/2") == 200
    assert [(await client.create("/a")).err for _ in range(3)] == [APIError.code] * 2 + [0]
    assert await command(api, "FAILREQUESTS") == 200
    assert [(await client.create("/b")).err for _ in range(3)] == [APIError.code] * 3
    assert (await client.request(OpCode.PING, xid=-2)).err == APIError.code
    assert await command(api, "FAILREQUESTS/1") == 200
    assert [(await client.create("/b")).err for _ in range(2)] == [APIError.code, 0]
    assert await command(api, "FAILREQUESTS/-1") == 200
    assert (await client.create("/c")).err == APIError.code
    assert await command(api, "FAILREQUESTS/0") == 200
    assert (await client.create("/c")).err == 0


async def test_replies_are_lost(api: Api) -> None:
    first, second = await api.client(), await api.client()
    assert await command(api, "NORESPONSE/1") == 200
    await first.send(OpCode.CREATE, CreateRequest("/a", b"", OPEN_ACL, 0))
    assert (await second.create("/b")).err == 0
    assert api.server.dump() == {"/a": b"", "/b": b""}
    with trio.move_on_after(0.01):
        await first.next()
        raise AssertionError
    assert await command(api, "NORESPONSE") == 200
    await second.send(OpCode.CREATE, CreateRequest("/c", b"", OPEN_ACL, 0))
    assert "/c" in api.server.dump()
    assert await command(api, "RESET") == 200
    assert (await (await api.client()).create("/d")).err == 0


async def test_requests_are_delayed(api: Api) -> None:
    client = await api.client()
    for what, seconds in (("ADDDELAY", 1.0), ("ADDDELAY/0x100", 0.256), ("ADDDELAY/010", 0.008)):
        assert await command(api, what) == 200
        await client.send(*CREATE)
        api.server.clock.advance(seconds - 0.001)
        assert api.server.dump() == {}
        api.server.clock.advance(0.002)
        assert api.server.dump() == {"/b": b""}
        await client.next()
        assert await command(api, "ADDDELAY/0") == 200
        await client.request(OpCode.DELETE, b"\0\0\0\2/b\xff\xff\xff\xff")
        assert api.server.dump() == {}


async def test_new_connections_are_refused_until_reset(api: Api) -> None:
    assert await command(api, "REJECTCONNECTIONS") == 200
    assert api.server.open_stream().connection is None  # type: ignore[attr-defined]
    assert await command(api, "RESET") == 200
    await api.client()


async def test_after_shutdown_nothing_is_obeyed(api: Api) -> None:
    client = await api.client()
    assert await command(api, "SHUTDOWN") == 200
    with pytest.raises(ClosedError):
        await client.next()
    assert await command(api, "PING") == 500
    assert await command(api, "RESET") == 500
    assert await command(api, "FAILREQUESTS/x") == 500
    assert await command(api, "NONSENSE") == 400
    await api.post("/reset")
    assert await command(api, "PING") == 200
    await api.client()


@pytest.mark.parametrize(
    "what",
    ["", "/", "NONSENSE", "NONSENSE/1", "ADDDELAY/-1", "ADDDELAY/", "EXPIRESESSION/0xg", "FAILREQUESTS/1/2"]
    + [f"FAILREQUESTS/{number}" for number in ("x", "1.5", "08", "--1", "+", "0x", str(2**63), "٣")],
)
async def test_what_is_no_command(api: Api, what: str) -> None:
    assert await command(api, what) == 400
    assert api.control.injected == {}


async def test_other_methods_are_refused(api: Api) -> None:
    assert await command(api, "EXPIRESESSION", method="POST") == 405


async def test_zookeepers_own_client() -> None:
    need(jvm.missing(jvm.ZOOKEEPER, "javac"))
    jetty = Path("/usr/share/java", JARS[-1])
    need(None if jetty.exists() else f"no {jetty} (Debian: apt-get install libjetty9-java)")
    commands = {
        "PING": True,
        "FAILREQUESTS=x": False,
        "EXPIRESESSION": True,
        "CLOSECONNECTION=0x100": True,
        "REJECTCONNECTIONS": True,
        "RESET": True,
        "NORESPONSE=1": True,
        "ADDDELAY=5": True,
        "FAILREQUESTS": True,
        "ELECTNEWLEADER": True,
        "SHUTDOWN": True,
        "PING=again": False,
    }
    async with open_server() as server:
        await Api(server).client()
        line = jvm.java(str(SOURCE), str(server.port), *commands, jars=JARS)
        run = partial(subprocess.run, capture_output=True, text=True, timeout=60, check=False)
        result = await trio.to_thread.run_sync(run, line)
    assert result.stdout.split() == [str(obeyed).lower() for obeyed in commands.values()], result.stderr
    assert server.sessions() == []
