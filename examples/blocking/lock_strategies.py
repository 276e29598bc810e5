"""Twenty contenders, and three ways to wait for one's turn: what each costs the server.

python examples/blocking/lock_strategies.py 127.0.0.1:2181
"""

import sys
import time
from concurrent.futures import ThreadPoolExecutor

from pyzk.blocking import PARENT, PREDECESSOR, Lock, Strategy, connect, polling

CONTENDERS = 20
PATH = "/example-strategies"
STRATEGIES = {"predecessor": PREDECESSOR, "parent": PARENT, "polling": polling(0.02)}


def program(servers: str, strategy: Strategy, order: list[int]) -> tuple[int, int]:
    with connect(servers) as zk:
        with Lock(zk, PATH, strategy=strategy, monitor=False) as grant:
            order.append(grant.sequence)
        return zk.metrics.requests.total(), zk.event_count


def contest(servers: str, strategy: Strategy) -> tuple[int, int]:
    order: list[int] = []
    # The lock is taken while they come.
    with connect(servers) as zk, ThreadPoolExecutor(CONTENDERS) as pool, Lock(zk, PATH):
        programs = [pool.submit(program, servers, strategy, order) for _ in range(CONTENDERS)]
        while len(zk.get_children(PATH)) <= CONTENDERS:
            time.sleep(0.01)
    costs = [each.result() for each in programs]
    assert order == sorted(order), "first come, first served"
    return sum(requests for requests, _ in costs), sum(events for _, events in costs)


def main(servers: str) -> None:
    for name, strategy in STRATEGIES.items():
        requests, events = contest(servers, strategy)
        print(f"{name:12} {requests:5} requests {events:5} events")
    with connect(servers) as zk:
        zk.delete(PATH)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:2181")
