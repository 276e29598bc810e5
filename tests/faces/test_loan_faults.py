"""What goes wrong around calls over a connection on loan."""

from __future__ import annotations

import asyncio

from pyzk import aio
from pyzk.server.testing import EmbeddedServer


def test_a_call_over_a_loan_does_not_overtake_one_that_the_loop_was_asked_for(server: EmbeddedServer) -> None:
    async def main() -> None:
        async with aio.connect(server.hosts) as zk:
            await zk.create("/node")
            for _ in range(60):  # about every fifth was overtaken
                for _ in range(4):
                    await zk.get("/node")
                deleted = asyncio.create_task(zk.delete("/node"))
                await asyncio.sleep(0)
                await zk.create("/node")
                await deleted

    asyncio.run(main())
