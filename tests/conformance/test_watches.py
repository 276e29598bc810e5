"""What fires which watch, in which order (semantics.md 10.1 to 10.4)."""

from __future__ import annotations

import pytest

from pyzk.protocol import records as r
from pyzk.protocol.operations import OpCode

from ..support.requests import acl, check_op, create_op, delete_op, set_op
from ..support.wire import Event, Reply, WireClient
from .conftest import Connect
from .known_differences import differs
from .servers import Server
from .watching import register, tell


def run(client: WireClient, command: str, top: str) -> None:
    word, path = command.split()
    path = top + path.rstrip("/")
    match word:
        case "create":
            reply = client.create(path)
        case "delete":
            reply = client.delete(path)
        case "set":
            reply = client.set(path, b"new")
        case "acl":
            reply = client.set_acl(path, r.OPEN_ACL)
        case "sync":
            reply = client.sync(path)
        case _:
            raise AssertionError(command)
    assert reply.err == 0, command


# The tree: /q, /q/p, /q/p/c. Each row: what one connection watches; what another one does; what the first
# one is told. (semantics.md 10.2)
FIRING = [
    ("data /q/p", "set /q/p", "changed /q/p"),
    ("data /q/p", "set /q/p, set /q/p", "changed /q/p"),
    ("data /q/p", "acl /q/p, sync /q/p", ""),
    ("data /q/p", "create /q/p/n, delete /q/p/c", ""),
    ("data /q/p/c", "delete /q/p/c", "deleted /q/p/c"),
    ("data /q/p/c", "delete /q/p/c, create /q/p/c", "deleted /q/p/c"),
    ("data /q/none", "create /q/none", ""),  # a refused getData registers nothing
    ("exist /q/p", "set /q/p", "changed /q/p"),
    ("exist /q/p/c", "delete /q/p/c", "deleted /q/p/c"),
    ("exist /q/none", "create /q/none, set /q/none", "created /q/none"),
    ("exist /q/none", "create /q/none, delete /q/none, create /q/none", "created /q/none"),
    ("exist /q/p, data /q/p, exist /q/p", "set /q/p, set /q/p", "changed /q/p"),
    ("child /q/p", "create /q/p/n", "children /q/p"),
    ("child /q/p", "delete /q/p/c", "children /q/p"),
    ("child /q/p", "create /q/p/n, create /q/p/m", "children /q/p"),
    ("child /q/p", "set /q/p, set /q/p/c, acl /q/p", ""),
    ("child /q/p", "create /q/p/c/n", ""),
    ("child /q/p/c", "delete /q/p/c", "deleted /q/p/c"),
    ("child /q/p/c", "delete /q/p/c, create /q/p/c, create /q/p/c/n", "deleted /q/p/c"),
    ("child /q/none", "create /q/none, create /q/none/n", ""),
    ("child2 /q/p", "create /q/p/n", "children /q/p"),
    ("data /q/p/c, child /q/p/c", "delete /q/p/c", "deleted /q/p/c"),
    (
        "data /q/p/c, child /q/p/c",
        "delete /q/p/c, create /q/p/c, set /q/p/c, create /q/p/c/n",
        "deleted /q/p/c",
    ),
    ("data /q/p/c, child /q/p", "delete /q/p/c", "deleted /q/p/c, children /q/p"),
    ("exist /q/p/n, child /q/p", "create /q/p/n", "created /q/p/n, children /q/p"),
    ("persistent /q/p", "set /q/p, set /q/p", "changed /q/p, changed /q/p"),
    ("persistent /q/p", "create /q/p/n, delete /q/p/n", "children /q/p, children /q/p"),
    ("persistent /q/p", "set /q/p/c, create /q/p/c/n, acl /q/p", ""),
    ("persistent /q/p/c", "delete /q/p/c", "deleted /q/p/c"),
    (
        "persistent /q/p/c",
        "delete /q/p/c, create /q/p/c, set /q/p/c",
        "deleted /q/p/c, created /q/p/c, changed /q/p/c",
    ),
    ("persistent /q/none", "create /q/none, create /q/none/n", "created /q/none, children /q/none"),
    ("persistent /q/p", "delete /q/p/c, delete /q/p", "children /q/p, deleted /q/p"),
    ("recursive /q", "set /q, set /q/p, set /q/p/c", "changed /q, changed /q/p, changed /q/p/c"),
    (
        "recursive /q",
        "create /q/n, create /q/p/n, delete /q/p/n",
        "created /q/n, created /q/p/n, deleted /q/p/n",
    ),
    ("recursive /q", "acl /q/p, sync /q", ""),
    ("recursive /q/p", "set /q, create /q/n, delete /q/n", ""),
    ("recursive /q/p", "create /q/pp, set /q/pp", ""),
    ("recursive /q/none", "create /q/none, create /q/none/n", "created /q/none, created /q/none/n"),
    ("recursive /q, recursive /q/p", "set /q/p, create /q/p/n", "changed /q/p, created /q/p/n"),
    ("recursive /q, data /q/p", "set /q/p, set /q/p", "changed /q/p, changed /q/p"),
    (
        "recursive /q, persistent /q/p",
        "set /q/p, create /q/p/n",
        "changed /q/p, created /q/p/n, children /q/p",
    ),
    (
        "recursive /q, child /q/p",
        "create /q/p/n, create /q/p/m",
        "created /q/p/n, children /q/p, created /q/p/m",
    ),
    ("recursive /q, child /q/p", "delete /q/p/c, delete /q/p", "deleted /q/p/c, children /q/p, deleted /q/p"),
    ("persistent /q/p, persistent /q/p/c", "delete /q/p/c", "deleted /q/p/c, children /q/p"),
]


@pytest.mark.parametrize(("watches", "script", "expected"), FIRING)
def test_firing(connect: Connect, top: str, watches: str, script: str, expected: str) -> None:
    watcher, writer = connect(), connect()
    for path in ("/q", "/q/p", "/q/p/c"):
        writer.create(top + path)
    for watch in watches.split(", "):
        kind, path = watch.split()
        register(watcher, kind, top + path)
    for command in script.split(", "):
        run(writer, command, top)
    assert tell(watcher.take_events(), top) == expected


# Several modes at one path by one connection (semantics.md 10.1 and 17).
SEVERAL_MODES = [
    ("persistent /q, recursive /q", "create /q/n", "created /q/n, children /q", "created /q/n"),
    ("recursive /q, persistent /q", "create /q/n", "created /q/n, children /q", "children /q"),
    ("persistent /q, data /q", "set /q, set /q", "changed /q, changed /q", "changed /q"),
    ("data /q, persistent /q", "set /q, set /q", "changed /q, changed /q", "changed /q, changed /q"),
    ("persistent /q, child /q", "create /q/n, create /q/m", "children /q, children /q", "children /q"),
    ("recursive /q, data /q", "set /q, set /q/p", "changed /q, changed /q/p", "changed /q"),
]


@pytest.mark.parametrize(("watches", "script", "expected", "old"), SEVERAL_MODES)
def test_several_modes(
    server: Server, connect: Connect, top: str, watches: str, script: str, expected: str, old: str
) -> None:
    if differs("one-mode-per-path", server):
        expected = old
    test_firing(connect, top, watches, script, expected)


def test_the_root_is_an_ancestor_of_everything(connect: Connect, top: str) -> None:
    watcher, writer = connect(), connect()
    watcher.add_watch("/", 1)
    writer.create(f"{top}/n")
    writer.create(f"/zookeeper{top}")
    writer.delete(f"/zookeeper{top}")
    expected = f"created {top}/n, created /zookeeper{top}, deleted /zookeeper{top}"
    assert tell(watcher.take_events(), "") == expected


def test_a_failed_operation_fires_nothing(client: WireClient, top: str) -> None:
    client.add_watch(top, 1)
    client.set(top, b"", 9)
    client.create(top)
    client.delete("/zookeeper")
    client.multi(set_op(top, b"x"), check_op(top, 9))
    client.multi(check_op(top, 0))
    assert client.take_events() == []


def test_events_come_before_the_reply_that_caused_them(server: Server, client: WireClient, top: str) -> None:
    # wire.md section 7, rule 3
    client.exists(f"{top}/n", watch=True)
    client.children(top, watch=True)
    client.send(OpCode.CREATE, r.CreateRequest(f"{top}/n", b"", r.OPEN_ACL, 0))
    created, children, reply = (client.receive() for _ in range(3))
    assert isinstance(reply, Reply)
    zxid = -1 if differs("notification-zxid", server) else reply.zxid
    assert (created, children) == (Event(zxid, 1, f"{top}/n"), Event(zxid, 4, top))


def test_the_exact_bytes_of_an_event(client: WireClient, top: str) -> None:
    # wire.md section 11
    client.get(top, watch=True)
    client.send(OpCode.SET_DATA, r.SetDataRequest(top, b"", -1))
    payload = client.receive_frame()
    assert payload[:4] == b"\xff\xff\xff\xff"
    assert (
        payload[12:]
        == bytes.fromhex("00000000 00000003 00000003") + len(top).to_bytes(4, "big") + top.encode()
    )


def test_in_a_multi_the_steps_run_op_by_op(server: Server, connect: Connect, top: str) -> None:
    # semantics.md 10.2: all with the multi's zxid; one-shot watches fire once
    watcher, writer = connect(), connect()
    watcher.get(top, watch=True)
    watcher.children(top, watch=True)
    watcher.add_watch(f"{top}/n", 0)
    zxid = writer.multi(
        set_op(top, b"1"),
        create_op(f"{top}/n"),
        set_op(f"{top}/n", b""),
        set_op(top, b"2"),
        delete_op(f"{top}/n"),
    ).zxid
    events = watcher.take_events()
    assert tell(events, top) == "changed /, created /n, children /, changed /n, deleted /n"
    assert {event.zxid for event in events} == {-1 if differs("notification-zxid", server) else zxid}


def test_every_watching_connection_is_told(connect: Connect, top: str) -> None:
    watchers = [connect() for _ in range(4)]
    for watcher in watchers:
        watcher.get(top, watch=True)
    connect().set(top, b"")
    assert [tell(watcher.take_events(), top) for watcher in watchers] == ["changed /"] * 4


def test_a_lost_connection_takes_its_watches_with_it(connect: Connect, top: str) -> None:
    # semantics.md 10.7
    watcher, writer = connect(), connect()
    watcher.add_watch(top, 0)
    watcher.drop()
    again = connect(session_id=watcher.session_id, password=watcher.password)
    writer.set(top, b"")
    assert again.take_events() == []


def test_add_watch_checks_nothing(client: WireClient, top: str) -> None:
    # semantics.md 10.1, trap 24
    client.create(f"{top}/secret", acl=[acl(0, "world", "anyone")])
    for path in (f"{top}/none", f"{top}/secret", "no slash", "/a//b/", "/\0", None):
        assert client.add_watch(path, 0).err == 0, path


@pytest.mark.parametrize("mode", [-1, 2, 7])
def test_an_unknown_mode(client: WireClient, top: str, mode: int) -> None:
    # wire.md section 14
    assert client.add_watch(top, mode).err == -5
    client.set(top, b"")
    assert client.take_events() == []


# --- the permission filter (10.4) --------------------------------------------------------------------------

SECRET = [acl(31 & ~1, "world", "anyone")]


def filtered(server: Server, expected: str, old: str) -> str:
    return old if differs("notification-read-check", server) else expected


def test_no_event_without_read(server: Server, connect: Connect, top: str) -> None:
    watcher, writer = connect(), connect()
    watcher.add_watch(top, 1)
    writer.create(f"{top}/open")
    writer.create(f"{top}/secret", acl=SECRET)
    writer.set(f"{top}/secret", b"")
    writer.delete(f"{top}/secret")
    everything = "created /open, created /secret, changed /secret, deleted /secret"
    assert tell(watcher.take_events(), top) == filtered(server, "created /open", everything)


def test_a_filtered_one_shot_watch_is_consumed(server: Server, connect: Connect, top: str) -> None:
    watcher, writer = connect(), connect()
    watcher.get(top, watch=True)
    watcher.children(top, watch=True)
    writer.set_acl(top, SECRET)
    writer.set(top, b"")
    writer.create(f"{top}/n")
    writer.set_acl(top, r.OPEN_ACL)
    writer.set(top, b"")
    writer.create(f"{top}/m")
    assert tell(watcher.take_events(), top) == filtered(server, "", "changed /, children /")


def test_the_filter_looks_at_the_watchers_identities(server: Server, connect: Connect, top: str) -> None:
    watcher, friend, writer = connect(), connect(), connect()
    friend.auth("digest", "u:p")
    for client in (watcher, friend):
        client.add_watch(top, 1)
    writer.create(f"{top}/n", acl=[acl(1, "digest", "u:Jq7wMyA/w2Vd5WIDAKdu4OIIFEQ="), *SECRET])
    assert tell(friend.take_events(), top) == "created /n"
    assert tell(watcher.take_events(), top) == filtered(server, "", "created /n")


def test_children_changed_asks_for_read_on_the_parent(server: Server, connect: Connect, top: str) -> None:
    watcher, writer = connect(), connect()
    writer.create(f"{top}/p")
    watcher.add_watch(f"{top}/p", 0)
    writer.create(f"{top}/p/secret", acl=SECRET)
    writer.set_acl(f"{top}/p", SECRET)
    writer.create(f"{top}/p/open")
    assert tell(watcher.take_events(), top) == filtered(server, "children /p", "children /p, children /p")
