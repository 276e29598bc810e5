"""From a scenario to findings: which runs are made, within a budget of time.

The rules:

1. The first run has no fault, and each client makes a step in turn. It must pass. It is made twice, and must
   make the same steps: otherwise something other than the order decides, and no later result counts.
2. A planted race must be found with the same client (:mod:`.selfcheck`), and in each of its runs either
   client must be able to act first. Otherwise nothing is controlled.
3. Faults: each at each request of the first run, in the order of rule 1. A bad cell is run twice, and counts
   if it is bad in the same way. If there is no time for all, writes come before reads, each kind of request
   before its repetitions, the faults of :data:`.faults.FIRST` before the others, and those of a request that
   has failed already last.
4. Orders: all that differ (:mod:`.dpor`), for half of the time. If these are too many, samplers follow in
   turn. The first bad order ends the search.
5. A bad order is run twice as well. It is shortened: fewer switches between clients, then fewer steps that
   are prescribed.
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
from .model import Cell, NotControlled, Outcome, switches, without_numbers
from .orders import PCT, POS, Order, Random, Replay, Rounds
from .subject import Subject

_RACING: Final = 2
"""Clients of the planted race."""
_ATTEMPTS: Final = 3
"""How often a run is repeated that did not follow its order, where that may happen."""
_LONGEST: Final = 300
"""Only a run with at most this number of steps is shortened. A longer run hangs in a loop."""
_SHOWN: Final = 3
"""Kinds of failures of which the least run is shown; the table has all bad cells."""


@attrs.frozen
class Finding:
    """A failing run, the shortest of its kind.

    :ivar token: replays it.
    :ivar passing: the nearest run that passes; None if there is none.
    :ivar deciding: the index of the step at which the two part.
    """

    token: str
    outcome: Outcome
    passing: Outcome | None
    deciding: int


@attrs.define
class Results:
    """The result of a sweep.

    :ivar base: the first run.
    :ivar bad: the outcomes of bad cells, in the order of the requests.
    :ivar cells: how many cells were run, of ``all_cells``.
    :ivar orders: how many different orders were run.
    :ivar exhausted: whether these are all.
    :ivar seconds: its duration.
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
    """
    :ivar faults: names of faults.
    :ivar orders: ``some``: as many as fit; ``all``: all, however long that takes; None.
    :ivar budget: seconds, for faults and orders together.
    :ivar allow: cells that may be bad, as globs such as ``*-gone-after``.
    """

    faults: Sequence[str]
    orders: str | None
    budget: float
    allow: Sequence[str]


def carry_out(subject: Subject, plan: Plan, first: Sequence[str] = ()) -> Results:
    """Carry out a sweep.

    :param first: tokens that are tried before everything else; a bad token ends the sweep.
    :raises NotControlled: see the rules.
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
    """Run the first run, and then only this token.

    :raises ValueError: if it is no token.
    """
    began = time.monotonic()
    tokens.read(token)
    base = subject.run(Rounds())
    finding = _replay(subject, token, base)
    return Results(base, findings=[] if finding is None else [finding], seconds=time.monotonic() - began)


def _replay(subject: Subject, token: str, base: Outcome) -> Finding | None:
    """Run a token; returns None if it passes."""
    which = tokens.read(token)
    if isinstance(which, Cell):
        outcome = _judged(subject.run_again(Rounds(), which), base)
        return _finding_of_cell(which, outcome, base) if outcome.is_bad else None
    outcome = subject.run_again(Replay(which, strict=True))
    return _finding_of_order(subject, which, outcome) if outcome.is_bad else None


def _base(subject: Subject) -> Outcome:
    """:raises NotControlled: two runs alike differ."""
    first = subject.run(Rounds())
    for _ in range(_attempts(subject)):
        before, first = first, subject.run(Rounds())
        if (parted := _where_they_part(before, first, subject.is_exact)) is None:
            break
    else:
        raise NotControlled(
            f"two runs alike differ at {parted}. Does the scenario use threads of its own, real time or "
            "its own random numbers?"
        )
    if not first.steps and not first.is_bad:
        raise NotControlled(
            "no client has sent a request inside of lab.together(): there is nothing to sweep"
        )
    return first


def _attempts(subject: Subject) -> int:
    return 1 if subject.is_exact else _ATTEMPTS


def _where_they_part(one: Outcome, other: Outcome, with_replies: bool) -> str | None:
    """Say where two runs part. Replies may differ with the names that a program chooses by chance."""
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
    """Run the order that is planned; returns None if that cannot be done, as far as it need not.

    :raises NotControlled: a step that was possible before is no longer possible.
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
    """Yield the cells; the cells of requests that have failed meanwhile come last."""
    later = []
    for cell in cells:
        if (cell.client, cell.number) in failed:
            later.append(cell)
        else:
            yield cell
    yield from later


def _cells(base: Outcome, faults: Sequence[str]) -> Iterator[Cell]:
    """List all cells, the most promising first."""
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
    """A run that passes leaves no persistent znode that the first run does not leave."""
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
    """Shorten a bad order, and find where the nearest good order differs from it."""
    if actors:
        actors, outcome = _shorten(
            lambda tried: subject.run(Replay(tried)), actors, outcome, subject.most_shortening
        )
    for length in range(len(actors) - 1, -1, -1):
        passing = subject.run(Replay(actors[:length]))
        if not passing.is_bad:
            return Finding(tokens.of_actors(actors), outcome, passing, length)
    return Finding(tokens.of_actors(actors), outcome, None, 0)


def _shorten(
    attempt: Callable[[list[str]], Outcome], actors: list[str], outcome: Outcome, left: int
) -> tuple[list[str], Outcome]:
    """Find an order that fails alike with fewer switches, of which less is prescribed.

    :param left: runs that may be spent.
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
    """Yield the order with a later step of a client, or with those that follow it too, put behind an earlier
    one."""
    for at, actor in enumerate(actors[:-2]):
        if actors[at + 1] == actor or actor not in actors[at + 2 :]:
            continue
        first = actors.index(actor, at + 2)
        end = next((n for n in range(first, len(actors)) if actors[n] != actor), len(actors))
        for behind in {end: None, first + 1: None}:
            yield [*actors[: at + 1], *actors[first:behind], *actors[at + 1 : first], *actors[behind:]]
