"""Follow a znode: the latest value, whatever happens to the connection. ``watch_node`` does this for you.

python examples/blocking/client_follow.py 127.0.0.1:2181
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pyzk.blocking import NoNodeError, WatchStream, ZooKeeper, connect, watch_node

PATH = "/example-config"


def values_of(zk: ZooKeeper, path: str, events: WatchStream) -> Iterator[bytes | None]:
    seen: int | None = -1
    while True:
        try:
            value, stat = zk.get(path)
            changed = stat.mzxid
        except NoNodeError:
            value = changed = None
        if changed != seen:  # several events, and one value: it was read with the first of them
            seen = changed
            yield value
        # An event is only a reason to read again. So is Missed, which comes after a reconnect: what
        # happened meanwhile is nobody's to tell, but the watch is armed again before it is delivered.
        next(events)


@contextmanager
def follow(zk: ZooKeeper, path: str) -> Iterator[Iterator[bytes | None]]:
    """The values of a znode: only the latest, None while there is no such znode."""
    with zk.watch(path) as events:
        yield values_of(zk, path, events)


def main(servers: str) -> None:
    with connect(servers) as zk:
        with follow(zk, PATH) as values:
            print("at first:", next(values))
            zk.create(PATH, b"red")
            print("then:", next(values))
            zk.set(PATH, b"blue")
            print("then:", next(values))

        for data, stat in watch_node(zk, PATH):
            print("the same in one line:", data, stat)
            break
        zk.delete(PATH)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:2181")
