"""Follow a znode: the latest value, whatever happens to the connection. ``watch_node`` does this for you.

python examples/aio/client_follow.py 127.0.0.1:2181
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pyzk.aio import NoNodeError, ZooKeeper, connect, watch_node

PATH = "/example-config"


@asynccontextmanager
async def follow(zk: ZooKeeper, path: str) -> AsyncIterator[asyncio.Queue[bytes | None]]:
    """A queue of the values of a znode: only the latest, None while there is no such znode."""
    values: asyncio.Queue[bytes | None] = asyncio.Queue(1)

    async def read() -> None:
        try:
            value, _ = await zk.get(path)
        except NoNodeError:
            value = None
        if values.full():
            values.get_nowait()  # nobody needs the older value any more
        values.put_nowait(value)

    async def watch() -> None:
        async with zk.watch(path) as events:
            await read()
            # An event is only a reason to read again. So is Missed, which comes after a reconnect: what
            # happened meanwhile is nobody's to tell, but the watch is armed again before it is delivered.
            async for _ in events:
                await read()

    async with asyncio.TaskGroup() as group:
        watching = group.create_task(watch())
        yield values
        watching.cancel()


async def main(servers: str) -> None:
    async with connect(servers) as zk:
        async with follow(zk, PATH) as values:
            print("at first:", await values.get())
            await zk.create(PATH, b"red")
            print("then:", await values.get())
            await zk.set(PATH, b"blue")
            print("then:", await values.get())

        async for data, stat in watch_node(zk, PATH):
            print("the same in one line:", data, stat)
            break
        await zk.delete(PATH)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:2181"))
