"""A call of two steps that is made again if it fails, unless a part of it may have been applied.

python examples/blocking/client_retry.py 127.0.0.1:2181
"""

import sys
from concurrent.futures import ThreadPoolExecutor

from pyzk.blocking import Backoff, BadVersionError, ConnectionLossError, SetData, ZooKeeper, connect, retry


def transfer(zk: ZooKeeper) -> None:
    """Move 10 from one account to the other."""
    one, one_stat = zk.get("/example/one")
    two, two_stat = zk.get("/example/two")
    zk.multi(
        [
            SetData("/example/one", b"%d" % (int(one or b"0") - 10), one_stat.version),
            SetData("/example/two", b"%d" % (int(two or b"0") + 10), two_stat.version),
        ]
    )


def main(servers: str) -> None:
    with connect(servers) as zk:
        zk.create("/example/one", b"100", make_parents=True)
        zk.create("/example/two", b"0")
        # Somebody else may change an account between our reads and our write: then we begin anew.
        policy = Backoff(within=20, also=(BadVersionError,))
        with ThreadPoolExecutor() as pool:
            transfers = [pool.submit(retry, zk, transfer, policy=policy) for _ in range(5)]
        for each in transfers:
            try:
                each.result()
            except ConnectionLossError as error:
                print("a reply was lost, and the money may have been moved:", error)
        print(zk.get("/example/one")[0], zk.get("/example/two")[0])
        zk.delete("/example", recursive=True)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:2181")
