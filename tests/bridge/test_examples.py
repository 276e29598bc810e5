"""The examples for threads and for asyncio run, and so do those of the documentation."""

from __future__ import annotations

import asyncio
import inspect
import re
import runpy
from pathlib import Path

import pytest

from pyzk.blocking import connect
from pyzk.server.testing import EmbeddedServer

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted([*ROOT.glob("examples/blocking/*.py"), *ROOT.glob("examples/aio/*.py")])
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "threads-and-asyncio.md").read_text(), re.DOTALL)


@pytest.mark.parametrize("path", EXAMPLES, ids=[f"{path.parent.name}-{path.stem}" for path in EXAMPLES])
def test_an_example_runs(server: EmbeddedServer, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main = runpy.run_path(str(path))["main"]
    with connect(server.hosts) as zk:
        zk.ensure_path("/chroot")
        ended = main(f"{server.hosts}/chroot")
        if inspect.iscoroutine(ended):
            asyncio.run(ended)
        assert capsys.readouterr().out
        zk.sync()
        assert zk.get_children("/chroot") == [], "it cleans up"


@pytest.mark.parametrize("package", ["aio", "blocking"])
def test_each_package_has_the_examples_to_begin_with(package: str) -> None:
    names = {path.name for path in ROOT.glob(f"examples/{package}/*.py")}
    assert names == {"client_basics.py", "lock_lost.py"}
    assert all((ROOT / "examples" / name).exists() for name in names)


FOR_ASYNCIO = """
import asyncio
from contextlib import asynccontextmanager
from types import SimpleNamespace

async def main():
    from pyzk.aio import Lock, connect

    async with connect("HOSTS") as zk:
        {block}
        {more}

asyncio.run(main())
"""
FOR_THREADS = """
from pyzk.blocking import Lock, connect

with connect("HOSTS") as zk:
        {block}
        {more}
"""


@pytest.mark.parametrize("text", BLOCKS, ids=[str(number) for number in range(len(BLOCKS))])
def test_a_block_of_the_documentation_runs(server: EmbeddedServer, text: str) -> None:
    with connect(server.hosts) as zk:
        zk.ensure_path("/printer")
    frame, more = (FOR_ASYNCIO if "async" in text else FOR_THREADS), ""
    if "lifespan" in text:
        more = "async with lifespan(SimpleNamespace(state=SimpleNamespace())): pass"
    if "def start" in text:
        more = "start(); work(); _open.close()"
    text = text.replace("create_task(...)", "create_task(asyncio.sleep(0))")
    program = frame.format(block=text.replace("\n", "\n        "), more=more)
    program = re.sub(r'connect\("[^"]*"', f'connect("{server.hosts}"', program)
    exec(compile(program, "docs/threads-and-asyncio.md", "exec"), {})
