"""Pipelining and the order of replies and events (wire.md section 7)."""

from __future__ import annotations

import struct

from pyzk.protocol import records as r
from pyzk.protocol.constants import AUTH_XID, PING_XID, SET_WATCHES_XID
from pyzk.protocol.operations import OpCode

from ..support.wire import Event, Reply, WireClient
from .conftest import Connect
from .known_differences import differs
from .servers import Server


def test_replies_come_in_request_order(client: WireClient, top: str) -> None:
    # rule 1: pings and setWatches too
    sent = []
    for number in range(50):
        sent.append(client.send(OpCode.CREATE, r.CreateRequest(f"{top}/{number}", b"", r.OPEN_ACL, 0)))
        sent.append(client.send(OpCode.GET_DATA, r.GetDataRequest(f"{top}/{number}", False)))
        sent.append(client.send(OpCode.PING, xid=PING_XID))
        sent.append(client.send(OpCode.SET_WATCHES, r.SetWatches(0, [], [], []), xid=SET_WATCHES_XID))
        sent.append(client.send(OpCode.DELETE, r.DeleteRequest(f"{top}/none", -1)))
    replies = [client.receive_reply() for _ in sent]
    assert [reply.xid for reply in replies] == sent
    assert [reply.err for reply in replies] == [0, 0, 0, 0, -101] * 50


def test_zxids_never_fall(client: WireClient, top: str) -> None:
    # rule 2
    for number in range(30):
        client.send(OpCode.SET_DATA, r.SetDataRequest(top, b"%d" % number, -1))
        client.send(OpCode.EXISTS, r.ExistsRequest(top, False))
    replies = [client.receive_reply() for _ in range(60)]
    zxids = [reply.zxid for reply in replies]
    assert zxids == sorted(zxids)
    assert len(set(zxids[::2])) == 30


def test_a_read_sees_the_writes_before_it(client: WireClient, top: str) -> None:
    for number in range(30):
        client.send(OpCode.SET_DATA, r.SetDataRequest(top, b"%d" % number, number))
        client.send(OpCode.GET_DATA, r.GetDataRequest(top, False))
    for number in range(30):
        assert client.receive_reply().err == 0
        assert client.receive_reply().record.data == b"%d" % number


def test_auth_takes_part_in_the_stream(client: WireClient, top: str) -> None:
    # rule 1: the reply to auth may overtake; it is found by its xid
    client.send(OpCode.EXISTS, r.ExistsRequest(top, False))
    client.send(OpCode.AUTH, r.AuthPacket(0, "digest", b"u:p"), xid=AUTH_XID)
    client.send(OpCode.EXISTS, r.ExistsRequest(top, False))
    xids = [client.receive_reply().xid for _ in range(3)]
    assert sorted(xids) == [AUTH_XID, 1, 2]
    assert xids.index(1) < xids.index(2)


def test_no_reply_overtakes_an_event(server: Server, connect: Connect, top: str) -> None:
    # rule 3: an event of transaction Z is there before any reply with a zxid of Z or more
    watcher, writer = connect(), connect()
    watcher.add_watch(top, 1)
    count = 200
    for number in range(count):
        writer.send(OpCode.CREATE, r.CreateRequest(f"{top}/{number}", b"", r.OPEN_ACL, 0))
    arrivals: list[Reply | Event] = []
    while sum(isinstance(arrival, Event) for arrival in arrivals) < count:
        watcher.send(OpCode.GET_CHILDREN, r.GetChildrenRequest(top, False))
        while not arrivals or not isinstance(arrivals[-1], Reply):
            arrivals.append(watcher.receive())
        seen = sum(isinstance(arrival, Event) for arrival in arrivals)
        reply = arrivals.pop()
        assert isinstance(reply, Reply)
        assert len(reply.record.children) <= seen
        if not differs("notification-zxid", server):
            told = [arrival.zxid for arrival in arrivals]
            assert told == sorted(told)
            assert not told or told[-1] <= reply.zxid
    zxids = [writer.receive_reply().zxid for _ in range(count)]
    events = [arrival for arrival in arrivals if isinstance(arrival, Event)]
    assert [event.path for event in events] == [f"{top}/{number}" for number in range(count)]
    if not differs("notification-zxid", server):
        assert [event.zxid for event in events] == zxids


def test_a_watch_and_its_read_are_one(connect: Connect, top: str) -> None:
    # rule 4: whoever reads version n with a watch is told of n + 1, never of n
    reader, writer = connect(), connect()
    count = 100
    for number in range(count):
        writer.send(OpCode.SET_DATA, r.SetDataRequest(top, b"%d" % number, -1))
    version = -1
    while version < count:
        reader.events.clear()
        reply = reader.get(top, watch=True)
        assert reader.events == []
        assert reply.record.stat.version > version
        version = reply.record.stat.version
        if version < count:
            event = reader.wait_event()
            assert (event.type, event.path) == (3, top)
    assert [writer.receive_reply().err for _ in range(count)] == [0] * count


def test_frames_may_be_cut_anywhere(client: WireClient, top: str) -> None:
    # wire.md section 1
    stream = b""
    for xid in range(1, 6):
        payload = r.RequestHeader(xid, OpCode.EXISTS).encode() + r.ExistsRequest(top, False).encode()
        stream += struct.pack(">i", len(payload)) + payload
        client.expect(xid, OpCode.EXISTS)
    for start in range(0, len(stream), 7):
        client.send_bytes(stream[start : start + 7])
    assert [client.receive_reply().xid for _ in range(5)] == [1, 2, 3, 4, 5]


def test_a_client_that_reads_late_loses_nothing(client: WireClient, top: str) -> None:
    client.set(top, b"x" * 10_000)
    count = 300
    for _ in range(count):
        client.send(OpCode.GET_DATA, r.GetDataRequest(top, False))
    replies = [client.receive_reply() for _ in range(count)]
    assert {len(reply.record.data) for reply in replies} == {10_000}
    assert [reply.xid for reply in replies] == list(range(replies[0].xid, replies[0].xid + count))


def test_writes_of_two_sessions_have_one_order(connect: Connect, top: str) -> None:
    # rule 2
    first, second = connect(), connect()
    for number in range(50):
        for client in (first, second):
            client.send(OpCode.CREATE, r.CreateRequest(f"{top}/{number}", b"", r.OPEN_ACL, 0))
    replies = [[client.receive_reply() for _ in range(50)] for client in (first, second)]
    for one, other in zip(*replies, strict=True):
        assert {one.err, other.err} == {0, -110}
    zxids = sorted(reply.zxid for side in replies for reply in side)
    assert zxids == list(range(zxids[0], zxids[0] + 100))
