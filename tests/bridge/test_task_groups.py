"""A task that a TaskGroup inside of a lock has started makes one step at most behind the loss of the lock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from pyzk.aio import Lock, LockLost, connect
from pyzk.aio.tasks import Caller
from pyzk.server.testing import EmbeddedServer

RUNS = [asyncio.run, __import__("uvloop").run]
LOSSES = 5


class Steps:
    """:ivar lost: whether the task that holds the lock was cancelled.
    :ivar behind: steps of the other task since then."""

    def __init__(self) -> None:
        self.lost = False
        self.behind = 0
        self.begun = asyncio.Event()

    async def go(self) -> None:
        """Make a step in each round of the event loop: nobody can make more."""
        while True:
            self.begun.set()
            self.behind += self.lost
            await asyncio.sleep(0)


@pytest.mark.parametrize("run", RUNS, ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("in_body", [True, False], ids=["in-the-body", "at-the-end-of-the-group"])
def test_a_task_of_a_group_makes_one_step_at_most(
    server: EmbeddedServer,
    run: Callable[[Coroutine[Any, Any, object]], object],
    in_body: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    interrupt = Caller.interrupt
    steps: Steps

    def noted(caller: Caller) -> None:
        interrupt(caller)
        steps.lost = True

    monkeypatch.setattr(Caller, "interrupt", noted)

    async def lose() -> None:
        async with connect(server.hosts) as zk:
            with pytest.raises(LockLost):
                async with Lock(zk, "/lock"), asyncio.TaskGroup() as group:
                    group.create_task(steps.go())
                    await steps.begun.wait()
                    server.expire(zk.session.id)
                    if in_body:
                        await asyncio.Event().wait()

    async def main() -> None:
        nonlocal steps
        for _ in range(LOSSES):
            steps = Steps()
            await lose()
            assert steps.lost
            assert steps.behind <= 1

    run(main())
