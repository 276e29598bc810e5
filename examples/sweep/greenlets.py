"""Two greenlets of gevent add 1 to a number. A reply that is lost counts twice.

pip install pyzk-server kazoo gevent
pyzk-sweep -- python greenlets.py
"""

from gevent import monkey

monkey.patch_all()

import os  # noqa: E402
import sys  # noqa: E402

import gevent  # noqa: E402
from kazoo.client import KazooClient  # noqa: E402
from kazoo.exceptions import BadVersionError, ConnectionLoss, NodeExistsError  # noqa: E402
from kazoo.handlers.gevent import SequentialGeventHandler  # noqa: E402


def connect(name: str) -> KazooClient:
    zk = KazooClient(os.environ[f"ZOOKEEPER_HOSTS_{name}"], handler=SequentialGeventHandler())
    zk.start()
    return zk


def add(zk: KazooClient) -> None:
    while True:
        try:
            if not zk.exists("/number"):
                zk.create("/number", b"1")
            else:
                data, stat = zk.get("/number")
                zk.set("/number", b"%d" % (int(data) + 1), version=stat.version)
        except (BadVersionError, NodeExistsError, ConnectionLoss):
            gevent.sleep(0.01)
        else:
            return


def main() -> None:
    first, second = connect("A"), connect("B")
    gevent.joinall([gevent.spawn(add, first), gevent.spawn(add, second)], raise_error=True)
    data, _ = first.retry(first.get, "/number")
    first.stop()
    second.stop()
    if data != b"2":
        sys.exit(f"two increments, and the number is {data.decode()}")


main()
