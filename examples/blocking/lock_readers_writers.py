"""Readers side by side, writers alone, in the order in which they came.

python examples/blocking/lock_readers_writers.py 127.0.0.1:2181
"""

import sys
import time
from concurrent.futures import ThreadPoolExecutor

from pyzk.blocking import RWLock, connect, contenders

PATH = "/example-readers-writers"


def program(servers: str, name: str, log: list[str]) -> None:
    with connect(servers) as zk:
        rw = RWLock(zk, PATH)
        with rw.read() if name.startswith("r") else rw.write():
            log.append(f"+{name}")
            print(f"{name} {'reads' if name.startswith('r') else 'writes'}")
            time.sleep(0.2)
            log.append(f"-{name}")


def main(servers: str) -> None:
    log: list[str] = []
    with connect(servers) as zk:
        with ThreadPoolExecutor() as pool, RWLock(zk, PATH).write() as grant:
            for count, name in enumerate(["r1", "r2", "w3", "r4"], 1):
                pool.submit(program, servers, name, log)
                while len(contenders(zk, PATH)) <= count:
                    time.sleep(0.01)
            with grant.downgrade():
                time.sleep(0.1)
                assert "+w3" not in log, "readers come in beside a writer that has become one; writers wait"
        assert sorted(log[:4]) == ["+r1", "+r2", "-r1", "-r2"]
        assert log[4:] == ["+w3", "-w3", "+r4", "-r4"]
        zk.delete(PATH)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:2181")
