"""Follow a znode: the latest value, whatever happens to the connection.

python examples/aio/client_follow.py 127.0.0.1:2181
"""

import asyncio
import sys

from pyzk.aio import connect, watch_node

PATH = "/example-config"


async def main(servers: str) -> None:
    async with connect(servers) as zk:
        values = watch_node(zk, PATH)
        print("at first:", await anext(values))
        await zk.create(PATH, b"red")
        data, _ = await anext(values)
        print("then:", data)
        await zk.set(PATH, b"blue")
        async for data, _ in values:
            print("then:", data)
            break
        await zk.delete(PATH)
        print("in the end:", await anext(values))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:2181"))
