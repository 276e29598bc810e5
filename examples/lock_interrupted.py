"""A wait that is cancelled, for any reason, leaves nothing behind.

python examples/lock_interrupted.py 127.0.0.1:2181
"""

import sys

import trio

from pyzk.client import connect
from pyzk.recipes import Lock, WouldBlock

PATH = "/example-interrupted"


async def main(servers: str) -> None:
    async with connect(servers) as zk, connect(servers) as other:
        async with Lock(zk, PATH):
            with trio.move_on_after(0.2) as patience:
                async with Lock(other, PATH):
                    raise AssertionError("it is taken")
            assert patience.cancelled_caught
            print(f"out of patience; {len(await Lock(other, PATH).contenders())} znode is left, the holder's")

            try:
                async with Lock(other, PATH).nowait():
                    raise AssertionError("it is taken")
            except WouldBlock as error:
                print(error)
            assert len(await Lock(other, PATH).contenders()) == 1
        await zk.delete(PATH)


if __name__ == "__main__":
    trio.run(main, sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:2181")
