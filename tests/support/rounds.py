"""How often others run."""

from __future__ import annotations

from typing import Any

import trio


async def rounds_while(work: Any) -> int:
    """Do something, and return how often another task runs meanwhile."""
    rounds = 0

    async def others() -> None:
        nonlocal rounds
        while True:
            await trio.lowlevel.checkpoint()
            rounds += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(others)
        await work()
        nursery.cancel_scope.cancel()
    return rounds
