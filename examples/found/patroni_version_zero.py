"""Patroni's compare-and-set of the synchronous standbys compares nothing at version 0.

    pip install pyzk-server 'patroni[zookeeper]' psycopg2-binary
    python examples/found/patroni_version_zero.py

``write_sync_state(..., version=0)`` asks to write only if the znode is still at its first version. The
version is passed on as ``version or -1``, and -1 is any version. So both of two writers succeed.
"""

from __future__ import annotations

from functools import partial

from patroni.dcs.zookeeper import ZooKeeper
from patroni.postgresql.mpp import get_mpp

from pyzk.server.sweep import SweepFailed, sweep
from pyzk.server.sweep.threads.lab import ThreadLab


def member(lab: ThreadLab, name: str) -> ZooKeeper:
    where = {"hosts": lab.hosts(name.lower()), "scope": "demo", "namespace": "/service", "name": name}
    return ZooKeeper({"ttl": 30, "retry_timeout": 10, "loop_wait": 10} | where, get_mpp({}))


def scenario(lab: ThreadLab) -> None:
    first, second = member(lab, "A"), member(lab, "B")
    try:
        first.write_sync_state("A", ["B"], 0)
        written = []

        def write(dcs: ZooKeeper, name: str) -> None:
            state = dcs.get_cluster().sync
            if dcs.write_sync_state(name, ["C"], 0, version=state.version):
                written.append(name)

        lab.together(partial(write, first, "A"), partial(write, second, "B"))
        assert len(written) <= 1, f"both have written over version 0: {written}"
    finally:
        for each in (first, second):
            each._client.stop()
            each._client.close()


if __name__ == "__main__":
    try:
        print(sweep(scenario, orders=None, budget=8))
    except SweepFailed as found:
        print(found)
