"""The matrix of rows and recipes, with two tests that are marked."""

from __future__ import annotations

from .matrix import Matrix


def test_the_matrix_counts_the_tests_of_each_row_and_recipe() -> None:
    matrix = Matrix()
    matrix.tests["F14", "lock"] = {"one", "another"}
    matrix.tests["F8", "queue"] = {"one"}
    table, _, missing = matrix.format().partition("Marked by no test: ")
    assert [line.split() for line in table.splitlines()[2:]] == [
        ["F8", "F14"],
        ["lock", ".", "2"],
        ["queue", "1", "."],
    ]
    assert missing.startswith("F1, F2, F3")
