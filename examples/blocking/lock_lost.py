"""A holder that is cut off from the service notices it before another client can get the lock.

python examples/blocking/lock_lost.py 127.0.0.1:2181
"""

import sys
import threading
import time

import trio

from pyzk.blocking import Lock, LockLost, connect

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


def main(servers: str) -> None:
    cable, stopped = Cable(), threading.Event()

    def next_holder() -> None:
        with connect(servers) as zk, Lock(zk, PATH):
            assert stopped.is_set(), "the first had stopped by then"
            print("the next one holds it now")

    thread = threading.Thread(target=next_holder)
    with connect(servers, session_timeout=2, close_grace=0, connector=cable.connect) as first:
        try:
            with Lock(first, PATH) as grant:
                grant.on_lost(lambda: print("told in a thread of its own"))
                thread.start()
                cable.pull()
                print(f"cut off; the lease lasts for {grant.deadline() - time.monotonic():.1f} s")
                grant.lost.wait()  # a thread cannot be cancelled: check, or wait, or make a call
                stopped.set()
                first.exists("/")  # each call raises LockLost now, and so does grant.check()
                raise AssertionError("the call raises")
        except LockLost as error:
            print(error.reason.value)
    thread.join()
    with connect(servers) as zk:
        zk.delete(PATH)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:2181")
