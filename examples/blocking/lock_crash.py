"""A program that dies while it holds the lock, and one that dies while it waits: the queue goes on by itself.

python examples/blocking/lock_crash.py 127.0.0.1:2181
"""

import sys
import time
from concurrent.futures import ThreadPoolExecutor

from pyzk.blocking import Lock, connect

PATH = "/example-crash"


def crash(servers: str, *, waiting: bool) -> None:
    """Die without a word: the server does not learn of it before the session has expired."""
    with connect(servers, session_timeout=1, close_grace=0) as zk:
        place = zk.create(f"{PATH}/_c_crash-lock-", ephemeral=True, sequential=True, make_parents=True)
        print(f"a program dies while it {'waits' if waiting else 'holds the lock'}: {place}")


def survivor(servers: str, name: str, order: list[str], events: dict[str, int]) -> None:
    with connect(servers) as zk:
        before = zk.event_count
        with Lock(zk, PATH, monitor=False) as grant:
            print(f"{name} gets the lock after {grant.waited:.1f} s")
            order.append(name)
            events[name] = zk.event_count - before


def main(servers: str) -> None:
    order: list[str] = []
    events: dict[str, int] = {}
    with connect(servers) as zk:
        with ThreadPoolExecutor() as pool:
            crash(servers, waiting=False)
            pool.submit(survivor, servers, "Ada", order, events)
            contenders(servers, 2)
            crash(servers, waiting=True)
            pool.submit(survivor, servers, "Barbara", order, events)
        assert order == ["Ada", "Barbara"]
        assert events["Ada"] == 1, "of the waiters only the successor of the dead one was woken"
        zk.delete(PATH)


def contenders(servers: str, count: int) -> None:
    """Wait until so many stand in the queue."""
    with connect(servers) as zk:
        while len(Lock(zk, PATH).contenders()) < count:
            time.sleep(0.01)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:2181")
