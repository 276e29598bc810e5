"""Create, read, change and delete znodes; several operations as one transaction.

python examples/aio/client_basics.py 127.0.0.1:2181
"""

import asyncio
import sys

from pyzk.aio import BadVersionError, connect


async def main(servers: str) -> None:
    async with connect(servers, session_timeout=10) as zk:
        # An ephemeral znode lives as long as the session, so it tells others that we are there.
        me = await zk.create("/example/workers/w-", ephemeral=True, sequential=True, make_parents=True)
        print("we are", me)

        await zk.ensure_path("/example/config")
        stat = await zk.set("/example/config", b"colour=red")

        # The version makes sure that nobody else has changed the znode in between.
        await zk.set("/example/config", b"colour=blue", version=stat.version)
        try:
            await zk.set("/example/config", b"colour=green", version=stat.version)
        except BadVersionError as error:
            print("too late:", error)

        # Either all operations are carried out, or none.
        async with zk.transaction() as t:
            t.check(me)
            t.create("/example/jobs", b"")
            t.create("/example/jobs/job-", b"paint it blue", sequential=True)
        print("created", t.results[1:])

        # 100 reads are in flight at once: any number of tasks may share a client.
        async with asyncio.TaskGroup() as group:
            for _ in range(100):
                group.create_task(zk.get("/example/config"))

        data, stat = await zk.get("/example/config")
        print(data, "at version", stat.version)
        await zk.delete("/example", recursive=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:2181"))
