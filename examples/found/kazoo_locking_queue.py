"""kazoo's LockingQueue leaves an entry that it has claimed itself, after one lost reply.

    pip install pyzk-server kazoo
    python examples/found/kazoo_locking_queue.py

``get`` claims the first entry by an ephemeral. The claim is made and its reply is lost: the retry finds the
znode, and takes it for the claim of somebody else. Nobody gets the entry for as long as the client lives, and
``get(timeout=...)`` returns None.
"""

from __future__ import annotations

from pyzk.server.sweep import SweepFailed, sweep
from pyzk.server.sweep.threads.lab import ThreadLab


def scenario(lab: ThreadLab) -> None:
    first, second = lab.client("a"), lab.client("b")
    first.LockingQueue("/queue").put(b"first")
    got = []

    def take() -> None:
        queue = second.LockingQueue("/queue")
        for _ in range(2):
            got.append(second.retry(queue.get, 60))
            second.retry(queue.consume)

    def put() -> None:
        lab.point()
        first.retry(first.LockingQueue("/queue").put, b"second")

    lab.together(put, take)
    assert None not in got, f"an entry was put, and a wait of 60 s did not see it: {got}"


if __name__ == "__main__":
    try:
        print(sweep(scenario, orders=None, budget=8))
    except SweepFailed as found:
        print(found)
