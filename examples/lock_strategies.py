"""20 contenders and three ways to wait: what each way costs the server.

python examples/lock_strategies.py 127.0.0.1:2181
"""

import sys
from collections import Counter

import trio

from pyzk.client import connect
from pyzk.recipes import PARENT, PREDECESSOR, Lock, Strategy, polling

CONTENDERS = 20
PATH = "/example-strategies"
STRATEGIES = {"predecessor": PREDECESSOR, "parent": PARENT, "polling": polling(0.02)}


async def program(servers: str, strategy: Strategy, order: list[int], cost: Counter[str]) -> None:
    async with connect(servers) as zk:
        async with Lock(zk, PATH, strategy=strategy, monitor=False) as grant:
            order.append(grant.sequence)
        cost["requests"] += zk.metrics.requests.total()
        cost["events"] += zk.event_count


async def contest(servers: str, strategy: Strategy) -> Counter[str]:
    order: list[int] = []
    cost: Counter[str] = Counter()
    # The lock is held while the contenders arrive.
    async with connect(servers) as zk, trio.open_nursery() as nursery, Lock(zk, PATH):
        for _ in range(CONTENDERS):
            nursery.start_soon(program, servers, strategy, order, cost)
        while len(await zk.get_children(PATH)) <= CONTENDERS:
            await trio.sleep(0.01)
    assert len(order) == CONTENDERS
    assert order == sorted(order), "first come, first served"
    return cost


async def main(servers: str) -> None:
    for name, strategy in STRATEGIES.items():
        cost = await contest(servers, strategy)
        print(f"{name:12} {cost['requests']:5} requests {cost['events']:5} events")
    async with connect(servers) as zk:
        await zk.delete(PATH)


if __name__ == "__main__":
    trio.run(main, sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:2181")
