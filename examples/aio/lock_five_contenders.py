"""Five programs want one lock: they get it one after the other, in the order in which they came.

python examples/aio/lock_five_contenders.py 127.0.0.1:2181
"""

import asyncio
import sys

from pyzk.aio import Lock, connect

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
        async with asyncio.TaskGroup() as group, lock:  # it is taken while they come
            for count, name in enumerate(NAMES, 1):
                group.create_task(program(servers, name, order))
                while len(await lock.contenders()) <= count:
                    await asyncio.sleep(0.01)
        assert order == NAMES
        await zk.delete(PATH)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:2181"))
