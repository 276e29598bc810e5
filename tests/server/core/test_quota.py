"""Quotas: bookkeeping, text format, enforcement (semantics.md section 9)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyzk.protocol.jute import fields_of
from pyzk.protocol.multi import MultiOp
from pyzk.protocol.records import OPEN_ACL
from pyzk.server.core import quota as quota_module
from pyzk.server.testing.snapshots import Snapshot

from ...support.counting import count_instructions
from ...support.invariants import check_tree_invariants
from ...support.requests import create_op, delete_op, set_op
from ...support.wire import Reply
from ...support.world import Peer, World

ROOT = "/zookeeper/quota"


def set_quota(client: Peer, path: str, limits: bytes, stats: bytes | None = b"count=0,bytes=0") -> None:
    """As clients do it: all ancestors, then the limits, then the usage."""
    parts = path.strip("/").split("/")
    for depth in range(1, len(parts) + 1):
        client.create(f"{ROOT}/{'/'.join(parts[:depth])}")
    assert client.create(f"{ROOT}{path}/zookeeper_limits", limits).err == 0
    if stats is not None:
        assert client.create(f"{ROOT}{path}/zookeeper_stats", stats).err == 0


def usage(client: Peer, path: str) -> bytes:
    data = client.get(f"{ROOT}{path}/zookeeper_stats").record.data
    assert isinstance(data, bytes)
    return data


@pytest.fixture
def world() -> World:
    return World(enforce_quota=True)


@pytest.fixture
def client(world: World) -> Peer:
    client = world.connect()
    client.create("/q", b"12345")
    client.create("/q/old", b"678")
    return client


# --- 9.1: bookkeeping --------------------------------------------------------------------------------------


@pytest.mark.parametrize("sent", [b"count=77,bytes=77", b"", None, b"nonsense"])
def test_creating_the_stats_counts_the_subtree_with_its_root(client: Peer, sent: bytes | None) -> None:
    set_quota(client, "/q", b"count=9,bytes=-1", None)
    client.create(f"{ROOT}/q/zookeeper_stats", sent)
    assert usage(client, "/q") == b"count=2,bytes=8"


# what happens, one after the other, and the usage after it
CHARGES: list[tuple[Callable[[Peer], Reply], bytes]] = [
    (lambda client: client.create("/q/a", b"xy"), b"count=3,bytes=10"),
    (lambda client: client.create("/q/a/b", None), b"count=4,bytes=10"),
    (lambda client: client.create("/q/e", b"z", flags=1), b"count=5,bytes=11"),
    (lambda client: client.create("/q/s-", b"z", flags=2), b"count=6,bytes=12"),
    (lambda client: client.set("/q/a", b"wxyz"), b"count=6,bytes=14"),
    (lambda client: client.set("/q/a", None), b"count=6,bytes=10"),
    (lambda client: client.set("/q", b""), b"count=6,bytes=5"),
    (lambda client: client.delete("/q/a/b"), b"count=5,bytes=5"),
    (lambda client: client.delete("/q/old"), b"count=4,bytes=2"),
    (lambda client: client.create("/qq", b"no business of this quota"), b"count=4,bytes=2"),
    (lambda client: client.set_acl("/q/a", OPEN_ACL), b"count=4,bytes=2"),
]


def test_every_change_below_the_prefix_is_charged(client: Peer) -> None:
    set_quota(client, "/q", b"count=-1,bytes=-1")
    for i, (change, charged) in enumerate(CHARGES):
        assert change(client).err == 0
        assert usage(client, "/q") == charged, i


def test_session_end_is_charged_too(world: World, client: Peer) -> None:
    set_quota(client, "/q", b"count=-1,bytes=-1")
    other = world.connect(timeout=4000)
    other.create("/q/e", b"123", flags=1)
    assert usage(client, "/q") == b"count=3,bytes=11"
    other.close_session()
    assert usage(client, "/q") == b"count=2,bytes=8"


def test_only_the_deepest_prefix_is_charged(client: Peer) -> None:
    client.create("/q/in")
    set_quota(client, "/q", b"count=-1,bytes=-1")
    set_quota(client, "/q/in", b"count=-1,bytes=-1")
    client.create("/q/in/x", b"1")
    client.create("/q/y", b"22")
    client.set("/q/in", b"333")
    assert (usage(client, "/q"), usage(client, "/q/in")) == (b"count=4,bytes=10", b"count=2,bytes=4")


def test_a_prefix_of_a_name_is_no_prefix_of_a_path(client: Peer) -> None:
    set_quota(client, "/q", b"count=-1,bytes=-1;countHardLimit=2")
    client.create("/qx")
    assert client.create("/qx/a").err == 0
    assert usage(client, "/q") == b"count=2,bytes=8"


def test_deleting_the_limits_ends_the_quota(world: World, client: Peer) -> None:
    set_quota(client, "/q", b"count=2,bytes=-1;countHardLimit=2")
    assert client.create("/q/a").err == -125
    client.delete(f"{ROOT}/q/zookeeper_limits")
    assert list(world.tree.quotas.prefixes) == []
    assert client.create("/q/a").err == 0
    assert usage(client, "/q") == b"count=2,bytes=8"


def test_bookkeeping_changes_no_stat_field_and_fires_nothing(client: Peer) -> None:
    # semantics.md section 1.4
    set_quota(client, "/q", b"count=-1,bytes=-1")
    path = f"{ROOT}/q/zookeeper_stats"
    before = client.get(path, watch=True).record.stat
    for i in range(10):
        client.create(f"/q/a{i}", b"x")
    record = client.get(path).record
    assert record.data == b"count=12,bytes=18"
    assert record.stat.dataLength == len(record.data) != before.dataLength
    record.stat = type(before)(**{**_fields(record.stat), "dataLength": before.dataLength})
    assert record.stat == before
    assert client.take_events() == []


def _fields(stat: Any) -> dict[str, Any]:
    return {name: getattr(stat, name) for name, _, _ in fields_of(type(stat))}


def test_the_size_of_the_tree_includes_what_the_bookkeeping_wrote(world: World, client: Peer) -> None:
    set_quota(client, "/q", b"count=-1,bytes=-1", b"x")
    for i in range(10):
        client.create(f"/q/a{i}", b"x")
    check_tree_invariants(world.tree)
    client.delete(f"{ROOT}/q/zookeeper_stats")
    check_tree_invariants(world.tree)


def test_a_failed_multi_leaves_the_usage_as_it_was(client: Peer) -> None:
    set_quota(client, "/q", b"count=-1,bytes=-1")
    reply = client.multi(create_op("/q/a", b"1"), create_op("/q/b", b"2"), create_op("/none/x"))
    assert [result.err for result in reply.results] == [0, 0, -101]
    assert usage(client, "/q") == b"count=2,bytes=8"


def test_a_failed_multi_restores_a_usage_that_a_client_wrote(client: Peer) -> None:
    # semantics.md section 11, rule 3
    set_quota(client, "/q", b"count=-1,bytes=-1")
    stats = f"{ROOT}/q/zookeeper_stats"
    client.set(stats, b"count=7,bytes=7")
    client.multi(delete_op(stats), delete_op("/none"))
    assert usage(client, "/q") == b"count=7,bytes=7"


def test_a_multi_is_measured_against_the_usage_before_it(client: Peer) -> None:
    set_quota(client, "/q", b"count=-1,bytes=-1;countHardLimit=3")
    reply = client.multi(create_op("/q/a"), create_op("/q/b"), create_op("/q/c"))
    assert [result.err for result in reply.results] == [0, 0, 0]
    assert usage(client, "/q") == b"count=5,bytes=8"
    assert [result.err for result in client.multi(delete_op("/q/a"), create_op("/q/d")).results] == [0, -125]
    assert client.exists("/q/a").err == 0


# --- 9.2 and 9.3: limits -----------------------------------------------------------------------------------

# the limits, the error of creating a znode of 2 bytes, of growing one by 2 bytes, of shrinking one by 2; the
# usage before is 2 znodes and 8 bytes
LIMITS = [
    (b"", 0, 0, 0),
    (b"count=-1,bytes=-1", 0, 0, 0),
    (b"count=2,bytes=-1", 0, 0, 0),  # a soft limit is only logged
    (b"count=0,bytes=0", 0, 0, 0),
    (b"countHardLimit=3", 0, 0, 0),
    (b"countHardLimit=2", -125, 0, 0),
    (b"countHardLimit=1", -125, 0, 0),  # a dimension that does not change is not looked at
    (b"countHardLimit=0", -125, 0, 0),
    (b"byteHardLimit=10", 0, 0, 0),
    (b"byteHardLimit=9", -125, -125, 0),
    (b"byteHardLimit=5", -125, -125, -125),
    (b"byteHardLimit=0", -125, -125, -125),
    (b"count=1,byteHardLimit=10", 0, 0, 0),
    (b"count=1;countHardLimit=9", 0, 0, 0),  # the hard limit decides alone
    (b"count=99,countHardLimit=2", -125, 0, 0),
    (b"count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=2", -125, 0, 0),  # as the real server writes it
    (b"countHardLimit=2;unknown=1", -125, 0, 0),
    (b"countHardLimit=-5", 0, 0, 0),
]


WRITES: dict[str, Callable[[Peer], Reply]] = {
    "create": lambda client: client.create("/q/n", b"12"),
    "grow": lambda client: client.set("/q", b"12345--"),
    "shrink": lambda client: client.set("/q", b"123"),
    "same size": lambda client: client.set("/q", b"54321"),
    "delete": lambda client: client.delete("/q/old"),
    "setACL": lambda client: client.set_acl("/q", OPEN_ACL),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize(("limits", "create", "grow", "shrink"), LIMITS)
def test_which_limits_refuse_what(
    client: Peer, limits: bytes, create: int, grow: int, shrink: int, write: str
) -> None:
    set_quota(client, "/q", limits)
    expected = {"create": create, "grow": grow, "shrink": shrink}.get(write, 0)
    assert WRITES[write](client).err == expected
    if expected:
        assert usage(client, "/q") == b"count=2,bytes=8"


@pytest.mark.parametrize("write", WRITES)
def test_nothing_is_refused_unless_quotas_are_enforced(write: str) -> None:
    client = World(enforce_quota=False).connect()
    client.create("/q", b"12345")
    client.create("/q/old", b"678")
    set_quota(client, "/q", b"countHardLimit=0;byteHardLimit=0")
    assert WRITES[write](client).err == 0


def test_every_kind_of_create_is_checked() -> None:
    world = World(enforce_quota=True, extended_types=True)
    client = world.connect()
    client.create("/q")
    set_quota(client, "/q", b"countHardLimit=1")
    replies = [client.create("/q/n", op=op) for op in (1, 15, 19)]
    replies += [client.create("/q/n", flags=flags) for flags in (1, 2, 3)]
    replies += [client.create("/q/n", flags=5, ttl=1000)]
    assert [reply.err for reply in replies] == [-125] * 7


@pytest.mark.parametrize("missing", ["zookeeper_limits", "zookeeper_stats"])
def test_half_a_quota_is_not_enforced(client: Peer, missing: str) -> None:
    set_quota(client, "/q", b"countHardLimit=1")
    assert client.create("/q/n").err == -125
    client.delete(f"{ROOT}/q/{missing}")
    assert client.create("/q/n").err == 0


def test_the_deepest_prefix_decides_alone(client: Peer) -> None:
    client.create("/q/in")
    set_quota(client, "/q", b"countHardLimit=1")
    set_quota(client, "/q/in", b"count=-1,bytes=-1")
    assert client.create("/q/in/x").err == 0
    assert client.create("/q/y").err == -125


def test_super_is_not_above_quotas() -> None:
    # semantics.md section 18, trap 30
    world = World(enforce_quota=True, super_digest="super:D/InIHSb7yEEbrWz8b9l71RjZJU=")
    client = world.connect()
    client.auth("digest", b"super:test")
    client.create("/q")
    set_quota(client, "/q", b"countHardLimit=1")
    assert client.create("/q/n").err == -125


def test_a_soft_limit_is_logged_once_with_its_numbers(client: Peer, caplog: pytest.LogCaptureFixture) -> None:
    set_quota(client, "/q", b"count=2,bytes=-1")
    with caplog.at_level(logging.WARNING, "pyzk"):
        for i in range(5):
            client.create(f"/q/n{i}")
    assert [record.getMessage() for record in caplog.records] == [
        "the quota of /q is exceeded: 3 count, 2 allowed"
    ]


# --- a multi is booked as a whole ---------------------------------------------------------------------------

INSIDE = ["/q", "/q/a", "/q/a/b", "/q/c"]
NESTED = ["/q", "/q/a", "/q/a/b", "/zookeeper/quota/q"]
TEXTS = [b"count=-1,bytes=-1", b"count=7,bytes=7", b"count=1;bytes=100000", b"junk", b"", None]


def steps() -> st.SearchStrategy[MultiOp]:
    data = st.sampled_from([b"", b"1", b"22", b"4444", None])
    own = st.builds(
        lambda path, leaf: f"{ROOT}{path}/zookeeper_{leaf}",
        st.sampled_from(NESTED),
        st.sampled_from(["limits", "stats"]),
    )
    inside = st.sampled_from(INSIDE)
    return st.one_of(
        st.builds(create_op, inside, data),
        st.builds(set_op, inside, data),
        st.builds(delete_op, inside),
        st.builds(create_op, own, st.sampled_from(TEXTS)),
        st.builds(set_op, own, st.sampled_from(TEXTS)),
        st.builds(delete_op, own),
    )


@given(st.lists(st.lists(steps(), min_size=1, max_size=6), max_size=12))
def test_a_multi_is_booked_like_its_operations_one_by_one(multis: list[list[MultiOp]]) -> None:
    whole, single = World().connect(), World().connect()
    for client in (whole, single):
        for path in [*INSIDE, ROOT + "/zookeeper", ROOT + "/zookeeper/quota"]:
            client.create(path, b"data")
        for path in NESTED:
            client.create(ROOT + path)
    for multi in multis:
        before = {path: node.data for path, node in whole.world.tree.nodes.items()}
        if whole.multi(*multi).results[-1].err == 0:
            for step in multi:
                assert single.request(step.op, step.request).err == 0
        else:
            assert {path: node.data for path, node in whole.world.tree.nodes.items()} == before
        for path in NESTED[
            :3
        ]:  # the last is charged with the sizes of the others' texts, which a multi skips
            stats = f"{ROOT}{path}/zookeeper_stats"
            assert whole.get(stats).body[:-68] == single.get(stats).body[:-68], path
        check_tree_invariants(whole.world.tree)
        check_tree_invariants(single.world.tree)


def test_a_restored_tree_has_its_quotas(world: World, client: Peer) -> None:
    client.create("/q/in")
    for path in ("/q", "/q/in"):
        set_quota(client, path, b"count=-1,bytes=-1;countHardLimit=4")
    snapshot = Snapshot.of(world.engine)
    client.create("/q/in/x", b"1")
    client.delete(f"{ROOT}/q/zookeeper_limits")
    snapshot.restore(world.engine)
    assert (usage(client, "/q"), usage(client, "/q/in")) == (b"count=3,bytes=8", b"count=1,bytes=0")
    assert [client.create(path).err for path in ("/q/a", "/q/b", "/q/in/x")] == [0, -125, 0]
    assert (usage(client, "/q"), usage(client, "/q/in")) == (b"count=4,bytes=8", b"count=2,bytes=0")
    check_tree_invariants(world.tree)


# --- what quotas cost, counted and not timed ----------------------------------------------------------------

STATS = f"{ROOT}/q/zookeeper_stats"
RENEWAL = [delete_op(STATS), create_op(STATS)]
JUNK = [set_op(STATS, b"junk"), set_op("/q/n0", b"other")]


def populated(znodes: int, *quotas: str) -> Peer:
    """Of a server with so many znodes below /q."""
    client = World().connect()
    client.create("/q")
    client.multi(*(create_op(f"/q/n{i}") for i in range(znodes)))
    for path in quotas:
        set_quota(client, path, b"count=-1,bytes=-1")
    return client


def cost(client: Peer, *requests: list[MultiOp]) -> int:
    """Bytecode instructions of some multis, which must succeed."""
    client.world.engine.stats.response_sizes.update(range(1000))  # a new size costs some more

    def action() -> None:
        for request in requests:
            assert client.multi(*request).results[-1].err == 0

    return count_instructions(action)


@pytest.mark.parametrize(
    "requests",
    [[RENEWAL * 20], [RENEWAL] * 20, [JUNK * 20], [JUNK] * 20],
    ids=["renewed in one multi", "renewed in many", "junk in one multi", "junk in many"],
)
def test_a_quotas_subtree_is_counted_once(requests: list[list[MultiOp]]) -> None:
    few, many = populated(5, "/q"), populated(400, "/q")
    assert cost(many, *requests) < 1.1 * cost(few, *requests)


def test_what_a_multi_makes_to_be_counted_is_counted_in_one_pass() -> None:
    """Though the quotas lie in each other, and the outermost comes first."""
    depth, costs = 20, []
    for znodes in (5, 400):
        client = populated(0)
        paths = ["/q" + "/d" * level for level in range(depth)]
        for path in paths[1:]:
            client.create(path)
        client.multi(*(create_op(f"{paths[-1]}/n{i}") for i in range(znodes)))
        for path in paths:
            client.create(ROOT + path)
        costs.append(cost(client, [create_op(f"{ROOT}{path}/zookeeper_stats") for path in paths]))
        assert usage(client, paths[0]) == f"count={znodes + depth},bytes=0".encode()
        assert usage(client, paths[-1]) == f"count={znodes + 1},bytes=0".encode()
    assert costs[1] - costs[0] < 395 * 50


@pytest.mark.parametrize("steps", [[create_op("/q/new")], [set_op("/q", b"x")], [delete_op("/q/n1")]])
def test_the_number_of_quotas_does_not_matter(steps: list[MultiOp]) -> None:
    one, many = populated(2, "/q"), populated(2, "/q", *(f"/other{i}" for i in range(50)))
    assert cost(many, steps) == cost(one, steps)
    for client in (one, many):
        client.multi(*(set_op(f"{ROOT}{path}/zookeeper_stats", b"junk") for path in client_quotas(client)))
    assert cost(many, [set_op("/q", b"y")]) == cost(one, [set_op("/q", b"y")])


def client_quotas(client: Peer) -> list[str]:
    return list(client.world.tree.quotas.prefixes)


def test_the_depth_of_a_path_without_quotas_does_not_matter() -> None:
    client = populated(0, "/q")
    for depth in range(1, 401):
        client.create("/d" * depth)
    shallow, deep = [set_op("/d", b"x")], [set_op("/d" * 400, b"x")]
    for steps in (shallow, deep):
        cost(client, steps)  # the way to it is known from now on
    assert abs(cost(client, shallow) - cost(client, deep)) < 100


def test_texts_are_read_when_they_are_written(client: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    set_quota(client, "/q", b"count=5,bytes=-1;countHardLimit=100")
    read: list[bytes | None] = []
    monkeypatch.setattr(quota_module, "_parse", lambda data: read.append(data) or {})
    for i in range(5):
        client.create(f"/q/n{i}", b"x")
        client.multi(set_op(f"/q/n{i}", b"y"), delete_op(f"/q/n{i}"))
    assert read == []
    client.set(f"{ROOT}/q/zookeeper_limits", b"count=1")
    assert read == [b"count=1"]


def test_quotas_that_are_gone_leave_nothing_behind(world: World, client: Peer) -> None:
    for path in ("/q/in", "/other"):
        set_quota(client, path, b"count=1,bytes=-1")
    for path in ("/q/in", "/other"):
        client.delete(f"{ROOT}{path}/zookeeper_limits")
        client.delete(f"{ROOT}{path}/zookeeper_stats")
    assert not world.tree.quotas.used
    assert not world.tree.quotas._root.below
