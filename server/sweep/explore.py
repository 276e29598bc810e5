"""Carries out a sweep: which runs are made within a budget of time, and how they become findings.

The rules:

1. The first run has no fault, and each client makes a step in turn. This run must pass. The first run is made
   twice, and both times the steps must be the same. If the steps differ, something other than the order
   decides, and no later result counts.
2. The sweep must find a planted race with a client of the same kind (:mod:`.selfcheck`). In each run of the
   race, each client must be able to act first. If a client never acts first, the sweep does not control the
   order.
3. Faults: each fault is tried at each request of the first run, in the order of rule 1. A bad cell is run
   twice, and counts if it fails twice in the same way. The time may be too short for all cells. So the cells
   of the first request of each kind come before the cells of later requests of this kind, the faults of
   :data:`.faults.FIRST` come before the others, and writes come before reads. The cells of a request that has
   already failed come last.
4. Orders: all orders that differ (:mod:`.dpor`) are tried, for half of the time. If there are too many
   orders, samplers choose orders at random for the other half of the time. The first bad order ends the
   search.
5. A bad order is also run twice. Then the order is shortened: first to fewer switches between clients, then
   to fewer prescribed steps.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import count
from typing import Final

import attrs

from . import tokens
from .dpor import Diverged, Explorer
from .faults import FIRST
from .model import REPLY, Cell, NotControlled, Outcome, switches, without_numbers
from .orders import PCT, POS, Order, Random, Replay, Rounds
from .subject import Subject

_RACING: Final = 2
"""The number of clients in the planted race."""
_ATTEMPTS: Final = 3
"""The number of attempts to make a run follow its order, if timers of clients can prevent the order."""
_LONGEST: Final = 300
"""The largest number of steps of a run that is shortened. A longer run is not shortened, because it hangs in
a loop."""
_SHOWN: Final = 3
"""The number of kinds of failures whose shortest run is shown. The table shows all bad cells."""


@attrs.frozen
class Finding:
    """A failing run, the shortest run of its kind.

    :ivar token: the token that replays the failing run.
    :ivar passing: the nearest run that passes; None if no run passes.
    :ivar deciding: the index of the first step at which the two runs differ.
    """

    token: str
    outcome: Outcome
    passing: Outcome | None
    deciding: int


@attrs.define
class Results:
    """The result of a sweep.

    :ivar base: the outcome of the first run.
    :ivar bad: the outcomes of the bad cells, in the order of the requests.
    :ivar cells: how many of the ``all_cells`` cells were run.
    :ivar orders: how many different orders were run.
    :ivar exhausted: whether all different orders were run.
    :ivar seconds: the duration of the sweep, in seconds.
    """

    base: Outcome
    bad: dict[Cell, Outcome] = attrs.Factory(dict)
    cells: int = 0
    all_cells: int = 0
    orders: int = 0
    exhausted: bool = False
    findings: list[Finding] = attrs.Factory(list)
    seconds: float = 0.0


@attrs.frozen
class Plan:
    """The options of a sweep.

    :ivar faults: names of faults.
    :ivar orders: ``some``: as many orders as fit into the budget; ``all``: all orders, even beyond the
        budget; None: no orders.
    :ivar budget: the seconds for faults and orders together.
    :ivar allow: the cells that may be bad, as globs such as ``*-gone-after``.
    """

    faults: Sequence[str]
    orders: str | None
    budget: float
    allow: Sequence[str]


def carry_out(subject: Subject, plan: Plan, first: Sequence[str] = ()) -> Results:
    """Carry out a sweep.

    :param first: tokens that are tried before everything else; a token whose run fails ends the sweep.
    :raises NotControlled: rule 1 or rule 2 is broken.
    """
    began = time.monotonic()
    results = Results(_base(subject))
    if results.base.is_bad:
        actors = results.base.actors if subject.is_exact else []
        results.findings.append(_finding_of_order(subject, actors, results.base))
    for token in first:
        if not results.findings and (finding := _replay(subject, token, results.base)) is not None:
            results.findings.append(finding)
    if not results.findings:
        _check_control(subject.planted())
        share = plan.budget / 2 if plan.faults and plan.orders else plan.budget
        _sweep_faults(subject, plan, results, time.monotonic() + share)
        if plan.orders:
            _sweep_orders(subject, plan, results, time.monotonic() + share)
    results.seconds = time.monotonic() - began
    return results


def replay(subject: Subject, token: str) -> Results:
    """Make the first run, and then only the run of this token.

    :raises ValueError: the text is not a token.
    """
    began = time.monotonic()
    tokens.read(token)
    base = subject.run(Rounds())
    finding = _replay(subject, token, base)
    return Results(base, findings=[] if finding is None else [finding], seconds=time.monotonic() - began)


def _replay(subject: Subject, token: str, base: Outcome) -> Finding | None:
    """Make the run of a token; return None if the run passes."""
    which = tokens.read(token)
    if isinstance(which, Cell):
        outcome = _judged(subject.run_again(Rounds(), which), base)
        return _finding_of_cell(which, outcome, base) if outcome.is_bad else None
    outcome = subject.run_again(Replay(which, strict=True))
    return _finding_of_order(subject, which, outcome) if outcome.is_bad else None


def _base(subject: Subject) -> Outcome:
    """Make the first run twice.

    :raises NotControlled: two runs with the same order differ.
    """
    first = subject.run(Rounds())
    for _ in range(_attempts(subject)):
        before, first = first, subject.run(Rounds())
        if (parted := _where_they_part(before, first, subject.is_exact)) is None:
            break
    else:
        raise NotControlled(
            f"two runs with the same order differ at {parted}. Does the scenario use its own threads, "
            "real time or its own random numbers?"
        )
    if not first.steps and not first.is_bad:
        raise NotControlled(
            "no client has sent a request inside of lab.together(): there is nothing to sweep"
        )
    return first


def _attempts(subject: Subject) -> int:
    return 1 if subject.is_exact else _ATTEMPTS


def _where_they_part(one: Outcome, other: Outcome, with_replies: bool) -> str | None:
    """Return the first step at which two runs differ, in words.

    :param with_replies: whether replies count. A program may choose names by chance, and then its replies
        differ.
    """
    for n, (step, its) in enumerate(zip(one.steps, other.steps, strict=False), 1):
        texts = [each.text if with_replies else each.text.partition(" -> ")[0] for each in (step, its)]
        if step.actor != its.actor or texts[0] != texts[1]:
            return f"step {n}: {step.actor} {step.text!r}, then {its.actor} {its.text!r}"
    return None


def _check_control(planted: Subject) -> None:
    explorer, found = Explorer(), False
    while explorer.more and (outcome := _run_planned(planted, explorer)) is not None:
        explorer.learn()
        if len(outcome.enabled[0]) < _RACING:
            raise NotControlled("a step was made while a client was still about to send its request")
        found = found or outcome.verdict == "wrong"
    if not found:
        raise NotControlled("a planted race was not found: the order of requests is not under control here")


def _run_planned(subject: Subject, explorer: Explorer) -> Outcome | None:
    """Run the planned order.

    :returns: None if timers of the clients prevent this order.
    :raises NotControlled: a step that was possible in an earlier run is no longer possible.
    """
    for _ in range(_attempts(subject)):
        try:
            return subject.run(explorer.order())
        except Diverged as error:
            if subject.is_exact:
                raise NotControlled(str(error)) from None
    return None


# --- faults ------------------------------------------------------------------------------------------------


def _sweep_faults(subject: Subject, plan: Plan, results: Results, until: float) -> None:
    cells = list(_cells(results.base, plan.faults))
    results.all_cells = len(cells)
    failed: set[tuple[str, int]] = set()
    for cell in _those_of_others_first(cells, failed):
        if time.monotonic() > until:
            break
        results.cells += 1
        outcome = _judged(subject.run(Rounds(), cell), results.base)
        if not outcome.is_bad or any(fnmatchcase(str(cell), glob) for glob in plan.allow):
            continue
        again = _judged(subject.run_again(Rounds(), cell), results.base)
        if again.fails_like(outcome):
            results.bad[cell] = again
            failed.add((cell.client, cell.number))
    seen: set[tuple[str, str]] = set()
    for cell, outcome in sorted(results.bad.items(), key=lambda bad: len(bad[1].steps)):
        kind = outcome.verdict, without_numbers(outcome.detail)
        if kind not in seen and len(seen) < _SHOWN:
            seen.add(kind)
            results.findings.append(_finding_of_cell(cell, outcome, results.base))


def _those_of_others_first(cells: Iterable[Cell], failed: Collection[tuple[str, int]]) -> Iterator[Cell]:
    """Yield the cells. A cell is postponed to the end if its request has already failed with another fault.

    :param failed: the requests that have failed; the set grows while the cells are run.
    """
    later = []
    for cell in cells:
        if (cell.client, cell.number) in failed:
            later.append(cell)
        else:
            yield cell
    yield from later


def _cells(base: Outcome, faults: Sequence[str]) -> Iterator[Cell]:
    """List all cells in the order of rule 3."""
    repeated: dict[tuple[str, str], int] = {}
    ranked: list[tuple[tuple[bool, bool, bool, int], int, Cell]] = []
    for at, request in enumerate(base.requests):
        times = repeated[request.words] = repeated.get(request.words, 0) + 1
        for fault in faults:
            rank = (times > 1, fault not in FIRST, not request.writes, at)
            ranked.append((rank, len(ranked), Cell(request.client, request.number, fault)))
    for _, _, cell in sorted(ranked):
        yield cell


def _judged(outcome: Outcome, base: Outcome) -> Outcome:
    """Report the persistent znodes that remain after this run but not after the first run."""
    left = list(outcome.left)
    for path in base.left:
        if path in left:
            left.remove(path)
    if left:
        outcome.judge("leak", f"left behind: {left[0]}")
    return outcome


def _finding_of_cell(cell: Cell, outcome: Outcome, base: Outcome) -> Finding:
    deciding = next((n for n, step in enumerate(outcome.steps) if "!!" in step.text), len(outcome.steps) - 1)
    return Finding(tokens.of_cell(cell), outcome, base, deciding)


# --- orders ------------------------------------------------------------------------------------------------


def _sweep_orders(subject: Subject, plan: Plan, results: Results, until: float) -> None:
    everything = plan.orders == "all"
    began = time.monotonic()
    explorer, bad = Explorer(), None
    seen: set[tuple[str, ...]] = set()
    while explorer.more and (everything or time.monotonic() < (began + until) / 2):
        outcome = _run_planned(subject, explorer)
        if outcome is None:
            break
        explorer.learn()
        seen.add(tuple(outcome.actors))
        if _is_bad_again(subject, outcome):
            bad = outcome
            break
    results.orders, results.exhausted = explorer.runs, not explorer.more
    if bad is None and not results.exhausted:
        length = len(results.base.steps)
        for order in _samplers(length):
            if time.monotonic() > until:
                break
            outcome = subject.run(order)
            seen.add(tuple(outcome.actors))
            if _is_bad_again(subject, outcome):
                bad = outcome
                break
        results.orders = len(seen)
    if bad is not None:
        results.findings.append(_finding_of_order(subject, bad.actors, bad))


def _is_bad_again(subject: Subject, outcome: Outcome) -> bool:
    return outcome.is_bad and subject.run_again(Replay(outcome.actors, strict=True)).fails_like(outcome)


def _samplers(length: int) -> Iterator[Order]:
    for seed in count():
        yield POS(seed)
        yield Random(seed)
        yield PCT(seed, length)


def _finding_of_order(subject: Subject, actors: list[str], outcome: Outcome) -> Finding:
    """Shorten a bad order, and find the step at which the nearest good order differs from the bad order."""
    if actors:
        actors, outcome = _shorten(
            lambda tried: subject.run(Replay(tried)), actors, outcome, subject.most_shortening
        )
    replies = any(step.actor.endswith(REPLY) for step in outcome.steps)
    token = tokens.of_actors(actors, replies=replies)
    for length in range(len(actors) - 1, -1, -1):
        passing = subject.run(Replay(actors[:length]))
        if not passing.is_bad:
            return Finding(token, outcome, passing, length)
    return Finding(token, outcome, None, 0)


def _shorten(
    attempt: Callable[[list[str]], Outcome], actors: list[str], outcome: Outcome, left: int
) -> tuple[list[str], Outcome]:
    """Find an order that fails in the same way, with fewer switches or with fewer prescribed steps.

    :param left: the number of runs that may be made.
    """

    def is_better(tried: list[str]) -> bool:
        nonlocal left, actors, outcome
        left -= 1
        found = attempt(tried)
        size = switches(found.actors), len(tried)
        if not found.fails_like(outcome) or size >= (switches(outcome.actors), len(actors)):
            return False
        actors, outcome = tried, found
        return True

    while left > 0 and len(outcome.actors) <= _LONGEST:
        if any(is_better(actors[:length]) for length in range(min(len(actors), left))):
            continue
        if not any(is_better(tried) for tried in list(_joined(outcome.actors))[:left]):
            break
    return actors, outcome


def _joined(actors: list[str]) -> Iterator[list[str]]:
    """Yield orders in which a later step of a client moves directly behind an earlier step of that client.

    A second variant of each order also moves the steps of the same client that directly follow the later
    step.
    """
    for at, actor in enumerate(actors[:-2]):
        if actors[at + 1] == actor or actor not in actors[at + 2 :]:
            continue
        first = actors.index(actor, at + 2)
        end = next((n for n in range(first, len(actors)) if actors[n] != actor), len(actors))
        for behind in {end: None, first + 1: None}:
            yield [*actors[: at + 1], *actors[first:behind], *actors[at + 1 : first], *actors[behind:]]
