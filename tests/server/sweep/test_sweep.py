"""The sweep finds what is wrong, says so, and holds nothing against what is right."""

from __future__ import annotations

import io
import json
import random
import sys
from functools import partial
from itertools import count

import pytest

from pyzk.client import ZooKeeper
from pyzk.server.sweep import (
    FAULTS,
    Lab,
    NotControlled,
    Scenario,
    SweepFailed,
    scenarios,
    silence,
    stage,
    sweep,
    tokens,
)
from pyzk.server.sweep.dpor import Explorer
from pyzk.server.sweep.model import Cell, Outcome, Step, switches
from pyzk.server.sweep.orders import PCT, POS, Order, Random, Replay, Rounds
from pyzk.server.sweep.run import InProcess, run

from . import bugs

LONG = 1e6  # seconds: a budget that no machine uses up


def failing(scenario: Scenario, **options: object) -> SweepFailed:
    with pytest.raises(SweepFailed) as caught:
        sweep(scenario, budget=LONG, **options)  # type: ignore[arg-type]
    return caught.value


@pytest.mark.parametrize("scenario", bugs.ORDERS, ids=lambda bug: bug.__name__)
def test_a_bug_of_order_is_found_shortened_and_replayed(scenario: Scenario) -> None:
    report = failing(scenario, faults=None).report
    (finding,) = report.results.findings
    assert report.results.orders <= 100
    (token,) = report.tokens
    # Clients that ask again every second take turns, whatever is done to the order.
    assert switches(finding.outcome.actors) <= (6 if scenario is bugs.crossed_locks else 3)
    again = failing(scenario, replay=token).report.results.findings[0].outcome
    assert (again.verdict, again.detail) == (finding.outcome.verdict, finding.outcome.detail)
    assert finding.passing is None or not finding.passing.is_bad


@pytest.mark.parametrize("scenario", bugs.FAULTS, ids=lambda bug: bug.__name__)
def test_a_missing_answer_to_a_fault_is_found_and_replayed(scenario: Scenario) -> None:
    report = failing(scenario, orders=None, faults=["reply-lost", "restart", "gone-mid"]).report
    assert report.results.bad
    for finding in report.results.findings:
        again = failing(scenario, replay=finding.token).report.results.findings[0].outcome
        assert (again.verdict, again.detail) == (finding.outcome.verdict, finding.outcome.detail)


@pytest.mark.parametrize("order", [Random, POS, partial(PCT, length=10)], ids=["random", "POS", "PCT"])
@pytest.mark.parametrize("scenario", bugs.ORDERS, ids=lambda bug: bug.__name__)
def test_each_sampler_finds_each_bug(scenario: Scenario, order: type[Random]) -> None:
    assert any(run(scenario, order(seed)).is_bad for seed in range(100))


class _Recorded(Order):
    """Prescribed choices by number, then the first; it notes how many there were to choose from."""

    def __init__(self, choices: list[int]) -> None:
        self.choices = choices
        self.sizes: list[int] = []

    def pick(self, steps: object) -> str:
        actors = list(steps)  # type: ignore[call-overload]
        at = len(self.sizes)
        self.sizes.append(len(actors))
        return str(actors[self.choices[at] if at < len(self.choices) else 0])


def every_outcome(scenario: Scenario, most: int, replies: bool) -> set[tuple[str, str]]:
    """All outcomes, by brute force."""
    found, ahead = set(), [[]]  # type: ignore[var-annotated]
    for _ in range(most):
        if not ahead:
            return found
        choices = ahead.pop()
        order = _Recorded(choices)
        outcome = run(scenario, order, replies=replies)
        found.add((outcome.verdict, outcome.detail))
        for at in range(len(choices), len(order.sizes)):
            prefix = choices + [0] * (at - len(choices))
            ahead += [[*prefix, other] for other in range(1, order.sizes[at])]
    raise AssertionError(f"more than {most} orders")


SMALL = [
    bugs.lost_update,
    bugs.check_then_create,
    bugs.stale_read,
    bugs.name_by_count,
    bugs.sum_of_two,
]


def outcomes_that_differ(scenario: Scenario, replies: bool) -> set[tuple[str, str]]:
    explorer, found = Explorer(), set()
    while explorer.more:
        outcome = run(scenario, explorer.order(), replies=replies)
        explorer.learn()
        found.add((outcome.verdict, outcome.detail))
    return found


@pytest.mark.parametrize("scenario", SMALL, ids=lambda bug: bug.__name__)
def test_reduction_misses_no_outcome(scenario: Scenario) -> None:
    assert outcomes_that_differ(scenario, False) == every_outcome(scenario, 3000, False)


@pytest.mark.parametrize(
    "scenario", [bugs.lost_update, bugs.sum_of_two, bugs.announced_too_early], ids=lambda bug: bug.__name__
)
def test_reduction_misses_no_outcome_of_late_replies(scenario: Scenario) -> None:
    assert outcomes_that_differ(scenario, True) == every_outcome(scenario, 3000, True)


@pytest.mark.parametrize("scenario", bugs.LATE_REPLIES, ids=lambda bug: bug.__name__)
def test_a_late_reply_is_found_and_replayed(scenario: Scenario) -> None:
    report = sweep(scenario, faults=None, orders="all", budget=LONG)
    assert report.results.exhausted, "all orders hold, when each reply comes at once"
    report = failing(scenario, faults=None, orders="all", replies=True).report
    (token,) = report.tokens
    assert token.startswith("r1-")
    assert failing(scenario, replay=token).report.results.findings[0].outcome.verdict == "wrong"


def test_an_event_does_not_overtake_a_reply() -> None:
    async def scenario(lab: Lab) -> None:
        lab.server.load({"/x": "old"})
        first, second = await lab.client("a"), await lab.client("b")
        data: list[bytes | None] = []

        async def read() -> None:
            value, _, watch = await first.get_and_watch("/x")
            data.append(value)
            await watch.wait()

        await lab.together(read, partial(second.set, "/x", b"new"))
        assert data == [b"old"]

    outcome = run(scenario, Replay(["a", "b", "a^"]), replies=True)
    assert (outcome.actors, outcome.verdict) == (["a", "b", "a^", "b="], "ok")


def test_faults_with_replies_that_are_steps() -> None:
    alone = failing(bugs.repeated_increment, orders=None).report.results
    together = failing(bugs.repeated_increment, orders=None, replies=True).report.results
    assert together.bad.keys() == alone.bad.keys()
    assert together.all_cells == alone.all_cells


def test_an_event_and_a_request_of_the_same_client_come_in_both_orders() -> None:
    async def scenario(lab: Lab) -> None:
        lab.server.load({"/x": "", "/y": ""})
        first, second = await lab.client("a"), await lab.client("b")

        async def read() -> None:
            _, _, watch = await first.get_and_watch("/x")
            await first.get("/y")
            await first.get("/y")
            await watch.wait()

        await lab.together(read, partial(second.set, "/x", b"new"))

    explorer, behind = Explorer(), set()
    while explorer.more:
        outcome = run(scenario, explorer.order())
        explorer.learn()
        if "a^" in outcome.actors:
            behind.add(outcome.actors[: outcome.actors.index("a^")].count("a"))
    assert behind == {1, 2, 3}, "before the second request, before the third, and behind it"


async def careful(lab: Lab) -> None:
    first, second = await lab.client("a"), await lab.client("b")

    async def work(zk: ZooKeeper) -> None:
        async with lab.inside("it", 2):
            await zk.exists("/x")

    await lab.together(partial(work, first), partial(work, second))


def test_what_holds_is_said_with_how_much_was_tried() -> None:
    report = sweep(careful, faults=["lost", "cut-after"], orders="all", budget=LONG)
    assert str(report).startswith("careful: all 4 fault cells hold; all 6 orders that differ hold")
    assert not report.failed


def test_a_report_shows_the_step_that_decides_beside_a_run_that_passes() -> None:
    text = str(failing(bugs.repeated_increment, orders=None, faults=["reply-lost"]))
    assert "two increments, and it is b'3'" in text
    assert "replay: f1-a2-reply-lost" in text
    assert ">>  3 | set_data /n '1' if version 0 !! APPLIED" in text
    assert "The nearest run that passes, from step 3 on:" in text
    assert "a2 set_data /n '1' if version 0  W" in text


def test_a_report_as_json() -> None:
    report = failing(bugs.lost_update, faults=None).report
    found = json.loads(report.as_json())
    assert found["findings"][0]["token"] == report.tokens[0]
    assert found["findings"][0]["verdict"] == "wrong"


def test_a_hang_says_where_everybody_waits() -> None:
    async def scenario(lab: Lab) -> None:
        first, second = await lab.client("a"), await lab.client("b")

        async def work(zk: ZooKeeper) -> None:
            await zk.exists("/x")
            async with zk.watch("/never") as events:
                async for _ in events:
                    return

        await lab.together(partial(work, first), partial(work, second))

    error = failing(scenario)
    (finding,) = error.report.results.findings
    assert finding.outcome.verdict == "hang"
    assert finding.outcome.waiting.keys() == {"a", "b"}
    assert "a waits in test_sweep.py" in str(error)


def test_steps_without_an_end_are_a_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "_MOST_STEPS", 50)

    async def scenario(lab: Lab) -> None:
        zk = await lab.client("a")

        async def work() -> None:
            while not await zk.exists("/never"):
                await lab.point()

        await lab.together(work)

    error = failing(scenario)
    (finding,) = error.report.results.findings
    assert (finding.outcome.verdict, finding.outcome.detail) == (
        "hang",
        "50 steps, and the run has not ended",
    )


def test_nobody_waits_without_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(silence, "_SILENCE", 0.05)
    said = io.StringIO()
    monkeypatch.setattr(sys, "stderr", said)

    async def scenario(lab: Lab) -> None:
        zk = await lab.client("a")

        async def work() -> None:
            await zk.exists("/")
            while not said.getvalue():  # in real time, for as long as nothing is said
                pass

        await lab.together(work)

    sweep(scenario, faults=None, orders=None)
    assert "sweep: no step for 0.05 s: it waits in test_sweep.py:" in said.getvalue()


@pytest.mark.parametrize("fault", [name for name, fault in FAULTS.items() if fault.of != "ensemble"])
def test_each_fault_comes_to_pass_and_clients_get_over_it(fault: str) -> None:
    async def scenario(lab: Lab) -> None:
        zk = await lab.client("a")

        async def work() -> None:
            await zk.exists("/x")

        await lab.together(work)

    outcome = run(scenario, Rounds(), Cell("a", 1, fault))
    assert outcome.fired
    assert outcome.verdict == "ok", outcome.detail
    assert "!!" in outcome.steps[0].text


def test_the_same_seed_comes_to_the_same_steps() -> None:
    for seed in range(10):
        first, second = (run(bugs.crossed_locks, Random(seed)) for _ in range(2))
        assert [(s.actor, s.text) for s in first.steps] == [(s.actor, s.text) for s in second.steps]


def test_what_is_not_controlled_is_said() -> None:
    runs = count()

    async def different(lab: Lab) -> None:
        zk = await lab.client("a")
        path = f"/x{next(runs)}"
        await lab.together(partial(zk.exists, path))

    with pytest.raises(NotControlled, match="two runs with the same order differ at step 1: a 'exists /x0"):
        sweep(different)

    async def idle(lab: Lab) -> None:
        await lab.client("a")

    with pytest.raises(NotControlled, match="no client has sent a request"):
        sweep(idle)


def test_nothing_holds_where_the_planted_race_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(InProcess, "planted", lambda subject: InProcess(careful))
    with pytest.raises(NotControlled, match="planted race"):
        sweep(careful)


class Early(InProcess):
    """A subject that makes a step as soon as the first request is there, and finds the race by luck."""

    def run(self, order: Order, cell: Cell | None = None) -> Outcome:
        order.pick({"a": Step("a", "get_data /number")})
        return Outcome("wrong", enabled=[[Step("a", "get_data /number")]])


def test_nothing_holds_where_a_step_comes_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(InProcess, "planted", lambda subject: Early(careful))
    with pytest.raises(NotControlled, match="while a client was still about to send its request"):
        sweep(careful)


def test_chance_is_as_before_after_a_sweep() -> None:
    random.seed(5)
    expected = random.random()
    random.seed(5)
    run(careful, Rounds())
    assert random.random() == expected


def test_cells_may_be_allowed() -> None:
    with pytest.raises(SweepFailed):
        sweep(bugs.repeated_increment, faults=["restart"], orders=None, budget=LONG)
    sweep(bugs.repeated_increment, faults=["restart"], orders=None, budget=LONG, allow=["*-restart"])


def test_wrong_arguments() -> None:
    with pytest.raises(ValueError, match=r"there is no fault 'reply_lost'\. The faults are: lost"):
        sweep(careful, faults=["reply_lost"])
    with pytest.raises(ValueError, match="no token"):
        sweep(careful, replay="f1-a5-nonsense")
    with pytest.raises(TypeError, match="a function that takes a lab"):
        sweep("careful")  # type: ignore[arg-type]


@pytest.mark.parametrize("actors", [[], ["a"], ["b", "b", "a^", "a.", "a", "a"]], ids=["none", "one", "some"])
def test_tokens_say_what_they_say(actors: list[str]) -> None:
    assert tokens.read(tokens.of_actors(actors)) == actors
    cell = Cell("worker", 12, "gone-after")
    assert tokens.read(tokens.of_cell(cell)) == cell


def test_a_replay_that_does_not_fit_goes_on() -> None:
    order = Replay(["a", "z", "a"])
    assert not run(careful, order).is_bad
    assert order.missed >= 1


def test_names_of_clients_are_checked() -> None:
    async def twice(lab: Lab) -> None:
        await lab.client("a")
        await lab.client("a")

    assert run(twice, Rounds()).detail.startswith("ValueError: 'a' cannot be a client's name")


def test_a_ready_scenario_takes_the_users_own() -> None:
    async def add(zk: ZooKeeper) -> None:
        data, _ = await zk.get("/n")
        await zk.set("/n", b"%d" % (int(data or b"") + 1))

    async def read(zk: ZooKeeper) -> int:
        data, _ = await zk.get("/n")
        return int(data or b"")

    async def scenario(lab: Lab) -> None:
        lab.server.load({"/n": "0"})
        await scenarios.counter(add, read)(lab)

    assert "2 clients have added 1 each, but the sum is 1" in str(failing(scenario, faults=None))
