"""Giving up while waiting, for whatever reason, leaves nothing behind.

python examples/blocking/lock_interrupted.py 127.0.0.1:2181
"""

import sys

from pyzk.blocking import Lock, WouldBlock, connect, timeout

PATH = "/example-interrupted"


def main(servers: str) -> None:
    with connect(servers) as zk, connect(servers) as other:
        with Lock(zk, PATH):
            try:
                with timeout(0.2), Lock(other, PATH):
                    raise AssertionError("it is taken")
            except TimeoutError:
                left = Lock(other, PATH).contenders()
                print(f"out of patience; {len(left)} znode is left, the holder's")

            try:
                with Lock(other, PATH).try_acquire():
                    raise AssertionError("it is taken")
            except WouldBlock as error:
                print(error)
            assert len(Lock(other, PATH).contenders()) == 1
        zk.delete(PATH)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:2181")
