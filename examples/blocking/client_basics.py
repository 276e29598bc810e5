"""Create, read, change and delete znodes; several operations as one transaction.

python examples/blocking/client_basics.py 127.0.0.1:2181
"""

import sys
from concurrent.futures import ThreadPoolExecutor

from pyzk.blocking import BadVersionError, connect


def main(servers: str) -> None:
    with connect(servers, session_timeout=10) as zk:
        # An ephemeral znode lives as long as the session, so it tells others that we are there.
        me = zk.create("/example/workers/w-", ephemeral=True, sequential=True, make_parents=True)
        print("we are", me)

        zk.ensure_path("/example/config")
        stat = zk.set("/example/config", b"colour=red")

        # The version makes sure that nobody else has changed the znode in between.
        zk.set("/example/config", b"colour=blue", version=stat.version)
        try:
            zk.set("/example/config", b"colour=green", version=stat.version)
        except BadVersionError as error:
            print("too late:", error)

        # Either all operations are carried out, or none.
        with zk.transaction() as t:
            t.check(me)
            t.create("/example/jobs", b"")
            t.create("/example/jobs/job-", b"paint it blue", sequential=True)
        print("created", t.results[1:])

        # 100 reads are in flight at once: any number of threads may share a client.
        with ThreadPoolExecutor() as pool:
            for _ in range(100):
                pool.submit(zk.get, "/example/config")

        data, stat = zk.get("/example/config")
        print(data, "at version", stat.version)
        zk.delete("/example", recursive=True)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:2181")
