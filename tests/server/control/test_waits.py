"""Waiting until something is the case, names of sessions, and being fresh again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing

from pyzk.protocol.constants import CreateMode
from pyzk.protocol.operations import OpCode
from pyzk.protocol.records import OPEN_ACL, CreateRequest, DeleteRequest
from pyzk.server import open_server
from pyzk.server.control.calls.waits import _MOST
from tests.server.control.client import Api
from tests.support.wire import ClosedError, StreamClient


async def answer_after(api: Api, act: Callable[[], Awaitable[object]], /, **fields: Any) -> Any:
    """The answer to a wait; it must not come before something was done."""
    answers: list[Any] = []

    async def wait() -> None:
        answers.append(await api.post("/wait", **fields))

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            assert answers == []
            await act()
    assert api.control.waiting == 0
    assert api.server.running.gate.observers in ([], [api.server.running.names])
    return answers[0]


async def test_a_znode_comes(api: Api) -> None:
    client = await api.client()
    answer = await answer_after(api, lambda: client.create("/a"), until="exists", path="/a")
    assert answer == {"seconds": 0.0}
    assert await api.post("/wait", until="exists", path="/a") == answer


async def test_a_znode_is_there_for_a_moment(api: Api) -> None:
    client = await api.client()

    async def come_and_go() -> None:
        # both in one piece: no task runs between them
        create = client.encode(OpCode.CREATE, CreateRequest("/a", b"", OPEN_ACL, 0))
        await client.stream.send_all(create + client.encode(OpCode.DELETE, DeleteRequest("/a", -1)))

    await answer_after(api, come_and_go, until="exists", path="/a")
    assert api.server.dump() == {}


async def test_a_znode_has_data(api: Api) -> None:
    client = await api.client()

    async def write() -> None:
        await client.create("/a", b"no")
        api.server.load({"/a": "yes"})

    await answer_after(api, write, until="data", path="/a", data="yes")


async def test_a_znode_goes_with_its_session(api: Api) -> None:
    client = await api.client()
    await client.create("/lock", flags=CreateMode.EPHEMERAL)

    async def expire() -> None:
        api.server.disconnect(client.session_id)
        api.server.clock.advance(60)

    await answer_after(api, expire, until="gone", path="/lock")


async def test_a_znode_goes_with_a_restart(api: Api) -> None:
    await api.post("/tree", znodes={"/a": ""})
    await answer_after(api, lambda: api.post("/server/restart", keep_data=False), until="gone", path="/a")


async def test_a_session_comes(api: Api) -> None:
    answer = await answer_after(api, api.client, until="session")
    [info] = answer["sessions"]
    assert (info["connected"], info["name"]) == (True, None)
    answer = await answer_after(api, api.client, until="session", session="127.0.0.1", count=2)
    assert len(answer["sessions"]) == 2
    await api.post("/names", name="worker")
    answer = await answer_after(api, api.client, until="session", session="worker")
    assert [info["name"] for info in answer["sessions"]] == ["worker"]


async def test_requests_come(api: Api) -> None:
    client = await api.client()
    await client.create("/locks")
    await client.create("/locks/1")
    answer = await answer_after(
        api, lambda: client.create("/locks/2"), until="request", op="create", path="/locks/*", count=2
    )
    assert answer["seen"] == 2
    # what came before counts too, but for what came before `since`
    assert (await api.post("/wait", until="request", path="/locks/**", count=2))["seen"] == 2
    api.server.clock.advance(1)
    status, _ = await api.ask("POST", "/wait", until="request", op="create", since=0.5, timeout=0)
    assert status == 408


async def test_requests_come_although_nothing_is_recorded() -> None:
    async with open_server(record=False) as server:
        api = Api(server)
        client = await api.client()
        await answer_after(api, lambda: client.create("/a"), until="request", op="create")
        await answer_after(api, lambda: client.create("/b"), until="exists", path="/b")
        assert server.running.service.gate is None
        assert server.running.engine.on_txn is None


async def test_messages_are_held(api: Api) -> None:
    client = await api.client()
    await api.post("/holds", op="create")

    async def ask() -> None:
        await client.send(OpCode.CREATE, CreateRequest("/a", b"", OPEN_ACL, 0))

    [message] = (await answer_after(api, ask, until="held"))["messages"]
    assert message["path"] == "/a"


async def test_the_timeline_tells_why_it_was_in_vain(api: Api) -> None:
    client = await api.client()
    await client.create("/other")
    status, answer = await api.ask("POST", "/wait", until="exists", path="/a", timeout=0.01)
    assert (status, answer["status"]) == (408, 408)
    assert "create /other" in answer["timeline"]
    assert api.server.running.gate.observers == []


@pytest.mark.parametrize(
    "fields",
    [
        {"path": "/a"},
        {"path": "/a", "data": "x", "gone": False},
        {"path": "/", "children": ["a", "zookeeper"]},
        {"path": "/", "children": 2},
        {"path": "/a", "session": "me"},
        {"path": "/a", "op": "create"},
    ],
)
async def test_what_is_waited_for_follows_from_the_fields(api: Api, fields: dict[str, Any]) -> None:
    client = await api.client()
    api.server.name_session("me", client.session_id)
    await answer_after(api, lambda: client.create("/a", b"x", flags=CreateMode.EPHEMERAL), **fields)


async def test_the_clients_are_idle(api: Api, autojump_clock: trio.testing.MockClock) -> None:
    client = await api.client()
    times: list[float] = []

    async def wait() -> None:
        await api.post("/wait", until="idle", quiet=5, timeout=60)
        times.append(trio.current_time())

    async with trio.open_nursery() as nursery:
        begun = trio.current_time()
        nursery.start_soon(wait)
        for _ in range(3):
            await trio.sleep(4)
            await client.exists("/a")
    assert times == [begun + 17]


async def test_so_many_wait_at_once(api: Api) -> None:
    async with trio.open_nursery() as nursery:
        for _ in range(_MOST):
            nursery.start_soon(lambda: api.ask("POST", "/wait", until="exists", path="/a"))
        await trio.testing.wait_all_tasks_blocked()
        assert (await api.refused("POST", "/wait", until="exists", path="/a"))[0] == 409
        nursery.cancel_scope.cancel()
    assert api.control.waiting == 0
    assert api.server.running.gate.observers == []


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "say what to wait for"),
        ({"until": "nonsense"}, "exists"),
        ({"until": "exists"}, "takes path"),
        ({"until": "exists", "path": "/a", "op": "create"}, "takes path"),
        ({"until": "data", "path": "/a"}, "data"),
        ({"path": "/a", "data": "x", "gone": True}, "gone takes"),
        ({"until": "idle", "quiet": 0}, "above 0"),
        ({"until": "exist", "path": "/a"}, "perhaps exists"),
        ({"until": "data", "path": "/a", "data": 5}, "base64"),
        ({"until": "held", "count": 0}, "counts from 1"),
        ({"until": "held", "timeout": -1}, "timeout"),
        ({"until": "held", "timeout": 1e9}, "timeout"),
        ({"until": "request", "op": "nonsense"}, "nonsense"),
        ({"until": "request", "session": "nobody"}, "session"),
    ],
)
async def test_waiting_for_what_cannot_be(api: Api, fields: dict[str, Any], words: str) -> None:
    status, detail = await api.refused("POST", "/wait", **fields)
    assert (status, words in detail) == (400, True), detail


async def test_the_next_session_has_a_name(api: Api) -> None:
    await api.client()
    assert (await api.post("/names", name="worker"))["expected"] == ["worker"]
    client = await api.client()
    await api.client()
    found = await api.get("/sessions/worker")
    assert (found["id"], found["name"]) == (f"0x{client.session_id:x}", "worker")
    assert await api.get("/names") == {"sessions": {found["id"]: "worker"}, "expected": []}
    assert [info["name"] for info in (await api.get("/sessions"))["sessions"]] == [None, "worker", None]
    await client.create("/a")
    fault = await api.post("/faults", session="worker", op="delete")
    await api.post("/names", name="other", session="worker")
    assert (await api.post("/sessions/other/pause"))["name"] == "other"
    assert (await api.post("/sessions/other/expire"))["name"] == "other"
    timeline = await api.get("/timeline")
    assert "other" in timeline
    assert "== expire other" in timeline
    assert f"{client.session_id:x}" in fault["text"]
    entries = (await api.get("/history?session=other"))["entries"]
    assert {entry["session"] for entry in entries} == {found["id"]}
    assert (await api.refused("POST", "/sessions/other/expire"))[0] == 404


async def test_a_name_is_for_one_address(api: Api) -> None:
    await api.post("/names", name="elsewhere", address="192.0.2.1")
    await api.post("/names", name="third", address="127.0.0.1:3")
    await api.post("/names", name="here", address="127.0.0.1")
    clients = [await api.client() for _ in range(3)]
    found = (await api.get("/names"))["sessions"]
    assert found == {
        f"0x{clients[0].session_id:x}": "here",
        f"0x{clients[2].session_id:x}": "third",
    }
    assert (await api.get("/names"))["expected"] == ["elsewhere"]


async def test_sessions_of_one_name_have_two_columns(api: Api) -> None:
    for _ in range(2):
        await api.post("/names", name="worker")
        await (await api.client()).create("/a")
    timeline = await api.get("/timeline")
    assert "| worker " in timeline
    assert "| worker#2" in timeline
    last = (await api.get("/sessions"))["sessions"][1]
    assert await api.get("/sessions/worker") == last


@pytest.mark.parametrize(
    "fields",
    [
        *({"name": name} for name in ("", "0x1", "a b", "a:1", "a" * 25)),
        *({"name": "a", "address": address} for address in ("", "localhost", "127.0.0.1:x", "1.1.1", "[::1")),
    ],
)
async def test_bad_names(api: Api, fields: dict[str, Any]) -> None:
    assert (await api.refused("POST", "/names", **fields))[0] == 400
    assert (await api.get("/names"))["expected"] == []


async def test_everything_is_fresh_again(api: Api) -> None:
    client = await api.client()
    await client.create("/a", flags=CreateMode.EPHEMERAL)
    await api.post("/names", name="worker")
    await api.post("/names", name="me", session=f"0x{client.session_id:x}")
    await api.post("/snapshots")
    await api.post("/faults", op="create", times=None)
    await api.post("/holds", op="create")
    await client.send(OpCode.CREATE, CreateRequest("/b", b"", OPEN_ACL, 0))
    await api.post(f"/sessions/0x{client.session_id:x}/pause")
    await api.post("/server/pause")
    await api.post("/connections/refuse")
    await api.post("/clock/advance", seconds=5)
    await api.post("/clock/unfreeze")
    assert await api.post("/reset") == {}
    with pytest.raises(ClosedError):
        await client.next()
    assert (await api.get("/tree"))["znodes"] == {}
    assert await api.get("/sessions") == {"sessions": []}
    assert await api.get("/names") == {"sessions": {}, "expected": []}
    assert await api.get("/faults") == {"faults": []}
    assert await api.get("/holds") == {"holds": []}
    assert await api.get("/held") == {"messages": []}
    assert await api.get("/history") == {"entries": []}
    assert await api.get("/clock") == {"seconds": 0.0, "frozen": True}
    assert (await api.refused("POST", "/snapshots/1/restore"))[0] == 404
    fresh = await api.client()
    assert (await fresh.create("/a")).err == 0
    assert fresh.session_id != client.session_id
    again = await StreamClient(api.server.open_stream()).connect(
        session_id=client.session_id, password=client.password
    )
    assert again.session_id == 0
