"""Watches from request to event: delivery, permissions, setWatches, removal (semantics.md section 10)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from pyzk.protocol import records as r
from pyzk.protocol.constants import AddWatchMode, EventType
from pyzk.protocol.operations import OpCode

from ...support.requests import acl, create_op, delete_op, digest_id, set_op
from ...support.wire import Event, Reply, kinds
from ...support.world import Peer, World

CREATED, DELETED, CHANGED, CHILD = EventType.CREATED, EventType.DELETED, EventType.CHANGED, EventType.CHILD
PERSISTENT, RECURSIVE = AddWatchMode.PERSISTENT, AddWatchMode.PERSISTENT_RECURSIVE


# --- delivery ----------------------------------------------------------------------------------------------


def test_events_carry_the_zxid_of_their_transaction(client: Peer, other: Peer) -> None:
    client.exists("/a", watch=True)
    zxid = other.create("/a").zxid
    assert client.take_events() == [Event(zxid, CREATED, "/a")]


def test_the_bytes_of_an_event(client: Peer, other: Peer) -> None:
    client.exists("/b", watch=True)
    zxid = other.create("/b").zxid
    assert client.exchange() == bytes.fromhex(
        f"0000001e ffffffff {zxid:016x} 00000000 00000001 00000003 00000002 2f62"
    )


def test_own_events_precede_the_reply_that_caused_them(client: Peer) -> None:
    # wire.md section 7, rule 3
    client.exists("/a", watch=True)
    client.children("/", watch=True)
    client.send(OpCode.CREATE, r.CreateRequest("/a", b"", r.OPEN_ACL, 0), 99)
    zxid = client.world.zxid
    assert client.take_all() == [
        Event(zxid, CREATED, "/a"),
        Event(zxid, CHILD, "/"),
        Reply(99, zxid, 0, r.CreateResponse("/a").encode(), OpCode.CREATE),
    ]


def test_events_precede_every_later_reply_of_another_connection(client: Peer, other: Peer) -> None:
    client.exists("/a", watch=True)
    other.create("/a")
    client.send(OpCode.PING)
    assert [type(arrival) for arrival in client.take_all()] == [Event, Reply]


def test_a_one_shot_watch_fires_once(client: Peer, other: Peer) -> None:
    other.create("/a")
    client.get("/a", watch=True)
    client.get("/a", watch=True)
    other.set("/a", b"1")
    other.set("/a", b"2")
    assert kinds(client.take_events()) == [(CHANGED, "/a")]


def test_an_exists_watch_on_a_znode_that_is_there_is_a_data_watch(client: Peer, other: Peer) -> None:
    other.create("/a")
    client.exists("/a", watch=True)
    other.set("/a", b"")
    assert kinds(client.take_events()) == [(CHANGED, "/a")]


@pytest.mark.parametrize(
    "nothing",
    [
        lambda c: c.set_acl("/a", r.OPEN_ACL),
        lambda c: c.create("/a"),
        lambda c: c.set("/a", b"", 99),
        lambda c: c.delete("/a", 99),
        lambda c: c.get("/a"),
        lambda c: c.sync("/a"),
        lambda c: c.multi(set_op("/a", b"x"), delete_op("/none")),
    ],
    ids=["setACL", "failed create", "failed setData", "failed delete", "read", "sync", "failed multi"],
)
def test_what_fires_nothing(
    world: World, client: Peer, other: Peer, nothing: Callable[[Peer], Reply]
) -> None:
    other.create("/a")
    client.get("/a", watch=True)
    client.children("/", watch=True)
    client.add_watch("/", RECURSIVE)
    before = world.engine.watches.count()
    nothing(other)
    assert client.take_events() == []
    assert world.engine.watches.count() == before


def test_a_recursive_watch_on_the_root_sees_everything(client: Peer, other: Peer) -> None:
    client.add_watch("/", RECURSIVE)
    other.create("/a")
    other.create("/zookeeper/quota/x")
    other.set("/zookeeper/quota/x", b"")
    other.set("/", b"")
    other.delete("/a")
    assert kinds(client.take_events()) == [
        (CREATED, "/a"),
        (CREATED, "/zookeeper/quota/x"),
        (CHANGED, "/zookeeper/quota/x"),
        (CHANGED, "/"),
        (DELETED, "/a"),
    ]


def test_a_recursive_watch_does_not_see_names_that_merely_begin_alike(client: Peer, other: Peer) -> None:
    client.add_watch("/a", RECURSIVE)
    other.create("/ab")
    other.create("/a")
    other.create("/a/b")
    assert kinds(client.take_events()) == [(CREATED, "/a"), (CREATED, "/a/b")]


def test_a_multi_fires_op_by_op_with_one_zxid_and_one_shot_watches_once(client: Peer, other: Peer) -> None:
    client.exists("/a", watch=True)
    client.children("/", watch=True)
    client.add_watch("/p", PERSISTENT)
    zxid = other.multi(
        create_op("/a"), set_op("/a", b""), create_op("/p"), delete_op("/p"), delete_op("/a")
    ).zxid
    assert client.take_events() == [
        Event(zxid, CREATED, "/a"),
        Event(zxid, CHILD, "/"),
        Event(zxid, CREATED, "/p"),
        Event(zxid, DELETED, "/p"),
    ]


def test_the_end_of_a_session_fires_for_each_of_its_ephemerals(client: Peer, other: Peer) -> None:
    for path in ("/e1", "/e2"):
        other.create(path, flags=1)
        client.exists(path, watch=True)
    client.children("/", watch=True)
    zxid = other.close_session().zxid
    events = client.take_events()
    assert sorted(events, key=lambda event: (event.type, event.path)) == [
        Event(zxid, DELETED, "/e1"),
        Event(zxid, DELETED, "/e2"),
        Event(zxid, CHILD, "/"),
    ]


def test_watches_belong_to_the_connection_not_to_the_session(world: World, client: Peer, other: Peer) -> None:
    # semantics.md section 10.7
    client.exists("/a", watch=True)
    client.add_watch("/", RECURSIVE)
    again = client.reconnect()
    other.create("/a")
    assert again.take_events() == []
    assert world.engine.watches.count() == 0


# --- 10.4: the permission filter ---------------------------------------------------------------------------

ALLOWED, FORBIDDEN = r.OPEN_ACL, [acl(31 & ~1)]


@pytest.mark.parametrize(("entries", "told"), [(ALLOWED, True), (FORBIDDEN, False)], ids=["READ", "no READ"])
@pytest.mark.parametrize("event", [CREATED, DELETED, CHANGED], ids=lambda event: event.name)
def test_only_who_may_read_the_znode_is_told(
    world: World, client: Peer, other: Peer, event: EventType, entries: Sequence[r.ACL], told: bool
) -> None:
    if event != CREATED:
        other.create("/a")
    client.exists("/a", watch=True)
    if event == CREATED:
        other.create("/a", acl=entries)
    else:
        other.set_acl("/a", entries)
        if event == CHANGED:
            other.set("/a", b"x")
        else:
            other.delete("/a")
    assert kinds(client.take_events()) == [(event, "/a")] * told
    assert world.engine.watches.count() == 0, "the watch is consumed all the same"


@pytest.mark.parametrize("change", ["create", "delete"])
def test_children_changed_is_filtered_by_the_parents_acl(client: Peer, other: Peer, change: str) -> None:
    other.create("/p")
    if change == "delete":
        other.create("/p/x", acl=FORBIDDEN)
    client.children("/p", watch=True)
    client.add_watch("/", RECURSIVE)
    other.set_acl("/p", FORBIDDEN)
    if change == "create":
        other.create("/p/x")
    else:
        other.delete("/p/x")
    assert kinds(client.take_events()) == ([(CREATED, "/p/x")] if change == "create" else [])


def test_persistent_watches_outlive_events_that_were_withheld(client: Peer, other: Peer) -> None:
    client.add_watch("/", RECURSIVE)
    other.create("/hidden", acl=FORBIDDEN)
    other.create("/shown")
    assert kinds(client.take_events()) == [(CREATED, "/shown")]


def test_identities_count_as_they_are_at_the_event(client: Peer, other: Peer) -> None:
    other.create("/a", acl=[acl(1, "digest", digest_id("u:p")), acl(30)])
    client.add_watch("/a", PERSISTENT)
    other.set("/a", b"1")
    client.auth("digest", b"u:p")
    other.set("/a", b"2")
    assert len(client.take_events()) == 1


def test_a_deletion_in_a_multi_is_filtered_by_the_acl_the_znode_had(client: Peer, other: Peer) -> None:
    client.add_watch("/", RECURSIVE)
    other.multi(create_op("/a", acl=FORBIDDEN), delete_op("/a"), create_op("/b"), delete_op("/b"))
    assert kinds(client.take_events()) == [(CREATED, "/b"), (DELETED, "/b")]


# --- 10.1 and 10.6: addWatch, checkWatches, removeWatches --------------------------------------------------


@pytest.mark.parametrize("path", ["/none", "/closed", "", "x//", "/\0"])
@pytest.mark.parametrize("mode", [PERSISTENT, RECURSIVE])
def test_add_watch_accepts_any_path(client: Peer, other: Peer, path: str, mode: int) -> None:
    other.create("/closed", acl=FORBIDDEN)
    reply = client.add_watch(path, mode)
    assert (reply.err, reply.body) == (0, b"\0\0\0\0")


def test_a_watch_on_null_is_accepted_and_useless(world: World, client: Peer) -> None:
    # wire.md section 15
    assert client.add_watch(None, PERSISTENT).err == 0
    assert client.create("/a").err == 0
    assert client.take_events() == []


@pytest.mark.parametrize("mode", [-1, 2, 2**31 - 1])
def test_unknown_modes_and_types_are_refused(client: Peer, mode: int) -> None:
    # wire.md section 14
    assert client.add_watch("/a", mode).err == -5
    kind = mode if mode != 2 else 0
    assert client.check_watches("/a", kind).err == -5
    assert client.remove_watches("/a", kind).err == -5


def test_check_watches_looks_and_remove_watches_removes(client: Peer, other: Peer) -> None:
    client.exists("/a", watch=True)
    assert [client.check_watches("/a", kind).err for kind in (1, 2, 3, 4, 5)] == [-121, 0, 0, -121, -121]
    assert client.remove_watches("/a", 2).err == 0
    assert client.remove_watches("/a", 2).err == -121
    assert client.check_watches("/a", 3).err == -121
    other.create("/a")
    assert client.take_events() == []


def test_watches_of_other_connections_are_not_seen(client: Peer, other: Peer) -> None:
    other.add_watch("/a", PERSISTENT)
    assert client.check_watches("/a", 3).err == -121
    assert client.remove_watches("/a", 3).err == -121
    assert other.check_watches("/a", 4).err == 0
