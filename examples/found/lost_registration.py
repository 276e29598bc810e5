"""A service loses its registration, and does not know: a new session finds the znode of the old one.

    pip install pyzk-server kazoo
    python examples/found/lost_registration.py

The service registers itself again in each new session, and takes NodeExistsError for "I am registered". But
the znode is that of its old session, which the server still holds, and ends soon after. This is the pattern
of apache/dubbo#5125, apache/kafka#5575, apache/pulsar#6788, apache/helix#641 and apache/fluss#1004, in our
own words: none of their code is here.
"""

from __future__ import annotations

import time

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import ConnectionLoss, NodeExistsError, SessionExpiredError

from pyzk.server.sweep import SweepFailed, sweep
from pyzk.server.sweep.threads.lab import ThreadLab


def register(zk: KazooClient) -> None:
    while True:
        try:
            zk.create("/provider", b"10.0.0.7:8080", ephemeral=True)
            return
        except NodeExistsError:
            return  # it is registered
        except (ConnectionLoss, SessionExpiredError):
            time.sleep(0.1)


def scenario(lab: ThreadLab) -> None:
    service = lab.client("a")

    def again(state: str) -> None:
        if state == KazooState.CONNECTED:
            service.handler.spawn(register, service)

    def serve() -> None:
        service.add_listener(again)
        register(service)
        time.sleep(30)

    lab.together(serve)
    assert "/provider" in lab.server.dump(form="nodes"), "the service is up, and nobody can find it"


if __name__ == "__main__":
    try:
        print(sweep(scenario, orders=None, budget=8))
    except SweepFailed as found:
        print(found)
