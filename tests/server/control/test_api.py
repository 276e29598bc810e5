"""The control API, without HTTP: each route does what it says, and has done it when it answers."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import quote

import pytest
import trio
import trio.testing

from pyzk.protocol.constants import CreateMode
from pyzk.protocol.errors import NoNodeError
from pyzk.protocol.operations import OpCode
from pyzk.protocol.records import OPEN_ACL, CreateRequest
from pyzk.server import open_server
from pyzk.server.control import openapi
from pyzk.server.control.api import PREFIX, ROUTES, answer
from pyzk.server.control.routes import Route
from pyzk.server.net.http import Request
from pyzk.server.testing import EmbeddedServer
from tests.server.control.client import Api
from tests.support.wire import ClosedError

LARGE_ACL = [{"scheme": "world", "id": "anyone", "perms": 2**40}]
"""Permissions that no record can hold."""


async def test_a_session_is_expired_when_the_answer_comes(api: Api) -> None:
    client = await api.client()
    await client.create("/lock", flags=CreateMode.EPHEMERAL)
    answer = await api.post(f"/sessions/0x{client.session_id:x}/expire")
    assert answer["ephemerals"] == ["/lock"]
    assert api.server.dump() == {}
    with pytest.raises(ClosedError):
        await client.next()
    assert await api.get("/sessions") == {"sessions": []}


async def test_a_session_is_named_by_what_it_owns_or_by_its_address(api: Api) -> None:
    client = await api.client()
    await client.create("/lock", flags=CreateMode.EPHEMERAL)
    [info] = (await api.get("/sessions"))["sessions"]
    assert info["id"] == f"0x{client.session_id:x}"
    assert await api.get("/sessions/owner-of:%2Flock") == info
    assert await api.get(f"/sessions/{info['peer']}") == info
    status, detail = await api.refused("POST", "/sessions/owner-of:%2Fother/expire")
    assert status == 404
    assert info["id"] in detail


async def test_time_moves(api: Api) -> None:
    await api.client()
    assert await api.get("/clock") == {"seconds": 0.0, "frozen": True}
    assert await api.post("/clock/advance", seconds=60) == {"seconds": 60.0, "frozen": True}
    assert await api.get("/sessions") == {"sessions": []}
    assert (await api.refused("POST", "/clock/advance", seconds=-1))[0] == 400


async def test_time_moves_for_clients_that_are_kept_alive(api: Api) -> None:
    client = await api.client()
    await api.post("/clock/advance", seconds=3600, keep_alive=True)
    [info] = (await api.get("/sessions"))["sessions"]
    assert info["id"] == f"0x{client.session_id:x}"


async def test_time_stands_still_and_goes_on(autojump_clock: trio.testing.MockClock) -> None:
    async with open_server() as server:
        api = Api(server)
        await trio.sleep(5)
        assert await api.post("/clock/freeze") == {"seconds": 5.0, "frozen": True}
        await trio.sleep(60)
        assert (await api.post("/clock/advance", seconds=1))["seconds"] == 6.0
        client = await api.client()
        assert await api.post("/clock/unfreeze") == {"seconds": 6.0, "frozen": False}
        await trio.sleep(60)
        assert await api.get("/clock") == {"seconds": 66.0, "frozen": False}
        assert await api.get("/sessions") == {"sessions": []}, client.session_id


async def test_held_messages_go_on_in_the_order_given(api: Api) -> None:
    first, second = await api.client(), await api.client()
    hold = (await api.post("/holds", op="create", path="/q/*", kind="request"))["hold"]
    await api.post("/tree", znodes={"/q": ""})
    for n, client in enumerate((first, second)):
        await client.send(OpCode.CREATE, CreateRequest(f"/q/{n}", b"", OPEN_ACL, 0))
    earlier, later = (await api.get("/held"))["messages"]
    assert (earlier["path"], earlier["session"]) == ("/q/0", f"0x{first.session_id:x}")
    answer = await api.post("/held/release", messages=[later["number"]])
    assert [message["number"] for message in answer["messages"]] == [earlier["number"]]
    assert sorted(api.server.dump()) == ["/q", "/q/1"]
    assert (await api.post("/held/release", messages=[]))["messages"]
    assert await api.get("/holds") == {"holds": [hold]}
    assert (await api.ask("DELETE", f"/holds/{hold}"))[0] == 200
    assert sorted(api.server.dump()) == ["/q", "/q/0", "/q/1"]
    assert (await api.refused("DELETE", f"/holds/{hold}"))[0] == 404


async def test_held_messages_are_lost_or_all_released(api: Api) -> None:
    client, other = await api.client(), await api.client()
    await api.post("/holds", op="create")
    await client.send(OpCode.CREATE, CreateRequest("/a", b"", OPEN_ACL, 0))
    await other.send(OpCode.CREATE, CreateRequest("/b", b"", OPEN_ACL, 0))
    lost = (await api.get("/held"))["messages"][0]["number"]
    assert len((await api.post("/held/lose", messages=[lost]))["messages"]) == 1
    assert await api.post("/held/release") == {"messages": []}
    assert sorted(api.server.dump()) == ["/b"]
    assert (await api.ask("DELETE", "/holds"))[0] == 200
    assert await api.get("/holds") == {"holds": []}


async def test_a_fault_answers_an_error_once(api: Api) -> None:
    client = await api.client()
    fault = await api.post("/faults", op="create", path="/a", action="error", error="NoNode")
    assert (await client.create("/a")).err == NoNodeError.code
    assert (await client.create("/a")).err == 0
    found = await api.get(f"/faults/{fault['fault']}")
    assert (found["seen"], found["fired"]) == (2, 1)
    assert (await api.ask("DELETE", f"/faults/{fault['fault']}"))[0] == 200
    assert await api.get("/faults") == {"faults": []}


async def test_chaos_is_begun_looked_at_and_ended(api: Api) -> None:
    client = await api.client()
    begun = await api.post("/chaos", seed=7, lose_reply=1, op="create", path="/a")
    assert (begun["seed"], begun["probabilities"], begun["counts"]) == (7, {"lose_reply": 1}, {})
    with pytest.raises(ClosedError):
        await client.create("/a")
    found = await api.get(f"/chaos/{begun['chaos']}")
    assert found["counts"] == {"lose_reply": 1}
    assert found["injected"] == [
        {
            "fault": "lose_reply",
            "who": "1",
            "number": 1,
            "session": f"0x{client.session_id:x}",
            "op": "create",
            "path": "/a",
        }
    ]
    assert [each["chaos"] for each in (await api.get("/chaos"))["chaos"]] == [begun["chaos"]]
    assert (await api.ask("DELETE", f"/chaos/{begun['chaos']}"))[0] == 200
    assert await api.get("/chaos") == {"chaos": []}
    assert (await (await api.client()).create("/a")).err == -110
    assert (await api.refused("POST", "/chaos", seed=7))[0] == 400
    assert (await api.refused("POST", "/chaos", disconnect=1))[1] == "missing seed"


async def test_the_tree_is_loaded_and_read_back(api: Api) -> None:
    znodes = {
        "/app/name": "text",
        "/app/bytes": {"base64": "/wA="},
        "/app/null": None,
        "/app/read-only": {"data": "x", "acl": [{"scheme": "world", "id": "anyone", "perms": 1}]},
        "/queue": {"data": "", "kind": "container"},
    }
    assert await api.post("/tree", znodes=znodes) == {"loaded": 5}
    found = (await api.get("/tree"))["znodes"]
    assert found["/app/name"] == {"data": "text"}
    assert found["/app/bytes"] == {"data": {"base64": "/wA="}}
    assert found["/app/null"] == {"data": None}
    assert found["/app/read-only"] == znodes["/app/read-only"]
    assert found["/queue"] == znodes["/queue"]
    assert list((await api.get("/tree?path=/queue"))["znodes"]) == ["/queue"]
    assert "name" in (await api.get("/tree?format=text"))
    assert await api.get("/tree?format=text&path=/queue") == "/queue  (container)\n"


async def test_the_tree_is_compared(api: Api) -> None:
    await api.post("/tree", znodes={"/a": "1", "/b": "2"})
    assert (await api.post("/tree/diff", znodes={"/a": "1", "/b": "2"}))["equal"]
    answer = await api.post("/tree/diff", znodes={"/a": "1", "/c": "3"})
    assert not answer["equal"]
    assert [line[0] for line in answer["differences"]] == ["+", "-"]
    head, *lines = answer["message"].splitlines()
    assert head.startswith("the tree is not as expected")
    assert [line.strip() for line in lines] == answer["differences"]


async def test_a_tree_is_put_aside_and_brought_back(api: Api) -> None:
    await api.post("/tree", znodes={"/a": "1"})
    snapshot = (await api.post("/snapshots"))["snapshot"]
    await api.post("/tree", znodes={"/a": "2", "/b": "3"})
    await api.post(f"/snapshots/{snapshot}/restore")
    assert api.server.dump() == {"/a": b"1"}
    assert (await api.ask("DELETE", f"/snapshots/{snapshot}"))[0] == 200
    assert (await api.refused("POST", f"/snapshots/{snapshot}/restore"))[0] == 404


async def test_what_has_happened_is_told(api: Api) -> None:
    client = await api.client()
    await client.create("/a")
    await api.post("/notes", text="here")
    [leak] = (await api.get("/leaks"))["leaks"]
    assert "still connected" in leak
    entries = (await api.get("/history?op=create&kind=reply"))["entries"]
    assert [(entry["op"], entry["path"], entry["err"]) for entry in entries] == [("create", "/a", 0)]
    assert entries[0]["session"] == f"0x{client.session_id:x}"
    [last] = (await api.get("/history?kind=request,reply&limit=1"))["entries"]
    assert (last["kind"], last["op"], last["name"]) == ("reply", "create", None)
    assert (await api.get("/history?limit=0"))["entries"] == []
    assert "here" in await api.get("/timeline?limit=100")
    assert (await api.get("/timeline?format=json"))["timeline"] + "\n" == await api.get("/timeline")
    await api.post("/names", name="worker", session=f"0x{client.session_id:x}")
    await api.client()
    assert (await api.get("/history?session=worker&op=create&limit=1"))["entries"][0]["name"] == "worker"
    assert "| B" in await api.get("/timeline")
    assert "| B" not in await api.get("/timeline?sessions=worker")


async def test_clients_are_cut_off_and_let_in_again(api: Api) -> None:
    client = await api.client()
    await api.post("/connections/disconnect")
    with pytest.raises(ClosedError):
        await client.next()
    await api.post("/connections/refuse")
    assert api.server.open_stream().connection is None  # type: ignore[attr-defined]
    await api.post("/connections/accept")
    await api.client()
    await api.post("/server/restart", keep_data=False)
    assert await api.get("/sessions") == {"sessions": []}


async def test_a_paused_server_hears_nothing(api: Api) -> None:
    client = await api.client()
    await api.post("/server/pause")
    await client.send(OpCode.CREATE, CreateRequest("/a", b"", OPEN_ACL, 0))
    assert api.server.dump() == {}
    await api.post("/server/resume")
    assert api.server.dump() == {"/a": b""}


async def test_the_server_says_where_it_is(api: Api) -> None:
    found = await api.get("/server")
    assert (found["hosts"], found["port"]) == (api.server.hosts, api.server.port)


@pytest.mark.parametrize(
    ("method", "path", "fields", "status", "words"),
    [
        ("GET", "/nothing", {}, 404, "openapi.json"),
        ("DELETE", "/sessions", {}, 405, "GET"),
        ("POST", "/clock/advance", {}, 400, "missing seconds"),
        ("POST", "/clock/advance", {"seconds": "1"}, 400, "number"),
        ("POST", "/clock/advance", {"seconds": True}, 400, "number"),
        ("POST", "/clock/advance", {"seconds": 1e10}, 400, "seconds must be from 0 to 1,000,000,000"),
        ("POST", "/faults", {"op": [1]}, 400, "items of type string"),
        ("POST", "/notes", {"text": "x" * 10_001}, 400, "10,000"),
        ("POST", "/notes", {"text": "\ud800"}, 400, "JSON"),
        ("POST", "/clock/advance", {"second": 1}, 400, "unknown second"),
        ("POST", "/faults", {"op": "nonsense"}, 400, "nonsense"),
        ("POST", "/faults", {"action": "explode"}, 400, "disconnect"),
        ("POST", "/faults", {"action": "error", "error": "Nonsense"}, 400, "NoNode"),
        ("POST", "/tree", {"znodes": {"a": "x"}}, 400, "whole path"),
        ("POST", "/tree", {"znodes": {"/a": 5}}, 400, "base64"),
        ("POST", "/tree", {"znodes": {"/a": {"base64": "?"}}}, 400, "base64"),
        ("POST", "/tree", {"znodes": {"/a": {"acl": []}}}, 400, "acl"),
        ("POST", "/tree", {"znodes": {"/a": {"ttl_ms": 5}}}, 400, "of the kind ttl"),
        ("POST", "/tree", {"znodes": {"/a": {"owner": "0x5"}}}, 400, "of the kind ephemeral"),
        (
            "POST",
            "/znode",
            {"path": "/a", "kind": "container", "ttl_ms": 5},
            400,
            "is of the kind container",
        ),
        ("POST", "/tree", {"znodes": {"/a": {"acl": LARGE_ACL}}}, 400, "perms is a number of 32 bits"),
        ("POST", "/tree", {"znodes": {"/a": {"kind": "ttl", "ttl_ms": 2**64}}}, 400, "ttl must be a number"),
        ("POST", "/tree", {"znodes": {"/a": {"colour": 1}}}, 400, "unknown colour"),
        ("GET", "/history?kind=nonsense", {}, 400, "request"),
        ("GET", "/history?session=nonsense", {}, 400, "no session nonsense"),
        ("POST", "/tree", {"znodes": {"/a//b": "x"}}, 409, "/a//b"),
        ("GET", "/faults/7", {}, 404, "none"),
        ("POST", "/holds", {"kind": "nonsense"}, 400, "request"),
        ("POST", "/holds", {"kind": "event", "op": "create"}, 400, "op="),
        ("POST", "/held/release", {"messages": [7]}, 400, "none"),
        ("POST", "/held/lose", {}, 400, "missing messages"),
    ],
)
async def test_bad_requests_say_what_to_do(
    api: Api, method: str, path: str, fields: dict[str, Any], status: int, words: str
) -> None:
    found, detail = await api.refused(method, path, **fields)
    assert (found, words in detail) == (status, True), detail


BAD_LINES = (
    '{"path": "/x", "data": "", "acl": [{"scheme": 5, "id": "x", "perms": "r"}]}',
    '{"path": "/x", "data": "", "acl": [{"scheme": "x", "id": null, "perms": "r"}]}',
    '{"path": "/x", "data": "", "acl": [{"scheme": "x", "id": "x", "perms": ["r"]}]}',
    '{"path": "/x", "data": "", "kind": "ttl", "ttl": 1e300}',
    '{"path": 5, "data": ""}',
    '{"path": "/x", "hex": 5}',
)
JUNK: list[Any] = [
    *("", "x", "/", "/a/../b", "\0", "ü", "0x", "-1", "owner-of:", "a" * 70_000, "[", "**", "\ud800"),
    *(-1, 0, 1, 0.5, 1e300, float("inf"), float("nan"), 2**62, 2**70, 10**400, True, False, None),
    *([], [1], [-1], ["x"], [[]], [{}], [None], [2**70], ["create"] * 1000),
    *({}, {"x": 1}, {"/a": {}}, {"tickTime": {}}, {"/a": {"ttl_ms": -1}}, {"/a": {"ttl_ms": "x"}}),
    *({"/a": {"owner": []}}, {"/a": {"kind": []}}, {"/a": {"data": {}}}),
    *({"/a": {"acl": {}}}, {"/a": {"acl": [[]]}}, {"/a": {"acl": [{"scheme": "x", "id": "x", "perms": -1}]}}),
    *(LARGE_ACL, {"/a": {"acl": LARGE_ACL}}, {"/a": {"kind": "ephemeral", "owner": 2**70}}),
    *({"/a": {"kind": "ttl", "ttl_ms": ttl}} for ttl in (2**70, "x", 0.5, -1, True)),
    *([line] for line in BAD_LINES),
]
NEEDED: dict[str, Any] = {
    "until": "request",
    "timeout": 0,
    "seconds": 1,
    "keep_data": True,
    "znodes": {},
    "messages": [],
    "text": "x",
    "name": "x",
    "seed": 1,
    "server": 1,
    "groups": [[1]],
    "path": "/x",
    "data": "x",
    "session": "0x1",
    "lines": [],
}


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
async def test_no_input_is_a_surprise(api: Api, route: Route) -> None:
    """Whatever a field holds, the request is obeyed or refused in words."""
    client = await api.client()
    path = route.path.replace("{session}", str(client.session_id))
    path = re.sub("{.*?}", "1", path)
    base = {name: NEEDED[name] for name, field in route.fields.items() if field.required or name == "timeout"}
    for name in [*route.fields, "unknown"]:
        for value in JUNK:
            if route.has_body:
                await api.ask(route.method, path, **{**base, name: value})
            else:
                await api.ask(route.method, f"{path}?{name}={quote(str(value), errors='replace')}")
    for given in ("", "x", "-1", "0x", "%00", "%FF", "owner-of:", "9" * 5000):
        await api.ask(route.method, re.sub("{.*?}", given, route.path), **(base if route.has_body else {}))


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        ("text/plain", b"{}", 415),
        ("application/x-www-form-urlencoded", b"{}", 415),
        ("", b"{}", 415),
        ("application/json", b"{", 400),
        ("application/json", b"[]", 400),
        ("application/json", b"[" * 60_000, 400),
    ],
)
async def test_a_body_is_a_json_object(api: Api, kind: str, body: bytes, status: int) -> None:
    request = Request("POST", f"{PREFIX}/server/pause", {"content-type": kind}, body)
    response = await answer(api.control, request)
    assert response.status == status
    assert response.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("body", [b"", b"{}", b"null"])
async def test_a_body_without_fields(api: Api, body: bytes) -> None:
    """In some languages an empty map is null."""
    request = Request("POST", f"{PREFIX}/server/pause", {"content-type": "application/json"}, body)
    assert (await answer(api.control, request)).status == 200


def test_every_call_of_the_embedded_server_has_a_route() -> None:
    # of the process that holds it, and its files: over HTTP the admin command snapshot has them
    of_python = {"start", "stop", "run", "running", "export", "writer"}
    calls = {name for name in dir(EmbeddedServer) if not name.startswith("_")} | {"clock"}
    assert calls - of_python == {name for route in ROUTES for name in route.serves}


def test_the_document_lists_every_route() -> None:
    document = openapi.document(ROUTES, PREFIX)
    found = {
        (method.upper(), path.removeprefix(PREFIX))
        for path, operations in document["paths"].items()
        for method in operations
    }
    assert found == {(route.method, route.path) for route in ROUTES}
    names = [found["operationId"] for path in document["paths"].values() for found in path.values()]
    assert len(names) == len(set(names))
    trace = document["paths"][f"{PREFIX}/trace"]["get"]
    names = [field["name"] for field in trace["parameters"]]
    assert names == ["op", "path", "session", "past", "rate", "format"]
    assert "text/event-stream" in trace["responses"]["200"]["description"]
    json.dumps(document)
