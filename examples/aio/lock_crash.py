"""A program that dies while it holds the lock, and one that dies while it waits: the queue goes on by itself.

python examples/aio/lock_crash.py 127.0.0.1:2181
"""

import asyncio
import sys

from pyzk.aio import Lock, connect

PATH = "/example-crash"


async def crash(servers: str, *, waiting: bool) -> None:
    """Die without a word: the server does not learn of it before the session has expired."""
    async with connect(servers, session_timeout=1, close_grace=0) as zk:
        place = await zk.create(f"{PATH}/_c_crash-lock-", ephemeral=True, sequential=True, make_parents=True)
        print(f"a program dies while it {'waits' if waiting else 'holds the lock'}: {place}")


async def survivor(servers: str, name: str, order: list[str], events: dict[str, int]) -> None:
    async with connect(servers) as zk:
        before = zk.event_count
        async with Lock(zk, PATH, monitor=False) as grant:
            print(f"{name} gets the lock after {grant.waited:.1f} s")
            order.append(name)
            events[name] = zk.event_count - before


async def main(servers: str) -> None:
    order: list[str] = []
    events: dict[str, int] = {}
    async with connect(servers) as zk:
        async with asyncio.TaskGroup() as group:
            await crash(servers, waiting=False)
            group.create_task(survivor(servers, "Ada", order, events))
            await contenders(servers, 2)
            await crash(servers, waiting=True)
            group.create_task(survivor(servers, "Barbara", order, events))
        assert order == ["Ada", "Barbara"]
        assert events["Ada"] == 1, "of the waiters only the successor of the dead one was woken"
        await zk.delete(PATH)


async def contenders(servers: str, count: int) -> None:
    """Wait until so many stand in the queue."""
    async with connect(servers) as zk:
        while len(await Lock(zk, PATH).contenders()) < count:
            await asyncio.sleep(0.01)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:2181"))
