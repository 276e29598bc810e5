"""A lock that its holder may enter again; and one that says so instead of waiting for itself.

python examples/blocking/lock_reentrant.py 127.0.0.1:2181
"""

import sys

from pyzk.blocking import Deadlock, Lock, connect

PATH = "/example-reentrant"


def main(servers: str) -> None:
    with connect(servers) as zk:
        lock = Lock(zk, PATH, reentrant=True)
        with lock as outer:
            with lock as inner:
                assert inner is outer
                print(f"entered twice, with {len(lock.contenders())} znode")
            assert lock.locked(), "leaving the inner block releases nothing"
        assert not lock.locked()

        plain = Lock(zk, PATH)
        with plain:
            try:
                plain.acquire()
            except Deadlock as error:
                print(error)
        zk.delete(PATH)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:2181")
