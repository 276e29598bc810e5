"""What a server answers: handshakes, moved sessions, the order of replies (ensemble.md sections 1 to 3)."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.wire import hello
from pyzk.protocol import errors
from pyzk.protocol import records as r
from pyzk.protocol.framing import frame
from pyzk.protocol.operations import OpCode
from pyzk.server.config.settings import SettingsError
from pyzk.server.core.operations import reads
from pyzk.server.ensemble import serving
from pyzk.server.ensemble.errors import EnsembleError
from pyzk.server.ensemble.serving import MemberConnection
from pyzk.server.net.connection import Connection
from pyzk.server.net.gate import Gate
from pyzk.server.testing.tree_io import Loader

from ...support.ensemble import EnsembleWorld, Later
from ...support.requests import create_op, delete_op
from ...support.tree import contents
from ...support.wire import Reply
from ...support.world import EPOCH, Peer


@pytest.fixture
def world() -> EnsembleWorld:
    """Server 3 leads, server 4 observes."""
    return EnsembleWorld(3, 1)


def move(world: EnsembleWorld, peer: Peer, server: int, **handshake: object) -> Peer:
    shown = {"session_id": peer.session_id, "password": peer.password, **handshake}
    return world[server].connect(**shown)


def release(world: EnsembleWorld, *servers: int) -> None:
    world.catch_up([world.ensemble.members[server] for server in servers])


# --- handshakes --------------------------------------------------------------------------------------------


def test_session_ids_tell_the_server_that_was_asked(world: EnsembleWorld) -> None:
    ids = [world[server].connect().session_id for server in (1, 2, 3, 4, 1)]
    assert [session_id >> 56 for session_id in ids] == [1, 2, 3, 4, 1]
    assert len(set(ids)) == 5


def test_the_timeout_is_negotiated_at_each_attach(world: EnsembleWorld) -> None:
    peer = world[1].connect(timeout=2000)
    moved = move(world, peer, 2, timeout=4000)
    assert moved.handshake is not None
    assert moved.handshake.timeout == 4000
    assert world.ensemble.leader().sessions.get(peer.session_id).timeout == 4000  # type: ignore[union-attr]


@pytest.mark.parametrize("server", [1, 2, 3, 4])
def test_a_session_that_is_not_is_refused(world: EnsembleWorld, server: int) -> None:
    """1.9 and 2.4: the live connection elsewhere is untouched."""
    peer = world[1].connect()
    for shown in ({"password": b"x" * 16}, {"session_id": 5}, {"session_id": peer.session_id + 99}):
        other = move(world, peer, server, **shown)
        assert other.session_id == 0
        assert other.closed
    assert peer.exists("/").err == 0


def test_a_new_session_at_a_lagging_server_waits(world: EnsembleWorld) -> None:
    """1.7: it exists even if its client has gone."""
    world.lag(1)
    waiting, gone = world[1].open(), world[1].open()
    waiting.connect()
    gone.connect()
    gone.connection.receive_eof()
    assert waiting.handshake is None
    assert len(list(world.ensemble.leader().sessions)) == 2
    release(world, 1)
    waiting.feed()
    assert waiting.session_id >> 56 == 1
    assert len(list(world[1].engine.sessions)) == 2


def test_a_client_that_goes_on_at_a_lagging_server_waits_behind_the_log(world: EnsembleWorld) -> None:
    """1.8"""
    peer = world[2].connect()
    world.lag(1)
    world[3].connect().create("/x")
    moved = move(world, peer, 1)
    assert moved.handshake is None
    Later(moved).exists("/x")
    release(world, 1)
    (reply,) = moved.take_all()
    assert isinstance(reply, Reply)
    assert reply.err == 0


def test_requests_behind_a_handshake_that_waits_are_answered(world: EnsembleWorld) -> None:
    world.lag(1)
    peer = world[1].open()
    peer.connect()
    Later(peer).create("/x")
    Later(peer).exists("/x")
    release(world, 1)
    assert [reply.err for reply in peer.take_all()] == [0, 0]


def test_little_is_read_behind_a_handshake_that_waits(world: EnsembleWorld) -> None:
    world.lag(1)
    peer = world[1].open()
    peer.connect()
    connection = peer.connection
    assert connection.may_read
    world.freeze(1)
    assert not connection.may_read
    world.thaw(1)
    assert connection.may_read
    connection.receive_data(frame(bytes(65_531)), world.now)
    assert connection.may_read
    connection.receive_data(b"\0", world.now)
    assert not connection.may_read, "64 KiB"


@pytest.mark.parametrize("server", [1, 3])
@pytest.mark.parametrize(("read_only", "end"), [(None, b""), (False, b"\0"), (True, b"\0")])
def test_the_answer_to_a_handshake_says_read_only_to_who_knows_it(
    world: EnsembleWorld, server: int, read_only: bool | None, end: bytes
) -> None:
    answer = world[server].open().exchange(hello(10_000, read_only=read_only))
    assert len(answer) == 4 + 36 + len(end)
    assert answer[:4] == (36 + len(end)).to_bytes(4, "big")
    assert answer[40:] == end


# --- moved sessions ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("old", [1, 4])
def test_an_old_connection_at_a_follower_still_reads(world: EnsembleWorld, old: int) -> None:
    """2.2"""
    peer = world[old].connect()
    peer.create("/x")
    moved = move(world, peer, 2)
    assert peer.exists("/x", watch=True).err == 0
    assert peer.sync("/").err == 0
    assert peer.ping().err == 0
    moved.set("/x", b"1")
    assert len(peer.take_events()) == 1
    zxid = world.zxid(3)
    Later(peer).multi(delete_op("/x"))
    assert peer.closed
    assert world.zxid(3) == zxid + 1
    assert moved.exists("/x").err == 0


def test_an_old_connection_at_the_leader_is_closed_at_any_request(world: EnsembleWorld) -> None:
    for method in ("ping", "exists", "sync", "create"):
        peer = world[3].connect()
        move(world, peer, 1)
        zxid = world.zxid(3)
        getattr(Later(peer), method)(*([] if method == "ping" else ["/x"]))
        assert peer.closed
        assert world.zxid(3) == zxid + (method == "create"), "a write takes a zxid even so"
    assert world[1].connect().exists("/x").err == errors.NoNodeError.code


def test_an_old_connection_may_close_the_session(world: EnsembleWorld) -> None:
    """2.2, 2.5"""
    for old in (1, 3):
        peer = world[old].connect()
        moved = move(world, peer, 2)
        assert peer.close_session().err == 0
        assert moved.closed
        assert move(world, peer, 2).session_id == 0


def test_the_owner_is_who_attached_last(world: EnsembleWorld) -> None:
    """2.3"""
    first = world[1].connect()
    second = move(world, first, 2)
    third = move(world, first, 1)
    assert first.closed, "the same server closes the older connection at once"
    assert not second.closed
    assert third.create("/x").err == 0
    Later(second).create("/y")
    assert second.closed


def test_writes_of_a_session_that_is_over_are_dropped(world: EnsembleWorld) -> None:
    """2.8"""
    peer = world[1].connect()
    world.lag(1)
    world.ensemble.expire(peer.session_id, int(world.now * 1000))
    assert peer.exists("/").err == 0
    zxid = world.zxid(3)
    Later(peer).create("/x")
    assert world.zxid(3) == zxid
    assert not peer.closed
    release(world, 1)
    assert peer.closed
    assert world[1].engine.waiting == {}  # type: ignore[attr-defined]


def test_a_session_waits_for_its_own_write_on_its_next_connection_too(world: EnsembleWorld) -> None:
    """2.13"""
    peer = world[1].connect()
    world.hold("acks")
    Later(peer).create("/x")
    again = move(world, peer, 1)
    Later(again).exists("/x")
    assert again.take_all() == []
    world.release_acks()
    (reply,) = again.take_all()
    assert reply.err == 0  # type: ignore[union-attr]


def test_an_old_connection_at_the_leader_leaves_no_watch(world: EnsembleWorld) -> None:
    peer = world[3].connect()
    moved = move(world, peer, 1)
    Later(peer).exists("/x", watch=True)
    assert peer.closed
    moved.create("/x")
    assert peer.take_events() == []
    assert "/x" not in world[3].open().exchange(b"wchp").decode()


# --- too much at once --------------------------------------------------------------------------------------


def test_who_has_too_much_under_way_is_not_read_from(world: EnsembleWorld) -> None:
    """6.6"""
    world.ensemble.most_outstanding = 2
    engine: Any = world[1].engine
    busy, other = world[1].connect(), world[1].connect()
    world.lag(1)
    for count in (1, 2, 3):
        assert busy.connection.may_read
        Later(busy).create("/x")
        assert engine.outstanding == busy.connection.outstanding == count
    assert not busy.connection.may_read
    assert other.connection.may_read, "it has nothing under way"
    zxid = world.zxid(3)
    Later(busy).create("/y")
    assert world.zxid(3) == zxid, "it was not read"
    release(world, 1)
    busy.connection.proceed(world.now)
    assert engine.outstanding == 0
    assert busy.connection.may_read
    assert world.zxid(3) == zxid + 1


def test_what_waits_has_a_bound_in_bytes(world: EnsembleWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "MOST_BYTES", 1000)
    engine: Any = world[1].engine
    busy, other = world[1].connect(), world[1].connect()
    world.lag(1)
    Later(busy).create("/x", b"x" * 500)
    assert 500 < engine.waiting_bytes < 1000
    assert busy.connection.may_read
    Later(busy).exists("/" + "y" * 500)  # a read waits behind the write
    assert engine.waiting_bytes > 1000
    assert not busy.connection.may_read
    assert other.connection.may_read, "it has nothing under way"
    release(world, 1)
    assert engine.waiting_bytes == 0
    assert busy.connection.may_read
    world.lag(1)
    Later(busy).create("/z", b"x" * 2000)
    world.kill(1)
    assert engine.waiting_bytes == 0


def test_what_is_dropped_does_not_wait_any_more(world: EnsembleWorld) -> None:
    engine: Any = world[1].engine
    peer = world[1].connect()
    world.lag(1)
    Later(peer).create("/x")
    world.kill(1)
    assert (engine.outstanding, engine.waiting) == (0, {})


@pytest.mark.parametrize("server", [1, 3])
def test_a_frozen_server_answers_when_it_goes_on(world: EnsembleWorld, server: int) -> None:
    peer = world[server].connect()
    assert peer.exists("/").err == 0
    assert peer.connection.fast_session is not None
    world.freeze(server)
    assert peer.connection.fast_session is None, "nothing goes the short way"
    assert not peer.connection.may_read
    world.thaw(server)
    assert peer.exists("/").err == 0


# --- what is proposed --------------------------------------------------------------------------------------


def test_what_is_proposed_is_committed_when_a_server_joins_in_time(world: EnsembleWorld) -> None:
    peer = world[3].connect()
    world.kill(1)
    world.kill(2)
    Later(peer).create("/x")
    assert peer.take_all() == []
    world.start(2)
    (reply,) = peer.take_all()
    assert isinstance(reply, Reply)
    assert reply.err == 0
    assert world[2].connect().exists("/x").err == 0


def test_what_a_new_leader_does_not_have_is_proposed_no_more(world: EnsembleWorld) -> None:
    world.hold("proposals")
    Later(world[3].connect()).create("/x")
    assert world.ensemble.log.proposed
    world.kill(3)
    world.pass_time(1)
    assert world.ensemble.log.proposed == []
    world.start(3)
    world.elect(3)
    assert world[3].connect().exists("/x").err == errors.NoNodeError.code


def test_nothing_is_held_without_a_leader(world: EnsembleWorld) -> None:
    world.kill(3)
    for what in ("proposals", "acks"):
        with pytest.raises(EnsembleError, match="no server leads"):
            world.hold(what)
    assert world.ensemble.holding is None


def test_the_newest_tree_is_that_of_who_has_applied_most(world: EnsembleWorld) -> None:
    for number in (1, 3, 4):
        world.lag(number)
    world[2].connect()
    assert world.ensemble.newest_tree() is world[2].engine.tree


# --- order, errors, sync -----------------------------------------------------------------------------------


def test_refused_writes_wait_for_the_log_too(world: EnsembleWorld) -> None:
    peer = world[1].connect()
    world.lag(1)
    Later(peer).delete("/none")
    Later(peer).multi(create_op("/a"), delete_op("/none"))
    assert peer.take_all() == []
    release(world, 1)
    refused, multi = peer.take_all()
    assert isinstance(refused, Reply)
    assert isinstance(multi, Reply)
    assert (refused.err, refused.zxid) == (errors.NoNodeError.code, world.zxid(3) - 1)
    assert [result.err for result in multi.results] == [0, errors.NoNodeError.code]


@pytest.mark.parametrize("server", [1, 3])
def test_a_write_that_cannot_be_decoded_is_answered(world: EnsembleWorld, server: int) -> None:
    """6.7: the real ensemble never answers it, nor any write after it."""
    peer = world[server].connect()
    zxid = world.zxid(3)
    reply = peer.request(OpCode.CREATE, b"\0\0")
    assert (reply.err, reply.zxid) == (errors.MarshallingError.code, zxid)
    assert peer.create("/x").zxid == zxid + 1


@pytest.mark.parametrize("server", [1, 3, 4])
def test_the_path_of_a_sync_is_echoed_and_not_checked(world: EnsembleWorld, server: int) -> None:
    """3.7"""
    peer = world[server].connect()
    zxid = world.zxid(server)
    for path in (None, "", "x", "/none"):
        reply = peer.sync(path)
        assert (reply.err, reply.zxid, reply.record.path) == (0, zxid, path)
    assert peer.request(OpCode.SYNC, b"\0").err == errors.MarshallingError.code
    assert world.zxid(3) == zxid


def test_a_stat_is_that_of_the_answering_server(world: EnsembleWorld) -> None:
    """The reply to a write shows the znode as it was right behind the write, however late it comes."""
    peer, other = world[1].connect(), world[3].connect()
    other.create("/x", b"")
    world.lag(1)
    Later(peer).set("/x", b"12")
    other.set("/x", b"123")
    release(world, 1)
    (reply,) = peer.take_all()
    assert isinstance(reply, Reply)
    stat = reply.record.stat
    assert (stat.version, stat.dataLength, stat.mzxid) == (1, 2, reply.zxid)
    assert peer.get("/x").record.stat.version == 2


def test_a_server_stops_reading_who_has_too_much_under_way(world: EnsembleWorld) -> None:
    """6.6"""
    peer, other = world[1].connect(), world[1].connect()
    peer.create("/x")
    world.lag(1)
    for _ in range(1500):
        Later(peer).set("/x", b"")
    assert not peer.connection.may_read
    assert other.exists("/x").err == 0
    assert world[1].engine.outstanding < 600  # type: ignore[attr-defined]
    release(world, 1)
    assert [reply.err for reply in peer.take_all()] == [0] * 1500  # type: ignore[union-attr]


def test_time_of_a_container_and_of_quotas_is_the_leaders(world: EnsembleWorld) -> None:
    peer = world[2].connect()
    for path in ("/zookeeper/quota/q", "/q"):
        peer.create(path)
    peer.create("/zookeeper/quota/q/zookeeper_limits", b"count=5,bytes=-1")
    peer.create("/zookeeper/quota/q/zookeeper_stats", b"count=0,bytes=0")
    peer.create("/q/x", b"data")
    trees = [contents(server.engine.tree) for server in world.servers.values()]
    assert all(tree == trees[0] for tree in trees)


# --- returning ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("writes", [10, 1500])
def test_a_server_that_returns_has_what_it_missed(world: EnsembleWorld, writes: int) -> None:
    """By the log, or with a copy of a tree."""
    peer = world[3].connect()
    peer.create("/e", flags=1)
    world.kill(1)
    for number in range(writes):
        peer.create(f"/{number}")
    world.start(1)
    assert contents(world[1].engine.tree) == contents(world[3].engine.tree)
    assert (1 in world.ensemble.copied) is (writes > 1000)
    assert [session.id for session in world[1].engine.sessions] == [peer.session_id]
    watching = world[1].connect()
    watching.exists("/e", watch=True)
    peer.close_session()
    assert [event.path for event in watching.take_events()] == ["/e"]
    assert isinstance(peer, Peer)


def test_a_restored_snapshot_goes_through_the_log(world: EnsembleWorld) -> None:
    from pyzk.server.testing.snapshots import Snapshot

    peer, watching = world[1].connect(), world[2].connect()
    peer.create("/a", b"old")
    snapshot = Snapshot.of(world[1].engine)
    peer.set("/a", b"new")
    watching.get("/a", watch=True)
    snapshot.restore(world.ensemble.leader())
    assert len(watching.take_events()) == 1
    assert {server.engine.tree.nodes["/a"].data for server in world.servers.values()} == {b"old"}
    assert peer.set("/a", b"newer").err == 0


# --- numbers above 127 --------------------------------------------------------------------------------------


def test_log_lines_have_the_ids_that_dump_has(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "pyzk.server")
    world = EnsembleWorld(numbers=[1, 2, 200])
    peer = world[200].connect()
    name = f"0x{peer.session_id + 2**64:x}"
    assert repr(next(iter(world[200].service.connections))).endswith(f" session={name}>")
    assert name in world[1].open().exchange(b"dump").decode()
    moved = move(world, peer, 1)
    assert moved.close_session().err == 0
    assert world[1].connect(session_id=peer.session_id, password=peer.password).session_id == 0
    assert f"session {name} " in caplog.text
    assert "0x-" not in caplog.text


def test_sessions_of_a_server_above_127_have_negative_ids() -> None:
    world = EnsembleWorld(numbers=[1, 2, 300, 200, 254])
    peers = {number: world[number].connect() for number in world.servers}
    ids = {number: peer.session_id for number, peer in peers.items()}
    assert [session_id >> 56 & 0xFF for session_id in ids.values()] == [1, 2, 44, 200, 254]
    assert [session_id > 0 for session_id in ids.values()] == [True, True, True, False, False]
    for number in (200, 254):
        peer = peers[number]
        assert peer.create(f"/{number}", flags=1).err == 0
        assert peer.create(f"/{number}/x").err == errors.NoChildrenForEphemeralsError.code
        assert peer.exists(f"/{number}").record.stat.ephemeralOwner == ids[number]
        moved = move(world, peer, 1)
        assert moved.ephemerals().record.ephemerals == (f"/{number}",)
        assert f"0x{ids[number] + 2**64:x}:\n\t/{number}\n" in world[2].open().exchange(b"dump").decode()
        assert moved.close_session().err == 0
        assert world[2].engine.tree.find(f"/{number}") is None
    ttl = world[1].connect()
    assert ttl.create("/c", op=19).err == 0
    assert world[1].engine.tree.containers == {"/c": None}
    assert ttl.exists("/c").record.stat.ephemeralOwner == 0


def test_a_long_read_behind_a_write_is_answered_whole(
    world: EnsembleWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes several turns where it waits for nothing."""
    monkeypatch.setattr(reads, "_STEP", 2)
    monkeypatch.setattr(MemberConnection, "turn_is_over", lambda self, ahead=0.0: True)
    peer = world[1].connect()
    paths = [f"/x{n}" for n in range(9)]
    for path in paths:
        peer.create(path, flags=1)
    world.lag(1)
    Later(peer).create("/last")
    Later(peer).ephemerals()
    Later(peer).exists("/last")
    release(world, 1)
    _, found, last = peer.take_all()
    assert isinstance(found, Reply)
    assert isinstance(last, Reply)
    assert sorted(found.record.ephemerals) == paths
    assert last.err == 0


def test_an_expiry_has_the_time_at_which_it_was_asked_for(world: EnsembleWorld) -> None:
    """The caller's clock is ahead of what the ensemble has heard of."""
    peer = world[1].connect()
    before = world.txns[1][-1].time
    world.ensemble.expire(peer.session_id, world.ensemble.now + 1234)
    assert world.txns[1][-1].time == before + 1234


def test_only_a_single_server_emulates_a_release() -> None:
    with pytest.raises(SettingsError, match="emulate is for a single server") as caught:
        EnsembleWorld(3, emulate="3.8.0")
    assert caught.value.fields == ("emulate",)


def test_a_test_controls_no_ensemble_until_it_does(world: EnsembleWorld) -> None:
    service = world[1].service
    assert not service.is_controlled
    world[2].service.is_controlled = True
    assert service.is_controlled, "all servers are one test's"


def test_what_nobodys_connection_asks_for_is_sent_at_the_time_that_it_says(world: EnsembleWorld) -> None:
    """A test loads a tree: its clock is ahead of what the ensemble has heard of."""
    world.lag(1, delay=1000)
    frame = bytes(8) + r.CreateRequest("/x", b"", r.OPEN_ACL, 0).encode()
    later = world.ensemble.now + 4321
    world.ensemble.leader().handle(Loader(0), OpCode.CREATE, frame, later)
    assert world.ensemble.members[1].takes_at == later + 1000


def test_ids_of_sessions_are_made_of_the_time_at_which_a_server_starts() -> None:
    """So a server that starts later gives no id again."""
    world = EnsembleWorld(3)
    session_id = world[1].connect().session_id
    assert session_id & 0xFFFF == 0, "the first"
    assert session_id >> 16 & (1 << 40) - 1 == int(EPOCH * 1000) & (1 << 40) - 1


def test_what_waits_for_the_log_is_answered_at_the_time_at_which_it_comes(world: EnsembleWorld) -> None:
    """A gate, which keeps the timeline, and ``cons`` are told the server's time."""
    told: list[float] = []

    class Times(Gate):
        def answered(
            self, connection: Connection, op: int, frame: bytes, result: tuple[int, int, bytes], now: float
        ) -> None:
            told.append(now)
            super().answered(connection, op, frame, result, now)

    peer = world[1].connect()
    world[1].service.gate = Times()
    world.lag(1)
    Later(peer).create("/x")
    late = world[1].open()
    late.connect()
    world.pass_time(1.5)
    release(world, 1)
    late.feed()
    assert told == [world.now]
    assert late.connection.stats.last[4] == world.now
    assert [reply.err for reply in peer.take_all()] == [0]  # type: ignore[union-attr]
