"""setWatches and setWatches2: what was missed is told at once, the rest armed again (semantics.md 10.5)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pyzk.protocol import records as r
from pyzk.protocol.constants import EventType
from pyzk.protocol.operations import OpCode

from ...support.requests import acl
from ...support.wire import Event, Reply, kinds
from ...support.world import Peer, World

CREATED, DELETED, CHANGED, CHILD = EventType.CREATED, EventType.DELETED, EventType.CHANGED, EventType.CHILD
FORBIDDEN = [acl(31 & ~1)]


# the list, what has happened since: the events at once, and whether a watch is left
CATCH_UP = [
    ("data", "/none", [(DELETED, "/none")], False),
    ("data", "/same", [], True),
    ("data", "/set", [(CHANGED, "/set")], False),
    ("data", "/child-came", [], True),
    ("data", "/recreated", [(CHANGED, "/recreated")], False),
    ("exist", "/none", [], True),
    ("exist", "/same", [(CREATED, "/same")], False),
    ("exist", "/set", [(CREATED, "/set")], False),
    ("child", "/none", [(DELETED, "/none")], False),
    ("child", "/same", [], True),
    ("child", "/set", [], True),
    ("child", "/child-came", [(CHILD, "/child-came")], False),
    ("child", "/child-went", [(CHILD, "/child-went")], False),
    ("persistent", "/none", [], True),
    ("persistent", "/set", [], True),
    ("recursive", "/none", [], True),
    ("recursive", "/child-came", [], True),
]
LISTS = ["data", "exist", "child", "persistent", "recursive"]


def disturbed(client: Peer) -> int:
    """Leaves each of the paths above in its state; gives back the zxid before the changes."""
    for path in ("/same", "/set", "/child-came", "/child-went", "/recreated"):
        client.create(path)
    client.create("/child-went/x")
    since = client.ping().zxid
    client.set("/set", b"")
    client.create("/child-came/x")
    client.delete("/child-went/x")
    client.delete("/recreated")
    client.create("/recreated")
    return since


def ops_of(kind: str) -> list[OpCode]:
    """The operations that have such a list."""
    short = [OpCode.SET_WATCHES] if LISTS.index(kind) < 3 else []
    return [*short, OpCode.SET_WATCHES2]


@pytest.mark.parametrize(
    ("op", "kind", "path", "events", "left"),
    [pytest.param(op, *row, id=f"{op.name}-{row[0]}-{row[1]}") for row in CATCH_UP for op in ops_of(row[0])],
)
def test_set_watches_tells_at_once_or_registers(
    op: OpCode, kind: str, path: str, events: list[tuple[int, str]], left: bool
) -> None:
    world = World()
    client, other = world.connect(), world.connect()
    since = disturbed(other)
    lists = [[path] if name == kind else [] for name in LISTS[: 3 if op == OpCode.SET_WATCHES else 5]]
    reply = client.set_watches(since, *lists)
    assert (reply.xid, reply.err, reply.body, reply.zxid) == (-8, 0, b"", world.zxid)
    assert client.take_events() == [Event(-1, event, told) for event, told in events]
    assert world.engine.watches.paths_of(client.connection) == [path] * left


def test_catch_up_comes_in_the_order_of_the_lists_and_before_the_reply(client: Peer, other: Peer) -> None:
    since = disturbed(other)
    request = r.SetWatches(since, ("/set", "/none", "/same"), ("/same",), ("/child-came", "/set", "/none"))
    client.send(OpCode.SET_WATCHES, request, 5)
    arrivals = client.take_all()
    assert [type(arrival) for arrival in arrivals] == [Event] * 5 + [Reply]
    assert kinds([arrival for arrival in arrivals if isinstance(arrival, Event)]) == [
        (CHANGED, "/set"),
        (DELETED, "/none"),
        (CREATED, "/same"),
        (CHILD, "/child-came"),
        (DELETED, "/none"),
    ]
    assert arrivals[-1].zxid == other.ping().zxid
    assert isinstance(arrivals[-1], Reply)
    assert arrivals[-1].xid == 5, "echoed, not forced to -8"


def test_catch_up_is_not_filtered_by_acls(client: Peer, other: Peer) -> None:
    other.create("/a", acl=FORBIDDEN)
    client.set_watches(0, (), ("/a",), ())
    assert client.take_events() == [Event(-1, CREATED, "/a")]


@pytest.mark.parametrize("position", range(5))
def test_a_null_list_is_refused_when_its_turn_comes(world: World, client: Peer, position: int) -> None:
    lists: list[Sequence[str] | None] = [("/x",), ("/y",), (), ("/z",), ("/z",)]
    lists[position] = None
    assert client.set_watches(0, *lists).err == -5
    assert world.engine.watches.count() == (0, 0, 1, 1, 3)[position]
    assert kinds(client.take_events()) == ([(2, "/x")] if position else [])


@pytest.mark.parametrize("count", [-2, -7])
def test_lists_of_other_negative_counts_are_empty(client: Peer, count: int) -> None:
    # wire.md section 2
    body = bytes(8) + count.to_bytes(4, signed=True) + bytes(8)
    assert client.request(OpCode.SET_WATCHES, body).err == 0


def test_watches_set_again_fire_like_others(client: Peer, other: Peer) -> None:
    other.create("/a")
    client.set_watches(10**6, ("/a",), ("/b",), ("/a",), ("/p",), ("/r",))
    other.create("/a/x")
    other.set("/a", b"")
    other.set("/a", b"")
    other.create("/b")
    other.create("/p")
    other.create("/r")
    other.create("/r/x")
    assert kinds(client.take_events()) == [
        (CHILD, "/a"),
        (CHANGED, "/a"),
        (CREATED, "/b"),
        (CREATED, "/p"),
        (CREATED, "/r"),
        (CREATED, "/r/x"),
    ]
