"""Which rows of docs/spec/recipe-rules.md are shown by tests of which recipe: ``python -m tests.matrix``.

A test says so by ``@pytest.mark.row("F14", "E-30")``. Numbers are those of test functions.
"""

from __future__ import annotations

import io
import re
from collections import defaultdict
from collections.abc import Iterable
from contextlib import redirect_stdout

import pytest

from .test_citations import DOCUMENTS

GROUPS = {"F": "Faults (D.13)", "I-": "Invariants (D.14)", "E-": "Traps (E)"}


class Matrix:
    """A plugin of pytest that collects the marks.

    :ivar tests: the test functions for each row and recipe.
    """

    def __init__(self) -> None:
        self.tests: dict[tuple[str, str], set[str]] = defaultdict(set)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            for mark in item.iter_markers("row"):
                for row in mark.args:
                    self.tests[row, recipe_of(item)].add(item.nodeid.partition("[")[0])

    def format(self) -> str:
        shown = {row for row, _ in self.tests}
        parts = []
        for prefix, title in GROUPS.items():
            rows = sorted((row for row in shown if row.startswith(prefix)), key=number_of)
            parts += [f"{title}\n", *self._lines(rows)]
            missing = (row for row in DOCUMENTS["recipe-rules"] if re.match(rf"{prefix}\d", row))
            parts.append(f"Marked by no test: {names(sorted(set(missing) - shown, key=number_of))}\n")
        return "\n".join(parts)

    def _lines(self, rows: list[str]) -> Iterable[str]:
        recipes = sorted({recipe for row, recipe in self.tests if row in rows})
        width = max(map(len, recipes), default=0)
        yield f"{'':{width}} " + "".join(f"{row:>5}" for row in rows)
        for recipe in recipes:
            counts = (len(self.tests.get((row, recipe), ())) for row in rows)
            yield f"{recipe:{width}} " + "".join(f"{count or '.':>5}" for count in counts)


def recipe_of(item: pytest.Item) -> str:
    """The recipe, by the name of the module: ``lock`` for test_lock.py and test_lock_faults.py."""
    return re.sub(r"^test_(property_)?|_(faults|losses|ends)$", "", item.path.stem).replace("_", " ")


def number_of(row: str) -> int:
    return int(re.sub(r"\D", "", row))


def names(rows: list[str]) -> str:
    return ", ".join(rows) or "none"


def main() -> None:
    matrix = Matrix()
    with redirect_stdout(io.StringIO()) as output:
        status = pytest.main(["--collect-only", "-qq", "tests"], plugins=[matrix])
    print(output.getvalue() if status else matrix.format())


if __name__ == "__main__":
    main()
