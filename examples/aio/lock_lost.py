"""A holder that is cut off from the service is stopped before another client can get the lock.

python examples/aio/lock_lost.py 127.0.0.1:2181
"""

import asyncio
import sys

import trio

from pyzk.aio import Lock, LockLost, connect

PATH = "/example-lost"


class Cable:
    """A connection to the service that can be cut. It is written with trio, for the client's own thread."""

    def __init__(self) -> None:
        self.cut = False
        self.streams: list[trio.SocketStream] = []

    async def connect(self, host: str, port: int) -> trio.abc.Stream:
        if self.cut:
            raise OSError("the cable is cut")
        stream = await trio.open_tcp_stream(host, port)
        self.streams.append(stream)
        return stream

    def pull(self) -> None:
        self.cut = True
        for stream in self.streams:
            stream.socket.shutdown(trio.socket.SHUT_RD)


async def main(servers: str) -> None:
    cable, stopped = Cable(), asyncio.Event()
    loop = asyncio.get_running_loop()
    async with connect(servers) as zk, asyncio.TaskGroup() as group:

        async def next_holder() -> None:
            async with Lock(zk, PATH):
                assert stopped.is_set(), "the first had stopped by then"
                print("the next one holds it now")

        async with connect(servers, session_timeout=2, close_grace=0, connector=cable.connect) as first:
            try:
                async with Lock(first, PATH) as grant:
                    group.create_task(next_holder())
                    cable.pull()
                    print(f"cut off; the lease lasts for {grant.deadline() - loop.time():.1f} s")
                    await asyncio.sleep(60)  # cancelled before it is over
            except LockLost as error:
                stopped.set()
                print(error.reason.value)
    async with connect(servers) as zk:
        await zk.delete(PATH)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:2181"))
