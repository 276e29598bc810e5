"""The findings of a sweep: as text for an issue, as JSON and as an HTML page."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import attrs

from .explore import Finding, Results
from .faults import FAULTS
from .html import page
from .model import LETTERS, Cell, Outcome, Step

_COLUMN: Final = 44  # characters
_MOST_COLUMNS: Final = 3
_MOST_STEPS: Final = 40
_MOST_WRITTEN: Final = 12  # lines


@attrs.frozen
class Report:
    """The report of a sweep; ``str()`` gives its text.

    :ivar results: the results of the sweep.
    :ivar title: the name of the scenario.
    """

    results: Results
    title: str

    @property
    def failed(self) -> bool:
        return bool(self.results.findings)

    @property
    def tokens(self) -> list[str]:
        """The tokens that replay the findings."""
        return [finding.token for finding in self.results.findings]

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def as_json(self) -> str:
        """Return the report as one JSON object, for programs."""
        return json.dumps(self.as_dict(), indent=1)

    def as_html(self) -> str:
        """Return the findings as an HTML file that plays them step by step."""
        return page(self.as_dict())

    def as_dict(self) -> dict[str, Any]:
        """Return the contents of :meth:`as_json` as a dict."""
        results = self.results
        return {
            "scenario": self.title,
            "seconds": round(results.seconds, 2),
            "cells": results.cells,
            "all_cells": results.all_cells,
            "orders": results.orders,
            "all_orders": results.exhausted,
            "bad_cells": {str(cell): outcome.verdict for cell, outcome in results.bad.items()},
            "findings": [_as_dict(finding) for finding in results.findings],
        }

    def _lines(self) -> Iterator[str]:
        results = self.results
        yield f"{self.title}: {self._summary()} ({results.seconds:.1f} s)"
        if results.bad:
            yield ""
            yield from _table(results)
        for number, finding in enumerate(results.findings, 1):
            yield ""
            yield from _finding(number, finding)

    def _summary(self) -> str:
        results = self.results
        if results.base.is_bad:
            return "it fails without a fault, when each client acts in turn"
        parts = []
        if results.all_cells:
            whole = results.cells == results.all_cells
            tried = f"{results.cells} fault cells" + ("" if whole else f", of {results.all_cells},")
            if results.bad:
                parts.append(f"{len(results.bad)} of {tried} break it")
            else:
                parts.append(f"{'all ' * whole}{tried} hold")
        if results.orders:
            broken = any(not finding.token.startswith("f1-") for finding in results.findings)
            if broken:
                parts.append(f"the {_ordinal(results.orders)} order breaks it")
            elif results.exhausted:
                many = results.orders != 1
                parts.append(
                    f"all {results.orders:,} orders that differ hold" if many else "the only order holds"
                )
            else:
                parts.append(f"{results.orders:,} orders hold, of more that were not tried")
        return "; ".join(parts) or ("it fails" if results.findings else "it holds")


class SweepFailed(AssertionError):
    """A sweep has found a run that fails.

    :ivar report: the report of the sweep.
    """

    def __init__(self, report: Report) -> None:
        super().__init__(str(report))
        self.report = report


def _as_dict(finding: Finding) -> dict[str, Any]:
    def steps(outcome: Outcome) -> list[list[str]]:
        return [[step.actor, step.text] for step in outcome.steps]

    return {
        "token": finding.token,
        "verdict": finding.outcome.verdict,
        "detail": finding.outcome.detail,
        "deciding": finding.deciding + 1,
        "steps": steps(finding.outcome),
        "passing": None if finding.passing is None else steps(finding.passing),
        "waiting": finding.outcome.waiting,
        "written": finding.outcome.written,
    }


def _ordinal(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10 if number % 100 not in (11, 12, 13) else 0, "th")
    return f"{number:,}{ending}"


def _table(results: Results) -> Iterator[str]:
    """Yield the lines of the table: one line for each request at which a fault breaks the scenario, and one
    column for each fault."""
    faults = [name for name in FAULTS if any(cell.fault == name for cell in results.bad)]
    requests = {(request.client, request.number): request for request in results.base.requests}
    rows = [key for key in requests if any((cell.client, cell.number) == key for cell in results.bad)]
    texts = {key: f"{key[0]}{key[1]} {requests[key].text}"[:60] for key in rows}
    width = max(map(len, texts.values()))
    yield "request".ljust(width) + "".join(f"  {name}" for name in faults)
    for client, number in rows:
        marks = ""
        for name in faults:
            outcome = results.bad.get(Cell(client, number, name))
            marks += "  " + (LETTERS[outcome.verdict] if outcome else ".").ljust(len(name))
        yield (texts[client, number].ljust(width) + marks).rstrip()
    yield f"{len(requests)} requests in all; the others hold.   . holds  W wrong  E error  H hang  L leak"


def _finding(number: int, finding: Finding) -> Iterator[str]:
    outcome = finding.outcome
    yield f"{number}. {outcome.verdict}: {outcome.detail}"
    yield f"   replay: {finding.token}"
    clients = sorted({step.client for step in outcome.steps})
    begin = max(0, finding.deciding + 1 - _MOST_STEPS // 2) if len(outcome.steps) > _MOST_STEPS else 0
    shown = list(enumerate(outcome.steps))[begin : begin + _MOST_STEPS]
    yield from _drawn(shown, clients, finding.deciding, begin > 0)
    for client, place in sorted(outcome.waiting.items()):
        yield f"   {client} {place}"
    for line in outcome.written.splitlines()[-_MOST_WRITTEN:]:
        yield f"   | {line[: _MOST_COLUMNS * _COLUMN]}"
    if finding.passing is not None:
        first = min(finding.deciding, len(finding.passing.steps))
        shown = list(enumerate(finding.passing.steps))[first : first + _MOST_STEPS]
        yield f"   The nearest run that passes, from step {first + 1} on:"
        yield from _drawn(shown, sorted({step.client for _, step in shown}), None, False)


def _drawn(
    steps: Sequence[tuple[int, Step]], clients: Sequence[str], deciding: int | None, cut: bool
) -> Iterator[str]:
    """Return a drawing of steps, with a column for each client if the columns fit into the width."""
    columns = len(clients) <= _MOST_COLUMNS
    if columns:
        yield " step | " + " | ".join(client.ljust(_COLUMN) for client in clients).rstrip()
    if cut:
        yield "  ... |"
    for at, step in steps:
        mark = ">>" if at == deciding else "  "
        cells = _cells(step, clients) if columns else [f"{step.actor} {step.text}"]
        for n, line in enumerate(_wrapped(cells) if columns else [cells]):
            left = f"{mark}{at + 1:3}" if n == 0 else " " * 5
            yield f"{left} | {' | '.join(line)}".rstrip()


def _cells(step: Step, clients: Iterable[str]) -> list[str]:
    return [step.text if client == step.client else "" for client in clients]


def _wrapped(cells: list[str]) -> Iterator[list[str]]:
    lines = [textwrap.wrap(cell, _COLUMN) or [""] for cell in cells]
    for n in range(max(map(len, lines))):
        yield [(each[n] if n < len(each) else "").ljust(_COLUMN) for each in lines]
