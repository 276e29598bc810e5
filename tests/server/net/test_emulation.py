"""Each row of the table of changes between releases: the old behaviour, and the new one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks import wire
from pyzk.protocol import records as r
from pyzk.protocol.constants import AddWatchMode, EventType, WatcherType
from pyzk.protocol.multi import TERMINATOR
from pyzk.protocol.operations import OpCode
from pyzk.server.config.releases import CHANGES
from pyzk.server.config.settings import SettingsError
from pyzk.server.monitoring import prometheus
from pyzk.server.monitoring.admin import answer
from pyzk.server.net.http import Request
from pyzk.server.testing import EmbeddedEnsemble, EmbeddedServer

from ...support.requests import acl, check_op, create_op
from ...support.wire import WireClient, kinds
from ...support.world import World

SECRET = [acl(30, "world", "anyone")]


def unknown(op: int) -> Callable[[World], bool]:
    def is_unknown(world: World) -> bool:
        client = world.connect()
        reply = client.request(op)
        return (reply.err, client.closed) == (-6, True)

    return is_unknown


def quotas_are_ignored(world: World) -> bool:
    client = world.connect()
    client.create("/q")
    client.create("/zookeeper/quota/q")
    client.create("/zookeeper/quota/q/zookeeper_limits", b"countHardLimit=1")
    client.create("/zookeeper/quota/q/zookeeper_stats", b"count=1,bytes=0")
    return client.create("/q/n").err == 0


def a_bad_flag_is_of_one_operation(world: World) -> bool:
    reply = world.connect().multi(create_op("/n"), create_op("/m", flags=7))
    return reply.err == 0 and [result.err for result in reply.results] == [0, -8]


def create2_becomes_create(world: World) -> bool:
    first, second = (
        world.connect()
        .multi(create_op("/n", op=OpCode.CREATE2), create_op("/m", op=OpCode.CREATE_CONTAINER))
        .results
    )
    assert first.err == second.err == 0
    assert first.type == second.type
    return first.type == OpCode.CREATE


def exists_needs_nothing(world: World) -> bool:
    client = world.connect()
    client.create("/n", acl=SECRET)
    reply = client.exists("/n", watch=True)
    assert reply.err in (0, -102)
    assert world.engine.watches.count() == (reply.err == 0)
    return reply.err == 0


def the_secret_is_told(world: World) -> bool:
    client = world.connect()
    client.exists("/n", watch=True)
    client.create("/n", acl=SECRET)
    return bool(client.take_events())


def a_check_gets_no_reply(world: World) -> bool:
    client, zxid = world.connect(), world.zxid
    refused = client.request(OpCode.CHECK, r.CheckVersionRequest("/none", -1))
    if refused.err == -6:
        return False
    assert (refused.err, refused.zxid) == (-101, zxid + 1)
    assert client.request(OpCode.CHECK, b"").err == -5
    client.feed(wire.request(OpCode.CHECK, r.CheckVersionRequest("/", -1), 7))
    return client.ping().zxid == world.zxid == zxid + 3  # and no reply to the check


def events_carry_no_zxid(world: World) -> bool:
    client = world.connect()
    client.exists("/n", watch=True)
    client.create("/n")
    (event,) = client.take_events()
    assert event.zxid in (-1, world.zxid)
    return event.zxid == -1


def types_4_and_5_are_unknown(world: World) -> bool:
    client = world.connect()
    client.add_watch("/", AddWatchMode.PERSISTENT)
    answers = {client.check_watches("/", 4).err, client.remove_watches("/", 4).err}
    assert answers in ({-5}, {0})
    return answers == {-5}


def types_see_all_modes(world: World) -> bool:
    client = world.connect()
    client.add_watch("/", AddWatchMode.PERSISTENT_RECURSIVE)
    found = client.check_watches("/", WatcherType.CHILDREN).err == 0
    assert (client.remove_watches("/", WatcherType.CHILDREN).err == 0) is found
    return found


def others_watches_count(world: World) -> bool:
    watcher, other = world.connect(), world.connect()
    watcher.get("/", watch=True)
    found = other.check_watches("/", WatcherType.DATA).err == 0
    assert (other.check_watches("no slash", WatcherType.DATA).err == -5) is found
    assert other.remove_watches("/", WatcherType.DATA).err == -121
    return found


def the_last_mode_wins(world: World) -> bool:
    client = world.connect()
    client.create("/n")
    client.add_watch("/n", AddWatchMode.PERSISTENT_RECURSIVE)
    client.get("/n", watch=True)
    client.set("/n", b"")
    client.set("/n", b"")
    events = client.take_events()
    assert len(events) in (1, 2)
    return len(events) == 1


def an_undecodable_write_takes_a_zxid(world: World) -> bool:
    client, zxid = world.connect(), world.zxid
    for op in (OpCode.CREATE, OpCode.DELETE, OpCode.SET_DATA, OpCode.SET_ACL):
        assert client.request(op, b"\0").err == -5
    assert world.zxid in (zxid, zxid + 4)
    return world.zxid == zxid + 4


def a_null_path_leaves_last_processed(world: World) -> bool:
    client, zxid = world.connect(), world.zxid
    for _ in range(2):
        reply = client.multi(check_op("/none"), create_op(None))
        assert reply.err == -5
    assert client.ping().zxid == reply.zxid
    assert client.create("/n").zxid == zxid + 3 == client.ping().zxid
    assert (reply.zxid, reply.body) in ((zxid, TERMINATOR), (zxid + 2, b""))
    return reply.body == TERMINATOR


def a_null_acl_is_of_one_operation(world: World) -> bool:
    reply = world.connect().multi(create_op("/n", acl=None))
    assert reply.err in (0, -5)
    return reply.err == 0


def there_is_no_snapshot_command(world: World) -> bool:
    response = answer(Request("GET", "/commands/snapshot"), world.service, world.now)
    return response.status == 200 and b"Unknown command: snapshot" in response.body


def ipv6_is_invalid(world: World) -> bool:
    reply = world.connect().create("/n", acl=[acl(31, "ip", "::1")])
    assert reply.err in (0, -114)
    return reply.err == -114


def the_resolver_is_asked(world: World) -> bool:
    return world.service.settings.reverse_dns


def a_container_never_used_stays(world: World) -> bool:
    client = world.connect(timeout=40_000)
    client.request(OpCode.CREATE_CONTAINER, r.CreateRequest("/c", b"", r.OPEN_ACL, 4))
    for _ in range(36):
        world.pass_time(10)
        client.ping()
    return client.exists("/c").err == 0


def digest_md5_is_there(world: World) -> bool:
    client = world.connect()
    reply = client.request(OpCode.SASL, r.GetSASLRequest(b""))
    assert reply.err in (0, -115)
    return reply.err == 0


def operations_are_not_counted(world: World) -> bool:
    return b"zk_op_count_" not in world.open().exchange(b"mntr")


def counters_have_no_suffix(world: World) -> bool:
    text = prometheus.answer(Request("GET", "/metrics"), world.service, world.now).body
    counted, quantile = b"\nconnection_request_count_total 0.0\n" in text, b'quantile="0.95"' in text
    assert counted is quantile is (b"# HELP readlatency readlatency summary\n" in text)
    assert (b"\nconnection_request_count 0.0\n" in text) is not counted
    return not counted


def the_memory_is_of_the_system(world: World) -> bool:
    text = world.open().exchange(b"envi")
    assert (b"\nos.memory.free=" in text) is not (b"\njvm.memory.free=" in text)
    return b"\nos.memory.free=" in text


OLD: dict[str, tuple[str, str, Callable[[World], bool]]] = {
    "batched-reads": ("3.5", "3.6", unknown(OpCode.ADD_WATCH)),
    "who-am-i": ("3.6", "3.7", unknown(OpCode.WHO_AM_I)),
    "quota-limits": ("3.6", "3.7", quotas_are_ignored),
    "flags-in-multi": ("3.7.1", "3.7", a_bad_flag_is_of_one_operation),
    "create2-in-multi": ("3.8.0", "3.8", create2_becomes_create),
    "exists-read-check": ("3.8.0", "3.8", exists_needs_nothing),
    "notification-read-check": ("3.8.0", "3.8", the_secret_is_told),
    "top-level-check": ("3.8", "3.9", a_check_gets_no_reply),
    "notification-zxid": ("3.8", "3.9", events_carry_no_zxid),
    "watcher-types": ("3.8", "3.9", types_4_and_5_are_unknown),
    "watcher-types-ignore-modes": ("3.8", "3.9", types_see_all_modes),
    "check-watches-of-anybody": ("3.8", "3.9", others_watches_count),
    "one-mode-per-path": ("3.8", "3.9", the_last_mode_wins),
    "undecodable-write": ("3.8", "3.9", an_undecodable_write_takes_a_zxid),
    "null-path-in-multi": ("3.8", "3.9", a_null_path_leaves_last_processed),
    "null-acl-in-multi": ("3.8", "3.9", a_null_acl_is_of_one_operation),
    "snapshots-over-http": ("3.8", "3.9", there_is_no_snapshot_command),
    "ipv6-acl": ("3.9.3", "3.9.4", ipv6_is_invalid),
    "no-reverse-dns": ("3.9.4", "3.9", the_resolver_is_asked),
    "container-never-used": ("3.9", "3.10", a_container_never_used_stays),
    "fips-sasl": ("3.9", "3.10", digest_md5_is_there),
    "operation-counters": ("3.9", "3.10", operations_are_not_counted),
    "prometheus-names": ("3.9", "3.10", counters_have_no_suffix),
    "memory-of-jvm": ("3.9", "3.10", the_memory_is_of_the_system),
}
"""By row: a release with the old behaviour, one with the new, and a function that tells the two apart."""


@pytest.mark.parametrize("name", CHANGES)
def test_a_change(name: str) -> None:
    before, after, is_old = OLD[name]
    settings: dict[str, Any] = {"enforce_quota": True, "sasl_users": {"bob": "secret"}}
    assert is_old(World(emulate=before, **settings))
    assert not is_old(World(emulate=after, **settings))


def counted(world: World) -> dict[str, int]:
    """Return the counters that only 3.10 has, if they are not zero."""
    lines = world.open().exchange(b"mntr").decode().splitlines()
    found = (line.removeprefix("zk_").split("\t") for line in lines)
    return {
        key: int(value) for key, value in found if key.startswith(("op_count", "ttl_node")) and value != "0"
    }


@pytest.mark.parametrize("data", [False, True])
def test_the_operations_that_3_10_counts(data: bool, tmp_path: Path) -> None:
    world = World(emulate="3.10", extended_types=True, **({"data": tmp_path} if data else {}))
    client = world.connect()
    client.create("/t", flags=5, ttl=1000)
    client.create("/n")
    assert client.create("/n").err == -110  # a write that is refused is not counted
    assert client.get("/none").err == -101  # a read is
    client.children("/")
    client.multi(create_op("/m"))
    client.delete("/t")
    client.ping()
    assert counted(world) == {
        "op_count_total": 8,
        "op_count_create_session": 1,
        "op_count_create": 2,
        "op_count_delete": 1,
        "op_count_get_data": 1,
        "op_count_get_children": 1,
        "op_count_multi": 1,
        "op_count_ping": 1,
        "ttl_node_created_count": 1,
        "ttl_node_deleted_count": 1,
    }
    world.open().exchange(b"srst")
    assert counted(world) == {}


def test_fips_mode_can_be_switched_off() -> None:
    assert digest_md5_is_there(World(emulate="3.10", fips_mode=False, sasl_users={"bob": "secret"}))


def test_the_read_only_byte_of_3_9_0() -> None:
    for release, extra in (("3.8", b""), ("3.9.0", b"\0"), ("3.9.2", b"\0"), ("3.9", b"")):
        client = World(emulate=release).connect(read_only=None)
        assert client.handshake is not None
        assert client.handshake.extra == extra


def test_an_unknown_op_alone_and_among_others() -> None:
    world = World(emulate="3.6")
    alone, among = world.connect(), world.connect()
    alone.ping()
    assert alone.request(OpCode.WHO_AM_I).err == -6
    among.feed(among.encode(OpCode.PING, xid=-2) + among.encode(OpCode.WHO_AM_I))
    assert [among.reply().err for _ in range(2)] == [0, -6]


def test_the_release_is_announced() -> None:
    world = World(emulate="3.6")
    assert world.open().exchange(b"srvr").startswith(b"Zookeeper version: 3.6.4-pyzk-")
    assert world.open().exchange(b"mntr").startswith(b"zk_version\t3.6.4-pyzk-")
    assert b"\nzookeeper.version=3.6.4-pyzk-" in world.open().exchange(b"envi")


def test_a_restart_keeps_the_release_and_so_do_files(tmp_path: Path) -> None:
    with EmbeddedServer(emulate="3.8") as server:
        server.restart(keep_data=False)
        host, _, port = server.hosts.partition(":")
        with WireClient((host, int(port))) as client:
            client.connect()
            client.exists("/n", watch=True)
            client.create("/n")
            assert [event.zxid for event in client.take_events()] == [-1]
    world = World(emulate="3.8", data=tmp_path)
    assert events_carry_no_zxid(world)


def test_a_watch_on_a_null_path_ends_with_its_connection_as_all_others_do() -> None:
    world = World(emulate="3.8")
    watcher, other = world.connect(), world.connect()
    watcher.add_watch(None, AddWatchMode.PERSISTENT)
    watcher.get("/", watch=True)
    assert other.check_watches("/", WatcherType.DATA).err == 0
    assert watcher.request(OpCode.CLOSE_SESSION).err == 0
    assert watcher.closed
    assert other.check_watches("/", WatcherType.DATA).err == -121
    assert world.engine.watches.count() == 0


def test_an_ensemble_has_the_default_release() -> None:
    with pytest.raises(SettingsError, match="emulate is for a single server"):
        EmbeddedEnsemble(emulate="3.8").__enter__()


def test_a_recursive_watch_of_before_3_9_is_told_of_deletes_even_where_its_mode_was_replaced() -> None:
    client = World(emulate="3.8").connect()
    client.create("/n")
    client.create("/n/a")
    client.create("/n/a/b")
    client.add_watch("/n", AddWatchMode.PERSISTENT_RECURSIVE)
    client.get("/n", watch=True)
    client.set("/n/a", b"")
    client.delete("/n/a/b")
    assert kinds(client.take_events()) == [(EventType.DELETED, "/n/a/b")]
    assert client.remove_watches("/n", WatcherType.CHILDREN).err == 0
    client.delete("/n/a")
    assert client.take_events() == []
    assert client.remove_watches("/n", WatcherType.DATA).err == 0
    assert client.remove_watches("/n", WatcherType.ANY).err == -121


def test_before_3_9_a_recursive_watch_takes_the_place_of_a_child_watch() -> None:
    client = World(emulate="3.8").connect()
    client.create("/n")
    client.children("/n", watch=True)
    client.add_watch("/n", AddWatchMode.PERSISTENT_RECURSIVE)
    client.create("/n/a")
    assert kinds(client.take_events()) == [(EventType.CREATED, "/n/a")]


def test_before_3_9_a_second_watch_without_a_path_fails() -> None:
    world = World(emulate="3.8")
    client = world.connect()
    assert [client.add_watch(None, AddWatchMode.PERSISTENT).err for _ in range(2)] == [0, -5]
    client.remove_watches(None, WatcherType.ANY)
    assert client.add_watch(None, AddWatchMode.PERSISTENT).err == -5
    assert world.connect().add_watch(None, AddWatchMode.PERSISTENT).err == 0
    newer = World(emulate="3.9").connect()
    assert [newer.add_watch(None, AddWatchMode.PERSISTENT).err for _ in range(2)] == [0, 0]
