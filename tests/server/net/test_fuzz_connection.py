"""Any bytes at all: nothing is raised, nobody else is harmed, and the server stays consistent."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from benchmarks import wire
from pyzk.protocol import records as r
from pyzk.protocol.constants import EventType
from pyzk.protocol.framing import frame
from pyzk.protocol.jute import Record, fields_of
from pyzk.protocol.multi import READ_OPS, TRANSACTION_OPS, MultiOp, encode_multi
from pyzk.protocol.operations import OpCode

from ...support.invariants import check_world_invariants
from ...support.requests import acl
from ...support.vocabulary import BUFFERS, ENTRIES, INTS, LONGS, ODD_PATHS, PATHS, SCHEMES, SINGLE
from ...support.wire import Event
from ...support.world import Peer, World

# --- requests that make sense, more or less ----------------------------------------------------------------


def mostly(
    usual: st.SearchStrategy[Any], odd: st.SearchStrategy[Any], one_in: int = 8
) -> st.SearchStrategy[Any]:
    return st.integers(1, one_in).flatmap(lambda n: odd if n == one_in else usual)


ints = st.sampled_from(INTS)
longs = st.sampled_from(LONGS)
paths = mostly(st.sampled_from(PATHS), st.sampled_from(ODD_PATHS))
any_paths = mostly(st.lists(paths, max_size=3), st.none())
KINDS: dict[str, st.SearchStrategy[Any]] = {
    "int": ints,
    "long": longs,
    "boolean": st.booleans(),
    "buffer": st.sampled_from(BUFFERS),
    "ustring": st.sampled_from(SCHEMES),
    "vector": any_paths,
}
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "path": paths,
    "prefixPath": paths,
    "acl": mostly(st.just(r.OPEN_ACL), st.none() | st.lists(st.sampled_from(ENTRIES), max_size=3), 4),
    "flags": mostly(st.sampled_from([0, 0, 1, 2, 3, 4]), ints),
    "version": mostly(st.just(-1), ints, 4),
    "type": mostly(st.integers(1, 5), ints),
    "mode": mostly(st.integers(0, 1), ints),
    "ttl": mostly(st.integers(1, 5000), longs),
}


def requests_of(cls: Any) -> st.SearchStrategy[Record]:
    fields = {**FIELDS, "flags": st.integers(4, 7)} if cls is r.CreateTTLRequest else FIELDS
    return st.builds(cls, *(fields.get(name, KINDS[kind]) for name, kind, _ in fields_of(cls)))


def multi_of(table: dict[int, type[Record]]) -> st.SearchStrategy[bytes]:
    operations = st.sampled_from(sorted(table)).flatmap(
        lambda op: st.builds(MultiOp, st.just(op), requests_of(table[op]))
    )
    return st.lists(operations, max_size=4).map(encode_multi)


multis = {
    OpCode.MULTI: mostly(multi_of(TRANSACTION_OPS), multi_of({**TRANSACTION_OPS, **READ_OPS})),
    OpCode.MULTI_READ: mostly(multi_of(READ_OPS), multi_of({**TRANSACTION_OPS, **READ_OPS})),
}


def payload(xid: int, op: int, body: bytes) -> bytes:
    return r.RequestHeader(xid, op).encode() + body


@st.composite
def payloads(draw: st.DrawFn) -> bytes:
    """The payload of a request that decodes."""
    xid = draw(ints)
    kind = draw(st.sampled_from([*SINGLE, *multis, OpCode.MULTI]))
    if kind in multis:
        return payload(xid, kind, draw(multis[kind]))
    cls = SINGLE[kind]
    return payload(xid, kind, draw(requests_of(cls)).encode() if cls else b"")


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """The payload of a request with something wrong in it."""
    data = draw(payloads())
    at = draw(st.integers(0, len(data)))
    how = draw(st.sampled_from(["cut", "flip", "insert", "number", "op"]))
    if how == "cut":
        return data[:at]
    if how == "flip":
        return (
            data[:at] + bytes(byte ^ draw(st.integers(1, 255)) for byte in data[at : at + 1]) + data[at + 1 :]
        )
    if how == "insert":
        return data[:at] + draw(st.binary(min_size=1, max_size=5)) + data[at:]
    if how == "op":
        return data[:4] + draw(st.integers(-12, 110)).to_bytes(4, signed=True) + data[8:]
    return data[:at] + draw(ints).to_bytes(4, signed=True) + data[at + 4 :]


frames = mostly(payloads(), mutated(), 30).map(frame)
conversations = st.lists(frames, min_size=15, max_size=60)
bad_frames = payloads().map(frame) | mutated().map(frame)
raw = st.binary(max_size=60) | ints.map(lambda number: number.to_bytes(4, signed=True))


# --- the server around the fuzzed connection ---------------------------------------------------------------


class Scene:
    """A server with things to break, and a bystander who must not notice anything."""

    def __init__(self) -> None:
        self.world = World(
            extended_types=True, enforce_quota=True, container_check_interval=5000, max_unsent=20_000
        )
        self.bystander = self.world.connect("10.0.0.7", timeout=40_000)
        self.bystander.create("/mine", b"untouched", [acl(31, "ip", "10.0.0.7")])
        self.bystander.create("/mine/e", flags=1, acl=[acl(31, "ip", "10.0.0.7")])
        for path in ("/a", "/q", "/zookeeper/quota/q"):
            self.bystander.create(path)
        self.bystander.create("/zookeeper/quota/q/zookeeper_limits", b"countHardLimit=3")
        self.bystander.create("/zookeeper/quota/q/zookeeper_stats")
        self.bystander.get("/mine", watch=True)

    def feed(self, peer: Peer, stream: bytes, cuts: list[int], reads: bool) -> bytes:
        """The stream in pieces, with a little time between them; gives back all that was answered."""
        output, start = b"", 0
        for size in [*cuts, len(stream)]:
            piece, start = stream[start : start + size], start + size
            if reads:
                output += peer.exchange(piece)
            else:
                peer.connection.receive_data(piece, self.world.now)
                peer.connection.proceed(self.world.now)
            self.world.pass_time(0.3)
        return output + peer.exchange()

    def check(self) -> None:
        """The server is consistent, and the bystander's session, watch, znodes and requests are intact."""
        check_world_invariants(self.world)
        bystander = self.bystander
        assert bystander.take_events() == []
        zxid = bystander.set("/mine", b"changed", 0).zxid
        assert bystander.take_events() == [Event(zxid, EventType.CHANGED, "/mine")]
        assert bystander.ephemerals().record.ephemerals == ("/mine/e",)
        fresh = self.world.connect("10.0.0.8")
        assert (fresh.sync("/a").err, fresh.exists("/mine").err) == (0, -102)


def check_replies(output: bytes) -> None:
    """Whole frames with a header each, and zxids that never step back."""
    zxid = 0
    while output:
        size = int.from_bytes(output[:4])
        assert 16 <= size <= len(output) - 4
        header = r.ReplyHeader.decode(output, 4)
        if header.zxid > 0:
            assert header.zxid >= zxid
            zxid = header.zxid
        output = output[4 + size :]


small_cuts = st.lists(st.integers(0, 80), max_size=8)


@given(st.lists(raw | bad_frames, max_size=4).map(b"".join), small_cuts, st.booleans())
def test_whatever_a_connection_begins_with(stream: bytes, cuts: list[int], reads: bool) -> None:
    scene = Scene()
    scene.feed(scene.world.open(), stream, cuts, reads)
    scene.check()


@given(
    st.builds(r.ConnectRequest, ints, longs, ints, longs, st.none() | st.binary(max_size=20)),
    st.binary(max_size=3),
    st.lists(bad_frames, max_size=3).map(b"".join),
    small_cuts,
)
def test_whatever_handshake_is_tried(
    request: r.ConnectRequest, end: bytes, rest: bytes, cuts: list[int]
) -> None:
    scene = Scene()
    scene.feed(scene.world.open(), frame(request.encode() + end) + rest, cuts, True)
    scene.check()


@given(conversations, small_cuts, st.booleans())
def test_whatever_is_asked_in_whatever_pieces(requests: list[bytes], cuts: list[int], reads: bool) -> None:
    scene = Scene()
    victim = scene.world.connect(timeout=4000)
    output = scene.feed(victim, b"".join(requests), cuts, reads)
    check_replies(output)
    scene.check()


@given(conversations, st.lists(raw, max_size=3), st.integers(2, 4))
def test_whatever_several_connections_send_in_turn(
    requests: list[bytes], noise: list[bytes], count: int
) -> None:
    scene = Scene()
    peers = [scene.world.connect(timeout=4000) for _ in range(count)]
    for i, piece in enumerate([*requests, *noise]):
        check_replies(peers[i % count].exchange(piece))
        if i % 4 == 0:
            scene.world.pass_time(0.5)
    peers[0].connection.receive_eof()
    scene.check()
    scene.world.pass_time(100)
    assert not scene.world.service.connections
    assert not scene.world.tree.ephemerals
    check_world_invariants(scene.world)


@given(st.lists(st.integers(-(2**31), 2**31 - 1), max_size=5), st.binary(max_size=100))
def test_whatever_op_with_whatever_body(ops: list[int], body: bytes) -> None:
    scene = Scene()
    victim = scene.world.connect()
    for op in ops:
        check_replies(victim.exchange(wire.request(op, body, 1)))
    scene.check()


WORDS = (b"mntr", b"cons", b"stat", b"dump", b"wchc")


arrivals = st.tuples(
    st.integers(0, 2),
    frames | frames.map(frame),
    st.sampled_from(["whole", "whole", "in two", "behind its length", "frozen"]),
    st.sampled_from([0.0, 0.0, 3.0]),
    st.booleans(),
)


@given(st.lists(arrivals, min_size=5, max_size=60), st.booleans())
def test_the_short_way_leads_where_the_long_one_does(
    steps: list[tuple[int, bytes, str, float, bool]], slow: bool
) -> None:
    """What is sent to each client, and what the operator is told afterwards; also where everything takes so
    long that each turn is over with its first step."""
    found = []
    for short in (True, False):
        scene = Scene()
        if slow:
            scene.world.service.stopwatch = itertools.count(1.0, 1.0).__next__
        peers = [scene.world.connect(timeout=10_000) for _ in range(3)]
        sent: list[tuple[int, str, bytes]] = []
        for number, data, how, pause, others_read in steps:
            peer = peers[number]
            cut = {"in two": len(data) // 2, "behind its length": 4}.get(how, len(data))
            if how == "frozen":
                peer.connection.freeze()
            pieces = filter(None, (data[:cut], data[cut:]))
            sent += [(number, "asked", peer.exchange(piece, short=short)) for piece in pieces]
            if how == "frozen":
                peer.connection.thaw(scene.world.now)
                sent.append((number, "thawed", peer.exchange()))
            if others_read:
                sent += [(n, "told", other.exchange()) for n, other in enumerate(peers)]
            scene.world.pass_time(pause)
        left = [peer.exchange() for peer in peers]
        told = [scene.world.open().exchange(word) for word in WORDS]
        deadlines = [session.deadline for session in scene.world.engine.sessions]
        found.append((sent, left, [peer.closed for peer in peers], told, deadlines))
    assert found[0] == found[1]
