"""A write whose reply was lost: find out what became of it, instead of guessing.

python examples/client_lost_reply.py 127.0.0.1:2181
"""

import sys
import uuid

import trio

from pyzk.client import ConnectionLossError, ZooKeeper, connect


async def enqueue(zk: ZooKeeper, queue: str, data: bytes) -> str:
    """Append to a queue exactly once, and return the path of the entry."""
    mark = f"entry-{uuid.uuid4()}-"  # a name that only this attempt can have made
    while True:
        try:
            return await zk.create(f"{queue}/{mark}", data, sequential=True, make_parents=True)
        except ConnectionLossError as error:
            if not error.sent:
                continue  # it never left: repeating it is safe
        # It may have been applied, or come yet. A transaction without operations is answered behind it.
        # (A sync may not be: the leader answers those of its own clients at once.)
        await zk.multi([])
        names = await zk.get_children(queue) if await zk.exists(queue) else []
        for name in names:
            if name.startswith(mark):
                return f"{queue}/{name}"


async def main(servers: str) -> None:
    async with connect(servers) as zk:
        print(await enqueue(zk, "/example-queue", b"paint it blue"))
        await zk.delete("/example-queue", recursive=True)


if __name__ == "__main__":
    trio.run(main, sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:2181")
