"""What the page asks for: bounded answers about the tree, sessions, watches and locks."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from typing import Any
from urllib.parse import quote

import pytest
import trio

from pyzk.protocol.constants import CreateMode, EventType
from pyzk.protocol.operations import OpCode
from pyzk.protocol.records import (
    ACL,
    AddWatchRequest,
    DeleteRequest,
    ExistsRequest,
    GetChildrenRequest,
    GetDataRequest,
    Id,
    SetACLRequest,
)
from pyzk.server import open_server
from pyzk.server.app.serve import make_server
from pyzk.server.config.settings import Settings
from pyzk.server.control.api import PREFIX, ROUTES, answer
from pyzk.server.control.port import Port
from pyzk.server.control.views import live, locks, sessions, tree, tree_export, turns, watches, writes
from pyzk.server.core.znode import Children, Znode
from pyzk.server.net.clock import Clock
from pyzk.server.net.http import Request
from pyzk.server.testing import open_ensemble
from pyzk.server.testing.host import LocalServer
from pyzk.server.testing.tree_io import Node
from tests.server.control.client import JSON, Api, ask


def many(server: LocalServer, path: str, names: list[str]) -> None:
    """Put children below a znode, faster than by requests."""
    server.load({path: ""})
    node = server.running.engine.tree.nodes[path]
    node.children = Children(0)
    for name in names:
        node.children[name] = Znode(b"", (), 1, 1)


# --- the tree --------------------------------------------------------------------------------------------


async def test_children_come_page_by_page_in_order(api: Api) -> None:
    names = [f"{n * 7919 % 1000:04d}" for n in range(1000)]
    many(api.server, "/a", names)
    after, found, more = "", [], True
    while more:
        answer = await api.get(f"/children?path=/a&limit=300&after={after}")
        assert answer["count"] == 1000
        page = [child["name"] for child in answer["children"]]
        assert len(page) <= 300
        found += page
        after, more = found[-1], answer["more"]
    assert found == sorted(names)
    answer = await api.get("/children?path=/a&text=99&limit=1000")
    assert [child["name"] for child in answer["children"]] == sorted(n for n in names if "99" in n)


async def test_a_child_says_what_it_is(api: Api) -> None:
    client = await api.client()
    await api.post("/names", name="worker", session=f"0x{client.session_id:x}")
    await client.create("/plain", b"12345")
    await client.create("/plain/below", flags=CreateMode.EPHEMERAL)
    await client.create("/queue", flags=CreateMode.CONTAINER, op=OpCode.CREATE_CONTAINER)
    rows = {row["name"]: row for row in (await api.get("/children"))["children"]}
    assert list(rows) == ["plain", "queue", "zookeeper"]
    assert (rows["plain"]["children"], rows["plain"]["bytes"], rows["plain"]["kind"]) == (1, 5, "persistent")
    assert rows["queue"]["kind"] == "container"
    [below] = (await api.get("/children?path=/plain"))["children"]
    assert below["owner"] == {"id": f"0x{client.session_id:x}", "name": "worker"}


async def test_a_znode_with_its_stat_and_a_piece_of_its_data(api: Api) -> None:
    client = await api.client()
    await client.create("/a", bytes(range(256)))
    await api.ask("PUT", "/znode", path="/a", data={"base64": base64.b64encode(bytes(range(256))).decode()})
    await client.request(OpCode.GET_DATA, GetDataRequest("/a", True))
    found = await api.get("/znode?path=/a&offset=250&length=100")
    assert base64.b64decode(found["base64"]) == bytes(range(250, 256))
    assert (found["bytes"], found["stat"]["version"], found["stat"]["ephemeralOwner"]) == (256, 1, None)
    assert found["stat"]["mzxid"] > found["stat"]["czxid"]
    assert found["watchers"] == {"data": 1, "child": 0}
    await api.post("/tree", znodes={"/null": None})
    assert (await api.get("/znode?path=/null"))["base64"] is None
    status, detail = await api.refused("GET", "/znode?path=/nothing")
    assert (status, "/nothing" in detail) == (409, True)
    assert (await api.refused("GET", "/znode?length=2000000"))[0] == 400


async def test_no_digest_is_told(api: Api) -> None:
    secret = Id("digest", "bob:c2VjcmV0")
    api.server.load({"/a": Node(data="x", acl=(ACL(31, secret),))})
    client = await api.client()
    connection = next(iter(api.server.running.service.connections))
    connection.identities.append(secret)
    assert (await api.get("/znode?path=/a"))["acl"] == [{"scheme": "digest", "id": "bob:***", "perms": 31}]
    told = json.dumps([await api.get("/clients"), await api.get(f"/clients/{client.session_id}")])
    assert '{"scheme": "digest", "id": "bob:***"}' in told
    assert "c2VjcmV0" not in told


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("text=ALPHA", ["/x/alpha", "/x/alphabet"]),
        ("text=x/al", ["/x/alpha", "/x/alphabet"]),
        ("text=alpha&in=data", ["/y"]),
        ("text=alpha&in=both", ["/x/alpha", "/x/alphabet", "/y"]),
        ("text=alpha&path=/x/alphabet", ["/x/alphabet"]),
        ("text=nothing", []),
    ],
)
async def test_search(api: Api, query: str, found: list[str]) -> None:
    await api.post("/tree", znodes={"/x/alpha": "", "/x/alphabet": "", "/y": "the alpha", "/z": ""})
    *rows, last = await api.get(f"/search?{query}")
    assert sorted(row["path"] for row in rows) == found
    assert (last["done"], last["found"], last["more"]) == (True, len(found), False)


async def test_a_search_ends_at_its_limit(api: Api) -> None:
    many(api.server, "/a", [f"n{n}" for n in range(50)])
    *rows, last = await api.get("/search?text=n&limit=10")
    assert (len(rows), last["found"], last["more"]) == (10, 10, True)


async def test_writes_check_versions(api: Api) -> None:
    assert await api.post("/znode", path="/a", data="1") == {"path": "/a"}
    assert (await api.ask("PUT", "/znode", path="/a", data="2", version=0))[1]["stat"]["version"] == 1
    status, answer = await api.ask("PUT", "/znode", path="/a", data="3", version=0)
    assert (status, answer["code"]) == (409, -103)
    assert api.server.dump() == {"/a": b"2"}
    assert (await api.ask("PUT", "/znode", path="/a", data={"base64": "/w=="}))[0] == 200
    assert api.server.dump() == {"/a": b"\xff"}
    assert (await api.ask("DELETE", "/znode?path=/a&version=7"))[1]["code"] == -103
    assert (await api.ask("DELETE", "/znode?path=/a&version=2"))[0] == 200
    assert api.server.dump() == {}
    assert (await api.ask("DELETE", "/znode?path=/a"))[1]["code"] == -101


async def test_every_kind_is_created_and_watches_fire(api: Api) -> None:
    client = await api.client()
    await client.request(OpCode.GET_CHILDREN, GetChildrenRequest("/", True))
    assert (await api.post("/znode", path="/n-", sequential=True))["path"] == "/n-0000000000"
    event = await client.next()
    assert (event.type, event.path) == (EventType.CHILD, "/")
    session = f"0x{client.session_id:x}"
    await api.post("/znode", path="/mine", session=session)
    await api.post("/znode", path="/c", kind="container", data="x")
    assert (await api.post("/sessions/owner-of:%2Fmine/expire"))["ephemerals"] == ["/mine"]
    assert sorted(api.server.dump()) == ["/c", "/n-0000000000"]
    for fields, words in (
        ({"path": "/e", "kind": "ephemeral"}, "give session"),
        ({"path": "/e", "kind": "container", "sequential": True}, "sequential"),
        ({"path": "e"}, "path"),
        ({"path": "/c"}, "exists"),
        ({"path": "/no/parent"}, "/no/parent"),
    ):
        assert words in (await api.refused("POST", "/znode", **fields))[1]


async def test_writes_at_any_server_of_an_ensemble_go_through_its_leader() -> None:
    async with open_ensemble(3) as ensemble:
        for number in ensemble.numbers:
            api = Api(ensemble[number])  # type: ignore[arg-type] # it needs no more than the controls
            assert await api.post("/znode", path=f"/{number}", data="x") == {"path": f"/{number}"}
            status, answer = await api.ask("PUT", "/znode", path=f"/{number}", data="y", version=0)
            assert (status, answer["stat"]["version"]) == (200, 1)
            assert (await api.ask("PUT", "/znode", path=f"/{number}", data="z", version=0))[0] == 409
        assert ensemble.dump() == {f"/{number}": b"y" for number in ensemble.numbers}


# --- sessions and watches --------------------------------------------------------------------------------


async def test_clients(api: Api) -> None:
    first, second = await api.client(), await api.client()
    await first.create("/e", flags=CreateMode.EPHEMERAL)
    await api.post("/names", name="worker", session=f"0x{first.session_id:x}")
    await api.post(f"/sessions/0x{second.session_id:x}/pause")
    await api.post("/clock/advance", seconds=1)
    answer = await api.get("/clients")
    one, other = answer["clients"]
    assert (answer["count"], answer["more"]) == (2, False)
    assert (one["name"], one["ephemerals"], one["last_op"], one["paused"]) == ("worker", 1, "create", False)
    assert (one["last_ms"], one["timeout_ms"]) == (1000, 10_000)
    assert 9000 <= one["left_ms"] <= 11_000, "the deadline is a multiple of the tick"
    assert (other["id"], other["paused"]) == (f"0x{second.session_id:x}", True)
    [found] = (await api.get("/clients?text=work"))["clients"]
    assert found["id"] == one["id"]
    [rest] = (await api.get(f"/clients?after={one['id']}&limit=1"))["clients"]
    assert rest["id"] == other["id"]
    assert (await api.get("/clients/worker"))["ephemeral_paths"] == ["/e"]
    await api.post("/sessions/worker/disconnect")
    gone = await api.get("/clients/worker")
    assert (gone["peer"], gone["watches"], gone["ephemerals"]) == (None, 0, 1)
    assert (await api.refused("GET", "/clients/nobody"))[0] == 404


async def test_watches_by_path_and_by_session(api: Api) -> None:
    first, second = await api.client(), await api.client()
    await first.create("/a")
    await first.request(OpCode.GET_DATA, GetDataRequest("/a", True))
    await second.request(OpCode.GET_CHILDREN, GetChildrenRequest("/a", True))
    await second.request(OpCode.EXISTS, ExistsRequest("/b", True))
    await second.request(OpCode.ADD_WATCH, AddWatchRequest("/c", 0))
    await second.request(OpCode.ADD_WATCH, AddWatchRequest("/d", 1))
    answer = await api.get("/watches")
    shown = {
        row["path"]: [(one["session"]["id"], one["kinds"]) for one in row["watchers"]]
        for row in answer["watches"]
    }
    one, other = (f"0x{client.session_id:x}" for client in (first, second))
    assert list(shown) == ["/a", "/b", "/c", "/d"]
    assert sorted(shown["/a"]) == sorted([(one, ["data"]), (other, ["children"])])
    assert shown["/b"] == [(other, ["exists"])]
    assert shown["/c"] == [(other, ["persistent"])]
    assert shown["/d"] == [(other, ["recursive"])]
    assert [row["path"] for row in (await api.get(f"/watches?session={one}"))["watches"]] == ["/a"]
    assert [row["path"] for row in (await api.get("/watches?after=/b&limit=1"))["watches"]] == ["/c"]
    assert (await api.get("/watches?text=d"))["watches"][0]["exists"] is False
    detail = await api.get(f"/clients/{other}")
    assert {each["path"]: each["kinds"] for each in detail["watched"]}["/a"] == ["children"]
    await api.post(f"/sessions/{other}/expire")
    assert [row["path"] for row in (await api.get("/watches"))["watches"]] == ["/a"]


async def never(api: Api, query: str = "") -> dict[str, str]:
    """The watches that never fire, with the reason, by path."""
    rows = (await api.get(f"/watches?never=true{query}"))["watches"]
    return {row["path"]: one["never"] for row in rows for one in row["watchers"] if one["never"]}


async def test_watches_of_who_may_not_read_never_fire(api: Api) -> None:
    client, other = await api.client(), await api.client()
    closed = (ACL(2, Id("world", "anyone")),)
    api.server.load({"/a": "", "/b": "", "/c": "", "/d": Node(acl=closed)})
    await client.request(OpCode.GET_DATA, GetDataRequest("/a", True))
    await client.request(OpCode.GET_CHILDREN, GetChildrenRequest("/b", True))
    await client.request(OpCode.EXISTS, ExistsRequest("/c", True))
    await client.request(OpCode.ADD_WATCH, AddWatchRequest("/d", 1))
    assert await never(api) == {}, "what is below /d may be open"
    for path in ("/b", "/c"):
        await other.request(OpCode.SET_ACL, SetACLRequest(path, closed, -1))
    assert list(await never(api)) == ["/b", "/c"]
    api.server.load({"/b/child": "", "/c": "changed"})  # both are used up without a word
    assert await never(api) == {}
    assert [row["path"] for row in (await api.get("/watches"))["watches"]] == ["/a", "/d"]
    api.server.load({"/a": "changed"})
    assert (await client.next()).path == "/a"


async def test_watches_below_an_ephemeral_never_fire(api: Api) -> None:
    client = await api.client()
    await client.create("/mine", flags=CreateMode.EPHEMERAL)
    for path in ("/mine/a/b", "/other/a"):
        await client.request(OpCode.EXISTS, ExistsRequest(path, True))
    assert await never(api) == {"/mine/a/b": "/mine is ephemeral, and so has no children"}
    await client.request(OpCode.DELETE, DeleteRequest("/mine", -1))
    assert await never(api) == {}
    api.server.load({"/mine/a/b": ""})
    assert (await client.next()).path == "/mine/a/b"


async def test_watches_of_numbers_that_are_over_never_fire(api: Api) -> None:
    client, other = await api.client(), await api.client()
    await client.create("/lock")
    for _ in range(2):
        await client.create("/lock/n-", flags=CreateMode.PERSISTENT_SEQUENTIAL)
    await client.request(OpCode.DELETE, DeleteRequest("/lock/n-0000000000", -1))
    names = ("n-0000000000", "n-0000000000/below", "n-0000000001", "n-0000000002", "n-000", "x")
    for name in names:
        await client.request(OpCode.EXISTS, ExistsRequest(f"/lock/{name}", True))
    await other.request(OpCode.EXISTS, ExistsRequest("/lock/m-0000000001", True))
    passed = await never(api)
    assert list(passed) == ["/lock/m-0000000001", "/lock/n-0000000000", "/lock/n-0000000000/below"]
    assert passed["/lock/m-0000000001"] == (
        "no sequential create makes m-0000000001 again: the next number is 2"
    )
    assert list(await never(api, f"&session=0x{other.session_id:x}")) == ["/lock/m-0000000001"]
    detail = await api.get(f"/clients/0x{other.session_id:x}")
    assert [each["never"] is not None for each in detail["watched"]] == [True]
    assert (await api.post("/znode", path="/lock/n-", sequential=True))["path"] == "/lock/n-0000000002"
    assert (await client.next()).path == "/lock/n-0000000002"


async def test_a_watch_ends_with_its_connection(api: Api) -> None:
    """So that none of somebody who has gone, or whose session is over, is left to never fire."""
    for end in ("expire", "disconnect", "pause"):
        client = await api.client()
        await client.request(OpCode.EXISTS, ExistsRequest("/nothing", True))
        await api.post(f"/sessions/0x{client.session_id:x}/{end}")
        if end == "pause":
            assert (await api.get("/watches"))["count"] == 1
            api.server.clock.advance(60)
        assert (await api.get("/watches"))["count"] == 0


# --- locks -----------------------------------------------------------------------------------------------


async def test_locks_and_a_cycle_of_waiting(api: Api) -> None:
    clients = [await api.client() for _ in range(3)]
    await api.post("/tree", znodes={"/locks/a": "", "/locks/b": "", "/data/x": "", "/locks/c": ""})
    for n, (holder, waiter) in enumerate(((0, 1), (1, 0), (2, 0))):
        for client in (holder, waiter):
            path = f"/locks/{'abc'[n]}/{'0123456789abcdef' * 2}__lock__"
            await clients[client].create(path, flags=CreateMode.EPHEMERAL_SEQUENTIAL)
    *rows, last = await api.get("/locks")
    assert sorted((row["path"], row["shape"], row["held"], row["waiting"]) for row in rows) == [
        ("/locks/a", "lock", 1, 1),
        ("/locks/b", "lock", 1, 1),
        ("/locks/c", "lock", 1, 1),
    ]
    a = next(row for row in rows if row["path"] == "/locks/a")
    assert a["libraries"] == ["kazoo"]
    assert a["holders"][0]["session"]["id"] == f"0x{clients[0].session_id:x}"
    assert a["waiters"][0]["waits_for"] == a["holders"][0]["names"][0]
    assert a["waiters"][0]["since"] > 0
    [cycle] = last["cycles"]
    assert {(step["session"]["id"], step["path"]) for step in cycle} == {
        (f"0x{clients[1].session_id:x}", "/locks/a"),
        (f"0x{clients[0].session_id:x}", "/locks/b"),
    }
    assert a["holders"][0]["version"] == 0
    rows = await api.get("/locks?path=/locks&below=false")
    assert [row.get("path") for row in rows] == [None], "locks is no lock, and what is below is not asked for"
    row, last = await api.get("/locks?path=/locks/c&below=false")
    assert (row["path"], row["held"], last["directories"]) == ("/locks/c", 1, 1)
    *rows, last = await api.get("/locks?path=/locks/c")
    assert ([row["path"] for row in rows], last["cycles"]) == (["/locks/c"], [])


async def test_of_a_large_directory_the_first_children_are_looked_at(api: Api) -> None:
    many(api.server, "/queue", [f"entry-100-{n:010d}" for n in range(5000)])
    row, last = await api.get("/locks")
    assert (row["shape"], row["children"], row["looked_at"], row["items"]) == ("queue", 5000, 1000, 1000)
    assert last["directories"] == 1


# --- bounds ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/children?path=/big",
        "/search?text=zzz",
        "/locks",
        "/watches",
        "/watches?never=true",
        "/clients?text=zzz",
    ],
)
async def test_what_takes_long_is_done_in_turns(api: Api, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two pauses no more than 2,000 things are looked at."""
    many(api.server, "/big", [f"n{n}" for n in range(100_000)])
    client = await api.client()
    engine = api.server.running.engine
    watcher = next(iter(api.server.running.service.connections))
    for n in range(20_000):
        engine.watches.add_data(f"/w{n}", watcher)
    for _ in range(3000):
        engine.sessions.create(10_000, 0)
    pauses = 0

    async def pause(self: turns.Turns) -> None:
        nonlocal pauses
        pauses += 1

    monkeypatch.setattr(turns.Turns, "pause", pause)
    await api.get(path)
    least = {
        "/children?path=/big": 50,
        "/watches": 10,
        "/watches?never=true": 20_000,
        "/clients?text=zzz": 3000,
    }.get(path, 100_000)
    assert pauses >= least
    await client.stream.aclose()


async def test_others_run_between_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    def advance() -> float:
        nonlocal now
        now += 0.002
        return now

    monkeypatch.setattr(turns.time, "perf_counter", advance)
    ran = 0

    async def other() -> None:
        nonlocal ran
        while True:
            ran += 1
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(other)
        names = [f"{n}" for n in range(100_000)]
        found = await turns.first_names([names], lambda name: True, 3, turns.Turns())
        nursery.cancel_scope.cancel()
    assert found == (["0", "1", "10"], True)
    assert ran >= 10


async def test_a_tree_that_changes_meanwhile(api: Api) -> None:
    await api.post("/tree", znodes={f"/a/{n}/x": "" for n in range(10)})
    walk = turns.walk(api.server.running.engine.tree, "/a")
    seen = [next(walk)[0] for _ in range(3)]
    await api.ask("DELETE", "/znode?path=/a/0/x")
    await api.ask("DELETE", "/znode?path=/a/0")
    await api.post("/znode", path="/a/new")
    seen += [path for path, _ in walk]
    assert len(seen) == len(set(seen))
    assert {f"/a/{n}/x" for n in range(1, 10)} <= set(seen)


async def test_a_name_of_any_characters_is_found(api: Api) -> None:
    name = "a b&c=d%2F+é\u202e<script>"
    await api.post("/znode", path=f"/{name}", data="x")
    assert (await api.get(f"/znode?path=%2F{quote(name)}"))["path"] == f"/{name}"


@pytest.mark.parametrize("path", ["/children", "/clients", "/watches", "/search?text=x"])
@pytest.mark.parametrize("limit", [0, 1001, -1])
async def test_limits(api: Api, path: str, limit: int) -> None:
    sign = "&" if "?" in path else "?"
    assert (await api.refused("GET", f"{path}{sign}limit={limit}"))[0] == 400


# --- live ------------------------------------------------------------------------------------------------


async def follow(api: Api, figures: trio.MemorySendChannel[Any]) -> None:
    response = await answer(api.control, Request("GET", f"{PREFIX}/live"))
    assert response.headers["content-type"] == "text/event-stream"
    assert response.stream is not None

    async def send(data: bytes) -> None:
        assert data.startswith(b"data: ")
        assert data.endswith(b"\n\n")
        await figures.send(json.loads(data[6:]))

    await response.stream(send)


async def test_figures_come_as_soon_as_they_change_and_every_5_seconds(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_server(clock="frozen") as server, trio.open_nursery() as nursery:
        api = Api(server)
        send, figures = trio.open_memory_channel[Any](10)
        nursery.start_soon(follow, api, send)
        first = await figures.receive()
        assert (first["znodes"], first["sessions"], first["frozen"]) == (4, 0, True)
        assert (first["expired"], first["emulates"]) == (0, server.running.service.settings.emulate)
        begun = trio.current_time()
        assert await figures.receive() == first
        assert trio.current_time() - begun == pytest.approx(5)
        server.load({"/a": ""})
        begun = trio.current_time()
        later = await figures.receive()
        assert trio.current_time() - begun <= 0.5
        assert (later["znodes"], later["zxid"] > first["zxid"]) == (5, True)
        server.clock.advance(7)
        assert (await figures.receive())["seconds"] == 7.0
        assert api.control.watchers == 1
        monkeypatch.setattr(live, "_MOST", 1)
        assert (await api.refused("GET", "/live"))[0] == 409
        nursery.cancel_scope.cancel()
    assert api.control.watchers == 0


async def test_what_is_armed(api: Api) -> None:
    await api.post("/faults", op="create", path="/a")
    hold = (await api.post("/holds", kind="reply"))["hold"]
    client = await api.client()
    await client.send(OpCode.EXISTS, ExistsRequest("/x", False))
    found = await api.get("/armed")
    assert found["counts"] == {"faults": 1, "holds": 1, "held": 1}
    assert found["holds"] == [{"hold": hold, "text": "any reply", "by": "over HTTP"}]
    assert found["held"][0]["op"] == "exists"
    assert "create on /a" in found["faults"][0]["text"]
    assert found["others"] == []
    with api.server.fault(["set_data", "delete"], path="/b", required=False):
        assert (await api.get("/armed"))["others"] == [
            {"text": "<Fault before set_data or delete on /b: disconnect, fired 0 of 0>", "by": "by the test"}
        ]


async def test_the_past_comes_first_in_the_trace(api: Api) -> None:
    client = await api.client()
    for n in range(5):
        await client.create(f"/{n}")
    response = await answer(api.control, Request("GET", f"{PREFIX}/trace?past=4&op=create&format=json"))
    lines: list[Any] = []

    async def send(data: bytes) -> None:
        lines.extend(json.loads(line) for line in data.splitlines())

    async with trio.open_nursery() as nursery:
        assert response.stream is not None
        nursery.start_soon(response.stream, send)
        await trio.testing.wait_all_tasks_blocked()
        await client.create("/new")
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    told = [(line["kind"], line["path"]) for line in lines]
    assert told == [(kind, path) for path in ("/3", "/4", "/new") for kind in ("request", "reply")]
    assert lines[0]["time"] <= lines[-1]["time"]
    assert (await api.refused("GET", "/trace?past=501"))[0] == 400


def test_nothing_of_this_starts_the_history() -> None:
    ours = {
        route.path
        for module in (tree, writes, tree_export, sessions, watches, locks, live)
        for route in module.ROUTES
    }
    assert len(ours) >= 9
    assert all(not route.needs_history for route in ROUTES if route.path in ours)


async def test_looking_leaves_nothing_behind() -> None:
    async with trio.open_nursery() as nursery:
        server = make_server(Settings(port=0), Clock())
        await nursery.start(server.run)
        service, engine = server.service, server.service.engine
        controls: Any = Port(server, nursery)._for_control().controls
        server.controls = controls
        for target in ("/children", "/znode", "/search?text=x", "/clients", "/watches", "/locks", "/armed"):
            assert (await ask(controls, "GET", f"{PREFIX}{target}"))[0] == 200
        body = json.dumps({"path": "/a"}).encode()
        assert (await ask(controls, "POST", f"{PREFIX}/znode", JSON, body))[0] == 200
        assert service.gate is engine.on_txn is engine.on_refusal is None
        assert controls.running.recorder is None
        nursery.cancel_scope.cancel()


UNUSED = """
import sys
from pyzk.server.testing import EmbeddedServer
import urllib.request
with EmbeddedServer() as server:
    views = [name for name in sys.modules if name.startswith("pyzk.server.control.")]
    assert views == [], views
    urllib.request.urlopen(server.url).read()
    assert "pyzk.server.control.views.locks" in sys.modules
"""


def test_nothing_of_it_is_loaded_before_somebody_asks() -> None:
    done = subprocess.run([sys.executable, "-c", UNUSED], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


async def test_the_history_is_looked_at_in_turns_for_advice(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await api.client()
    await client.create("/polled")
    for _ in range(300):
        await client.request(OpCode.EXISTS, ExistsRequest("/polled", False))
    pauses = 0

    async def pause(self: turns.Turns) -> None:
        nonlocal pauses
        pauses += 1

    monkeypatch.setattr(turns.Turns, "pause", pause)
    [finding] = (await api.get("/advice"))["findings"]
    assert (finding["rule"], finding["count"]) == ("polling", 300)
    assert pauses == -(-api.server.running.recorder.count // 50) + 1, "50 entries at once, one finding"
    assert (await api.get("/advice"))["findings"] == [finding]
