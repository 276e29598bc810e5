"""Follow a znode: the latest value, whatever happens to the connection.

python examples/client_follow.py 127.0.0.1:2181
"""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from pyzk.client import NoNodeError, ZooKeeper, connect


@asynccontextmanager
async def follow(zk: ZooKeeper, path: str) -> AsyncIterator[trio.MemoryReceiveChannel[bytes | None]]:
    """A channel of the values of a znode: only the latest, None while there is no such znode."""
    send, receive = trio.open_memory_channel[bytes | None](1)

    async def read() -> None:
        try:
            value, _ = await zk.get(path)
        except NoNodeError:
            value = None
        while True:
            try:
                send.send_nowait(value)
                return
            except trio.WouldBlock:
                receive.receive_nowait()  # nobody needs the older value any more

    async def watch() -> None:
        async with zk.watch(path) as events:
            await read()
            # An event is only a reason to read again. After a reconnect the stream has a Missed: the server
            # does not report what happened meanwhile. The watch is armed before the Missed is delivered.
            async for _ in events:
                await read()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        yield receive
        nursery.cancel_scope.cancel()


async def main(servers: str) -> None:
    async with connect(servers) as zk, follow(zk, "/example-config") as values:
        print("at first:", await values.receive())
        await zk.create("/example-config", b"red")
        print("then:", await values.receive())
        await zk.set("/example-config", b"blue")
        print("then:", await values.receive())
        await zk.delete("/example-config")
        print("in the end:", await values.receive())


if __name__ == "__main__":
    trio.run(main, sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:2181")
