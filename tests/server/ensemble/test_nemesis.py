"""What a nemesis may do to a server, and when."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from pyzk.server.ensemble import nemesis as nemesis_module
from pyzk.server.ensemble.nemesis import Nemesis

from ...support.ensemble import EnsembleWorld

Act = Callable[[EnsembleWorld], object]


class Chance(random.Random):
    """Chance that a test has chosen.

    :ivar last: whether the last of several comes, or the largest; else the first, or the smallest.
    """

    last = True

    def randint(self, least: int, most: int) -> int:
        return most if self.last else least

    def choice(self, seq: Sequence[Any]) -> Any:
        return seq[-1 if self.last else 0]

    def random(self) -> float:
        return 0.49 if self.last else 0.5

    def expovariate(self, lambd: float = 1.0) -> float:
        return 1.5 / lambd


def nemesis(world: EnsembleWorld, *, last: bool = True, rate: float = 1.0, mark: str = "") -> Nemesis:
    made = Nemesis(world.ensemble, 1, rate, mark)
    made._random = chance = Chance()
    chance.last = last
    made._plan()
    return made


def possible(world: EnsembleWorld, number: int, *, last: bool = True) -> Counter[str]:
    return Counter(what for what, _ in nemesis(world, last=last)._possible(world.ensemble.members[number]))


def do(world: EnsembleWorld, number: int, wanted: str, *, last: bool = True) -> None:
    member = world.ensemble.members[number]
    next(act for what, act in nemesis(world, last=last)._possible(member) if what == wanted)()


def lag(*numbers: int) -> Act:
    return lambda world: [world.lag(number) for number in numbers]


FOLLOWER = dict.fromkeys(
    [
        "lag 1",
        "lag 1 by 3000 ms",
        "isolate 1, silently",
        "isolate 1 3, silently",
        "kill 1",
        "freeze 1",
        "hold up 1",
    ],
    1,
)
OF_LEADER = ["hold proposals", "hold acks", "kill 3, pending lost", "kill 3, pending applied", "elect"]
LEADER = dict.fromkeys(
    [
        "lag 3",
        "lag 3 by 3000 ms",
        "isolate 3, silently",
        "isolate 3 2, silently",
        "kill 3",
        "freeze 3",
        *OF_LEADER,
    ],
    1,
)


def without(acts: dict[str, int], *left_out: str, **more: int) -> dict[str, int]:
    """Other acts in the place of some."""
    return {what: count for what, count in acts.items() if what not in left_out} | {
        what.replace("_", " "): count for what, count in more.items()
    }


@pytest.mark.parametrize(
    ("before", "number", "acts"),
    [
        pytest.param(lambda world: None, 1, FOLLOWER, id="a follower"),
        pytest.param(lambda world: None, 3, LEADER, id="the leader"),
        pytest.param(lambda world: world.kill(1), 1, {"start 1": 1}, id="down"),
        pytest.param(lambda world: world.freeze(1), 1, {"thaw 1": 1}, id="frozen"),
        pytest.param(lag(1), 1, without(FOLLOWER, "lag 1", "lag 1 by 3000 ms", catch_up_1=2), id="lags"),
        pytest.param(
            lambda world: world.hold_up(1), 1, without(FOLLOWER, "hold up 1", release_up_1=2), id="held up"
        ),
        pytest.param(
            lambda world: world.partition([[1]], True),
            1,
            without(FOLLOWER, "isolate 1, silently", "isolate 1 3, silently", heal_1=2),
            id="apart",
        ),
        pytest.param(lambda world: world.hold("acks"), 1, without(FOLLOWER, release_acks=2), id="held acks"),
        pytest.param(
            lambda world: world.hold("proposals"), 3, without(LEADER, *OF_LEADER, release_acks=2), id="held"
        ),
        pytest.param(
            lambda world: [world.partition([[3]], True), world.pass_time(2.8), world.heal([3])],
            3,
            without(LEADER, *OF_LEADER),
            id="an old leader",
        ),
    ],
)
def test_what_can_be_done(before: Act, number: int, acts: dict[str, int]) -> None:
    """What ends a trouble counts twice."""
    world = EnsembleWorld(3)
    before(world)
    assert possible(world, number) == acts


def test_chance_decides_how() -> None:
    world = EnsembleWorld(3)
    assert {"lag 1 by 1 ms", "isolate 1, by resets", "isolate 1 2, by resets"} < {
        *possible(world, 1, last=False)
    }
    for last, paused_at_zxid in ((True, world.zxid(1) + 9), (False, None)):
        do(world, 1, "lag 1", last=last)
        member = world.ensemble.members[1]
        assert (member.paused_at_zxid, member.lags, member.delay) == (
            paused_at_zxid if last else world.zxid(1),
            True,
            0,
        )
        do(world, 1, "catch up 1")
        assert not member.lags


@pytest.mark.parametrize(("last", "silent"), [(True, True), (False, False)])
def test_it_isolates_servers(last: bool, silent: bool) -> None:
    world = EnsembleWorld(3)
    one, two, three = world.ensemble.members.values()
    how = "silently" if silent else "by resets"
    do(world, 1, f"isolate 1, {how}", last=last)
    links = world.ensemble.links
    assert links.is_cut(one, two)
    assert links.is_cut(one, three)
    assert not links.is_cut(two, three)
    assert links.is_reset(one, two) is not silent
    do(world, 1, "heal 1")
    assert links.are_whole
    do(world, 1, "isolate 1 3, silently")
    assert not links.is_cut(one, three)
    assert links.is_cut(two, three)


def test_it_does_what_it_says() -> None:
    world = EnsembleWorld(3)
    one, _, three = world.ensemble.members.values()
    do(world, 1, "lag 1 by 3000 ms")
    assert (one.delay, one.paused_at_zxid) == (3000, None)
    do(world, 1, "catch up 1")
    do(world, 1, "hold up 1")
    assert one.is_held_up
    do(world, 1, "release up 1")
    assert not one.is_held_up
    do(world, 1, "freeze 1")
    assert one.frozen
    do(world, 1, "thaw 1")
    assert not one.frozen
    do(world, 1, "kill 1")
    assert not one.up
    do(world, 1, "start 1")
    assert one.up
    for what in ("proposals", "acks"):
        do(world, 3, f"hold {what}")
        assert world.ensemble.holding == what
        do(world, 3, "release acks")
        assert world.ensemble.holding is None
    do(world, 3, "elect")
    assert not three.leads
    assert world.leader != 3


@pytest.mark.parametrize(("pending", "version"), [("lost", 0), ("applied", 1)])
def test_it_kills_a_leader_with_writes_that_are_lost_or_applied(pending: str, version: int) -> None:
    world = EnsembleWorld(3)
    writer = world[3].connect()
    writer.create("/x")
    acts = nemesis(world)._possible(world.ensemble.members[3])
    world.hold("acks")
    writer.send(5, b"\0\0\0\2/x\xff\xff\xff\xff\xff\xff\xff\xff")  # setData
    next(act for what, act in acts if what == f"kill 3, pending {pending}")()
    world.pass_time(1)
    assert world[1].connect().exists("/x").record.stat.version == version


def test_when_it_acts() -> None:
    world = EnsembleWorld(3)
    now = world.ensemble.now
    assert nemesis(world).next_act == now + 1 + 1500
    assert nemesis(world, rate=3).next_act == now + 1 + 500


def test_it_tells_what_it_does() -> None:
    world = EnsembleWorld(3)
    told: list[tuple[int, str]] = []
    world.ensemble.on_change = lambda member, text: told.append((member.number, text))
    made = nemesis(world, mark=" (by chance)", last=False)
    world.ensemble.now += 5000
    made.act()
    assert made.done == ["lag 1"]
    assert told == [(1, "nemesis: lag 1 (by chance)")]
    assert world.ensemble.members[1].lags
    assert made.next_act == world.ensemble.now + 1501, "planned anew"


def test_what_it_has_done_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nemesis_module, "_KEPT", 5)
    made = nemesis(EnsembleWorld(3))
    done: list[str] = []
    for _ in range(100):
        made.act()
        done.append(made.done[-1])
        assert len(made.done) < 10
    assert made.done == done[-len(made.done) :]


def test_a_single_server_is_isolated_from_nobody() -> None:
    world = EnsembleWorld(1)
    assert {"isolate 1, silently", "isolate 1 1, silently"} <= {*possible(world, 1)}
    do(world, 1, "isolate 1 1, silently")
    assert world.ensemble.links.are_whole


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan")])
def test_a_rate_that_is_none(rate: float) -> None:
    with pytest.raises(ValueError, match=f"a nemesis needs a rate above 0 per second, not {rate}"):
        Nemesis(EnsembleWorld(3).ensemble, 1, rate)


def test_a_seed_does_the_same_again() -> None:
    runs = []
    for seed in (1, 1, 2):
        world = EnsembleWorld(3, 1)
        world.ensemble.nemesis = made = Nemesis(world.ensemble, seed)
        world.pass_time(30)
        runs.append((made.done, made.next_act))
    assert runs[0] == runs[1] != runs[2]
    assert 10 < len(runs[0][0]) < 60, "once a second"


def test_nobody_is_elected_by_chance_where_nobody_can_be() -> None:
    world = EnsembleWorld(3)
    acts = nemesis(world)._possible(world.ensemble.members[3])
    world.freeze(1)
    world.freeze(2)
    epoch = world.ensemble.epoch
    next(act for what, act in acts if what == "elect")()
    assert (world.ensemble.epoch, world.role(3)) == (epoch, "leader")


def test_all_trouble_ends() -> None:
    world = EnsembleWorld(5, 1)
    peer = world[5].connect()
    world.lag(1)
    world.freeze(2)
    world.hold_up(6)
    world.kill(3)
    world.hold("acks")
    world.partition([[1], [4, 5]], True)
    peer.send(1, b"\0\0\0\2/x\xff\xff\xff\xff\0\0\0\0\0\0\0\0")
    nemesis_module.heal_all(world.ensemble)
    members = world.ensemble.members.values()
    assert world.ensemble.links.are_whole
    assert world.ensemble.holding is None
    assert [(m.up, m.frozen, m.lags, m.is_held_up) for m in members] == [(True, False, False, False)] * 6
    assert sorted(world.role(number) for number in world.servers) == [
        *["follower"] * 4,
        "leader",
        "observer",
    ]
    world.partition([[3, 4, 5]], False)
    world.pass_time(3)
    world.freeze(world.leader)
    nemesis_module.heal_all(world.ensemble)
    assert sum(member.leads for member in members) == 1
    for number in world.servers:
        world.kill(number)
    nemesis_module.heal_all(world.ensemble)
    assert sum(member.leads for member in members) == 1, "no election takes time"


def test_two_that_lead_are_one_when_all_trouble_ends() -> None:
    world = EnsembleWorld(3)
    world.freeze(3)
    world.pass_time(3)
    assert world.leader == 2
    world.thaw(3)
    assert len(world.ensemble.leaders()) == 2
    epoch = world.ensemble.epoch
    nemesis_module.heal_all(world.ensemble)
    assert world.ensemble.epoch == epoch, "there is a leader: none is elected"
    assert [leader.member.number for leader in world.ensemble.leaders()] == [2]
    assert world.role(3) == "follower"
