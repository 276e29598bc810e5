"""A reentrant lock, which its holder may acquire again, and a plain lock, which raises Deadlock instead.

python examples/lock_reentrant.py 127.0.0.1:2181
"""

import sys

import trio

from pyzk.client import connect
from pyzk.recipes import Deadlock, Lock

PATH = "/example-reentrant"


async def main(servers: str) -> None:
    async with connect(servers) as zk:
        lock = Lock(zk, PATH, reentrant=True)
        async with lock as outer:
            async with lock as inner:
                assert inner is outer
                print(f"entered twice, with {len(await lock.contenders())} znode")
            assert await lock.is_locked(), "leaving the inner block releases nothing"
        assert not await lock.is_locked()

        plain = Lock(zk, PATH)
        async with plain:
            try:
                await plain.acquire()
            except Deadlock as error:
                print(error)
        await zk.delete(PATH)


if __name__ == "__main__":
    trio.run(main, sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:2181")
