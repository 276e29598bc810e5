"""The main loop of a service in which one instance leads, with trio.

Connect, be elected, work under a fence, lose the leadership, come back, shut down on SIGTERM.
Start it several times:

    python examples/service/with_trio.py 127.0.0.1:2181
"""

import os
import signal
import sys
from functools import partial

import trio

from pyzk.client import ConnectionLossError, NoNodeError, SetData, ZooKeeper, connect
from pyzk.recipes import LeaderElection, Term

PATH, STATE = "/example-service/leader", "/example-service/state"


async def work(zk: ZooKeeper, term: Term) -> None:
    """Do what the leader does, until it is cancelled because it does not lead any more."""
    print(f"leading: term {term.number}", flush=True)
    while True:
        try:
            # The fence refuses the write of an instance that does not lead any more.
            await zk.multi([term.fence(), SetData(STATE, b"%d" % term.token)])
        except (ConnectionLossError, NoNodeError):
            await term.verify()  # raises LockLost if we do not lead any more; else the write may be repeated
        await trio.sleep(0.05)


async def serve(servers: str) -> None:
    async with connect(servers, session_timeout=4, on_expired="new_session") as zk:
        await zk.ensure_path(STATE)
        # Waits and leads. When the leadership is lost, it waits again, at the end of the queue, for ever.
        await LeaderElection(zk, PATH, id=f"pid {os.getpid()}").run(partial(work, zk))


async def main(servers: str) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve, servers)
            async for _ in signals:
                break
            nursery.cancel_scope.cancel()  # resigns, and closes the session: the next one leads at once
    print("stopped", flush=True)


if __name__ == "__main__":
    trio.run(main, sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:2181")
