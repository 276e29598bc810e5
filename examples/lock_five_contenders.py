"""Five programs want one lock: they get it one after the other, in the order of their arrival.

python examples/lock_five_contenders.py 127.0.0.1:2181
"""

import sys

import trio

from pyzk.client import connect
from pyzk.recipes import Lock

PATH = "/example-lock"
NAMES = ["Ada", "Barbara", "Edsger", "Leslie", "Tony"]


async def program(servers: str, name: str, order: list[str]) -> None:
    async with connect(servers) as zk, Lock(zk, PATH, data=name.encode()) as grant:
        print(f"{name} holds the lock with token {grant.token}, after {grant.waited:.2f} s")
        order.append(name)


async def main(servers: str) -> None:
    order: list[str] = []
    async with connect(servers) as zk:
        lock = Lock(zk, PATH)
        async with trio.open_nursery() as nursery, lock:  # the lock is held while the contenders arrive
            for count, name in enumerate(NAMES, 1):
                nursery.start_soon(program, servers, name, order)
                while len(await lock.contenders()) <= count:
                    await trio.sleep(0.01)
        assert order == NAMES
        await zk.delete(PATH)


if __name__ == "__main__":
    trio.run(main, sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:2181")
