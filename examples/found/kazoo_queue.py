"""kazoo's Queue loses an entry with one lost reply.

    pip install pyzk-server kazoo
    python examples/found/kazoo_queue.py

``get`` reads the first entry and deletes it. The delete is applied and its reply is lost: the retry finds no
such znode, and ``get`` takes the next entry. Nobody has the first one. kazoo's documentation says of this
recipe that an entry is lost if its consumer dies; here nobody dies.
"""

from __future__ import annotations

from functools import partial

from kazoo.client import KazooClient

from pyzk.server.sweep import SweepFailed, sweep
from pyzk.server.sweep.threads.lab import ThreadLab


def scenario(lab: ThreadLab) -> None:
    first, second = lab.client("a"), lab.client("b")
    queue = first.Queue("/queue")
    for entry in (b"0", b"1"):
        queue.put(entry)
    got = []

    def take(zk: KazooClient) -> None:
        entry = zk.retry(zk.Queue("/queue").get)
        if entry is not None:
            got.append(entry)

    lab.together(partial(take, first), partial(take, second))
    while (entry := queue.get()) is not None:
        got.append(entry)
    assert sorted(got) == [b"0", b"1"], f"two entries were put, and these came: {got}"


if __name__ == "__main__":
    try:
        print(sweep(scenario, orders=None, budget=8))
    except SweepFailed as found:
        print(found)
