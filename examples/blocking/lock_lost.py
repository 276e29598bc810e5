"""A holder whose lock is lost: what its thread sees of that. And a limit for the wait.

python examples/blocking/lock_lost.py 127.0.0.1:2181
"""

import sys

from pyzk.blocking import Lock, LockLost, connect, timeout

PATH = "/example-lost"


def main(servers: str) -> None:
    with connect(servers) as zk, connect(servers) as operator:
        try:
            with Lock(zk, PATH) as grant:
                grant.on_lost(lambda: print("told in a thread of its own"))
                operator.delete(grant.path)  # as the end of the session does
                grant.lost.wait()
                zk.exists("/")  # each call raises LockLost now, and so does grant.check()
                raise AssertionError("the call raises")
        except LockLost as error:
            print(error.reason.value)

        with Lock(operator, PATH):
            try:
                with timeout(0.2), Lock(zk, PATH):
                    raise AssertionError("it is taken")
            except TimeoutError:
                print(f"out of patience; {len(Lock(zk, PATH).contenders())} znode is left, the holder's")
        zk.delete(PATH)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:2181")
