"""A holder that is cut off from the service is stopped before another client can get the lock.

python examples/lock_lost.py 127.0.0.1:2181
"""

import sys

import trio

from pyzk.client import connect
from pyzk.recipes import Lock, LockLost

PATH = "/example-lost"


class Cable:
    """A connection to the service that can be cut."""

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
    cable = Cable()
    async with connect(servers) as zk, trio.open_nursery() as nursery:

        async def next_holder() -> None:
            async with Lock(zk, PATH):
                assert stopped.is_set(), "the first had stopped by then"
                print("the next one holds it now")

        stopped = trio.Event()
        async with connect(servers, session_timeout=2, close_grace=0, connector=cable.connect) as first:
            try:
                async with Lock(first, PATH) as grant:
                    nursery.start_soon(next_holder)
                    cable.pull()
                    print(f"cut off; the lease lasts for {grant.deadline() - trio.current_time():.1f} s")
                    await trio.sleep_forever()
            except LockLost as error:
                stopped.set()
                print(error.reason.value)
    async with connect(servers) as zk:
        await zk.delete(PATH)


if __name__ == "__main__":
    trio.run(main, sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:2181")
