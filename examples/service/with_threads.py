"""The main loop of a service in which one instance leads, with threads.

Connect, be elected, work under a fence, lose the leadership, come back, shut down on SIGTERM.
Start it several times:

    python examples/service/with_threads.py 127.0.0.1:2181
"""

import os
import signal
import sys
import time
from functools import partial

from pyzk.blocking import ConnectionLossError, LeaderElection, NoNodeError, SetData, Term, ZooKeeper, connect

PATH, STATE = "/example-service/leader", "/example-service/state"


def work(zk: ZooKeeper, term: Term) -> None:
    """Do what the leader does. The first call after the loss of the leadership raises LockLost."""
    print(f"leading: term {term.number}", flush=True)
    while True:
        try:
            # The fence refuses the write of an instance that does not lead any more.
            zk.multi([term.fence(), SetData(STATE, b"%d" % term.token)])
        except (ConnectionLossError, NoNodeError):
            term.verify()  # raises LockLost if we do not lead any more; else the write may be repeated
        time.sleep(0.05)
        term.check()  # sends no request: call it before each step that makes no call of the client


def serve(servers: str) -> None:
    with connect(servers, session_timeout=4, on_expired="new_session") as zk:
        zk.ensure_path(STATE)
        # Waits and leads. When the leadership is lost, it waits again, at the end of the queue, for ever.
        LeaderElection(zk, PATH, id=f"pid {os.getpid()}").run(partial(work, zk))


def stop(number: int, frame: object) -> None:
    """Leave the main thread, wherever it is: its blocks resign, and close the session."""
    raise SystemExit


def main(servers: str) -> None:
    signal.signal(signal.SIGTERM, stop)
    try:
        serve(servers)
    finally:
        print("stopped", flush=True)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:2181")
