"""What each connection of a session restores: watches and identities."""

from __future__ import annotations

import pytest

from pyzk.client import SessionState
from pyzk.client.auth import Credential
from pyzk.client.registry import Missed, MissedReason, WatchEvent, WatchKind
from pyzk.protocol.constants import AUTH_XID, SET_WATCHES_XID, WATCH_XID, EventType
from pyzk.protocol.errors import (
    AuthFailedError,
)
from pyzk.protocol.operations import OpCode
from pyzk.protocol.records import AuthPacket, ReplyHeader, SetWatches, SetWatches2, WatcherEvent

from .scripted import Script, armed

DIGEST = Credential("digest", b"u:p")


# --- watches --------------------------------------------------------------------------------------------


def test_watches_are_armed_before_the_first_request(script: Script) -> None:
    armed(script, "/data", WatchKind.DATA)
    armed(script, "/none", WatchKind.EXIST)
    armed(script, "/list", WatchKind.CHILD)
    script.read()
    script.reply(script.requests()[0], zxid=77)
    script.read()
    script.requests()
    script.lose()
    script.connect()
    rearm, read = script.requests()
    assert (rearm.xid, rearm.op) == (SET_WATCHES_XID, OpCode.SET_WATCHES)
    assert SetWatches.decode(rearm.body) == SetWatches(77, ("/data",), ("/none",), ("/list",))
    assert read.op == OpCode.GET_DATA


def test_lasting_watches_tell_that_something_may_be_missing_once_they_are_armed(script: Script) -> None:
    flat, deep = armed(script, "/a", WatchKind.PERSISTENT), armed(script, "/b", WatchKind.RECURSIVE)
    one_shot = armed(script, "/a", WatchKind.CHILD)
    script.lose()
    script.connect()
    (rearm,) = script.requests()
    assert rearm.op == OpCode.SET_WATCHES2
    assert SetWatches2.decode(rearm.body) == SetWatches2(0, (), (), ("/a",), ("/a",), ("/b",))
    assert flat.events == []
    script.event(EventType.CHANGED, "/b/c")
    script.reply(SET_WATCHES_XID)
    missed = MissedReason.RECONNECTED
    assert flat.events == [Missed("/a", missed)]
    assert deep.events == [WatchEvent(EventType.CHANGED, "/b/c"), Missed("/b", missed)]
    assert one_shot.events == []


@pytest.mark.parametrize("limit", [300, 5000, 2**20])
def test_no_frame_that_arms_watches_passes_the_limit(limit: int) -> None:
    script = Script(request_limit=limit)
    script.connect()
    paths = {kind: [f"/{kind.name}/{'x' * (i % 60)}é{i}" for i in range(3000)] for kind in WatchKind}
    for kind, some in paths.items():
        for path in some:
            armed(script, path, kind)
    script.lose()
    script.open()
    script.welcome()
    frames = script.frames()
    assert max(len(payload) for payload in frames) <= min(limit, 129 * 1024)
    assert len(frames) > 5
    found: dict[str, list[str]] = {}
    for payload in frames:
        record = SetWatches2.decode(payload, 8)
        for name in ("dataWatches", "existWatches", "childWatches"):
            found.setdefault(name, []).extend(getattr(record, name))
        found.setdefault("persistent", []).extend(record.persistentWatches or ())
        found.setdefault("recursive", []).extend(record.persistentRecursiveWatches or ())
    assert [sorted(some) for some in found.values()] == [sorted(some) for some in paths.values()]


# --- authentication -------------------------------------------------------------------------------------


def test_credentials_come_before_everything_else() -> None:
    script = Script(auth=(DIGEST, Credential("ip", b""), DIGEST))
    script.connect()
    write = script.write()
    sent = script.requests()
    assert [(r.xid, AuthPacket.decode(r.body).scheme) for r in sent] == [
        (AUTH_XID, "digest"),
        (AUTH_XID, "ip"),
    ]
    assert script.machine.state is SessionState.CONNECTING
    script.reply(AUTH_XID)
    script.reply(AUTH_XID)
    assert script.machine.state is SessionState.CONNECTED
    (request,) = script.requests()
    script.reply(request)
    assert write.settled


def test_a_credential_refused_at_the_start_is_final() -> None:
    script = Script(auth=(DIGEST,))
    script.open()
    script.welcome()
    write = script.write()
    script.requests()
    script.reply(AUTH_XID, err=-115)
    assert script.machine.state is SessionState.CLOSED
    with pytest.raises(AuthFailedError, match="digest"):
        write.result()
    with pytest.raises(AuthFailedError, match="digest"):
        script.read()


def test_a_credential_added_later_is_restored_after_a_reconnect(script: Script) -> None:
    added = script.machine.add_credential(DIGEST, script.now)
    script.read()
    auth, read = script.requests()
    assert auth.xid == AUTH_XID
    script.reply(AUTH_XID)
    assert added.settled
    script.reply(read)
    script.lose()
    script.connect()
    assert script.machine.state is SessionState.SUSPENDED
    assert [request.op for request in script.requests()] == [OpCode.AUTH]


def test_a_credential_refused_later_is_not_repeated(script: Script) -> None:
    added = script.machine.add_credential(DIGEST, script.now)
    script.requests()
    script.reply(AUTH_XID, err=-115)
    with pytest.raises(AuthFailedError):
        added.result()
    script.lose()
    script.connect()
    assert script.machine.state is SessionState.CONNECTED
    assert script.requests() == []


def test_a_server_that_refuses_what_others_accept_is_left(script: Script) -> None:
    script.machine.add_credential(DIGEST, script.now)
    script.requests()
    script.reply(AUTH_XID)
    script.lose()
    script.connect()
    script.requests()
    script.reply(AUTH_XID, err=-115)
    assert script.machine.should_close
    script.lose()
    assert script.machine.state is SessionState.SUSPENDED
    assert "refused the digest" in script.machine.reason


def test_events_that_no_server_sends_are_left_out(script: Script) -> None:
    watcher = armed(script, "/a", WatchKind.PERSISTENT)
    for type in (-1, 0, 5, 6):
        script.send(ReplyHeader(WATCH_XID, -1, 0).encode() + WatcherEvent(type, 3, "/a").encode())
    script.send(ReplyHeader(WATCH_XID, -1, 0).encode() + WatcherEvent(3, 3, "").encode())
    assert not script.machine.should_close
    assert watcher.events == []
    for type in (1, 2, 3, 4):
        script.send(ReplyHeader(WATCH_XID, -1, 0).encode() + WatcherEvent(type, 3, "/a").encode())
    assert [event.type for event in watcher.events if isinstance(event, WatchEvent)] == [1, 2, 3, 4]


def test_watches_that_a_server_does_not_arm_end_the_connection(script: Script) -> None:
    lasting = armed(script, "/a", WatchKind.PERSISTENT)
    script.lose()
    script.connect()
    script.requests()
    script.reply(SET_WATCHES_XID, err=-4)
    assert script.machine.should_close
    assert lasting.events == []
    script.lose()
    assert script.machine.why.endswith(f"an unexpected reply with xid {SET_WATCHES_XID}, error -4")


@pytest.mark.parametrize(
    ("limit", "sizes"), [(2**20, [128, 128, 44]), (64 + 2048, [2] * 150), (64 + 2047, [1] * 300)]
)
def test_requests_that_arm_watches_are_as_large_as_they_may_be(limit: int, sizes: list[int]) -> None:
    """128 KiB of paths, or what the server accepts, less 64 bytes for the rest."""
    script = Script(request_limit=limit)
    script.connect()
    for n in range(300):
        armed(script, f"/{n:03}{'x' * 1016}", WatchKind.DATA)  # 1,024 bytes with its length
    script.lose()
    script.connect()
    assert [len(SetWatches.decode(sent.body).dataWatches or ()) for sent in script.requests()] == sizes


def test_events_that_come_before_watches_are_armed_are_caught_up_with(script: Script) -> None:
    """A recursive watch makes CHILD events of its own: before it is armed the server's are all there are."""
    deep = armed(script, "/a", WatchKind.RECURSIVE)
    child = armed(script, "/a", WatchKind.CHILD)
    script.lose()
    script.connect()
    script.requests()
    script.event(EventType.CHILD, "/a")
    assert child.events == [WatchEvent(EventType.CHILD, "/a")]
    script.reply(SET_WATCHES_XID)
    other = armed(script, "/a", WatchKind.CHILD)
    script.event(EventType.CHILD, "/a")
    assert other.events == []
    script.event(EventType.CREATED, "/a/b")
    assert other.events == [WatchEvent(EventType.CHILD, "/a")]
    assert deep.events[-1] == WatchEvent(EventType.CREATED, "/a/b")


def test_an_identity_is_kept_once(script: Script) -> None:
    for _ in range(2):
        script.machine.add_credential(DIGEST, script.now)
        script.requests()
        script.reply(AUTH_XID)
    script.lose()
    script.connect()
    assert len(script.requests()) == 1


def test_an_identity_is_sent_again_if_its_answer_is_lost(script: Script) -> None:
    added = script.machine.add_credential(DIGEST, script.now)
    script.requests()
    script.lose()
    assert not added.settled
    script.connect()
    assert [sent.op for sent in script.requests()] == [OpCode.AUTH]
    script.reply(AUTH_XID)
    assert added.settled
    assert script.machine.data.credentials == [DIGEST]


def test_a_refusal_is_forgotten_when_a_server_accepts(script: Script) -> None:
    script.machine.add_credential(DIGEST, script.now)
    script.requests()
    script.reply(AUTH_XID)
    script.lose()
    script.connect()
    script.requests()
    script.reply(AUTH_XID, err=-115)
    assert isinstance(script.machine.refusal, AuthFailedError)
    script.lose()
    script.connect()
    script.requests()
    assert script.machine.refusal is not None
    script.reply(AUTH_XID)
    assert script.machine.refusal is None
