"""The code in the pages that begin with a question runs as it is printed.

The rule for a code block of one of the languages in ``blocks.LANGUAGES``:

* It runs. In the pages of ``HERE`` this module runs it; the first lines of another page name the test that
  does: ``<!-- code: tests/cli/test_docs.py -->``. Such a page may be in a folder of ``HERE`` too.
* Or the line before it says why it does not: ``<!-- not run: needs a container engine -->``; or which test
  runs it: ``<!-- run by tests/server/control/test_languages.py -->``.

How this module runs a block: one with test functions as a file of pytest, with the plugin; other Python with
``server`` and ``zk``, a server and a client of kazoo; the lines of a shell if they begin with ``pyzk``. The
address 127.0.0.1:2181 stands for that of the server.
"""

from __future__ import annotations

import ast
import inspect
import re
import shlex
from typing import Any

import pytest
import trio
from kazoo.client import KazooClient

from pyzk.cli.main import main
from pyzk.server.testing import EmbeddedServer

from .blocks import BLOCKS, ROOT, Block

pytest_plugins = "pytester"

HERE = ("README.md", "index.md", "tutorial.md", "troubleshooting.md", "moving.md", "how-to/", "testing")
_PAGE = re.compile(r"^<!-- code: (?P<text>.+) -->$", re.MULTILINE)
ELSEWHERE = {
    path.relative_to(ROOT / "docs").as_posix()
    for path in (ROOT / "docs").rglob("*.md")
    if _PAGE.search(path.read_text(encoding="utf-8"))
}
RUN = [
    block
    for block in BLOCKS
    if block.page.startswith(HERE) and block.page not in ELSEWHERE and not block.mark
]
TESTS = [
    block for block in RUN if block.language == "python" and re.search(r"^ *def test_", block.code, re.M)
]
PROGRAMS = [block for block in RUN if block.language == "python" and block not in TESTS]
SHELL = [block for block in RUN if block.language == "sh"]


def test_each_block_runs_or_says_why_not() -> None:
    pages = {
        path.relative_to(ROOT / "docs").as_posix(): _PAGE.search(path.read_text(encoding="utf-8"))
        for path in (ROOT / "docs").rglob("*.md")
    }
    unknown = [block for block in RUN if block not in (*TESTS, *PROGRAMS, *SHELL)]
    unknown += [
        block
        for block in BLOCKS
        if not block.mark and not block.page.startswith(HERE) and not pages[block.page]
    ]
    assert not unknown, (
        f"{', '.join(map(str, unknown))}: write '<!-- not run: the reason -->' or '<!-- run by tests/... -->'"
        " before the block, or '<!-- code: tests/... -->' below the title of the page"
    )
    named = [mark["text"] for mark in pages.values() if mark] + [block.mark for block in BLOCKS]
    for test in re.findall(r"tests/[\w/]+\.py", " ".join(named)):
        assert (ROOT / test).is_file(), f"there is no {test}"


def test_the_blocks_with_test_functions(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nfilterwarnings = error\n")
    for block in TESTS:
        name = re.sub(r"\W", "_", f"test_{block.page}_{block.line}")
        (pytester.path / f"{name}.py").write_text(block.code, encoding="utf-8")
    result = pytester.runpytest("-q", "--zk-timeout=60")
    outcomes = result.parseoutcomes()
    assert set(outcomes) == {"passed"}, result.outlines
    assert outcomes["passed"] >= len(TESTS)


@pytest.mark.parametrize("block", PROGRAMS, ids=str)
def test_a_program(block: Block) -> None:
    with EmbeddedServer() as server:
        zk = KazooClient(server.hosts)
        zk.start()
        space: dict[str, Any] = {"server": server, "zk": zk, "__name__": "__main__"}
        code = block.code.replace("127.0.0.1:2181", server.hosts)
        program = compile(code, str(block), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        try:
            ended = eval(program, space)
            if inspect.iscoroutine(ended):
                trio.run(lambda: ended)
        finally:
            zk.stop()
            zk.close()


@pytest.mark.parametrize("block", SHELL, ids=str)
def test_a_command(block: Block, monkeypatch: pytest.MonkeyPatch) -> None:
    with EmbeddedServer() as server:
        monkeypatch.setenv("PYZK_HOSTS", server.hosts)
        for line in block.code.splitlines():
            command, *arguments = shlex.split(line, comments=True)
            assert command == "pyzk", f"{block}: mark it, or let it begin with pyzk"
            assert main(arguments) == 0


def test_the_tutorial_prints_the_examples() -> None:
    """The files that the first page includes and the pictures are made of."""
    printed = [block.code for block in BLOCKS if block.page == "tutorial.md" and block.language == "python"]
    passes, fails = (
        (ROOT / "examples" / "first" / name).read_text(encoding="utf-8").strip()
        for name in ("test_lock.py", "test_report.py")
    )
    assert printed[:2] == [passes, fails.partition("\n\n")[2]]
