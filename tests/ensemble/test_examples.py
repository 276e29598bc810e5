"""The examples run, against every kind of server."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from pyzk.client import ConnectionLossError, ZooKeeper

FOLDER = Path(__file__).parents[2] / "examples"
EXAMPLES = sorted(path for path in FOLDER.glob("*.py") if not path.name.startswith("test_"))


@pytest.mark.parametrize("path", EXAMPLES, ids=[path.stem for path in EXAMPLES])
async def test_an_example_runs(
    chroot: str, zk: ZooKeeper, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await runpy.run_path(str(path))["main"](chroot)
    assert capsys.readouterr().out
    await zk.sync()
    assert await zk.get_children("/") == [], "it cleans up"


async def test_the_queue_of_the_example_holds_each_entry_once(zk: ZooKeeper) -> None:
    """With the reply of the first create taken away."""
    enqueue = runpy.run_path(str(FOLDER / "client_lost_reply.py"))["enqueue"]
    create, lost = zk.create, 0

    async def losing(*args: object, **options: object) -> str:
        nonlocal lost
        path = await create(*args, **options)  # type: ignore[call-overload]
        lost += 1
        if lost == 1:
            raise ConnectionLossError(path, sent=True)
        return str(path)

    zk.create = losing  # type: ignore[method-assign,assignment]
    path = await enqueue(zk, "/queue", b"data")
    assert await zk.get_children("/queue") == [path.removeprefix("/queue/")]
    assert (await zk.get(path))[0] == b"data"
