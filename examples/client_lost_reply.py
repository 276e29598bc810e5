"""A write whose reply was lost: find out whether it was applied.

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
                continue  # the request never left the client: repeating it is safe
        # The create may have been applied, or may still arrive. A transaction without operations is answered
        # after the create. (A sync may be answered before it: the leader answers its own clients at once.)
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
