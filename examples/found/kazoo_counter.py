"""kazoo's Counter counts once too often after one lost reply.

    pip install pyzk-server kazoo
    python examples/found/kazoo_counter.py

An addition reads the number, and sets it if its version is still the same. The set is applied and its reply
is lost: the retry sees another version, takes that for somebody else's addition, and adds again.
"""

from __future__ import annotations

from functools import partial

from kazoo.client import KazooClient

from pyzk.server.sweep import SweepFailed, sweep
from pyzk.server.sweep.threads.lab import ThreadLab


def scenario(lab: ThreadLab) -> None:
    first, second = lab.client("a"), lab.client("b")
    first.ensure_path("/number")

    def add(zk: KazooClient) -> None:
        counter = zk.Counter("/number")
        counter += 1

    lab.together(partial(add, first), partial(add, second))
    assert first.Counter("/number").value == 2, "two were added, and it is not 2"


if __name__ == "__main__":
    try:
        print(sweep(scenario, orders=None, budget=8))
    except SweepFailed as found:
        print(found)
