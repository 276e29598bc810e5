"""Giving up while waiting, for whatever reason, leaves nothing behind.

python examples/aio/lock_interrupted.py 127.0.0.1:2181
"""

import asyncio
import sys

from pyzk.aio import Lock, WouldBlock, connect

PATH = "/example-interrupted"


async def main(servers: str) -> None:
    async with connect(servers) as zk, connect(servers) as other:
        async with Lock(zk, PATH):
            try:
                async with asyncio.timeout(0.2), Lock(other, PATH):
                    raise AssertionError("it is taken")
            except TimeoutError:
                left = await Lock(other, PATH).contenders()
                print(f"out of patience; {len(left)} znode is left, the holder's")

            try:
                async with Lock(other, PATH).try_acquire():
                    raise AssertionError("it is taken")
            except WouldBlock as error:
                print(error)
            assert len(await Lock(other, PATH).contenders()) == 1
        await zk.delete(PATH)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:2181"))
