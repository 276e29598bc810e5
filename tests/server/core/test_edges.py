"""The core at its edges: what is just allowed and what no longer, and what of two things comes first."""

from __future__ import annotations

import logging

import pytest

from benchmarks.wire import hello
from pyzk.protocol.constants import CONFIG_PATH, INT_MAX, AddWatchMode, EventType, WatcherType
from pyzk.protocol.errors import AuthFailedError, InvalidACLError
from pyzk.protocol.operations import OpCode
from pyzk.protocol.records import ACL, OPEN_ACL, Id
from pyzk.server.config.settings import Settings
from pyzk.server.core import acl as acl_module
from pyzk.server.core import sessions, stats, tree
from pyzk.server.core.acl import AccessControl, Denied, LongACL, add_identities, shared_acl
from pyzk.server.core.engine import Engine
from pyzk.server.core.quota import ROOT
from pyzk.server.core.reaper import Reaper
from pyzk.server.core.sasl import Login
from pyzk.server.core.sessions import NEVER, RandomPool, SessionTracker
from pyzk.server.core.stats import Histogram, ServerStats
from pyzk.server.core.tree import BUILT_IN, DataTree
from pyzk.server.core.watches import PERSISTENT, WatchManager
from pyzk.server.core.znode import MAX_TTL, Znode, copy_tree, is_session, ttl_owner

from ...support.histories import SETTINGS
from ...support.invariants import check_tree_invariants
from ...support.requests import create_op, delete_op, set_op
from ...support.world import EPOCH, START, Peer, World, creation, deletion

CHANGED, CREATED, DELETED = EventType.CHANGED, EventType.CREATED, EventType.DELETED

# --- access ------------------------------------------------------------------------------------------------


def ip(number: int) -> ACL:
    return ACL(31, Id("ip", f"10.0.0.{number}"))


def test_how_many_lists_of_access_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """By their bytes: 200 and the id for each entry, of what was asked and of what is stored."""
    size = 2 * (200 + len("10.0.0.1"))
    for room, remembered in ((3 * size, 3), (3 * size - 1, 2)):
        monkeypatch.setattr(acl_module, "_MAX_REMEMBERED", room)
        access, most = AccessControl(Settings()), 0
        for number in range(1, 9):
            access.validate([ip(number)], [], "/p")
            access.validate([ip(number)], [], "/p")
            most = max(most, len(access._known))
        assert most == remembered


def test_a_list_that_alone_is_too_much_is_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acl_module, "_MAX_REMEMBERED", 2 * (200 + len("10.0.0.1")))
    access = AccessControl(Settings())
    access.validate([ip(1)], [], "/p")
    assert len(access._known) == 1
    access.validate([ip(1), ip(2)], [], "/p")
    assert (len(access._known), access._known_size) == (0, 0)


@pytest.mark.parametrize("missing", [0, 1])
def test_what_auth_stands_for_must_fit_into_a_packet(missing: int) -> None:
    """20 bytes and the id for each identity, for each entry of the scheme."""
    mine = [Id("digest", "anne:12345"), Id("digest", "bert:1")]
    needed = 3 * (20 + len("anne:12345") + 20 + len("bert:1"))
    access = AccessControl(Settings(max_buffer=needed - missing))
    asked = [ACL(perms, Id("auth", "")) for perms in (1, 2, 4)]
    if missing:
        with pytest.raises(InvalidACLError, match="2 identities for each auth entry"):
            access.validate(asked, mine, "/p")
    else:
        assert len(access.validate(asked, mine, "/p")) == 6


@pytest.mark.parametrize(("letters", "fits"), [(2**16 - 10, True), (2**16 - 9, False)])
def test_the_identities_of_a_connection_have_65536_letters(letters: int, fits: bool) -> None:
    known = [Id("ip", "10.0.0.123")]
    assert len("10.0.0.123") == 10
    earned = [Id("digest", "x" * letters)]
    if fits:
        add_identities(known, earned)
        assert known[1:] == earned
    else:
        with pytest.raises(AuthFailedError, match="of 65,536 characters in all"):
            add_identities(known, earned)
        assert len(known) == 1


@pytest.mark.parametrize(("entries", "has_index"), [(8, False), (9, True)])
def test_a_long_list_has_an_index(entries: int, has_index: bool) -> None:
    stored = shared_acl(tuple(map(ip, range(entries))))
    assert isinstance(stored, LongACL) is has_index
    assert len(stored) == entries


@pytest.mark.parametrize(("entries", "text"), [(20, "ip:10.0.0.19=rwcda]"), (21, "rwcda, and 1 more]")])
def test_a_refusal_shows_20_entries(entries: int, text: str) -> None:
    denied = Denied("/a", tuple(map(ip, range(entries))), 1, [])
    assert text in str(denied)
    assert "ip:10.0.0.19" in str(denied)
    assert "ip:10.0.0.20" not in str(denied)


@pytest.mark.parametrize("others", [0, 20])
@pytest.mark.parametrize(
    ("wanted", "who", "allowed"),
    [
        ("10.0.0.0/8", "10.255.255.255", True),
        ("10.0.0.0/8", "11.0.0.0", False),
        ("10.0.0.1/32", "10.0.0.1", True),
        ("10.0.0.1/32", "10.0.0.2", False),
        ("0.0.0.0/0", "255.255.255.255", True),
        ("0.0.0.0/0", "::1", False),
        ("::/0", "::1", True),
        ("::/0", "1.2.3.4", False),
        ("2001:db8::/127", "2001:db8::1", True),
        ("2001:db8::/127", "2001:db8::2", False),
        ("010.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "010.0.0.1", True),
        ("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", True),
    ],
)
def test_networks_in_short_and_in_long_lists(wanted: str, who: str, allowed: bool, others: int) -> None:
    entries = [ACL(2, Id("ip", f"192.168.0.{number}")) for number in range(others)]
    acl = shared_acl((*entries, ACL(1, Id("ip", wanted))))
    access = AccessControl(Settings())
    assert access.allows(acl, 1, [Id("ip", who)]) is allowed
    assert not access.allows(acl, 4, [Id("ip", who)])


@pytest.mark.parametrize("others", [0, 20])
def test_permissions_of_equal_ids_add_up(others: int) -> None:
    entries = [ACL(2, Id("ip", f"192.168.0.{number}")) for number in range(others)]
    networks = [ACL(perms, Id("ip", "10.0.0.0/8")) for perms in (1, 4)]
    exact = [ACL(perms, Id("digest", "anne:x")) for perms in (1, 8)]
    acl = shared_acl((*entries, *networks, *exact))
    access = AccessControl(Settings())
    for perm, by_network, by_name in ((1, True, True), (2, False, False), (4, True, False), (8, False, True)):
        assert access.allows(acl, perm, [Id("ip", "10.1.1.1")]) is by_network
        assert access.allows(acl, perm, [Id("digest", "anne:x")]) is by_name
        assert access.allows(acl, perm, [Id("ip", "10.1.1.1"), Id("digest", "anne:x")]) is (
            by_network or by_name
        )


# --- sessions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "given"),
    [(1, 4000), (3999, 4000), (4000, 4000), (7777, 7777), (40_000, 40_000), (40_001, 40_000)],
)
def test_a_timeout_lies_between_2_and_20_ticks(asked: int, given: int) -> None:
    world = World(tick_time=2000)
    client = world.connect(timeout=asked)
    session = world.engine.sessions.get(client.session_id)
    assert session is not None
    assert (session.timeout, client.handshake.timeout) == (given, given)  # type: ignore[union-attr]


def test_a_session_moves_to_a_new_connection(world: World) -> None:
    """With its new timeout, and without the watches of the old one."""
    client, writer = world.connect(timeout=5000), world.connect()
    client.create("/e", flags=1)
    client.get("/", watch=True)
    world.pass_time(3)
    session = world.engine.sessions.get(client.session_id)
    assert session is not None
    assert world.engine.client_of(session) is client.connection
    before = world.zxid
    again = world.connect(timeout=9000, session_id=client.session_id, password=client.password)
    assert (again.session_id, again.closed, client.closed) == (client.session_id, False, True)
    assert (session.timeout, world.zxid) == (9000, before)
    assert world.engine.client_of(session) is again.connection
    world.service.closed(client.connection, "late")
    assert world.engine.client_of(session) is again.connection, "the old one is not its own any more"
    world.pass_time(8)
    writer.ping()
    assert not again.closed
    writer.set("/", b"x")
    assert again.take_events() == []
    world.service.closed(again.connection, "its end")
    assert world.engine.client_of(session) is None
    assert "/e" in world.tree.nodes


def test_a_handshake_without_its_last_byte_gets_none(world: World) -> None:
    old, new = world.open(), world.open()
    short, long = old.exchange(hello(5000, read_only=None)), new.exchange(hello(5000))
    assert len(long) == len(short) + 1
    assert int.from_bytes(long[:4]) == int.from_bytes(short[:4]) + 1


def test_passwords_are_drawn_by_the_engine_itself() -> None:
    engine = Engine(Settings(), now=0, epoch=0)
    made = {engine.password_of(1) for _ in range(200)}
    assert len(made) == 200
    assert {len(each) for each in made} == {16}


def test_randomness_is_drawn_1024_bytes_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []

    def urandom(size: int) -> bytes:
        drawn.append(size)
        return bytes(len(drawn) for _ in range(size))

    monkeypatch.setattr(sessions.os, "urandom", urandom)
    pool = RandomPool()
    taken = [pool.take(16) for _ in range(65)]
    assert drawn == [1024, 1024]
    assert taken == [b"\1" * 16] * 64 + [b"\2" * 16]
    assert pool.take(2000) == b"\3" * 2000
    assert drawn == [1024, 1024, 2000]


def test_the_clock_of_a_server_and_of_the_world(world: World) -> None:
    engine = world.engine
    assert engine.started == engine._now == int(START * 1000)
    assert engine.time == int(EPOCH * 1000) == engine.wall_clock(int(START * 1000))
    world.pass_time(2.5)
    world.connect().create("/a")
    assert world.tree.nodes["/a"].ctime == int(EPOCH * 1000) + 2500


def test_the_zxid_of_a_start_leaves_room_for_those_of_before() -> None:
    assert Engine(Settings(), now=0, epoch=5).zxid == 5 << 18
    assert Engine(Settings(initial_zxid=0), now=0, epoch=5).zxid == 0


def test_the_next_id_is_behind_that_of_a_restored_session() -> None:
    tracker = SessionTracker(100, 5, lambda session_id: b"")
    first = tracker.create(1000, 0).id
    tracker.restore(first + 1, 1000, 0)
    assert tracker.create(1000, 0).id == first + 2
    last = (2 << 56) - 1
    tracker.restore(last, 1000, 0)
    assert tracker.create(1000, 0).id == last + 1


@pytest.mark.parametrize(
    "name",
    [
        *("username", "realm", "nonce", "cnonce", "nonce-count", "qop", "digest-uri", "response", "maxbuf"),
        *("charset", "cipher", "authzid", "auth-param"),
    ],
)
def test_a_directive_may_come_once(name: str) -> None:
    login = Login({}, bytes)
    login.answer(b"")
    with pytest.raises(AuthFailedError, match=f"the token has the directive {name} twice"):
        login.answer(f'{name}="a",{name}="b"'.encode())


@pytest.mark.parametrize("name", ["nc", "other"])
def test_other_directives_may_come_again(name: str) -> None:
    login = Login({}, bytes)
    login.answer(b"")
    with pytest.raises(AuthFailedError, match="the token lacks the directive username"):
        login.answer(f'{name}="a",{name}="b"'.encode())


def test_a_nonce_has_30_bytes_of_chance() -> None:
    drawn: list[int] = []

    def draw(size: int) -> bytes:
        drawn.append(size)
        return bytes(size)

    challenge = Login({}, draw).answer(b"")
    assert drawn == [30]
    assert b'nonce="' + b"A" * 40 + b'"' in challenge


def test_a_bucket_that_is_empty_is_forgotten_when_it_is_looked_at() -> None:
    tracker = SessionTracker(100, 0, lambda session_id: b"")
    first, second = tracker.create(1000, 0), tracker.create(2000, 0)
    tracker.remove(first)
    assert len(tracker._buckets) == 2
    assert tracker.next_deadline() == 2100
    assert len(tracker._buckets) == 1
    tracker.remove(second)
    assert (tracker.next_deadline(), len(tracker._buckets)) == (NEVER, 0)
    assert NEVER == 2**63 - 1


# --- the tree ----------------------------------------------------------------------------------------------


def test_the_longest_path_that_is_remembered() -> None:
    made = DataTree()
    for length, remembered in ((1000, True), (1001, False)):
        path = "/" + "x" * (length - 1)
        made.apply(creation(path), 1, 1)
        assert made.find(path) is not None
        assert (path in made._found) is remembered


def test_the_paths_that_are_remembered_are_4096(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tree._FOUND == 4096
    monkeypatch.setattr(tree, "_FOUND", 5)
    made, most = DataTree(), 0
    for number in range(20):
        made.apply(creation(f"/{number}"), 1, 1)
        made.find(f"/{number}")
        most = max(most, len(made._found))
    assert most == 5


def test_a_path_that_is_not_there_is_not_remembered() -> None:
    made = DataTree()
    for path in ("/none", "/none/none", "//", "", "x"):
        found = made.find(path)
        assert (found is None) is (path != "")
    assert not {"/none", "/none/none", "//", "x"} & set(made._found)
    made.apply(creation("/none"), 1, 1)
    assert made.find("/none") is not None
    made.apply(deletion("/none"), 2, 2)
    assert made.find("/none") is None


@pytest.mark.parametrize("znodes", [0, 95, 96, 97, 98, 197, 198, 297])
def test_a_tree_is_registered_100_znodes_at_a_time(znodes: int) -> None:
    """A step comes behind the first one of each 100; three are built in."""
    made = DataTree()
    for number in range(znodes):
        made.apply(creation(f"/{number}"), 1, 1)
    other = DataTree()
    assert len(list(other.starting(made.nodes["/"]))) == -(-(znodes + 3) // 100)
    check_tree_invariants(other)


def test_the_text_of_a_quota_counts_for_the_quota_around_it() -> None:
    """A quota on the znodes of the quotas themselves."""
    world = World(**SETTINGS)
    client = world.connect()
    client.create("/q", b"1")
    for around in ("/q", ROOT):
        path = ""
        for name in around[1:].split("/"):
            path += f"/{name}"
            client.create(f"{ROOT}{path}")
        client.create(f"{ROOT}{around}/zookeeper_limits", b"count=99")
        client.create(f"{ROOT}{around}/zookeeper_stats", b"")
    for number in range(12):
        client.create(f"/q/{number}", b"data")
    client.delete("/q/1")
    check_tree_invariants(world.tree)
    assert world.tree.nodes[f"{ROOT}/q/zookeeper_stats"].data == b"count=12,bytes=45"


@pytest.mark.parametrize(
    ("limits", "refused"),
    [
        (b"countHardLimit=", False),
        (b"countHardLimit=-1", False),
        (b"countHardLimit=1", True),
        (b"countHardLimit=2", False),
        (b"countHardLimit=0", True),
        (b"byteHardLimit=3", True),
        (b"byteHardLimit=4", False),
        (b"count=1,bytes=1", False),
    ],
)
def test_the_limits_of_a_quota(limits: bytes, refused: bool) -> None:
    """A limit without a number is none."""
    world = World(**SETTINGS)
    client = world.connect()
    client.create("/q")
    client.create(f"{ROOT}/q")
    client.create(f"{ROOT}/q/zookeeper_limits", limits)
    client.create(f"{ROOT}/q/zookeeper_stats", b"")
    assert client.create("/q/x", b"1234").err == (-125 if refused else 0)


@pytest.mark.parametrize(
    ("limits", "line"),
    [
        (b"count=1", "the quota of /q is exceeded: 2 count, 1 allowed"),
        (b"count=2", None),
        (b"bytes=3", "the quota of /q is exceeded: 4 bytes, 3 allowed"),
        (b"bytes=4", None),
        (b"count=1,countHardLimit=2", None),
    ],
)
def test_a_soft_limit_is_logged(limits: bytes, line: str | None, caplog: pytest.LogCaptureFixture) -> None:
    client = World(**SETTINGS).connect()
    client.create("/q")
    client.create(f"{ROOT}/q")
    client.create(f"{ROOT}/q/zookeeper_limits", limits)
    client.create(f"{ROOT}/q/zookeeper_stats", b"")
    with caplog.at_level(logging.WARNING, "pyzk"):
        assert client.create("/q/x", b"1234").err == 0
    assert [record.getMessage() for record in caplog.records] == [line] * (line is not None)


def test_a_quota_that_is_set_again_is_logged_again(caplog: pytest.LogCaptureFixture) -> None:
    client = World(**SETTINGS).connect()
    client.create("/q")
    client.create(f"{ROOT}/q")
    client.create(f"{ROOT}/q/zookeeper_limits", b"count=1")
    client.create(f"{ROOT}/q/zookeeper_stats", b"")
    lines = []
    with caplog.at_level(logging.WARNING, "pyzk"):
        for number in range(4):
            client.create(f"/q/{number}")
            if number == 1:
                client.delete(f"{ROOT}/q/zookeeper_limits")
                client.create(f"{ROOT}/q/zookeeper_limits", b"count=1")
            lines.append(len(caplog.records))
    assert lines == [1, 1, 2, 2]


def test_a_tree_that_is_taken_over_counts_for_its_quotas_itself() -> None:
    """Whatever their texts say."""
    made = DataTree()
    for path, data in (
        ("/q", b"123"),
        ("/q/x", None),
        (f"{ROOT}/q", b""),
        (f"{ROOT}/q/zookeeper_limits", b"count=9"),
        (f"{ROOT}/q/zookeeper_stats", b"x"),
    ):
        made.apply(creation(path, data), 1, 1)
    made.nodes[f"{ROOT}/q/zookeeper_stats"].data = b"count=77,bytes=88"
    other = DataTree()
    other.adopt(copy_tree(made.nodes["/"]))
    assert other.nodes[f"{ROOT}/q/zookeeper_stats"].data == b"count=2,bytes=3"
    assert other.quotas.usage("/q") == {"count": 2, "bytes": 3}
    check_tree_invariants(other)


@pytest.mark.parametrize("text", [b"", None, b",", b";"])
def test_limits_without_a_text_are_none_and_no_warning(
    text: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    client = World(**SETTINGS).connect()
    client.create("/q")
    client.create(f"{ROOT}/q")
    client.create(f"{ROOT}/q/zookeeper_limits", text)
    client.create(f"{ROOT}/q/zookeeper_stats", b"")
    with caplog.at_level(logging.WARNING, "pyzk"):
        assert client.create("/q/x").err == 0
    assert caplog.records == []


def test_what_is_built_in_is_of_no_transaction() -> None:
    made = DataTree()
    for path in BUILT_IN:
        node = made.nodes[path]
        assert (node.data, node.owner, node.version, node.children_created) == (b"", 0, 0, 0)
        assert (node.czxid, node.mzxid, node.pzxid, node.ctime, node.mtime) == (0,) * 5
        assert node.aversion == (-1 if path == CONFIG_PATH else 0)
    assert len(BUILT_IN) == 4


def test_how_to_undo_is_forgotten_at_the_end_of_a_multi() -> None:
    made = DataTree()
    for end in (made.commit, made.roll_back):
        made.begin()
        made.apply(creation("/a"), 1, 1)
        assert made._journal
        end()
        assert made._journal is None
        if "/a" in made.nodes:
            made.apply(deletion("/a"), 2, 2)
    made.roll_back()
    assert "/a" not in made.nodes
    check_tree_invariants(made)


@pytest.mark.parametrize(
    ("owner", "session"),
    [
        (0, False),
        (1, True),
        (-1, False),
        (-(2**63), False),
        (-(2**63) + 1, True),
        ((0xFF << 56) - 2**64 - 1, True),
        ((0xFF << 56) - 2**64, False),
        (ttl_owner(1), False),
        (ttl_owner(MAX_TTL), False),
    ],
)
def test_which_owners_are_sessions(owner: int, session: bool) -> None:
    assert is_session(owner) is session


def test_ephemerals_of_a_server_above_127_are_listed() -> None:
    """Its sessions have negative ids."""
    made = DataTree()
    made.apply(creation("/e", b"", -(5 << 56)), 1, 1)
    assert made.ephemerals == {-(5 << 56): {"/e": None}}
    assert made.ephemeral_count() == 1
    assert made.nodes["/e"].ephemeral_owner == made.nodes["/e"].stat().ephemeralOwner == -(5 << 56)
    made.apply(deletion("/e"), 2, 2)
    assert (made.ephemerals, made.containers, made.ttl_nodes) == ({}, {}, {})


def test_more_than_128_letters_and_names_beyond_ascii_are_listed() -> None:
    made = DataTree()
    for name in ("a" * 127, "b" * 128, "\u00e4"):
        made.apply(creation(f"/{name}"), 1, 1)
        check_tree_invariants(made)
        made.apply(deletion(f"/{name}"), 2, 2)


def test_a_multi_that_is_undone_leaves_each_field_as_it_was() -> None:
    world = World(**SETTINGS)
    client = world.connect()
    client.create("/a", b"1")
    client.create("/a/b", b"2")
    client.set("/a", b"3")
    before = world.tree.nodes["/a"].stat()
    size = world.tree.data_size
    world.pass_time(1)
    reply = client.multi(
        set_op("/a", b"long data"), set_op("/a", None), create_op("/a/c"), delete_op("/a/b"), delete_op("/no")
    )
    assert reply.err == 0
    node = world.tree.nodes["/a"]
    assert (node.data, node.stat(), world.tree.data_size) == (b"3", before, size)
    assert list(node.children or ()) == ["b"]
    check_tree_invariants(world.tree)


# --- watches -----------------------------------------------------------------------------------------------


def test_who_watches_the_znode_above_alone_is_not_told_of_what_is_below() -> None:
    """Where another one watches it with all that is below it."""
    watches: WatchManager[str] = WatchManager()
    watches.add_recursive("/a", "anne")
    watches.add_data("/a", "bert")
    watches.add_persistent("/a", "carl")
    assert watches.data_changed("/a/b") == [(CHANGED, "/a/b", ["anne"])]
    assert watches.created("/a/b/c", "/a/b") == [(CREATED, "/a/b/c", ["anne"])]
    assert watches.data_changed("/ab") == []
    assert watches.data_changed("/a") == [(CHANGED, "/a", ["anne", "bert", "carl"])]


@pytest.mark.parametrize("path", ["/x", "/ax", "/a/x", "/a/b-"])
def test_all_below_is_watched_whatever_the_last_letter(path: str) -> None:
    watches: WatchManager[str] = WatchManager()
    watches.add_recursive(path, "anne")
    for below in (path, f"{path}/c", f"{path}/c/x"):
        assert watches.data_changed(below) == [(CHANGED, below, ["anne"])]
    assert watches.data_changed(f"{path}x") == watches.data_changed(path[:-1]) == []


def test_who_was_forgotten_and_watched_all_below_is_told_of_nothing() -> None:
    watches: WatchManager[str] = WatchManager()
    for name in ("anne", "bert"):
        watches.add_recursive("/a", name)
        for number in range(1001):
            watches.add_data(f"/{number}", name)
    watches.add_recursive("/", "carl")
    watches.forget("anne")
    assert watches.unswept
    assert watches.data_changed("/a/b") == [(CHANGED, "/a/b", ["carl", "bert"])], "from the top"
    assert watches.data_changed("/7")[0][2] == ["bert", "carl"]
    watches.forget("carl")
    assert watches.data_changed("/8")[0][2] == ["bert"]


def test_those_who_stay_are_looked_up_anew_when_they_change() -> None:
    """The last ones that were told are remembered."""
    watches: WatchManager[str] = WatchManager()
    for name in ("anne", "bert"):
        watches.add_persistent("/a", name)
    told = [(CHANGED, "/a", ["anne", "bert"])]
    assert watches.data_changed("/a") == watches.data_changed("/a") == told
    watches.add_data("/a", "anne")
    assert watches.data_changed("/a") == told
    assert watches.modes_of("/a", "anne") == (PERSISTENT, PERSISTENT), "that of once was used up"
    watches.remove("/a", "bert", WatcherType.ANY)
    watches.add_persistent("/a", "carl")
    assert watches.data_changed("/a") == [(CHANGED, "/a", ["anne", "carl"])]
    watches.add_persistent("/a", "dora")
    assert watches.data_changed("/a") == [(CHANGED, "/a", ["anne", "carl", "dora"])]
    watches.forget("anne")
    assert watches.data_changed("/a") == [(CHANGED, "/a", ["carl", "dora"])]


def test_what_is_once_is_used_up_beside_the_other_kinds() -> None:
    watches: WatchManager[str] = WatchManager()
    for name in ("anne", "bert"):
        watches.add_persistent("/a", name)
        watches.add_recursive("/a", name)
        watches.add_data("/a", name)
    assert watches.modes_of("/a", "anne") == (7, 2)
    for _ in range(2):
        assert watches.data_changed("/a") == [(CHANGED, "/a", ["anne", "bert"])]
        assert watches.modes_of("/a", "anne") == watches.modes_of("/a", "bert") == (6, 2)


def test_asking_for_watches_and_removing_them_has_no_body(client: Peer) -> None:
    client.get("/", watch=True)
    replies = [client.check_watches("/", WatcherType.DATA), client.remove_watches("/", WatcherType.DATA)]
    assert [(reply.err, reply.body) for reply in replies] == [(0, b"")] * 2


def test_the_watches_of_several_connections_are_swept_one_after_the_other() -> None:
    watches: WatchManager[str] = WatchManager()
    for name, paths in (("anne", 1001), ("bert", 3), ("carl", 2)):
        for number in range(paths):
            watches.add_data(f"/{name}/{number}", name)
    watches.forget("anne")
    watches.forget("bert")
    watches.forget("nobody")
    left = []
    while watches.unswept:
        watches.sweep()
        left.append(watches.count())
    assert left == [1 + 3 + 2, 3 + 2, 2]
    watches.forget("carl")
    assert watches.count() == 0


@pytest.mark.parametrize(("paths", "left"), [(1000, False), (1001, True)])
def test_up_to_1000_paths_are_swept_at_once(paths: int, left: bool) -> None:
    watches: WatchManager[str] = WatchManager()
    for number in range(paths):
        watches.add_data(f"/{number}", "anne")
    watches.forget("anne")
    assert watches.unswept is left
    assert watches.count() == (paths if left else 0)


def test_a_watch_that_is_set_twice_is_counted_once(world: World, client: Peer) -> None:
    watches = world.engine.watches
    for _ in range(2):
        client.get("/", watch=True)
        client.add_watch("/", 0)
        client.add_watch("/", 1)
    assert watches.count() == 2
    assert watches.modes_of("/", client.connection) == (7, 2)
    watches.forget(client.connection)
    assert (watches.count(), watches._recursive, watches._data, watches._child) == (0, {}, {}, {})


# --- figures -----------------------------------------------------------------------------------------------


def test_events_are_counted_by_their_kind_and_size(world: World) -> None:
    clients = [world.connect() for _ in range(3)]
    for client in clients[:2]:
        client.get("/", watch=True)
        client.children("/", watch=True)
    engine = world.engine
    sent = engine.stats.more_sent
    clients[2].create("/abc")
    clients[2].set("/", b"x")
    watchers = engine.stats.watchers
    assert [(watchers[kind].count, watchers[kind].total) for kind in (CHANGED, EventType.CHILD)] == [
        *((1, 2), (1, 2))
    ]
    assert watchers[CREATED].count == 0
    event = 4 + 16 + 4 + 4 + 4 + 1  # the length, the header, type, state and path
    assert engine.stats.watch_bytes == 4 * event
    assert engine.stats.more_sent == sent + 4


def test_each_change_of_a_multi_is_told_with_its_own_path(client: Peer, other: Peer) -> None:
    client.create("/n")
    other.add_watch("/", AddWatchMode.PERSISTENT_RECURSIVE)
    client.multi(
        create_op("/a"),
        create_op("/b"),
        set_op("/a", b"1"),
        set_op("/a", b"2"),
        set_op("/n", b"3"),
        delete_op("/b"),
    )
    told = [(event.type, event.path) for event in other.take_events()]
    assert told == [
        *(
            (CREATED, "/a"),
            (CREATED, "/b"),
            (CHANGED, "/a"),
            (CHANGED, "/a"),
            (CHANGED, "/n"),
            (DELETED, "/b"),
        )
    ]


def test_sizes_that_are_remembered_are_1000() -> None:
    assert stats._SIZES == 1000
    made = ServerStats()
    for size in range(1, 1001):
        made.new_response_size(size)
    assert len(made.response_sizes) == 1000
    made.new_response_size(5000)
    assert made.response_sizes == {5000}
    assert (made.min_response, made.max_response) == (1, 5000)


def test_percentiles() -> None:
    made = Histogram()
    assert made.percentile(0.5) == 0
    made.zeros = 2
    made.add(10, 3)
    made.add(5)
    made.add(7, 0)
    assert made.counts() == {0: 2, 5: 1, 10: 3}
    assert len(made) == 6
    for share, value in ((0.0, 0), (1 / 3, 0), (0.34, 5), (0.5, 5), (0.51, 10), (1.0, 10)):
        assert made.percentile(share) == value
    summary = made.summary()
    assert (summary.count, summary.total, summary.minimum, summary.maximum) == (6, 35, 0, 10)


def test_a_reset_keeps_the_names_of_counters_of_another_release() -> None:
    made = ServerStats()
    made.others["other"] = 3
    made.reset()
    assert made.others == {"other": 0}


def test_the_listener_is_who_was_given(world: World) -> None:
    engine = world.engine
    assert engine.on_txn == world.txns.append
    assert engine.is_recorded
    engine.on_txn = None
    assert (engine.on_txn, engine.is_recorded) == (None, False)


@pytest.mark.parametrize(
    ("prefix", "found"),
    [
        (" ", True),
        ("\0 \x1f/\n", True),
        ("!", False),
        ("!/", False),
        (" !", False),
        ("//", False),
        (None, True),
        (" /", True),
    ],
)
def test_blanks_alone_mean_all_ephemerals(client: Peer, prefix: str | None, found: bool) -> None:
    """What Java takes for blanks: all up to the space."""
    client.create("/e", flags=1)
    assert client.ephemerals(prefix).record.ephemerals == (("/e",) if found else ())


# --- TTL and containers ------------------------------------------------------------------------------------


def test_that_ttls_are_switched_off_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    client = world.connect()
    with caplog.at_level(logging.WARNING, "pyzk"):
        for number in range(3):
            assert client.create(f"/{number}", flags=5, ttl=1000).err == -6
    lines = [
        record.getMessage() for record in caplog.records if "TTL znodes are refused" in record.getMessage()
    ]
    assert len(lines) == 1


@pytest.mark.parametrize(("ttl", "err"), [(0, -8), (1, 0), (MAX_TTL, 0), (MAX_TTL + 1, -8), (-1, -8)])
def test_the_shortest_and_the_longest_ttl(ttl: int, err: int) -> None:
    client = World(extended_types=True).connect()
    assert client.create("/t", flags=5, ttl=ttl).err == err


def test_a_check_looks_at_1000_znodes_at_a_time() -> None:
    """Then none for 10 ms."""
    made = DataTree()
    for number in range(2500):
        made.apply(creation(f"/{number}", b"", ttl_owner(1)), 1, 0)
    reaper = Reaper(made, Settings(container_check_interval=1000, container_max_per_minute=60_000_000), 0)
    assert reaper.next_deadline() == 1000
    unseen = []
    for now in (1000, 1009, 1010, 1019, 1020, 1030):
        for _ in reaper.due(now, 10_000):
            pass
        unseen.append(len(reaper._unseen))
    assert unseen == [1500, 1500, 500, 500, 0, 0]


def test_a_container_that_had_children_is_known_by_its_counter() -> None:
    world = World(**SETTINGS)
    client = world.connect(timeout=40_000)
    for path in ("/used", "/busy"):
        client.create(path, op=OpCode.CREATE_CONTAINER)
        client.create(f"{path}/x")
    client.delete("/used/x")
    world.pass_time(4)
    assert "/used" not in world.tree.nodes
    assert "/busy" in world.tree.nodes


def test_versions_go_on_at_their_least_behind_their_greatest(world: World, client: Peer) -> None:
    client.create("/a")
    node = world.tree.nodes["/a"]
    node.version = node.aversion = INT_MAX
    client.set("/a", b"")
    client.set_acl("/a", OPEN_ACL)
    assert (node.version, node.aversion) == (-INT_MAX - 1, -INT_MAX - 1)


def test_a_znode_shows_what_it_was_made_with() -> None:
    node = Znode(None, OPEN_ACL, 3, 4)
    stat = node.stat()
    assert (stat.czxid, stat.mzxid, stat.pzxid, stat.ctime, stat.mtime) == (3, 3, 3, 4, 4)
    assert (stat.version, stat.cversion, stat.aversion, stat.dataLength, stat.numChildren) == (0,) * 5
    assert (node.children_created, node.owner, node.ttl, node.is_container) == (0, 0, None, False)
