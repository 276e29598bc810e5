"""Who notices what, and when: the table of ensemble.md section 11 with a tick of 0.5 s, and 5 ticks of
silence."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from pyzk.server.testing import Timing

from ...support.ensemble import EnsembleWorld, Later

Act = Callable[[EnsembleWorld], object]
TICK = 0.5
SILENCE = 5 * TICK
ELECTION = 0.2
AT_ONCE = (0.0, 0.0)
STEP = 0.01


@pytest.fixture
def world() -> EnsembleWorld:
    """Server 3 leads."""
    return EnsembleWorld(3, 1)


def isolate(number: int, *, silent: bool) -> Act:
    return lambda world: world.partition([[number]], silent)


def freeze(*numbers: int) -> Act:
    return lambda world: [world.freeze(number) for number in numbers]


def kill(*numbers: int) -> Act:
    return lambda world: [world.kill(number) for number in numbers]


@pytest.mark.parametrize(
    ("act", "closed"),
    [
        pytest.param(kill(3), {3: AT_ONCE, 1: AT_ONCE, 2: AT_ONCE, 4: AT_ONCE}, id="leader killed"),
        pytest.param(freeze(3), dict.fromkeys((1, 2, 4), (SILENCE, SILENCE)) | {3: None}, id="leader frozen"),
        pytest.param(
            isolate(3, silent=True),
            dict.fromkeys((1, 2, 4), (SILENCE, SILENCE)) | {3: (SILENCE, SILENCE + TICK)},
            id="leader silent",
        ),
        pytest.param(
            isolate(3, silent=False),
            {1: AT_ONCE, 2: AT_ONCE, 4: AT_ONCE, 3: (0.0, TICK)},
            id="leader cut by resets",
        ),
        pytest.param(
            kill(1, 2),
            {1: AT_ONCE, 2: AT_ONCE, 3: (0.0, TICK), 4: (0.0, TICK)},
            id="both followers killed",
        ),
        pytest.param(
            freeze(1, 2),
            {1: None, 2: None, 3: (SILENCE, SILENCE + TICK), 4: (SILENCE, SILENCE + TICK)},
            id="both followers frozen",
        ),
        pytest.param(isolate(1, silent=False), {1: AT_ONCE, 2: None, 3: None}, id="follower cut by resets"),
        pytest.param(
            isolate(1, silent=True), {1: (SILENCE, SILENCE), 2: None, 3: None}, id="follower silent"
        ),
        pytest.param(freeze(1), {1: None, 2: None, 3: None}, id="follower frozen"),
        pytest.param(isolate(4, silent=True), {4: (SILENCE, SILENCE), 2: None}, id="observer silent"),
    ],
)
def test_when_clients_are_closed(
    world: EnsembleWorld, act: Act, closed: dict[int, tuple[float, float] | None]
) -> None:
    """The idle clients of each server; None is never."""
    world.pass_time(0.13)
    peers = {number: world[number].connect(timeout=10_000) for number in world.servers}
    found: dict[int, float] = {}
    act(world)
    for step in range(int(5 / STEP)):
        for number, peer in peers.items():
            if peer.closed:
                found.setdefault(number, step * STEP)
        world.pass_time(STEP)
    for number, between in closed.items():
        if between is None:
            assert number not in found
        else:
            first, last = between
            assert first <= found[number] <= last + STEP, number


@pytest.mark.parametrize(
    ("act", "seconds"),
    [
        pytest.param(kill(3), ELECTION, id="killed"),
        pytest.param(freeze(3), SILENCE + ELECTION, id="frozen"),
        pytest.param(isolate(3, silent=True), SILENCE + ELECTION, id="silent"),
        pytest.param(isolate(3, silent=False), ELECTION, id="cut by resets"),
    ],
)
def test_when_the_next_leader_serves(world: EnsembleWorld, act: Act, seconds: float) -> None:
    act(world)
    world.pass_time(seconds - STEP)
    assert world.role(2) != "leader"
    world.pass_time(STEP)
    assert world.role(2) == "leader"
    assert world.role(1) == "follower"
    assert world.role(4) == "observer"
    assert world[1].connect().create("/x").err == 0


def test_a_frozen_follower_closes_its_clients_once_it_goes_on(world: EnsembleWorld) -> None:
    peer = world[1].connect()
    world.freeze(1)
    world.pass_time(SILENCE + 1)
    assert not peer.closed
    world.thaw(1)
    assert peer.closed
    assert world.role(1) == "follower"


def test_a_follower_frozen_for_less_goes_on_with_its_clients(world: EnsembleWorld) -> None:
    peer = world[1].connect()
    world.freeze(1)
    Later(peer).create("/x")
    world.pass_time(SILENCE - STEP)
    assert peer.take_all() == []
    world.thaw(1)
    assert [reply.err for reply in peer.take_all()] == [0]


def test_a_follower_that_was_silent_for_less_loses_nothing(world: EnsembleWorld) -> None:
    peer = world[1].connect()
    world.partition([[1]], True)
    Later(peer).create("/x")
    world[3].connect().create("/y")
    world.pass_time(SILENCE - STEP)
    assert peer.take_all() == []
    world.heal([1, 2, 3, 4])
    assert [reply.err for reply in peer.take_all()] == [0]
    assert peer.exists("/y").err == 0


def test_an_old_leader_goes_on_for_a_tick(world: EnsembleWorld) -> None:
    world.freeze(3)
    world.pass_time(SILENCE + ELECTION)
    world.thaw(3)
    assert (world.role(3), world.role(2)) == ("leader", "leader")
    world.pass_time(TICK - STEP)
    assert world.role(3) == "leader"
    world.pass_time(STEP)
    assert world.role(3) == "follower"


def test_a_quorum_that_is_back_elects(world: EnsembleWorld) -> None:
    world.kill(1)
    world.kill(2)
    world.pass_time(10)
    assert world.role(3) == "looking"
    world.start(1)
    assert world.role(3) == "looking"
    world.pass_time(ELECTION)
    assert world.role(3) == "leader"


@pytest.mark.parametrize("server", [1, 3])
def test_a_session_expires_between_its_timeout_and_one_and_a_half_ticks_more(
    world: EnsembleWorld, server: int
) -> None:
    for phase in range(10):
        world.pass_time(0.05)
        peer = world[server].connect(timeout=2000)
        world.pass_time(0.1 * phase)
        peer.ping()
        waited = 0.0
        while not peer.closed:
            world.pass_time(STEP)
            waited += STEP
        assert 2.0 < waited <= 2.0 + 1.5 * TICK + STEP


def test_pings_at_a_follower_keep_the_shortest_session_alive(world: EnsembleWorld) -> None:
    peer = world[1].connect(timeout=1000)
    for _ in range(20):
        world.pass_time(0.95)
        peer.ping()
    assert not peer.closed


def test_a_new_leader_gives_every_session_its_whole_timeout_again(world: EnsembleWorld) -> None:
    """ensemble.md 2.10"""
    peer = world[1].connect(timeout=3000)
    peer.create("/mine", flags=1)
    world.pass_time(2.4)
    world.kill(3)
    world.pass_time(ELECTION)
    world.pass_time(3.0)
    assert "/mine" in world[1].engine.tree.nodes
    world.pass_time(TICK)
    assert "/mine" not in world[1].engine.tree.nodes


def test_containers_wait_a_whole_interval_behind_a_new_leader() -> None:
    """ensemble.md 5.4"""
    world = EnsembleWorld(3, container_check_interval=1000)
    peer = world[1].connect()
    peer.create("/c", flags=4, op=19)
    peer.create("/c/x")
    world.pass_time(0.9)
    peer.delete("/c/x")
    world.kill(3)
    world.pass_time(ELECTION + 0.99)
    assert "/c" in world[1].engine.tree.nodes
    world.pass_time(0.02)
    assert "/c" not in world[1].engine.tree.nodes


@pytest.mark.parametrize(
    ("act", "reason"),
    [
        (lambda world: world.hold_up(1), "its leader has heard nothing of it for 5 ticks"),
        (isolate(1, silent=True), "its leader was silent for 5 ticks"),
        (isolate(1, silent=False), "it has lost its leader"),
    ],
)
def test_a_server_says_why_it_serves_nobody(world: EnsembleWorld, act: Act, reason: str) -> None:
    told: list[tuple[int, str]] = []
    world.ensemble.on_change = lambda member, text: told.append((member.number, text))
    act(world)
    world.pass_time(SILENCE)
    assert (1, f"serves nobody: {reason}") in told


@pytest.mark.parametrize("value", [True, 2.0, "2", None])
def test_a_time_is_a_whole_number(value: Any) -> None:
    for name in ("sync_limit", "init_limit", "election_ms"):
        with pytest.raises(TypeError, match=f"{name} must be a whole number, not {value!r}"):
            Timing(**{name: value})


def test_the_least_times() -> None:
    assert Timing(sync_limit=1, init_limit=1, election_ms=0).election_ms == 0
    for name, least in (("sync_limit", 1), ("init_limit", 1), ("election_ms", 0)):
        with pytest.raises(ValueError, match=f"{name} must be at least {least}, not {least - 1}"):
            Timing(**{name: least - 1})


def test_times_are_named() -> None:
    with pytest.raises(TypeError):
        Timing(5)  # type: ignore[misc]


def test_signs_of_life_wait_half_a_tick_for_a_link(world: EnsembleWorld) -> None:
    peer = world[1].connect()
    world.partition([[1]], True)
    peer.ping()
    member, now = world.ensemble.members[1], world.ensemble.now
    assert member.report_at == now + 250
    world.pass_time(0.25)
    assert member.report_at == now + 500, "it is tried again"
    world.heal([1])
    world.pass_time(0.25)
    assert member.report_at == math.inf


def test_the_shortest_tick_reports_signs_of_life_too() -> None:
    """Half of it is less than 1 ms."""
    world = EnsembleWorld(3, tick_time=1)
    peer = world[1].connect(timeout=1000)
    for _ in range(5):
        world.pass_time(0.01)
        peer.ping()
    world.partition([[1]], True)
    peer.ping()
    member = world.ensemble.members[1]
    now = world.ensemble.now
    assert member.report_at == now + 1
    world.pass_time(0.001)
    assert member.report_at == now + 2, "it is tried again"


def test_what_a_server_has_heard_is_not_told_to_the_next_leader(world: EnsembleWorld) -> None:
    """Its clients are closed with its leader: they have to be heard of again."""
    peer = world[1].connect(timeout=2000)
    world.partition([[1]], True)
    peer.ping()
    world.pass_time(SILENCE)
    assert world.role(1) == "looking"
    world.heal([1, 2, 3, 4])
    assert world.role(1) == "follower"
    told: list[int] = []
    leader = world.ensemble.leader()
    leader.heard_of = lambda session_id, now: told.append(session_id)  # type: ignore[method-assign]
    other = world[1].connect()
    other.ping()
    world.pass_time(TICK)
    assert told == [other.session_id]


def test_a_leader_that_goes_on_ends_what_has_expired_at_once(world: EnsembleWorld) -> None:
    """Its followers have not given it up, so it leads on."""
    peer = world[3].connect(timeout=1000)
    peer.create("/mine", flags=1)
    world.freeze(3)
    world.pass_time(SILENCE - STEP)
    assert "/mine" in world[1].engine.tree.nodes
    world.thaw(3)
    assert world.role(3) == "leader"
    assert "/mine" not in world[1].engine.tree.nodes
