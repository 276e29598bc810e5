"""Two programs wait for each other for ever in kazoo's DoubleBarrier, after one cut connection.

    pip install pyzk-server kazoo
    python examples/found/kazoo_double_barrier.py

The first has entered, and its connection is cut. The second sees both, makes the znode ``ready``, leaves the
barrier and removes ``ready``, and waits for the znode of the first to go. The first is back and waits for
``ready``.
"""

from __future__ import annotations

from functools import partial

from kazoo.client import KazooClient

from pyzk.server.sweep import SweepFailed, sweep
from pyzk.server.sweep.threads.lab import ThreadLab


def scenario(lab: ThreadLab) -> None:
    first, second = lab.client("a"), lab.client("b")
    first.ensure_path("/barrier")

    def meet(zk: KazooClient) -> None:
        barrier = zk.DoubleBarrier("/barrier", 2)
        barrier.enter()
        barrier.leave()

    lab.together(partial(meet, first), partial(meet, second))


if __name__ == "__main__":
    try:
        print(sweep(scenario, orders=None, budget=8))
    except SweepFailed as found:
        print(found)
