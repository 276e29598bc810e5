"""The code blocks of docs/client.md and docs/recipes.md run as they are printed, in virtual time.

A block has ``zk``, a client of a server in this process. Another client changes what the blocks watch, once a
second. A block that loops for ever is cancelled after a minute.
"""

from __future__ import annotations

import ast
import inspect
from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import pyzk.client
from pyzk.client import ZooKeeper
from pyzk.server import open_server
from pyzk.server.testing import Controls

from .blocks import BLOCKS, Block

RUN = [b for b in BLOCKS if b.page in ("client.md", "recipes.md") and b.language == "python" and not b.mark]
TREE = {
    "app": {"config": "", "printer": ""},
    "config": "",
    "counter": "1",
    "counters": {"orders": "\0\0\0\0"},
    "jobs": {"1": "", "2": ""},
}


async def change(server: Controls, zk: ZooKeeper) -> None:
    """Change the znodes that the blocks watch, once a second, and end all connections after a while."""
    for number in range(60):
        await trio.sleep(1)
        await zk.create(f"/app/{number}")
        await zk.set("/config", b"%d" % number)
        if number == 10:
            server.disconnect_all()
            await trio.sleep(5)


def reached(code: str) -> set[str]:
    """The names that the loops of a block assign."""
    loops = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.AsyncFor)]
    return {node.id for loop in loops for node in ast.walk(loop.target) if isinstance(node, ast.Name)}


async def run(block: Block, monkeypatch: pytest.MonkeyPatch) -> None:
    connect = pyzk.client.connect
    async with open_server() as server, trio.open_nursery() as nursery:

        async def connector(host: str, port: int) -> trio.abc.Stream:
            return server.open_stream()

        server.load(TREE)
        here = partial(connect, connector=connector)
        async with here("server") as other, here("server") as zk:
            nursery.start_soon(change, server, other)
            space: dict[str, Any] = {"zk": zk, "__name__": "block"}
            own = "connector=" in block.code
            monkeypatch.setattr(pyzk.client, "connect", connect if own else here)
            code = block.code.replace("trio.run(main)", "await main()")
            program = compile(code, str(block), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            with trio.move_on_after(60) as scope:
                ended = eval(program, space)
                if inspect.iscoroutine(ended):
                    await ended
                if "test_expiry" in space:
                    await space["test_expiry"](None)
            endless = bool(reached(code) or "while True" in code) and "break" not in code
            assert scope.cancelled_caught == endless
            assert reached(code) <= set(space), "the body of the loop was not reached"
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize("block", RUN, ids=str)
def test_a_block(block: Block, monkeypatch: pytest.MonkeyPatch) -> None:
    trio.run(run, block, monkeypatch, clock=MockClock(autojump_threshold=0))
