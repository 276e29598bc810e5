"""A Patroni that has lost the key of the leader takes it back from its new owner.

    pip install pyzk-server 'patroni[zookeeper]' psycopg2-binary
    python examples/found/patroni_leader_key.py

The leader reads the state of the cluster, and then its machine is stopped for a minute, as a full disk or the
move of a virtual machine does it. Its session ends, and another member takes the key. Then the first one goes
on with what it has read: ``update_leader`` deletes the key of the other, and creates its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from patroni.dcs.zookeeper import ZooKeeper, ZooKeeperError
from patroni.postgresql.mpp import get_mpp

from pyzk.server.sweep import SweepFailed, sweep
from pyzk.server.sweep.threads.lab import ThreadLab


def member(lab: ThreadLab, name: str) -> ZooKeeper:
    where = {"hosts": lab.hosts(name.lower()), "scope": "demo", "namespace": "/service", "name": name}
    return ZooKeeper({"ttl": 30, "retry_timeout": 10, "loop_wait": 10} | where, get_mpp({}))


def scenario(lab: ThreadLab) -> None:
    first, second = member(lab, "A"), member(lab, "B")
    took = []

    def lead() -> None:
        seen = first.get_cluster()
        time.sleep(60)
        if first.update_leader(seen, 1):
            took.append("A")

    def follow() -> None:
        for _ in range(4):
            if second.get_cluster().is_unlocked():
                if second.attempt_to_acquire_leader():
                    took.append("B")
                return
            time.sleep(12)

    def unless_refused(function: Callable[[], None]) -> None:
        with suppress(ZooKeeperError):  # with it a Patroni gives up what it is
            function()

    try:
        first.attempt_to_acquire_leader()
        lab.together(partial(unless_refused, lead), partial(unless_refused, follow))
        assert took != ["B", "A"], "B had the key of the leader, and A has taken it back"
    finally:
        for each in (first, second):
            each._client.stop()
            each._client.close()


if __name__ == "__main__":
    try:
        print(sweep(scenario, orders=None, budget=8))
    except SweepFailed as found:
        print(found)
