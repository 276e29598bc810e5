"""What is large is recorded, drawn and answered at a cost that does not grow with it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from itertools import count, zip_longest
from pathlib import Path
from typing import Any

import pytest
import trio

from pyzk.protocol import records as r
from pyzk.protocol.multi import MultiOp, encode_multi
from pyzk.protocol.operations import OpCode
from pyzk.server import open_server
from pyzk.server.control.calls import tree as tree_calls
from pyzk.server.control.views import turns
from pyzk.server.core.txn import Replace
from pyzk.server.core.znode import copy_tree
from pyzk.server.storage.snapshots import SnapshotWriter
from pyzk.server.testing import history, open_ensemble, snapshots
from pyzk.server.testing.advisor.engine import Advisor
from pyzk.server.testing.describe import describe_reply, describe_request, reply_facts

from ...support.wire import StreamClient
from ..control.client import Api

MEGABYTE = 2**20


def frame(op: int, body: bytes) -> bytes:
    return r.RequestHeader(1, op).encode() + body


def calls_of(function: Callable[[], object]) -> int:
    """Count the calls that a function makes, those of C included."""
    calls = 0

    def note(_: object, event: str, __: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    return calls


def multi(op: OpCode, item: r.Record, size: int) -> bytes:
    return frame(
        op, encode_multi([MultiOp(OpCode.CHECK if op == OpCode.MULTI else OpCode.GET_DATA, item)] * size)
    )


REQUESTS: dict[str, Callable[[int], tuple[int, bytes]]] = {
    "multi": lambda n: (14, multi(OpCode.MULTI, r.CheckVersionRequest("/check", -1), n)),
    "multi_read": lambda n: (22, multi(OpCode.MULTI_READ, r.GetDataRequest("/read", False), n)),
    "set_watches": lambda n: (105, frame(105, r.SetWatches2(0, ["/path"] * n, [], [], [], []).encode())),
    "acl": lambda n: (1, frame(1, r.CreateRequest("/acl", b"data", r.OPEN_ACL * n, 1).encode())),
    "data": lambda n: (5, frame(5, r.SetDataRequest("/set", b"words " * n, 7).encode())),
    "path": lambda n: (3, frame(3, r.ExistsRequest("/" + "x" * n, True).encode())),
    "unknown": lambda n: (999, frame(999, bytes(n))),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_is_described_by_its_beginning(name: str) -> None:
    op, small = REQUESTS[name](5_000)
    _, large = REQUESTS[name](50_000)
    describe_request(op, small)
    assert calls_of(lambda: describe_request(op, large)) <= calls_of(lambda: describe_request(op, small)) + 20
    said = describe_request(op, large)
    assert len(said.text) < 6000
    assert len(said.paths) < 1000
    assert said.facts.size == len(large)
    assert f"{len(large):,} bytes" in said.text or name == "data"


def test_what_is_said_of_a_large_request_is_right() -> None:
    said = {name: describe_request(*make(50_000)) for name, make in REQUESTS.items()}
    assert said["multi"].text.startswith("multi [check /check, check /check, ")
    assert said["multi_read"].text.startswith("multi_read [get_data /read, ")
    assert said["set_watches"].text.startswith("set_watches [/path, /path, ")
    assert said["acl"].text.startswith("create /acl 'data' (ephemeral) (")
    assert said["data"].text == (
        "set_data /set 'words words words words words wo'.. (300,000 bytes) if version 7 (300,024 bytes)"
    )
    assert said["path"].text.startswith("exists /xxx")
    assert " +watch (" in said["path"].text
    assert said["data"].facts.asked[0].version == 7
    assert said["acl"].facts.asked[0].kind == "ephemeral"


def test_a_reply_is_described_by_its_beginning() -> None:
    names = [f"child-{n}" for n in range(100_000)]
    stat = r.Stat(*range(11))
    replies = {
        OpCode.GET_CHILDREN: (r.GetChildrenResponse(names).encode(), "[child-0, child-1, "),
        OpCode.GET_DATA: (
            r.GetDataResponse(b"x" * MEGABYTE, stat).encode(),
            f"'{'x' * 32}'.. (1,048,576 bytes)",
        ),
        OpCode.MULTI_READ: (bytes(MEGABYTE), "ok"),
    }
    for op, (body, words) in replies.items():
        assert calls_of(partial(describe_reply, op, "/x", 0, body)) < 2000, op
        assert calls_of(partial(reply_facts, op, 0, body)) < 500, op
        assert describe_reply(op, "/x", 0, body).startswith(words)
    assert describe_reply(OpCode.GET_CHILDREN, "/x", 0, replies[OpCode.GET_CHILDREN][0]).endswith(
        "99994 more]"
    )
    assert describe_reply(OpCode.GET_DATA, "/x", 0, replies[OpCode.GET_DATA][0]).endswith(" version 4")
    body = replies[OpCode.GET_DATA][0]
    assert reply_facts(4, 0, body).answer != reply_facts(4, 0, body[:-1] + b"!").answer


async def test_entries_of_large_requests_are_small() -> None:
    async with open_server(clock="frozen") as server:
        a = await StreamClient(server.open_stream()).connect()
        path = "/" + "x" * (MEGABYTE // 2)
        for _ in range(20):
            await a.exists(path)
        kept = server.running.recorder
        assert kept is not None
        assert kept.size < MEGABYTE * 4
        for entry in server.history():
            assert len(entry.text) + sum(map(len, entry.paths)) < 20_000


async def test_the_history_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MOST_BYTES", 300_000)
    async with open_server(clock="frozen", history_limit=200) as server:
        a = await StreamClient(server.open_stream()).connect()
        for n in range(400):
            await a.create(f"/{n}", b"x" * 2000)
        kept = server.running.recorder
        assert kept is not None
        assert 0 < kept.size <= 300_000
        entries = server.history()
        assert entries[-1].path == "/399", "the oldest go"
        assert len(entries) < 50
        assert kept.count == kept.dropped + len(entries)


async def test_a_long_request_takes_turns_while_it_is_recorded() -> None:
    async with open_server(clock="frozen") as server:
        a = await StreamClient(server.open_stream()).connect()
        b = await StreamClient(server.open_stream()).connect()
        await a.create("/read", b"data")
        ticks = count()
        server.running.service.stopwatch = lambda: float(next(ticks))  # each look at the time ends a turn
        server.running.service.slice = 0.5
        connection = next(iter(server.running.service.connections))
        body = encode_multi([MultiOp(OpCode.GET_DATA, r.GetDataRequest("/read", False))] * 2000)
        connection.receive_data(wire(frame(OpCode.MULTI_READ, body)), server.running.clock.now())
        turns_taken = 0
        while connection.unfinished is not None:
            turns_taken += 1
            await b.exists("/read")
            connection.proceed(server.running.clock.now())
        assert turns_taken > 5
        kinds = [entry.kind for entry in server.history(op="multi_read")]
        assert kinds == ["request", "reply"]
        between = server.history(op="exists", session=b.session_id)
        assert len(between) == 2 * turns_taken, "others are served meanwhile"


def wire(payload: bytes) -> bytes:
    return len(payload).to_bytes(4) + payload


async def test_a_hold_catches_the_reply_of_a_request_that_has_begun() -> None:
    async with open_server(clock="frozen") as server:
        a = await StreamClient(server.open_stream()).connect()
        await a.create("/read", b"data")
        ticks = count()
        server.running.service.stopwatch = lambda: float(next(ticks))
        server.running.service.slice = 0.5
        connection = next(iter(server.running.service.connections))
        body = encode_multi([MultiOp(OpCode.GET_DATA, r.GetDataRequest("/read", False))] * 1000)
        exists = frame(OpCode.EXISTS, r.ExistsRequest("/read", False).encode())
        connection.receive_data(
            wire(frame(OpCode.MULTI_READ, body)) + wire(exists), server.running.clock.now()
        )
        assert connection.unfinished is not None
        server.hold("reply", op="multi_read")
        server.hold("request", op="exists")
        connection.proceed(server.running.clock.now())
        assert connection.unfinished is not None
        server.release(*[held.number for held in server.held() if held.kind == "request"])
        while connection.has_work:
            connection.proceed(server.running.clock.now())
        assert [held.op for held in server.held()] == ["multi_read", "exists"]
        server.release()
        assert [entry.op for entry in server.history(kind="reply")][-2:] == ["multi_read", "exists"]


async def test_a_timeline_is_cut_before_it_is_drawn() -> None:
    async with open_server(clock="frozen") as server:
        for n in range(40):
            client = await StreamClient(server.open_stream()).connect()
            for _ in range(20):
                await client.exists(f"/{n}/" + "x/" * 1500)
        whole = server.format_timeline()
        assert len(whole) < MEGABYTE + 10_000
        assert " earlier lines" in whole
        last = server.format_timeline(limit=3)
        assert last.count("  session 0x") == 1, "a session without a line has no column"


async def test_an_event_stands_where_the_client_gets_it() -> None:
    async with open_server(clock="frozen") as server:
        a = await StreamClient(server.open_stream()).connect()
        b = await StreamClient(server.open_stream()).connect()
        await a.exists("/x", watch=True)
        await a.exists("/y", watch=True)
        server.pause(a.session_id)
        await b.create("/x")
        assert not server.history(kind="event")
        assert "<<" not in server.format_timeline()
        server.clock.advance(1)
        server.resume(a.session_id)
        [event] = server.history(kind="event")
        assert (event.time, event.text) == (1.0, "created /x")
        server.pause(a.session_id)
        await b.create("/y")
        server.expire(a.session_id)
        assert [entry.text for entry in server.history(kind="event")] == ["created /x"]
        text = " ".join(server.format_timeline(width=300).split())
        assert "|| NEVER SENT, as the connection was stopped: [created /y]" in text


async def test_time_jumps_over_pings(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_server(clock="frozen") as server:
        await StreamClient(server.open_stream()).connect()
        gone = await StreamClient(server.open_stream()).connect()
        server.disconnect(gone.session_id)
        looks = count()
        advance = server.running.server.advance
        monkeypatch.setattr(server.running.server, "advance", lambda *a: (next(looks), advance(*a)))
        server.clock.advance(9e8, keep_alive=True)
        assert next(looks) < 10
        [left] = server.sessions()
        assert left.connected
        [ended] = [entry for entry in server.history(kind="session") if "EXPIRED" in entry.text]
        assert 9 < ended.time < 13, "the other one has ended in time"


ROUTES: list[tuple[str, str, dict[str, Any]]] = [
    ("GET", "/tree", {}),
    ("GET", "/tree?format=text", {}),
    ("POST", "/tree/diff", {"znodes": {"/n": "other"}}),
    ("GET", "/history", {}),
    ("GET", "/timeline", {}),
    ("GET", "/sessions", {}),
    ("GET", "/leaks", {}),
    ("POST", "/wait", {"until": "exists", "path": "/nowhere", "timeout": 0}),
    ("POST", "/wait", {"until": "request", "op": "exists"}),
]


@pytest.mark.parametrize(("method", "path", "body"), ROUTES)
async def test_routes_let_others_run(
    method: str, path: str, body: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "SLICE", 0.0)  # each pause ends a turn
    async with open_server(clock="frozen") as server:
        api = Api(server)
        server.load({f"/n{n}": "data" for n in range(1000)})
        client = await StreamClient(server.open_stream()).connect()
        for n in range(1000):
            await client.exists(f"/{n}")
        for n in range(200):
            server.running.engine.sessions.create(10_000, n)
        rounds = 0

        async def others() -> None:
            nonlocal rounds
            while True:
                rounds += 1
                await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(others)
            await trio.lowlevel.checkpoint()
            before = rounds
            status, _ = await api.ask(method, path, **body)
            assert status == (408 if "timeout" in body else 200)
            assert rounds - before > 50
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize("path", ["/ensemble/sessions", "/ensemble/leaks"])
async def test_routes_of_an_ensemble_let_others_run(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "SLICE", 0.0)  # each pause ends a turn
    async with open_ensemble(3, clock="frozen") as ensemble:
        for n in range(200):
            ensemble[3].running.engine.tracker.learn(n + 1, 10_000)
        rounds = 0

        async def others() -> None:
            nonlocal rounds
            while True:
                rounds += 1
                await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(others)
            await trio.lowlevel.checkpoint()
            before = rounds
            status, answer = await Api(ensemble[1]).ask("GET", path)
            assert (status, len(*answer.values())) == (200, 200)
            assert rounds - before > 50
            nursery.cancel_scope.cancel()


async def test_of_very_many_events_at_once_the_first_are_recorded() -> None:
    async with open_server(clock="frozen") as server:
        a = await StreamClient(server.open_stream()).connect()
        b = await StreamClient(server.open_stream()).connect()
        await b.create("/x")
        await a.request(OpCode.ADD_WATCH, r.AddWatchRequest("/x", 0))
        item = MultiOp(OpCode.SET_DATA, r.SetDataRequest("/x", b"", -1))
        await b.send(OpCode.MULTI, encode_multi([item] * 5000))
        assert await b.next()
        assert len(server.history(kind="event")) == 32
        assert "and 4,968 more events" in [entry.text for entry in server.history(kind="connection")]


async def working(server: Any, clients: int = 3) -> list[Callable[[int], Any]]:
    """Clients that write and read as fast as they can."""
    made = [await StreamClient(server.open_stream()).connect() for _ in range(clients)]

    async def one(client: StreamClient, n: int) -> None:
        path = f"/p{n % 7}/c{n % 40}"
        if n % 5 == 0:
            await client.request(OpCode.DELETE, r.DeleteRequest(path, -1))
        elif n % 5 == 1:
            await client.create(path, b"again", flags=n % 2)
        elif n % 5 == 2:
            await client.create(f"/p{n % 7}/new{n}")
        elif n % 5 == 3:
            await client.request(OpCode.SET_ACL, r.SetACLRequest(f"/p{n % 7}/c{n % 39}", READ_ONLY, -1))
        else:
            await client.request(OpCode.SET_DATA, r.SetDataRequest(f"/p{n % 7}/c{n % 39}", b"%d" % n, -1))

    return [partial(one, client) for client in made]


READ_ONLY = (r.ACL(17, r.Id("world", "anyone")),)


def form(node: Any) -> Any:
    """All there is of a znode and below it."""
    children = node.children
    below = None
    if children is not None:
        below = children.created, children.changed, [(name, form(each)) for name, each in children.items()]
    return node.data, node.acl, node.packed_stat(), node.owner, below


@pytest.mark.usefixtures("one_step_a_turn")
async def test_a_snapshot_in_steps_is_the_tree_at_one_zxid() -> None:
    async with open_server(clock="frozen") as server:
        server.load({f"/p{p}": {f"c{n}": "data" for n in range(300)} for p in range(7)})
        server.load({"/zookeeper/quota/p1/zookeeper_limits": "count=5000,bytes=500000"})
        server.load({"/zookeeper/quota/p1/zookeeper_stats": ""})
        api, tree = Api(server), server.running.engine.tree
        writers = await working(server)
        kept: dict[int, Any] = {}
        done = trio.Event()
        written = count()

        async def write(one: Callable[[int], Any], n: int) -> None:
            while not done.is_set():
                await one(n)
                n += 1
                next(written)

        async with trio.open_nursery() as nursery:
            for n, one in enumerate(writers):
                nursery.start_soon(write, one, n)
            with server.running.following(lambda txn: kept.update({txn.zxid: form(tree.nodes["/"])})):
                answer = await api.post("/snapshots")
            done.set()
        assert next(written) > 20, "clients have written meanwhile"
        [snapshot] = api.control.snapshots.values()
        assert int(answer["zxid"], 16) == snapshot.zxid
        assert form(snapshot._root) == kept[snapshot.zxid]


@pytest.mark.usefixtures("one_step_a_turn")
@pytest.mark.parametrize("log", [False, True], ids=["in-memory", "with-a-log"])
async def test_a_restore_in_steps_is_one_transaction(log: bool, tmp_path: Path) -> None:
    async with open_server(clock="frozen", data=tmp_path if log else None) as server:
        watcher = await StreamClient(server.open_stream()).connect()
        ending = await StreamClient(server.open_stream()).connect()
        server.load({f"/p{p}": {f"c{n}": "data" for n in range(300)} for p in range(7)})
        await ending.create("/p3/mine", flags=1)
        api = Api(server)
        number = (await api.post("/snapshots"))["snapshot"]
        before = {path: data for path, data in server.dump().items() if path != "/p3/mine"}
        writers = await working(server)
        done = trio.Event()
        turns_taken = count()

        async def write(one: Callable[[int], Any], n: int) -> None:
            while not done.is_set():
                await one(n)
                n += 1

        async def watch_and_end() -> None:
            for _ in range(30):
                await trio.lowlevel.checkpoint()
            server.expire(ending.session_id)
            await watcher.create("/late")
            await watcher.exists("/late", watch=True)
            await watcher.request(OpCode.ADD_WATCH, r.AddWatchRequest("/p6", 1))
            while not done.is_set():
                await trio.lowlevel.checkpoint()
                next(turns_taken)

        async with trio.open_nursery() as nursery:
            for n, one in enumerate(writers):
                nursery.start_soon(write, one, n)
            nursery.start_soon(watch_and_end)
            snapshot = api.control.snapshots[number]
            replaced: dict[str, bytes | None] = {}
            with server.running.following(lambda txn: replaced.update(at_replace(server, txn))):
                await api.post(f"/snapshots/{number}/restore")
            done.set()
        assert next(turns_taken) > 20, "others run meanwhile"
        assert replaced == before
        assert server.running.engine.zxid > snapshot.zxid
        after = server.dump()
        events = [e.text for e in server.history(kind="event", session=watcher.session_id)]
        assert "deleted /late" in events
        assert any(text.startswith(("changed /p6/", "created /p6/", "deleted /p6/")) for text in events)
    if log:
        async with open_server(data=tmp_path) as server:
            assert server.dump() == after


async def test_the_servers_of_an_ensemble_have_their_copies_before_a_restore(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copied = 0

    def copying(*arguments: Any) -> Any:
        nonlocal copied
        copied += 1
        return copy_tree(*arguments)

    async with open_ensemble(3, clock="frozen") as ensemble:
        api = Api(ensemble[1])
        ensemble.load({"/a": {"b": "1"}})
        number = (await api.post("/snapshots"))["snapshot"]
        ensemble.load({"/a/b": "2", "/c": "3"})
        monkeypatch.setattr("pyzk.server.core.tree.copy_tree", copying)
        await api.post(f"/snapshots/{number}/restore")
        for server in (1, 2, 3):
            assert ensemble[server].dump() == {"/a": b"", "/a/b": b"1"}
        assert copied == 0
        trees = {id(ensemble[server].running.engine.tree.nodes["/a"]) for server in (1, 2, 3)}
        assert len(trees) == 3, "no two servers share a tree"


@pytest.mark.parametrize("ends", [False, True], ids=["", "a session ends in the last moment"])
async def test_a_tree_is_in_a_file_before_it_is_served(
    ends: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But if it changes in the last moment, all of it is written anew."""
    encoded, at_once = count(), []
    encode = SnapshotWriter._encode

    def counting(writer: SnapshotWriter, *arguments: Any) -> bytes:
        next(encoded)
        return encode(writer, *arguments)

    monkeypatch.setattr(SnapshotWriter, "_encode", counting)
    async with open_server(clock="frozen", data=tmp_path) as server:
        owner = await StreamClient(server.open_stream()).connect()
        server.load({f"/p{p}": {f"c{n}": "data" for n in range(100)} for p in range(5)})
        await owner.create("/p0/mine", flags=1)
        snapshot = server.snapshot()
        server.load({"/new": "1"})
        log: Any = server.running.engine.log
        write = log.on_replace

        def replaced() -> None:
            before = next(encoded)
            write()
            at_once.append(next(encoded) - before - 1)

        log.on_replace = replaced

        def about_to() -> None:
            if ends:
                server.expire(owner.session_id)

        for _ in snapshots.bring_back(server.running, snapshot, about_to):
            pass
        after = server.dump()
        assert ("/p0/mine" in after) is not ends
        assert "/new" not in after
        assert at_once == [len(server.running.engine.tree) - 1 if ends else 0]
        server.load({"/later": "2"})
        after = server.dump()
    async with open_server(data=tmp_path) as server:
        assert server.dump() == after


def at_replace(server: Any, txn: Any) -> dict[str, bytes | None]:
    return server.dump() if isinstance(txn.effect, Replace) else {}


@pytest.mark.usefixtures("one_step_a_turn")
async def test_a_tree_replaced_in_steps_is_like_one_replaced_at_once() -> None:
    async with open_server(clock="frozen") as server, open_server(clock="frozen") as other:
        for each in (server, other):
            owner = await StreamClient(each.open_stream()).connect()
            each.load({"/a": {"b": "1", "c": "2"}, "/d": "3"})
            each.load({"/zookeeper/quota/a/zookeeper_limits": "count=5,bytes=-1"})
            each.load({"/zookeeper/quota/a/zookeeper_stats": ""})
            await owner.create("/a/e", flags=1)
        api, synchronous = Api(server), other.snapshot()
        number = (await api.post("/snapshots"))["snapshot"]
        for each in (server, other):
            each.expire(each.sessions()[0].id)
            each.load({"/a/b": "4", "/new": "5"})
        await api.post(f"/snapshots/{number}/restore")
        other.restore(synchronous)
        for each in (server, other):
            each.load({"/a/f": "6"})
        one, two = server.running.engine.tree, other.running.engine.tree
        assert len(one) == len(two)
        assert (one.data_size, one.ephemerals) == (two.data_size, two.ephemerals)
        assert one.quotas.usage("/a") == two.quotas.usage("/a") == {"count": 4, "bytes": 3}
        assert server.dump() == other.dump()


@pytest.mark.usefixtures("one_step_a_turn")
@pytest.mark.parametrize("route", ["POST /reset", "DELETE /snapshots/{}", "POST /snapshots/{}/restore"])
async def test_a_tree_is_freed_in_turns(route: str) -> None:
    async with open_server(clock="frozen") as server:
        api = Api(server)
        server.load({f"/n{n}": "data" for n in range(3000)})
        number = (await api.post("/snapshots"))["snapshot"]
        rounds = 0

        async def others() -> None:
            nonlocal rounds
            while True:
                rounds += 1
                await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(others)
            status, _ = await api.ask(*route.format(number).split())
            assert status == 200
            assert rounds > 50
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize("path", ["/server", "/sessions/{}", "/sessions/nobody", "/leaks"])
async def test_a_session_is_found_at_a_cost_that_does_not_grow(path: str) -> None:
    async with open_server(clock="frozen") as server:
        api = Api(server)
        client = await StreamClient(server.open_stream()).connect()
        [connection] = server.running.service.connections
        steps = []
        for size in (100, 20_000):
            for n in range(size):
                server.running.engine.watches.add_data(f"/path/{n}", connection)
            for n in range(0 if path == "/leaks" else size // 10):
                server.running.engine.sessions.create(10_000, n)
            await api.ask("GET", path.format(f"0x{client.session_id:x}"))
            steps.append(await calls_during(api, path.format(f"0x{client.session_id:x}")))
        assert steps[1] < 2 * steps[0] + (20_000 if "{" in path else 200), "256 KiB of paths are shown"


async def calls_during(api: Api, path: str) -> int:
    calls = 0

    def note(_: object, event: str, __: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        await api.ask("GET", path)
    finally:
        sys.setprofile(None)
    return calls


async def test_the_answer_of_sessions_is_bounded() -> None:
    async with open_server(clock="frozen") as server:
        api = Api(server)
        client = await StreamClient(server.open_stream()).connect()
        [connection] = server.running.service.connections
        for n in range(20_000):
            server.running.engine.watches.add_data(f"/path/{n}", connection)
        [session] = (await api.get("/sessions"))["sessions"]
        assert session["id"] == f"0x{client.session_id:x}"
        assert 4000 < len(session["watches"]) < 5000
        [info] = server.sessions()
        assert len(info.watches) == 20_000, "in Python they are all there"
        [leak] = (await api.get("/leaks"))["leaks"]
        assert leak.endswith(", and 19,980 more")


async def test_the_answer_of_the_sessions_of_an_ensemble_is_bounded() -> None:
    async with open_ensemble(3, clock="frozen") as ensemble:
        api, member = Api(ensemble[1]), ensemble[2]
        client = await StreamClient(member.open_stream()).connect()
        await client.create("/mine", flags=1)
        [connection] = member.running.service.connections
        for n in range(20_000):
            member.running.engine.watches.add_data(f"/path/{n}", connection)
        [session] = (await api.get("/ensemble/sessions"))["sessions"]
        assert (session["id"], session["server"]) == (f"0x{client.session_id:x}", 2)
        assert session["ephemerals"] == ["/mine"]
        assert 4000 < len(session["watches"]) < 5000
        [info] = ensemble.sessions()
        assert (info.server, info.ephemerals, len(info.watches)) == (2, ("/mine",), 20_000)
        [leak] = (await api.get("/ensemble/leaks"))["leaks"]
        assert [leak] == ensemble.leaks()
        assert "is still connected; ephemerals left: /mine; " in leak
        assert leak.endswith(", and 19,980 more")


async def test_a_wait_for_requests_counts_those_that_come_while_it_reads_the_history(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turns, "SLICE", 0.0)  # each pause ends a turn
    async with open_server(clock="frozen") as server:
        api, client = Api(server), await StreamClient(server.open_stream()).connect()
        for _ in range(200):
            await client.exists("/x")
        looks = []

        async def wait() -> None:
            looks.append(await api.post("/wait", until="request", op="exists", count=205))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            while not api.control.waiting:
                await trio.lowlevel.checkpoint()
            for _ in range(5):
                await client.exists("/x")
        assert looks[0]["seen"] == 205


async def test_a_wait_by_address_does_not_walk_all_connections() -> None:
    costs = []
    for size in (5, 100):
        async with open_server(clock="frozen") as server:
            api = Api(server)
            clients = [await StreamClient(server.open_stream()).connect() for _ in range(size)]
            answers: list[Any] = []

            async def wait(api: Api, answers: list[Any]) -> None:
                found = await api.post("/wait", until="session", session="192.0.2.7")
                answers.append(found["sessions"])

            async with trio.open_nursery() as nursery:
                nursery.start_soon(wait, api, answers)
                while not api.control.waiting:
                    await trio.lowlevel.checkpoint()
                [waiting] = server.running.gate.observers
                costs.append(calls_of(waiting.happened))
                await clients[0].create("/x")
                assert not answers
                nursery.cancel_scope.cancel()
    assert costs[0] == costs[1]


async def test_a_wait_by_address_counts_who_is_connected() -> None:
    async with open_server(clock="frozen") as server:
        api, answers = Api(server), []
        first = await StreamClient(server.open_stream()).connect()

        async def wait() -> None:
            answers.append(await api.post("/wait", until="session", session="127.0.0.1", count=2))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            while not api.control.waiting:
                await trio.lowlevel.checkpoint()
            server.disconnect(first.session_id)
            second = await StreamClient(server.open_stream()).connect()
            await second.create("/x")
            assert not answers, "one has gone"
            third = await StreamClient(server.open_stream()).connect()
        ids = [f"0x{each.session_id:x}" for each in (second, third)]
        assert [each["id"] for each in answers[0]["sessions"]] == ids


@pytest.mark.usefixtures("one_step_a_turn")
async def test_snapshots_over_http_are_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_server(clock="frozen") as server:
        server.load({f"/n{n}": "x" * 100 for n in range(1000)})
        api = Api(server)
        monkeypatch.setattr(tree_calls, "_MAX_BYTES", 2.5 * snapshots.size_of(server.running.engine.tree))
        assert snapshots.size_of(server.running.engine.tree) > 200_000
        answers: list[tuple[int, Any]] = []

        async def take() -> None:
            answers.append(await api.ask("POST", "/snapshots"))

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(take)
        assert sorted(status for status, _ in answers) == [200, 200, 409], "those under way count too"
        status, detail = await api.refused("POST", "/snapshots")
        assert status == 409
        first, second = sorted(api.control.snapshots)
        assert f"DELETE /snapshots/{first} (" in detail
        assert f"/snapshots/{second} (" in detail
        await api.ask("DELETE", f"/snapshots/{first}")
        assert (await api.ask("POST", "/snapshots"))[0] == 200
        monkeypatch.setattr(tree_calls, "_MAX_BYTES", 1)
        for number in list(api.control.snapshots):
            await api.ask("DELETE", f"/snapshots/{number}")
        assert (await api.ask("POST", "/snapshots"))[0] == 200, "a single one may be larger"


async def test_the_advisor_lists_a_history_once_for_each_question(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_server(clock="frozen") as server:
        client = await StreamClient(server.open_stream()).connect()
        for _ in range(300):
            await client.exists("/x")
        kept, lists, read = server.running.told, count(), []
        assert kept is not None
        entries = kept.entries
        monkeypatch.setattr(kept, "entries", lambda after=0: (next(lists), entries(after))[1])
        monkeypatch.setattr(Advisor, "read", lambda _, some: read.extend(some))
        questions = [server.running.advising(), server.running.advising()]
        steps = 0
        for _ in zip_longest(*questions):
            steps += 1
        assert steps > 5
        assert next(lists) == 2, "not at each step"
        assert read == server.history(), "each entry once, and in order"
