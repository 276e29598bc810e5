"""One program dies while it holds the lock, another while it waits: the next contender gets the lock.

python examples/lock_crash.py 127.0.0.1:2181
"""

import sys

import trio

from pyzk.client import connect
from pyzk.recipes import Lock

PATH = "/example-crash"


async def crash(servers: str, *, waiting: bool) -> None:
    """Die without closing the session: the server notices when the session expires."""
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
        async with trio.open_nursery() as nursery:
            await crash(servers, waiting=False)
            nursery.start_soon(survivor, servers, "Ada", order, events)
            await contenders(servers, 2)
            await crash(servers, waiting=True)
            nursery.start_soon(survivor, servers, "Barbara", order, events)
        assert order == ["Ada", "Barbara"]
        assert events["Ada"] == 1, "of the waiters only the successor of the dead one was woken"
        await zk.delete(PATH)


async def contenders(servers: str, count: int) -> None:
    """Wait until this number of contenders waits."""
    async with connect(servers) as zk:
        while len(await Lock(zk, PATH).contenders()) < count:
            await trio.sleep(0.01)


if __name__ == "__main__":
    trio.run(main, sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:2181")
