"""The pages about web frameworks and task queues: the blocks of a page are files, which pytest runs together.

The first line of a block is the name of its file. A page is tried where the packages that it shows are
installed: ``pip install -e '.[frameworks]'``.
"""

from __future__ import annotations

import pytest

from .blocks import BLOCKS

pytest_plugins = "pytester"


@pytest.mark.parametrize(
    ("page", "packages", "tests", "passed"),
    [
        ("fastapi", ["fastapi", "httpx"], "test_app*.py", 4),
        ("django-celery", ["django"], "test_views.py", 2),
        ("django-celery", ["celery"], "test_tasks.py", 2),
    ],
    ids=["fastapi", "django", "celery"],
)
def test_a_page(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    page: str,
    packages: list[str],
    tests: str,
    passed: int,
) -> None:
    for package in packages:
        pytest.importorskip(package, reason=f"{package} is not installed: pip install -e '.[frameworks]'")
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    for block in BLOCKS:
        if block.page == f"how-to/{page}.md":
            name = block.code.partition("\n")[0].removeprefix("# ")
            (pytester.path / name).write_text(block.code, encoding="utf-8")
    options = ("-p", "no:trio", "-p", "no:asyncio", "-p", "no:hypothesispytest")
    files = [path.name for path in sorted(pytester.path.glob(tests))]
    result = pytester.runpytest_subprocess(*options, "--zk-timeout=60", *files, timeout=300)
    result.assert_outcomes(passed=passed)
