"""A folder of tests stands alone: what several folders use is in tests/support."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent


def imported(path: Path) -> Iterator[tuple[str, ...]]:
    """The modules of tests that a module imports, each by its path below this folder."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            folder = path.parents[node.level - 1].relative_to(TESTS).parts
            yield (*folder, *(node.module.split(".") if node.module else [node.names[0].name]))


def test_a_test_imports_from_its_own_folder_and_from_support() -> None:
    wrong = [
        f"{path.relative_to(TESTS)} imports {'.'.join(module)}"
        for path in TESTS.glob("*/**/*.py")
        for module in imported(path)
        if module[0] not in ("support", path.relative_to(TESTS).parts[0]) or module[-1].startswith("test_")
    ]
    assert wrong == []
