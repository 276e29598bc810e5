"""Follow a znode: the latest value, whatever happens to the connection.

python examples/blocking/client_follow.py 127.0.0.1:2181
"""

import sys

from pyzk.blocking import connect, watch_node

PATH = "/example-config"


def main(servers: str) -> None:
    with connect(servers) as zk:
        values = watch_node(zk, PATH)
        print("at first:", next(values))
        zk.create(PATH, b"red")
        data, _ = next(values)
        print("then:", data)
        zk.set(PATH, b"blue")
        for data, _ in values:
            print("then:", data)
            break
        zk.delete(PATH)
        print("in the end:", next(values))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:2181")
