"""Loading, dumping, comparing, putting aside and bringing back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyzk.protocol import records as r
from pyzk.protocol.constants import EventType
from pyzk.protocol.errors import BadArgumentsError, NoChildrenForEphemeralsError, UnimplementedError
from pyzk.protocol.operations import OpCode
from pyzk.server import open_server
from pyzk.server.core import tree as trees
from pyzk.server.testing import EmbeddedServer, Node

from ...support.counting import count_calls
from ...support.wire import Event, StreamClient

READ_ONLY = (r.ACL(1, r.Id("world", "anyone")),)


async def test_nested_flat_and_mixed() -> None:
    expected = {"/a": b"", "/a/b": b"1", "/a/c": None, "/d": "é".encode()}
    for tree in (
        {"a": {"b": "1", "c": None}, "d": "é"},
        {"/a/b": b"1", "/a/c": None, "/d": "é"},
        {"a": {"b": b"1", "/a/c": None}, "/d": "é".encode()},
        {"/a": Node(children={"b": "1", "c": Node(data=None)}), "d": Node(data="é")},
    ):
        async with open_server() as server:
            server.load(tree)
            assert server.dump() == expected
            server.assert_tree(tree)
            server.assert_tree(expected)
            nested = server.dump(form="nested")
            assert nested == {"a": {"b": b"1", "c": None}, "d": "é".encode()}


@pytest.mark.parametrize("base", ["/", "/a", "/a/b", "/a/b/c"])
async def test_a_part_of_the_tree_in_nested_form(base: str) -> None:
    async with open_server() as server:
        server.load({"a": {"b": {"c": "1", "d": "2"}}})
        nested = server.dump(base, form="nested")
        assert nested == {"a": {"b": {"c": b"1"} if base == "/a/b/c" else {"c": b"1", "d": b"2"}}}
        assert list(server.dump(form="nested")["a"]["b"]) == ["c", "d"]
        assert server.dump("/nowhere", form="nested") == {}


async def test_a_deep_tree_can_be_dumped_loaded_and_compared() -> None:
    path = "/x" * 3000
    async with open_server() as server, open_server() as other:
        server.load({path: b"deep"})
        nested = server.dump(form="nested")
        inner = nested
        for _ in range(2999):
            [(name, inner)] = inner.items()
            assert name == "x"
        assert inner == {"x": b"deep"}
        other.load(nested)
        other.assert_tree(nested)
        assert other.dump() == server.dump()


async def test_what_is_dumped_can_be_loaded() -> None:
    async with open_server(extended_types=True) as server, open_server(extended_types=True) as other:
        owner = (await StreamClient(server.open_stream()).connect()).session_id
        server.load(
            {
                "/": "at the root",
                "/a": Node(data="1", acl=READ_ONLY, children={"b": {"c": "2"}}),
                "/e": Node(kind="ephemeral", owner=owner),
                "/c": Node(kind="container"),
                "/t": Node(kind="ttl", ttl=100_000, data=None),
            }
        )
        nodes = server.dump(form="nodes")
        assert nodes["/e"] == Node(kind="ephemeral", owner=owner)
        assert nodes["/t"] == Node(kind="ttl", ttl=100_000, data=None)
        assert server.sessions()[0].ephemerals == ("/e",)
        server.assert_tree(nodes)
        with pytest.raises(ValueError, match="/e: an ephemeral needs the id of a live session"):
            other.load(nodes)
        del nodes["/e"]
        other.load(nodes)
        assert other.dump(form="nodes") == nodes
        other.load(server.dump(form="nested"))
        assert server.dump("/a") == {"/a": b"1", "/a/b": b"", "/a/b/c": b"2"}
        assert server.dump("/nowhere") == {}


async def test_loading_fires_watches_and_replaces_data() -> None:
    async with open_server() as server:
        a = await StreamClient(server.open_stream()).connect()
        server.load({"/a": Node(data="1", acl=READ_ONLY)})
        await a.exists("/a", watch=True)
        zxid = (await a.exists("/a")).zxid
        server.load({"/a": "2", "/a/b": "3"})
        assert await a.next() == Event(zxid + 1, EventType.CHANGED, "/a")
        assert (await a.exists("/a")).zxid == zxid + 1, "one transaction"
        server.assert_tree({"/a": Node(data="2", acl=READ_ONLY), "/a/b": "3"})
        server.load({"/a/c": ""})
        assert server.dump()["/a"] == b"2", "a parent that is there is left alone"


async def test_bad_trees_change_nothing() -> None:
    async with open_server() as server:
        owner = (await StreamClient(server.open_stream()).connect()).session_id
        with pytest.raises(BadArgumentsError):
            server.load({"ok": "", "/bad//path": ""})
        with pytest.raises(TypeError, match="/n: data is bytes, str or None, not int"):
            server.load({"ok": "", "n": 1})
        with pytest.raises(TypeError, match="named by a str"):
            server.load({1: ""})  # type: ignore[dict-item]
        with pytest.raises(UnimplementedError, match="extended_types=True"):
            server.load({"ok": "", "/t": Node(kind="ttl", ttl=5)})
        with pytest.raises(ValueError, match="kind"):
            Node(kind="eternal")  # type: ignore[arg-type]
        assert server.dump() == {}
        server.load({"/e": Node(kind="ephemeral", owner=owner), "/p": ""})
        with pytest.raises(NoChildrenForEphemeralsError):
            server.load({"/x": "", "/e/child": ""})
        with pytest.raises(ValueError, match="/p exists, and is persistent, not container"):
            server.load({"/p": Node(kind="container")})
        assert set(server.dump()) == {"/e", "/p"}
        with pytest.raises(ValueError, match="form must be"):
            server.dump(form="xml")  # type: ignore[call-overload]


async def test_a_difference_is_readable() -> None:
    async with open_server() as server:
        owner = (await StreamClient(server.open_stream()).connect()).session_id
        server.load({"a": {"b": "1", "x": "2"}, "e": Node(kind="ephemeral", owner=owner)})
        with pytest.raises(AssertionError) as info:
            server.assert_tree({"a": {"b": "one", "y": "3"}, "e": Node(acl=READ_ONLY)})
        assert str(info.value).splitlines() == [
            "the tree is not as expected (- missing, + not expected, ! different), below /:",
            "  ! /a/b  holds '1', expected 'one'",
            "  + /a/x  is there, not expected: '2'",
            "  - /a/y  is missing, expected '3'",
            f"  ! /e  is ephemeral of 0x{owner:x}, expected persistent; "
            "has ACL [world:anyone=31], expected [world:anyone=1]",
        ]
        server.assert_tree({"b": ..., "x": "2"}, "/a")
        server.assert_tree({"/a/b": "1", "/a/x": ...}, "/a")
        with pytest.raises(AssertionError, match="- /nowhere  is missing"):
            server.assert_tree({}, "/nowhere")
        with pytest.raises(BadArgumentsError, match="not at or below /a"):
            server.assert_tree({"/b": ""}, "/a")
        assert server.format_tree() == (f"/a\n  /b  '1'\n  /x  '2'\n/e  (ephemeral of 0x{owner:x})")


async def test_snapshot_and_restore() -> None:
    async with open_server(enforce_quota=True) as server:
        a = await StreamClient(server.open_stream()).connect()
        b = await StreamClient(server.open_stream()).connect()
        server.load(
            {"a": {"b": "1", "c": "2"}, "/kept": "", "/zookeeper/quota/a/zookeeper_limits": "count=9"}
        )
        await a.create("/mine", flags=1)
        await b.create("/theirs", flags=1)
        stats = {p: (await a.exists(p)).body for p in ("/", "/a", "/a/b", "/mine")}
        before = server.dump()
        data_size = server.running.engine.tree.data_size
        snapshot = server.snapshot()

        server.load({"/a/b": "changed", "/new": ""})
        await a.request(OpCode.DELETE, r.DeleteRequest("/a/c", -1))
        await a.create("/mine2", flags=1)
        server.expire(b.session_id)
        for path in ("/a/b", "/a/c", "/new", "/kept"):
            await a.exists(path, watch=True)
        zxid = (await a.exists("/")).zxid

        server.restore(snapshot)
        got = {await a.next() for _ in range(3)}
        assert got == {
            Event(zxid + 1, EventType.CHANGED, "/a/b"),
            Event(zxid + 1, EventType.CREATED, "/a/c"),
            Event(zxid + 1, EventType.DELETED, "/new"),
        }
        assert (await a.exists("/")).zxid == zxid + 1
        del before["/theirs"]
        assert server.dump() == before
        assert server.sessions()[0].ephemerals == ("/mine",)
        for path in ("/a", "/a/b", "/mine"):
            assert (await a.exists(path)).body == stats[path]
        assert server.running.engine.tree.data_size == data_size - len("/theirs")
        assert list(server.running.engine.tree.quotas.prefixes) == ["/a"]

        server.load({"/after": ""})
        await a.create("/a/d")
        server.restore(snapshot)
        assert server.dump() == before, "a snapshot is not touched by what comes after it"
    async with open_server() as other:
        other.restore(snapshot)
        assert other.dump() == {p: d for p, d in before.items() if p != "/mine"}
        late = await StreamClient(other.open_stream()).connect(last_zxid=snapshot.zxid)
        assert (await late.create("/x")).zxid > snapshot.zxid


async def test_a_restore_looks_for_changes_only_where_somebody_watches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with open_server() as server:
        a = await StreamClient(server.open_stream()).connect()
        compared: list[int] = []
        differences = trees.differences

        def count(before: Any, after: Any) -> Any:
            yield from differences(before, after)
            compared.append(len(after.children))

        monkeypatch.setattr(trees, "differences", count)
        server.restore(server.snapshot())
        assert compared == []
        await a.exists("/x", watch=True)
        server.restore(server.snapshot())
        assert len(compared) == 1


async def test_snapshots_take_few_calls() -> None:
    """A snapshot of a hundred znodes, and its restoring: well under 1 ms on a usual machine."""
    async with open_server() as server:
        server.load({f"/p{i}": {f"c{n}": bytes(10) for n in range(9)} for i in range(10)})
        assert count_calls(lambda: server.restore(server.snapshot())) < 700


def test_errors_of_controls_have_one_frame_of_ours(server: EmbeddedServer) -> None:
    calls: list[Callable[[], object]] = [
        lambda: server.assert_tree({"/a": "1"}),
        lambda: server.expire(7),
        lambda: server.load({"a\0": ""}),
    ]
    for call in calls:
        with pytest.raises((AssertionError, LookupError, BadArgumentsError)) as caught:
            call()
        names = [str(entry.frame.f_globals["__name__"]) for entry in caught.traceback]
        assert names == [__name__, __name__, "pyzk.server.testing.controls.base"]


def test_a_bug_keeps_its_frames(server: EmbeddedServer) -> None:
    def bug() -> None:
        raise KeyError("bug")

    with pytest.raises(KeyError) as caught:
        server.run(bug)
    assert caught.traceback[-1].name == "bug"
    assert not any("concurrent" in str(entry.path) for entry in caught.traceback)


def test_arguments_of_assert_tree_in_the_wrong_order(server: EmbeddedServer) -> None:
    with pytest.raises(TypeError, match=r"perhaps assert_tree\(\{...\}, '/'\)"):
        server.assert_tree("/", {"a": ""})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"takes first the tree, and then the path$"):
        server.assert_tree({}, 1)  # type: ignore[arg-type]
