"""Catching up on watches after a reconnect, and taking them back (semantics.md 10.5 and 10.6)."""

from __future__ import annotations

import pytest

from pyzk.protocol import records as r
from pyzk.protocol.constants import AddWatchMode
from pyzk.protocol.operations import OpCode

from ..support.requests import acl
from ..support.wire import Reply, WireClient
from .conftest import Connect
from .known_differences import differs
from .servers import Server
from .watching import register, tell

# The tree: /old, /old/child, older than the client's last zxid; /new and /old2 changed after it;
# /gone deleted after it. Lists of set_watches, what is told at once, and what is told after changes.
CATCH_UP = [
    ("data", ["/old"], ""),
    ("data", ["/changed"], "changed /changed"),
    ("data", ["/gone"], "deleted /gone"),
    ("data", ["/recreated"], "changed /recreated"),
    ("data", ["/parent"], ""),  # its children changed, its data did not
    ("exist", ["/none"], ""),
    ("exist", ["/gone"], ""),
    ("exist", ["/old"], "created /old"),  # whatever its czxid
    ("exist", ["/new"], "created /new"),
    ("child", ["/old"], ""),
    ("child", ["/parent"], "children /parent"),
    ("child", ["/gone"], "deleted /gone"),
    ("child", ["/changed"], ""),
    ("data", ["/gone", "/changed", "/old"], "deleted /gone, changed /changed"),
    ("persistent", ["/changed", "/gone", "/parent"], ""),
    ("recursive", ["/changed", "/gone", "/parent"], ""),
]


def lay_out(client: WireClient, top: str) -> int:
    """Make the tree; returns the zxid in its middle."""
    for name in ("old", "changed", "gone", "recreated", "parent"):
        client.create(f"{top}/{name}")
    zxid = client.ping().zxid
    client.set(f"{top}/changed", b"new")
    client.delete(f"{top}/gone")
    client.delete(f"{top}/recreated")
    client.create(f"{top}/recreated")
    client.create(f"{top}/parent/child")
    client.create(f"{top}/new")
    return zxid


@pytest.mark.parametrize(("kind", "paths", "expected"), CATCH_UP)
def test_catch_up(client: WireClient, top: str, kind: str, paths: list[str], expected: str) -> None:
    # wire.md section 6: header zxid -1; section 7, rule 6: before the reply
    zxid = lay_out(client, top)
    reply = client.set_watches(zxid, **{kind: [top + path for path in paths]})
    assert (reply.err, reply.xid) == (0, -8)
    assert tell(client.events, top) == expected
    assert {event.zxid for event in client.events} <= {-1}


@pytest.mark.parametrize("op", [OpCode.SET_WATCHES, OpCode.SET_WATCHES2], ids=lambda op: op.name)
def test_the_lists_are_worked_through_in_order(client: WireClient, top: str, op: OpCode) -> None:
    zxid = lay_out(client, top)
    lists = [
        [f"{top}/gone", f"{top}/changed"],
        [f"{top}/old", f"{top}/new"],
        [f"{top}/parent", f"{top}/gone"],
    ]
    request = (
        r.SetWatches(zxid, *lists) if op == OpCode.SET_WATCHES else r.SetWatches2(zxid, *lists, [top], [top])
    )
    assert client.request(op, request).err == 0
    assert tell(client.events, top) == (
        "deleted /gone, changed /changed, created /old, created /new, children /parent, deleted /gone"
    )


def test_what_does_not_fire_is_registered(connect: Connect, top: str) -> None:
    watcher, writer = connect(), connect()
    lay_out(writer, top)
    now = writer.ping().zxid
    watcher.set_watches(now, [f"{top}/old"], [f"{top}/none"], [f"{top}/parent"])
    writer.set(f"{top}/old", b"1")
    writer.set(f"{top}/old", b"2")
    writer.create(f"{top}/none")
    writer.create(f"{top}/parent/another")
    writer.create(f"{top}/parent/third")
    assert tell(watcher.take_events(), top) == "changed /old, created /none, children /parent"


def test_what_fires_is_not_registered(connect: Connect, top: str) -> None:
    watcher, writer = connect(), connect()
    zxid = lay_out(writer, top)
    watcher.set_watches(zxid, [f"{top}/changed"], [f"{top}/old"], [f"{top}/parent"])
    watcher.take_events()
    for name in ("changed", "old"):
        writer.set(f"{top}/{name}", b"again")
    writer.create(f"{top}/parent/another")
    assert watcher.take_events() == []


def test_persistent_watches_are_registered(connect: Connect, top: str) -> None:
    watcher, writer = connect(), connect()
    writer.create(f"{top}/p")
    writer.create(f"{top}/r")
    watcher.set_watches(writer.ping().zxid, persistent=[f"{top}/p"], recursive=[f"{top}/r"])
    for name in ("p", "r"):
        writer.set(f"{top}/{name}", b"")
        writer.create(f"{top}/{name}/n")
        writer.set(f"{top}/{name}/n", b"")
    assert tell(watcher.take_events(), top) == (
        "changed /p, children /p, changed /r, created /r/n, changed /r/n"
    )


def test_catch_up_is_not_filtered_by_acl(connect: Connect, top: str) -> None:
    # semantics.md 10.4
    watcher, writer = connect(), connect()
    zxid = writer.ping().zxid
    writer.create(f"{top}/secret", acl=[acl(30, "world", "anyone")])
    watcher.set_watches(zxid, exist=[f"{top}/secret"])
    assert tell(watcher.take_events(), top) == "created /secret"


@pytest.mark.parametrize("hole", [0, 1, 2])
def test_null_lists(client: WireClient, hole: int) -> None:
    # wire.md section 15
    lists: list[list[str] | None] = [[], [], []]
    lists[hole] = None
    assert client.set_watches(0, *lists).err == -5


def test_what_comes_before_a_null_is_told_and_registered(connect: Connect, top: str) -> None:
    # semantics.md 10.5
    watcher, writer = connect(), connect()
    lay_out(writer, top)
    lists = ([f"{top}/gone"], [f"{top}/none", f"{top}/new", None, f"{top}/old"], [f"{top}/gone"])
    assert watcher.request(OpCode.SET_WATCHES, r.SetWatches(0, *lists)).err == -5
    assert watcher.request(OpCode.SET_WATCHES, r.SetWatches(0, [f"{top}/gone"], [], None)).err == -5
    writer.create(f"{top}/none")
    assert tell(watcher.take_events(), top) == "deleted /gone, created /new, deleted /gone, created /none"


def test_null_paths_of_the_persistent_kinds_are_accepted(connect: Connect, top: str) -> None:
    # semantics.md 10.5
    watcher, other, writer = connect(), connect(), connect()
    request = r.SetWatches2(0, [], [], [], [None, f"{top}/p"], [])
    assert watcher.request(OpCode.SET_WATCHES2, request).err == 0
    assert other.request(OpCode.SET_WATCHES2, r.SetWatches2(0, [], [], [], [], [None])).err == 0
    writer.create(f"{top}/p")
    assert tell(watcher.take_events(), top) == "created /p"


def test_catch_up_precedes_the_reply(client: WireClient, top: str) -> None:
    # wire.md section 7, rule 6
    client.send(OpCode.SET_WATCHES, r.SetWatches(0, [top], [], []), xid=-8)
    event, reply = client.receive(), client.receive()
    assert not isinstance(event, Reply)
    assert isinstance(reply, Reply)
    assert reply.xid == -8


# --- checkWatches and removeWatches ------------------------------------------------------------------------

KINDS = {1: "child", 2: "data", 3: "any", 4: "persistent", 5: "recursive"}
# which registered watch each type sees (semantics.md 10.6), and how that was before 3.9
SEES = {
    1: {"child"},
    2: {"data", "exist"},
    3: {"child", "data", "exist", "persistent", "recursive"},
    4: {"persistent"},
    5: {"recursive"},
}
SAW = {1: {"child", "persistent", "recursive"}, 2: {"data", "exist", "persistent", "recursive"}, 3: SEES[3]}


def answer(server: Server, kind: int, registered: str) -> int:
    if kind >= 4 and differs("watcher-types", server):
        return -5
    sees = SAW if differs("watcher-types-ignore-modes", server) else SEES
    return 0 if registered in sees[kind] else -121


@pytest.mark.parametrize("registered", ["data", "exist", "child", "persistent", "recursive"])
@pytest.mark.parametrize("kind", [1, 2, 3, 4, 5])
def test_check_and_remove(server: Server, client: WireClient, top: str, kind: int, registered: str) -> None:
    register(client, registered, top)
    expected = answer(server, kind, registered)
    assert client.check_watches(top, kind).err == expected
    assert client.check_watches(top, kind).err == expected  # looking changes nothing
    assert client.remove_watches(top, kind).err == expected
    assert client.take_events() == []  # a server never sends the types 5 to 7
    client.set(top, b"")
    client.create(f"{top}/n")
    gone = expected == 0 and (kind == 3 or not differs("watcher-types-ignore-modes", server))
    if gone:
        assert client.take_events() == []
        assert client.check_watches(top, 3).err == -121
    elif expected:
        assert client.take_events() != []


def test_other_modes_stay(server: Server, client: WireClient, top: str) -> None:
    if differs("one-mode-per-path", server):
        return
    for kind in ("data", "child", "persistent", "recursive"):
        register(client, kind, top)
    for kind in (2, 1, 4, 5):
        assert client.remove_watches(top, kind).err == 0
        assert client.remove_watches(top, kind).err == -121
    client.set(top, b"")
    assert client.take_events() == []


def test_removal_is_about_one_path_of_one_connection(connect: Connect, client: WireClient, top: str) -> None:
    other = connect()
    client.create(f"{top}/n")
    for watcher in (client, other):
        watcher.get(top, watch=True)
        watcher.get(f"{top}/n", watch=True)
    assert client.remove_watches(top, 3).err == 0
    client.set(top, b"")
    client.set(f"{top}/n", b"")
    assert tell(client.take_events(), top) == "changed /n"
    assert tell(other.take_events(), top) == "changed /, changed /n"


@pytest.mark.parametrize("registered", [0, 1])
@pytest.mark.parametrize("kind", [1, 2, 3, 4, 5])
def test_a_watch_on_a_null_path(
    server: Server, client: WireClient, top: str, kind: int, registered: int
) -> None:
    # wire.md section 15
    assert client.add_watch(None, registered).err == 0
    assert client.create(f"{top}/n").err == 0
    assert client.take_events() == []
    if differs("watcher-types", server):
        assert client.check_watches(None, kind).err == -5
        assert client.remove_watches(None, kind).err == -5
        if kind < 4:
            removed = [client.remove_watches(None, kind).err for _ in range(2)]
            assert removed == ([-5, -121] if kind == 3 else [-121, -121])
        return
    found = 0 if kind in (3, 4 + registered) else -121
    assert client.check_watches(None, kind).err == found
    assert client.remove_watches(None, kind).err == found
    assert client.check_watches(None, kind).err == -121


def test_what_is_left_of_a_connection_with_a_watch_on_a_null_path(
    server: Server, connect: Connect, client: WireClient, top: str
) -> None:
    # semantics.md section 16: before 3.9 the real server keeps the watches
    watcher = connect()
    watcher.children(top, watch=True)
    assert watcher.add_watch(None, 0).err == 0
    assert watcher.request(OpCode.CLOSE_SESSION).err == 0
    keeps = server.kind == "real" and differs("check-watches-of-anybody", server)
    assert keeps or watcher.is_closed()
    assert client.check_watches(top, 1).err == (0 if keeps else -121)


def test_null_paths_in_the_persistent_lists_of_set_watches(server: Server, client: WireClient) -> None:
    if differs("watcher-types", server):
        return
    request = r.SetWatches2(0, [], [], [], [None], [None])
    assert client.request(OpCode.SET_WATCHES2, request).err == 0
    assert [client.check_watches(None, kind).err for kind in (1, 2, 3, 4, 5)] == [-121, -121, 0, 0, 0]


@pytest.mark.parametrize("kind", [-1, 0, 6, 99])
def test_an_unknown_type(client: WireClient, top: str, kind: int) -> None:
    # wire.md section 14
    client.get(top, watch=True)
    assert client.check_watches(top, kind).err == -5
    assert client.remove_watches(top, kind).err == -5


def test_a_watch_that_fired_is_gone(client: WireClient, top: str) -> None:
    client.get(top, watch=True)
    client.set(top, b"")
    assert client.check_watches(top, 3).err == -121


@pytest.mark.parametrize("path", ["/none", "no slash", "", None])
def test_odd_paths(server: Server, client: WireClient, path: str | None) -> None:
    # semantics.md 3: not validated
    fails = path in ("no slash", None) and differs("check-watches-of-anybody", server)
    assert client.check_watches(path, 3).err == (-5 if fails else -121)
    assert client.remove_watches(path, 3).err == -121


@pytest.mark.parametrize("kind", [1, 2, 3])
def test_a_relative_path_while_there_is_a_recursive_watch(
    server: Server, client: WireClient, top: str, kind: int
) -> None:
    # semantics.md 10.6
    client.add_watch(top, AddWatchMode.PERSISTENT_RECURSIVE)
    fails = differs("check-watches-of-anybody", server)
    assert client.check_watches("relative/path", kind).err == (-5 if fails else -121)
    assert client.check_watches("/absolute/path", kind).err == -121
    assert client.remove_watches("relative/path", kind).err == -121


def test_the_watches_of_others_do_not_count(server: Server, connect: Connect, top: str) -> None:
    watcher, other = connect(), connect()
    watcher.get(top, watch=True)
    assert other.check_watches(top, 2).err == (0 if differs("check-watches-of-anybody", server) else -121)
    assert other.remove_watches(top, 2).err == -121
    assert watcher.remove_watches(top, 2).err == 0
