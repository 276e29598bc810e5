"""What the core tells operators: who watches what, quotas, deadlines, logins to an ensemble."""

from __future__ import annotations

from typing import Any

import pytest

from pyzk.protocol.constants import AddWatchMode, EventType, Perms
from pyzk.protocol.errors import AuthFailedError
from pyzk.protocol.records import ACL, OPEN_ACL, AuthPacket, Id
from pyzk.server.core import watches as core_watches
from pyzk.server.core.acl import SUPER, Denied, WrongEnsembleError, id_text
from pyzk.server.core.quota import ROOT
from pyzk.server.core.sessions import NEVER, SessionTracker, computed_password
from pyzk.server.core.tree import DataTree
from pyzk.server.core.watches import PERSISTENT, RECURSIVE, STANDARD, WatchManager

from ...support.requests import create_op, set_op
from ...support.world import Peer, World, creation

# --- watches -----------------------------------------------------------------------------------------------


@pytest.fixture
def watches() -> WatchManager[str]:
    made: WatchManager[str] = WatchManager()
    made.add_data("/a", "anne")
    made.add_data("/a", "bert")
    made.add_child("/a", "carl")
    made.add_persistent("/b", "anne")
    made.add_recursive("/c", "anne")
    return made


def test_who_watches_what(watches: WatchManager[str]) -> None:
    assert dict(watches.data_by_path()) == {"/a": ["anne", "bert"], "/b": ["anne"], "/c": ["anne"]}
    *way, last = watches.summary()
    assert way[0] == (0, 0, 0)
    assert len(way) == 3
    assert last == (2, 3, 4)
    assert (watches.sees_data("/a", "anne"), watches.sees_data("/a", "carl")) == (True, False)
    assert not watches.sees_data("/none", "anne")
    assert watches.count_at("/a") == {"data": 2, "child": 1}
    assert watches.count_at("/c") == {"data": 1, "child": 0}
    assert watches.count_at("/none") == {"data": 0, "child": 0}
    assert watches.paths() == [["/a", "/b", "/c"], ["/a", "/b"]]
    assert watches.modes_of("/a", "anne") == (STANDARD, 0)
    assert watches.modes_of("/a", "carl") == (0, STANDARD)
    assert watches.modes_of("/b", "anne") == (PERSISTENT, PERSISTENT)
    assert watches.modes_of("/c", "anne") == (RECURSIVE, 0)
    assert watches.modes_of("/none", "anne") == (0, 0)
    expected = [("anne", STANDARD, 0), ("bert", STANDARD, 0), ("carl", 0, STANDARD)]
    assert watches.modes_at("/a", 9) == expected
    assert watches.modes_at("/a", 2) == expected[:2]
    assert watches.modes_at("/b", 9) == [("anne", PERSISTENT, PERSISTENT)]
    assert watches.paths_of("anne") == ["/a", "/b", "/c"]
    assert watches.paths_of("nobody") == []
    assert watches.count() == 6


def test_paths_that_go_meanwhile_have_no_watchers(watches: WatchManager[str]) -> None:
    steps = watches.data_by_path()
    assert next(steps) == ("/a", ["anne", "bert"])
    watches.data_changed("/b")
    watches.forget("anne")
    watches.add_data("/new", "bert")
    assert list(steps) == [("/b", []), ("/c", [])]


def test_forgotten_watchers_are_left_out_until_they_are_swept(
    watches: WatchManager[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core_watches, "_STEP", 2)
    watches.forget("anne")
    assert watches.unswept
    assert watches.count() == 6
    assert dict(watches.data_by_path()) == {"/a": ["bert"], "/b": [], "/c": []}
    assert list(watches.summary())[-1] == (1, 1, 1)
    assert watches.modes_at("/a", 9) == [("bert", STANDARD, 0), ("carl", 0, STANDARD)]
    watches.sweep()
    assert watches.unswept
    watches.sweep()
    assert not watches.unswept
    assert watches.count() == 2
    assert [told for _, _, told in watches.data_changed("/a")] == [["bert"]]
    watches.forget("carl")
    assert (watches.unswept, watches.count()) == (False, 0), "few are swept at once"


# --- sessions ----------------------------------------------------------------------------------------------


def test_sessions_by_deadline_and_the_first_of_those_that_are_due() -> None:
    sessions = SessionTracker(100, 0, lambda session_id: b"")
    assert sessions.next_deadline() == NEVER
    made = [sessions.create(timeout, 0) for timeout in (1000, 500, 1000, 250)]
    assert list(sessions.by_deadline()) == [(300, [made[3]]), (600, [made[1]]), (1100, [made[0], made[2]])]
    assert sessions.next_deadline() == 300
    assert sessions.due(299) == []
    assert sessions.due(300) == [made[3]]
    assert sessions.due(9999) == [made[3], made[1], made[0], made[2]]
    assert sessions.due(9999, 3) == [made[3], made[1], made[0]]
    assert sessions.due(9999, 0) == []
    sessions.remove(made[3])
    assert made[3].closed
    assert next(iter(sessions.by_deadline()))[0] == 600
    assert sessions.next_deadline() == 600


def test_the_id_of_a_restored_session_is_given_to_no_other() -> None:
    sessions = SessionTracker(100, 5, lambda session_id: b"")
    first = sessions.create(1000, 0).id
    sessions.restore(first + 7, 1000, 50)
    assert sessions.create(1000, 0).id == first + 8
    sessions.restore(first + 3, 1000, 0)  # an older one
    sessions.restore(2 << 56, 1000, 0)  # of another server
    assert sessions.create(1000, 0).id == first + 9
    restored = sessions.get(first + 7)
    assert restored is not None
    assert (restored.timeout, restored.deadline, len(restored.password)) == (1000, 1100, 16)


# --- quotas ------------------------------------------------------------------------------------------------


def test_what_a_quota_allows_and_what_is_used(client: Peer, world: World) -> None:
    for path in ("/q", "/q/x"):
        client.create(path, b"12345")
    client.create(f"{ROOT}/q")
    client.create(f"{ROOT}/q/zookeeper_limits", b"count=5,bytes=100,countHardLimit=7")
    quotas = world.tree.quotas
    limits = {"count": 5, "bytes": 100, "countHardLimit": 7, "byteHardLimit": -1}
    assert (quotas.limits("/q"), quotas.usage("/q")) == (limits, None)
    client.create(f"{ROOT}/q/zookeeper_stats", b"")
    assert quotas.usage("/q") == {"count": 2, "bytes": 10}
    client.create("/q/x/y", b"1")
    assert quotas.usage("/q") == {"count": 3, "bytes": 11}
    assert list(quotas.prefixes) == ["/q"]


# --- access ------------------------------------------------------------------------------------------------


def test_the_identity_that_may_do_all() -> None:
    assert Id("super", "") == SUPER


def test_a_refusal_shows_no_digest() -> None:
    acl = (ACL(Perms.READ | Perms.WRITE, Id("digest", "bob:secret=")), ACL(31, Id("ip", "10.0.0.1")))
    denied = Denied("/a", acl, Perms.DELETE, [Id("ip", "1.1.1.1"), Id("digest", "eve:other=")])
    assert str(denied) == (
        "d is needed for /a; the ACL is [digest:bob:***=rw, ip:10.0.0.1=rwcda], "
        "the client is [ip:1.1.1.1, digest:eve:***]"
    )
    assert id_text(Id("world", None)) == "world:"


@pytest.mark.parametrize(
    ("name", "outcome"), [(b"one", "success"), (b"two", "success"), (b"", "skip"), (None, "skip")]
)
def test_a_client_may_say_which_ensemble_it_looks_for(name: bytes | None, outcome: str) -> None:
    server = World(ensemble_names=frozenset({"one", "two"}))
    client: Any = server.connect().connection
    before = list(client.identities)
    server.engine.authenticate(client, AuthPacket(0, "ensemble", name), "10.0.0.1")
    expected = dict.fromkeys(("success", "fail", "skip"), 0) | {outcome: 1}
    assert server.engine.stats.ensemble_auth == expected
    assert client.identities == before
    with pytest.raises(WrongEnsembleError, match=r"looks for the ensemble b'three', and .* names one, two"):
        server.engine.authenticate(client, AuthPacket(0, "ensemble", b"three"), "10.0.0.1")
    assert server.engine.stats.ensemble_auth == expected | {"fail": 1}


def test_a_server_without_names_has_no_scheme_for_them() -> None:
    server = World()
    client: Any = server.connect().connection
    with pytest.raises(AuthFailedError):
        server.engine.authenticate(client, AuthPacket(0, "ensemble", b"one"), "10.0.0.1")
    assert set(server.engine.stats.ensemble_auth.values()) == {0}


# --- trees -------------------------------------------------------------------------------------------------


def test_a_copy_changes_on_its_own() -> None:
    tree = DataTree()
    tree.apply(creation("/a", b"x", 77), 1, 1)
    twin = tree.copy()
    assert set(twin.nodes) == set(tree.nodes)
    assert (len(twin), twin.data_size) == (len(tree), tree.data_size)
    assert twin.ephemerals == tree.ephemerals == {77: {"/a": None}}
    twin.apply(creation("/b"), 2, 2)
    assert "/b" not in tree.nodes
    tree.nodes["/a"].data = b"other"
    assert twin.nodes["/a"].data == b"x"


def test_the_configuration_is_written_without_a_version() -> None:
    tree = DataTree()
    tree.configure(b"server.1=...", 5, 6)
    node = tree.nodes["/zookeeper/config"]
    assert (node.data, node.version, node.mzxid, node.mtime) == (b"server.1=...", -1, 5, 6)
    assert node.acl != OPEN_ACL


def test_a_password_is_what_javas_random_makes_of_the_id() -> None:
    """Of ``new Random(id ^ 0xB3415C00)`` (semantics.md section 12.2); here of ``new Random(0)``."""
    assert computed_password(0xB3415C00) == bytes.fromhex("60b420bb3851d9d47acb933dbe70399b")


def test_a_multi_tells_each_of_its_changes_of_a_znode(client: Peer, other: Peer) -> None:
    client.create("/a")
    other.add_watch("/a", AddWatchMode.PERSISTENT)
    client.multi(set_op("/a", b"1"), set_op("/a", b"2"), create_op("/a/b"), create_op("/a/c"))
    told = [(event.type, event.path) for event in other.take_events()]
    assert told == [(EventType.CHANGED, "/a")] * 2 + [(EventType.CHILD, "/a")] * 2
