"""Five programs want one lock: they get it one after the other, in the order in which they came.

python examples/blocking/lock_five_contenders.py 127.0.0.1:2181
"""

import sys
import time
from concurrent.futures import ThreadPoolExecutor

from pyzk.blocking import Lock, connect

PATH = "/example-lock"
NAMES = ["Ada", "Barbara", "Edsger", "Leslie", "Tony"]


def program(servers: str, name: str, order: list[str]) -> None:
    with connect(servers) as zk, Lock(zk, PATH, data=name.encode()) as grant:
        print(f"{name} holds the lock with token {grant.token}, after {grant.waited:.2f} s")
        order.append(name)


def main(servers: str) -> None:
    order: list[str] = []
    with connect(servers) as zk:
        lock = Lock(zk, PATH)
        with ThreadPoolExecutor() as pool, lock:  # it is taken while they come
            for count, name in enumerate(NAMES, 1):
                pool.submit(program, servers, name, order)
                while len(lock.contenders()) <= count:
                    time.sleep(0.01)
        assert order == NAMES
        zk.delete(PATH)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:2181")
