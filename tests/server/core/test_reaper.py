"""Containers and TTL znodes: which are to go, when, and how fast (semantics.md section 13)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyzk.protocol.constants import EventType
from pyzk.protocol.operations import OpCode
from pyzk.server.config.settings import Settings
from pyzk.server.core.reaper import Reaper
from pyzk.server.core.sessions import NEVER
from pyzk.server.core.tree import DataTree
from pyzk.server.core.txn import Refused
from pyzk.server.core.znode import CONTAINER_OWNER, ttl_owner

from ...support.invariants import check_tree_invariants
from ...support.wire import Event
from ...support.world import START, Peer, World, creation, deletion, set_create_counter

CONTAINER = OpCode.CREATE_CONTAINER
INTERVAL = 60_000  # ms, the default


class Bench:
    """A tree and its reaper; monotonic and wall-clock time are the same here, in ms from 0."""

    def __init__(self, **settings: Any) -> None:
        self.tree = DataTree()
        self.reaper = Reaper(self.tree, Settings(extended_types=True, **settings), 0)

    def add(self, path: str, owner: int, time: int = 0, used: bool = False) -> None:
        self.tree.apply(creation(path, owner=owner), 1, time)
        if used:
            set_create_counter(self.tree, path, 1)

    def due(self, now: float) -> list[str]:
        return list(self.reaper.due(now, int(now)))


# --- who is a candidate ------------------------------------------------------------------------------------


def test_a_container_goes_once_it_had_children_and_has_none() -> None:
    bench = Bench()
    bench.add("/never", CONTAINER_OWNER)
    bench.add("/once", CONTAINER_OWNER, used=True)
    bench.add("/now", CONTAINER_OWNER)
    bench.add("/now/child", 0)
    bench.add("/plain", 0, used=True)
    assert bench.due(INTERVAL) == ["/once"]


@pytest.mark.parametrize(("now", "goes"), [(300_000, False), (360_000, True)])
def test_a_container_that_was_never_used_goes_after_the_configured_time(now: int, goes: bool) -> None:
    bench = Bench(container_max_never_used=300_000)
    bench.add("/never", CONTAINER_OWNER, time=0)
    assert bench.due(now) == ["/never"] * goes


def test_by_default_a_container_that_was_never_used_stays() -> None:
    bench = Bench()
    bench.add("/never", CONTAINER_OWNER, time=0)
    assert bench.due(10**12) == []


@pytest.mark.parametrize(("ttl", "goes"), [(INTERVAL - 1, True), (INTERVAL, False), (INTERVAL + 1, False)])
def test_a_ttl_znode_goes_when_more_than_its_ttl_has_passed(ttl: int, goes: bool) -> None:
    # strictly greater
    bench = Bench()
    bench.add("/t", ttl_owner(ttl), time=0)
    assert bench.due(INTERVAL) == ["/t"] * goes


def test_a_ttl_znode_with_children_stays() -> None:
    bench = Bench()
    bench.add("/t", ttl_owner(1))
    bench.add("/t/child", 0)
    assert bench.due(INTERVAL) == []


# --- when, and how fast ------------------------------------------------------------------------------------


def test_nothing_is_due_while_there_is_nothing_to_watch_over() -> None:
    bench = Bench()
    assert bench.reaper.next_deadline() == NEVER
    bench.add("/plain", 0)
    assert bench.reaper.next_deadline() == NEVER
    bench.add("/c", CONTAINER_OWNER)
    assert bench.reaper.next_deadline() == INTERVAL


def test_checks_keep_their_interval() -> None:
    bench = Bench()
    bench.add("/c", CONTAINER_OWNER)
    assert bench.due(INTERVAL - 1) == []
    set_create_counter(bench.tree, "/c", 1)
    assert bench.due(INTERVAL) == ["/c"]
    bench.tree.apply(deletion("/c"), 2, 2)
    bench.add("/d", CONTAINER_OWNER, used=True)
    assert bench.reaper.next_deadline() == 2 * INTERVAL
    assert bench.due(2 * INTERVAL - 1) == []
    assert bench.due(2 * INTERVAL) == ["/d"]


def test_a_late_check_does_not_shift_the_next_one() -> None:
    bench = Bench()
    bench.add("/c", CONTAINER_OWNER)
    assert bench.due(2 * INTERVAL + 5000) == []
    assert bench.reaper.next_deadline() == 3 * INTERVAL


def test_many_candidates_are_looked_at_in_several_steps() -> None:
    """Everybody would have to wait for a million of them."""
    bench = Bench()
    for i in range(2500):
        bench.add(f"/c{i}", CONTAINER_OWNER, used=i == 2400)
    for step, due in enumerate([[], [], ["/c2400"]]):
        assert bench.reaper.next_deadline() == INTERVAL + 10 * step
        assert bench.due(INTERVAL + 10 * step) == due
    assert bench.reaper.next_deadline() == 2 * INTERVAL


def test_what_goes_or_changes_between_two_steps_is_left_alone() -> None:
    bench = Bench()
    for i in range(1500):
        bench.add(f"/c{i}", CONTAINER_OWNER, used=i >= 1400)
    assert bench.due(INTERVAL) == []
    for i in range(1400, 1500):
        bench.tree.apply(deletion(f"/c{i}"), 2, 2)
    bench.add("/c1450", 0, used=True)
    bench.add("/c1451", CONTAINER_OWNER)
    assert bench.due(INTERVAL + 10) == []
    assert bench.reaper.next_deadline() == 2 * INTERVAL


def test_the_limit_per_minute_holds_across_steps() -> None:
    bench = Bench(container_max_per_minute=600)  # a pause of 100 ms
    for i in range(1001):
        bench.add(f"/c{i}", CONTAINER_OWNER, used=i % 1000 == 0)
    assert bench.due(INTERVAL) == ["/c0"]
    assert bench.reaper.next_deadline() == INTERVAL + 10
    assert bench.due(INTERVAL + 10) == []
    assert bench.reaper.next_deadline() == INTERVAL + 100
    assert bench.due(INTERVAL + 100) == ["/c1000"]


def test_deletions_are_spread_by_the_limit_per_minute() -> None:
    bench = Bench(container_max_per_minute=6000)  # a pause of 10 ms
    for i in range(3):
        bench.add(f"/c{i}", CONTAINER_OWNER, used=True)
    handed_out = []
    for _ in range(3):
        now = bench.reaper.next_deadline()
        handed_out.append((now, bench.due(now)))
    assert handed_out == [(INTERVAL, ["/c0"]), (INTERVAL + 10, ["/c1"]), (INTERVAL + 20, ["/c2"])]


def test_deletions_that_are_late_are_made_up_for() -> None:
    bench = Bench(container_max_per_minute=6000)
    for i in range(5):
        bench.add(f"/c{i}", CONTAINER_OWNER, used=True)
    assert bench.due(INTERVAL) == ["/c0"]
    assert bench.due(INTERVAL + 35) == ["/c1", "/c2", "/c3"]


@given(st.integers(1, 100_000))
def test_something_is_handed_out_at_every_deadline(per_minute: int) -> None:
    bench = Bench(container_max_per_minute=per_minute)
    for i in range(5):
        bench.add(f"/c{i}", CONTAINER_OWNER, used=True)
    handed_out: list[str] = []
    while len(handed_out) < 5:
        some = bench.due(bench.reaper.next_deadline())
        assert some, "a deadline without anything to do"
        handed_out += some
    assert handed_out == [f"/c{i}" for i in range(5)]


# --- in a running server -----------------------------------------------------------------------------------


def used_container(client: Peer, path: str) -> None:
    client.create(path, op=CONTAINER, flags=4)
    client.create(f"{path}/child")
    client.delete(f"{path}/child")


def test_reaping_is_a_transaction_of_the_servers_own() -> None:
    world = World()
    client = world.connect(timeout=40_000)
    used_container(client, "/c")
    client.exists("/c", watch=True)
    client.children("/", watch=True)
    zxid = world.zxid
    client.ping()
    for _ in range(3):
        world.pass_time(15)
        client.ping()
    assert client.take_events() == []
    world.pass_time(15)
    assert client.take_events() == [
        Event(zxid + 1, EventType.DELETED, "/c"),
        Event(zxid + 1, EventType.CHILD, "/"),
    ]
    assert (world.zxid, world.txns[-1].session) == (zxid + 1, 0)
    assert world.txns[-1].effect == deletion("/c")
    assert client.exists("/").record.stat.pzxid == zxid + 1
    check_tree_invariants(world.tree)


def test_each_attempt_consumes_a_zxid_also_if_it_fails() -> None:
    # semantics.md section 2: a child may come between the check and the deletion
    world = World(container_max_per_minute=60)
    client = world.connect(timeout=40_000)
    for path in ("/a", "/b", "/c", "/d"):
        used_container(client, path)
    world.pass_time(60)  # the silent session expires, the first container goes
    assert "/a" not in world.tree.nodes
    late = world.connect()
    late.create("/b/child")
    late.delete("/c")
    late.create("/c")
    late.delete("/d")
    zxid = world.zxid
    world.pass_time(3)
    assert world.zxid == zxid + 3
    assert [type(txn.effect) for txn in world.txns[-3:]] == [Refused] * 3
    assert {"/b", "/c"} <= set(world.tree.nodes)
    check_tree_invariants(world.tree)


def test_set_data_renews_a_ttl_znode_and_children_do_not() -> None:
    world = World(extended_types=True, tick_time=60_000, container_check_interval=1000)
    client = world.connect()
    client.create("/renewed", flags=5, ttl=2500)
    client.create("/left", flags=5, ttl=2500)
    client.create("/left/child")
    world.pass_time(2)
    client.set("/renewed", b"")
    world.pass_time(2)
    assert {"/renewed", "/left"} <= set(world.tree.nodes)
    client.delete("/left/child")
    world.pass_time(1.1)  # more than its TTL after its last change, it dies at the next check
    assert "/left" not in world.tree.nodes
    assert "/renewed" not in world.tree.nodes


def test_containers_work_while_extended_types_are_disabled() -> None:
    world = World(extended_types=False)
    used_container(world.connect(), "/c")
    world.pass_time(60)
    assert "/c" not in world.tree.nodes


def test_a_container_made_by_op_1_is_a_plain_znode_and_stays() -> None:
    # semantics.md section 18, trap 33
    world = World()
    client = world.connect()
    client.create("/c", flags=4)
    client.create("/c/child")
    client.delete("/c/child")
    world.pass_time(600)
    assert "/c" in world.tree.nodes


@pytest.mark.parametrize("asleep", [False, True], ids=["awake", "asleep"])
def test_a_new_container_waits_for_the_next_check_also_after_idle_intervals(asleep: bool) -> None:
    # The checker runs every interval after start-up, whether or not there is something to look at; and while
    # the server has no deadline, nobody need call it.
    world = World()
    if asleep:
        world.now += 100
    else:
        world.pass_time(100)
    used_container(world.connect(), "/c")
    world.pass_time(0)
    assert "/c" in world.tree.nodes, "reaped 20 s early, by a check that was due before it was created"
    world.pass_time(20)
    assert "/c" not in world.tree.nodes


def test_the_time_of_transactions_does_not_run_backwards() -> None:
    world = World()
    world.pass_time(100)
    used_container(world.connect(), "/c")
    world.pass_time(60)
    times = [txn.time for txn in world.txns]
    assert times == sorted(times)


@pytest.mark.parametrize("per_minute", [1, 7000, 9000, 10_000, 70_000, 10**9])
def test_any_limit_per_minute_lets_time_pass(per_minute: int, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(container_max_per_minute=per_minute)
    client = world.connect()
    for i in range(10):
        used_container(client, f"/c{i}")
    calls, due = 0, world.engine.reaper.due

    def counted(now: float, wall_time: int) -> Any:
        nonlocal calls
        calls += 1
        assert calls < 100, f"the reaper is asked for ever: it has nothing to do at {now}"
        return due(now, wall_time)

    monkeypatch.setattr(world.engine.reaper, "due", counted)
    for _ in range(12):
        world.pass_time(60)
    assert not world.tree.containers
    assert world.now == START + 720


def test_reaping_and_expiry_of_one_moment_both_happen() -> None:
    world = World(container_check_interval=4000, tick_time=2000)
    client = world.connect(timeout=4000)
    used_container(client, "/c")
    client.create("/e", flags=1)
    world.pass_time(30)
    assert client.closed
    assert not {"/c", "/e"} & set(world.tree.nodes)
