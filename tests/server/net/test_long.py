"""Work that takes long is done in steps: by a stopwatch that the test holds, turn after turn."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from benchmarks import wire
from pyzk.protocol import records as r
from pyzk.protocol.constants import AddWatchMode, EventType
from pyzk.protocol.multi import encode_multi
from pyzk.protocol.operations import OpCode
from pyzk.server.monitoring.four_letter_words import in_pieces
from pyzk.server.net.gate import Gate
from pyzk.server.net.service import SLICE

from ...support.invariants import check_world_invariants
from ...support.requests import acl, children_op, create_op, delete_op, get_op, set_op
from ...support.wire import kinds
from ...support.world import Peer, World

PING = wire.request(OpCode.PING, xid=-2)
PONG = 20
"""The bytes of a ping's reply."""
MANY = 5000
"""More than fits into one step of anything."""


def leaping() -> Callable[[], float]:
    """A stopwatch by which each turn is over as soon as somebody looks."""
    return itertools.count(1.0, 10 * SLICE).__next__


@pytest.fixture
def world() -> World:
    return World(max_client_connections=0)


@pytest.fixture
def slow(world: World) -> World:
    """Whatever is asked takes long there."""
    world.service.stopwatch = leaping()
    return world


def fill(world: World, parent: str, count: int) -> None:
    client = world.connect()
    client.create(parent)
    for start in range(0, count, 1000):
        last = min(count, start + 1000)
        client.multi(*[create_op(f"{parent}/n{i:06}") for i in range(start, last)])


def turns(peer: Peer, data: bytes, between: Callable[[], object] = lambda: None) -> list[bytes]:
    """What is answered turn by turn; something may happen after each of them."""
    connection, now = peer.connection, peer.world.now
    output = [connection.exchange(data, now) + connection.data_to_send()]
    while connection.has_work:
        between()
        connection.proceed(now)
        output.append(connection.data_to_send())
    return output


def ask(peer: Peer, op: int, request: r.Record | bytes, between: Callable[[], object] = lambda: None) -> int:
    """Have one request handled, and its reply kept for the peer; gives back the number of turns."""
    found = turns(peer, peer.encode(op, request), between)
    peer.receive_data(b"".join(found))
    peer.feed()
    return len(found)


# --- many requests -----------------------------------------------------------------------------------------


def slow_requests(world: World) -> dict[str, bytes]:
    """Requests that may take long for reasons that neither they nor their replies show."""
    watches = r.SetWatches(world.zxid, [], [], [])
    return {
        "descendants": wire.request(OpCode.GET_ALL_CHILDREN_NUMBER, count_request("/"), 1),
        "ephemerals": wire.request(OpCode.GET_EPHEMERALS, r.GetEphemeralsRequest("/none"), 1),
        "multi": wire.request(OpCode.MULTI, encode_multi([set_op("/", b"")]), 1),
        "reads": wire.request(OpCode.MULTI_READ, encode_multi([get_op("/none")]), 1),
        "watches": wire.request(OpCode.SET_WATCHES, watches, 1),
        "set": wire.request(OpCode.SET_DATA, r.SetDataRequest("/", b"", -1), 1),
    }


@pytest.mark.parametrize("kind", ["descendants", "ephemerals", "multi", "reads", "watches", "set"])
def test_a_turn_ends_when_its_time_is_up(world: World, kind: str) -> None:
    client = world.connect()
    world.connect().exists("/unrelated", watch=True)
    request = slow_requests(world)[kind]
    size = len(client.exchange(request))
    world.service.stopwatch = itertools.count(0.0, SLICE / 4).__next__  # a quarter of it for each request
    replies = [len(output) // size for output in turns(client, request * 30)]
    assert sum(replies) == 30
    assert max(replies) <= 5


@pytest.mark.parametrize("kind", ["descendants", "ephemerals", "multi", "reads", "watches", "set"])
def test_a_turn_handles_at_least_one_request_however_long_that_takes(slow: World, kind: str) -> None:
    client = slow.connect()
    slow.connect().exists("/unrelated", watch=True)
    request = slow_requests(slow)[kind]
    size = len(client.exchange(request))
    assert [len(output) // size for output in turns(client, request * 30)] == [1] * 30


@pytest.mark.parametrize("kind", ["ping", "set"])
def test_small_requests_need_not_look_at_the_time(slow: World, kind: str) -> None:
    client = slow.connect()
    request = PING if kind == "ping" else slow_requests(slow)[kind]
    size = len(client.exchange(request))
    assert [len(output) // size for output in turns(client, request * 40)] == [32, 8]


def test_without_a_stopwatch_a_turn_is_bounded_by_its_requests_alone(world: World) -> None:
    assert [len(output) // PONG for output in turns(world.connect(), PING * 70)] == [32, 32, 6]


# --- one long request --------------------------------------------------------------------------------------


def count_request(path: str) -> r.Record:
    return r.GetAllChildrenNumberRequest(path)


def test_descendants_are_counted_in_steps(slow: World) -> None:
    fill(slow, "/big", MANY)
    fill(slow, "/big/n000007", 20)
    client, other = slow.connect(), slow.connect()
    served = []
    count = ask(
        client, OpCode.GET_ALL_CHILDREN_NUMBER, count_request("/big"), lambda: served.append(other.get("/"))
    )
    assert count > 3
    assert len(served) == count - 1
    assert client.reply().record.totalNumber == MANY + 20


def test_descendants_that_go_and_come_while_they_are_counted(slow: World) -> None:
    fill(slow, "/big", MANY)
    client, other, numbers = slow.connect(), slow.connect(), itertools.count()

    def change() -> None:
        number = next(numbers)
        assert other.delete(f"/big/n{MANY - 1 - number:06}").err == 0
        assert other.create(f"/big/n{number:06}/deeper").err == 0

    ask(client, OpCode.GET_ALL_CHILDREN_NUMBER, count_request("/big"), change)
    changes = next(numbers)
    assert changes > 2
    assert MANY - changes <= client.reply().record.totalNumber <= MANY + changes
    ask(client, OpCode.GET_ALL_CHILDREN_NUMBER, count_request("/big"))
    assert client.reply().record.totalNumber == MANY


def test_a_deep_tree_is_counted_in_steps(slow: World) -> None:
    client, path = slow.connect(), ""
    for _ in range(3000):
        path += "/a"
        client.create(path)
    assert ask(client, OpCode.GET_ALL_CHILDREN_NUMBER, count_request("/a")) > 1
    assert client.reply().record.totalNumber == 2999


@pytest.mark.parametrize("prefix", ["/", "", "/big/n0000", "/nothing"])
def test_ephemerals_are_listed_in_steps(slow: World, prefix: str) -> None:
    client = slow.connect()
    client.create("/big")
    for start in range(0, MANY, 1000):
        client.multi(*[create_op(f"/big/n{i:06}", flags=1) for i in range(start, start + 1000)])
    assert ask(client, OpCode.GET_EPHEMERALS, r.GetEphemeralsRequest(prefix)) > 3
    expected = [path for path in slow.tree.ephemerals[client.session_id] if path.startswith(prefix)]
    assert list(client.reply().record.ephemerals) == expected


def test_a_multi_read_in_steps_answers_as_in_one_piece(world: World) -> None:
    fill(world, "/big", 100)
    client = world.connect()
    client.create("/secret", acl=[acl(1, "ip", "1.2.3.4")])
    body = encode_multi(
        [get_op("/big/n000001"), children_op("/big"), get_op("/none"), get_op("/secret")] * 50
    )
    whole = client.request(OpCode.MULTI_READ, body)
    world.service.stopwatch = leaping()
    assert ask(client, OpCode.MULTI_READ, body) > 3
    in_steps = client.reply()
    assert (in_steps.err, in_steps.body, in_steps.zxid) == (0, whole.body, whole.zxid)
    assert len(whole.results) == 200


def test_a_large_reply_is_put_together_in_a_turn_of_its_own(world: World) -> None:
    """Where many ask for that at once, others are served between them."""
    client = world.connect()
    client.create("/large", bytes(500_000))
    world.service.slice = 0.0001
    ops = [get_op("/large")] * 20
    found = turns(client, client.encode(OpCode.MULTI_READ, encode_multi(ops)))
    assert [len(output) > 10_000_000 for output in found] == [False, True]


def test_many_quotas_are_told_in_steps(slow: World) -> None:
    quotas = slow.tree.quotas
    client = slow.connect()
    for number in range(500):
        client.create(f"/zookeeper/quota/q{number}")
        client.create(f"/zookeeper/quota/q{number}/zookeeper_limits", b"count=10")
    asked = turns(slow.open(), b"mntr", lambda: quotas.prefixes.pop("/q499", None))
    assert len(asked) > 3
    assert b"".join(asked).count(b"quota_count_limit_per_namespace\t10\n") == 499


def test_the_reply_to_a_long_request_carries_the_zxid_of_its_end(slow: World) -> None:
    fill(slow, "/big", MANY)
    client, other = slow.connect(), slow.connect()
    before = slow.zxid
    ask(client, OpCode.GET_ALL_CHILDREN_NUMBER, count_request("/big"), lambda: other.set("/", b""))
    assert client.reply().zxid == slow.zxid > before


def test_what_comes_behind_a_long_request_waits_for_it(slow: World) -> None:
    fill(slow, "/big", MANY)
    client = slow.connect()
    data = [
        client.encode(OpCode.GET_ALL_CHILDREN_NUMBER, count_request("/big")),
        client.encode(OpCode.CREATE, r.CreateRequest("/big/last", b"", r.OPEN_ACL, 0)),
        client.encode(OpCode.GET_ALL_CHILDREN_NUMBER, count_request("/big")),
    ]
    late = client.encode(OpCode.SYNC, r.SyncRequest("/late"))
    connection, now = client.connection, slow.now
    connection.receive_data(b"".join(data), now)
    assert (connection.has_work, connection.may_read, connection.outstanding) == (True, False, 3)
    connection.exchange(late, now)
    assert "/big/last" not in slow.tree.nodes
    client.feed()
    replies = [client.reply() for _ in range(4)]
    assert [reply.xid for reply in replies] == sorted(reply.xid for reply in replies)
    assert [replies[0].record.totalNumber, replies[2].record.totalNumber] == [MANY, MANY + 1]


def test_a_long_request_keeps_its_session_alive_and_is_one_request(slow: World) -> None:
    fill(slow, "/big", MANY)
    client = slow.connect(timeout=4000)
    received = client.connection.stats.received

    def pause() -> None:
        slow.pass_time(3)
        client.connection.proceed(slow.now)

    connection = client.connection
    connection.exchange(client.encode(OpCode.GET_ALL_CHILDREN_NUMBER, count_request("/big")), slow.now)
    while connection.has_work:
        pause()
    client.feed()
    assert client.reply().record.totalNumber == MANY
    assert connection.stats.received == received + 1
    assert connection.stats.latency.maximum > 3000


def test_a_long_request_that_was_admitted_is_not_refused_half_way() -> None:
    world = World(throttled_op_wait_time=1000)
    fill(world, "/big", MANY)
    world.service.stopwatch = leaping()
    client = world.connect()
    connection = client.connection
    connection.receive_data(client.encode(OpCode.GET_ALL_CHILDREN_NUMBER, count_request("/big")), world.now)
    while connection.has_work:
        world.pass_time(2)
        connection.proceed(world.now)
    client.feed()
    assert client.reply().record.totalNumber == MANY


@pytest.mark.parametrize("how", ["eof", "abort", "expire", "move"])
def test_a_connection_that_ends_in_the_midst_of_a_long_request(slow: World, how: str) -> None:
    client = slow.connect()
    paths = [f"/n{i}" for i in range(MANY)]
    request = r.SetWatches2(0, [], paths, [], paths, paths)
    client.connection.receive_data(client.encode(OpCode.SET_WATCHES2, request), slow.now)
    assert client.connection.has_work
    assert slow.engine.watches.count()
    if how == "eof":
        client.connection.receive_eof()
    elif how == "abort":
        client.connection.abort("no reason")
    elif how == "expire":
        slow.pass_time(100)
    else:
        client.reconnect()
    connection = client.connection
    assert (connection.has_work, connection.data_to_send()) == (False, b"")
    connection.proceed(slow.now)
    assert slow.engine.watches.count() == 0
    check_world_invariants(slow)


def test_a_long_request_of_a_connection_that_is_frozen_goes_on_once_it_is_thawed(slow: World) -> None:
    fill(slow, "/big", MANY)
    client = slow.connect()
    connection = client.connection
    connection.receive_data(client.encode(OpCode.GET_ALL_CHILDREN_NUMBER, count_request("/big")), slow.now)
    connection.freeze()
    assert not connection.has_work
    connection.thaw(slow.now)
    client.feed()
    assert client.reply().record.totalNumber == MANY


def test_a_gate_sees_whole_replies(slow: World) -> None:
    fill(slow, "/big", MANY)
    client = slow.connect()
    seen = []

    class Watching(Gate):
        def finished(
            self, connection: Any, op: int, frame: bytes, result: tuple[int, int, bytes], now: float
        ) -> None:
            seen.append(result)

    slow.service.gate = Watching()
    assert ask(client, OpCode.GET_ALL_CHILDREN_NUMBER, count_request("/big")) > 1
    assert seen == [(slow.zxid, 0, MANY.to_bytes(4))]


def test_an_internal_failure_in_a_late_step_is_the_error_of_the_request(
    slow: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = slow.connect()
    paths = [f"/n{i}" for i in range(1000)]
    client.connection.receive_data(
        client.encode(OpCode.SET_WATCHES, r.SetWatches(0, [], paths, []), xid=-8), slow.now
    )
    failed = []
    monkeypatch.setattr(slow.engine.watches, "_add", None)
    monkeypatch.setattr(
        "pyzk.server.core.failures.logger.exception",
        lambda *arguments, **options: failed.append(arguments),
    )
    client.feed()
    assert client.reply().err == -5
    assert not client.closed
    assert len(failed) == 1


# --- setWatches --------------------------------------------------------------------------------------------


def test_watches_are_armed_in_steps_and_miss_nothing_in_between(slow: World) -> None:
    fill(slow, "/big", 200)
    client, other = slow.connect(), slow.connect()
    since = slow.zxid
    paths = [f"/big/n{i:06}" for i in range(200)]
    numbers = itertools.count()

    def change() -> None:  # one at the front, which is armed, and one at the end, which is not
        number = next(numbers)
        other.set(paths[number], b"changed")
        other.set(paths[-1 - number], b"changed")

    request = r.SetWatches(since, paths, [], [])
    connection = client.connection
    output = turns(client, client.encode(OpCode.SET_WATCHES, request, xid=-8), change)
    count = next(numbers)
    assert len(output) > 3
    client.receive_data(b"".join(output))
    client.feed()
    assert client.reply().err == 0
    told = [path for _, path in kinds(client.take_events())]
    assert sorted(told) == sorted(paths[:count] + paths[-count:])
    armed = set(slow.engine.watches.paths_of(connection))
    assert armed == set(paths) - set(told)


@pytest.mark.parametrize("stopwatch", [leaping(), float], ids=["in steps", "in one piece"])
def test_catch_up_events_that_end_the_connection_leave_no_watch_behind(
    stopwatch: Callable[[], float],
) -> None:
    world = World(max_unsent=4000)
    world.service.stopwatch = stopwatch
    client = world.connect()
    gone = [f"/{'n' * 100}{i}" for i in range(100)]
    request = r.SetWatches2(0, gone, ["/x"], ["/y"], ["/z"], ["/", "/z"])
    turns(client, client.encode(OpCode.SET_WATCHES2, request))
    assert client.closed
    assert world.engine.watches.count() == 0
    assert not world.engine.watches.watchers
    check_world_invariants(world)


# --- the end of a connection with many watches -------------------------------------------------------------


def watch_many(peer: Peer, count: int) -> None:
    paths = [f"/n{i}" for i in range(count)]
    peer.set_watches(peer.world.zxid, [], paths, [], paths, ["/"])


def test_many_watches_of_a_connection_that_ends_are_taken_out_in_steps(world: World) -> None:
    client, other = world.connect(), world.connect()
    watch_many(client, MANY)
    other.exists("/n7", watch=True)
    watches = world.engine.watches
    before = watches.count()
    client.connection.receive_eof()
    assert watches.count() > before - 3000, "no more than a step is done at once"
    assert watches.watchers.keys() == {other.connection}
    assert [told for _, told in watches.data_by_path() if told] == [[other.connection]]
    assert world.open().exchange(b"wchs") == b"1 connections watching 1 paths\nTotal watches:1\n"
    assert world.open().exchange(b"wchp").splitlines()[:-1] == [b"/n7", b"\t0x%x" % other.session_id]
    slices = in_pieces("" if told else "seen" for _, told in watches.data_by_path())
    assert len(list(slices)) > 1, "it takes time to pass what is left of those that are gone"
    assert world.service.next_deadline() <= world.now
    other.create("/n7")
    other.create("/n8")
    assert kinds(other.take_events()) == [(EventType.CREATED, "/n7")]
    assert world.engine.stats.watchers[EventType.CREATED].total == 1, "who has gone is not counted as told"
    world.service.stopwatch = leaping()
    steps = 0
    while world.service.next_deadline() <= world.now:
        left = watches.count()
        world.service.advance(world.now, within=0)
        assert left - 3000 < watches.count() < left
        steps += 1
    assert steps >= 5
    assert watches.count() == 0
    assert vars(watches) == vars(type(watches)())


def test_all_watches_are_taken_out_at_once_where_they_are_few(world: World) -> None:
    client = world.connect()
    watch_many(client, 100)
    client.connection.receive_eof()
    assert world.engine.watches.count() == 0


# --- what falls due ----------------------------------------------------------------------------------------


def test_sessions_expire_in_steps_and_those_heard_in_between_live(slow: World) -> None:
    clients = [slow.connect(timeout=4000) for _ in range(2500)]
    for client in clients[::100]:
        client.create(f"/e{client.session_id}", flags=1)
    slow.now += 20
    alive = len(slow.engine.sessions)
    for step in range(1, 6):
        slow.service.advance(slow.now, within=0)
        assert len(slow.engine.sessions) == alive - step, "one by one"
        assert slow.service.next_deadline() <= slow.now
    saved = next(client for client in reversed(clients) if not client.closed)
    saved.exchange(PING)
    slow.service.advance(slow.now)
    assert [session.id for session in slow.engine.sessions] == [saved.session_id]
    assert saved.children("/").record.children == tuple(slow.tree.nodes["/"].children or ())
    check_world_invariants(slow)


# --- four-letter words -------------------------------------------------------------------------------------

LONG = [b"wchp", b"wchc", b"wchs", b"dump", b"cons", b"stat"]


@pytest.fixture
def crowd(world: World) -> World:
    for i in range(300):
        client = world.connect()
        client.create(f"/e{i}", flags=1)
        for path in ("/", f"/{'x' * 100}{i}", "/common"):
            client.exists(path, watch=True)
        client.children("/", watch=True)
    return world


@pytest.mark.parametrize("word", LONG)
def test_a_long_answer_is_given_in_steps(crowd: World, word: bytes) -> None:
    whole = crowd.open().exchange(word)
    if word == b"stat":  # which counts what was asked before
        whole = whole.replace(b"Received: 2102", b"Received: 2103")
    crowd.service.stopwatch = leaping()
    asker, other = crowd.open(), crowd.connect()
    other.connection.abort("it counts")
    output = turns(asker, word)
    assert len(output) > 1
    if word not in (b"stat", b"cons", b"dump"):
        assert b"".join(output) == whole
    assert len(b"".join(output).splitlines()) >= len(whole.splitlines()) - 1
    assert asker.closed
    assert not asker.connection.aborted


@pytest.mark.parametrize("word", LONG)
def test_whatever_goes_and_comes_while_an_answer_is_given(crowd: World, word: bytes) -> None:
    crowd.service.stopwatch = leaping()
    writer, numbers = crowd.connect(), itertools.count()

    def change() -> None:
        number = next(numbers)
        writer.create(f"/{'x' * 100}{299 - number}")
        writer.set("/", b"")
        next(iter(crowd.service.connections)).abort("no reason")
        crowd.connect().add_watch(f"/late{number}", AddWatchMode.PERSISTENT_RECURSIVE)
        session = next(iter(crowd.engine.sessions))
        crowd.engine.expire(session, crowd.service.at(crowd.now))

    asker = crowd.open()
    assert len(turns(asker, word, change)) > 1
    assert asker.closed


def test_a_long_answer_waits_until_what_was_said_is_taken(crowd: World) -> None:
    for i in range(40):
        client = crowd.connect()
        client.set_watches(crowd.zxid, [], [f"/{'y' * 200}{i}-{k}" for k in range(100)], [])
    asker = crowd.open()
    connection = asker.connection
    connection.receive_data(b"wchp", crowd.now)
    for _ in range(10):
        connection.proceed(crowd.now)
    assert (connection.has_work, connection.may_read, connection.is_full) == (True, False, True)
    pieces = [connection.data_to_send()]
    while connection.has_work:
        connection.proceed(crowd.now)
        pieces.append(connection.data_to_send())
    assert max(map(len, pieces)) < 400_000 < sum(map(len, pieces))


ODD = {
    "/a\nb": "/a\\nb",
    "/a\x1b[2Jb\r": "/a\\x1b[2Jb\\r",
    "/\u202eevil\u200b\u2028": "/\\u202eevil\\u200b\\u2028",
    "/\x9b1m": "/\\x9b1m",
    "/gr\u00fc\u00df dich": "/gr\u00fc\u00df dich",
}


@pytest.mark.parametrize("word", [b"wchp", b"wchc"])
def test_a_path_is_one_line_that_steers_no_terminal(world: World, word: bytes) -> None:
    client = world.connect()
    for path in ODD:
        client.add_watch(path, AddWatchMode.PERSISTENT)
    lines = world.open().exchange(word).decode().split("\n")
    assert {line.strip("\t") for line in lines if "/" in line} == set(ODD.values())


def test_the_paths_of_ephemerals_steer_no_terminal_either(world: World) -> None:
    client = world.connect()
    path = "/\u202eevil"
    assert client.create(path, flags=1).err == 0
    assert "\t/\\u202eevil\n" in world.open().exchange(b"dump").decode()


# --- events to many ----------------------------------------------------------------------------------------


def test_an_event_is_encoded_once_and_queued_once_for_each_watcher(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, watchers = world.connect(), [world.connect() for _ in range(50)]
    for watcher in watchers:
        watcher.add_watch("/", AddWatchMode.PERSISTENT)
    sent, size = world.engine.stats.more_sent, world.engine.stats.watch_bytes
    encoded = []
    encode = r.WatcherEvent.encode
    monkeypatch.setattr(r.WatcherEvent, "encode", lambda event: encoded.append(event) or encode(event))
    writer.multi(*[set_op("/", b"")] * 10, create_op("/a"), delete_op("/a"))
    assert len(encoded) == 2, "the same event of the same transaction is the same bytes"
    queued = [watcher.connection.output for watcher in watchers]
    assert all(len(output) == 1 and output[0] is queued[0][0] for output in queued)
    assert world.engine.stats.more_sent == sent + 50 * 12
    assert world.engine.stats.watch_bytes == size + 50 * len(queued[0][0])
    changed, child = (EventType.CHANGED, "/"), (EventType.CHILD, "/")
    assert all(kinds(watcher.take_events()) == [changed] * 10 + [child] * 2 for watcher in watchers)


def test_events_of_one_transaction_to_various_clients_keep_their_order(world: World) -> None:
    writer = world.connect()
    for path in ("/a", "/b", "/c"):
        writer.create(path)
    watchers = {paths: world.connect() for size in range(4) for paths in itertools.combinations("abc", size)}
    for names, watcher in watchers.items():
        for name in names:
            watcher.add_watch(f"/{name}", AddWatchMode.PERSISTENT)
    order = "aabcbab"
    writer.multi(*[set_op(f"/{name}", b"") for name in order])
    for names, watcher in watchers.items():
        told = [path for _, path in kinds(watcher.take_events())]
        assert told == [f"/{name}" for name in order if name in names]
