"""Repeat a call of two steps if it fails, unless a part of the call may have been applied.

python examples/client_retry.py 127.0.0.1:2181
"""

import sys
from functools import partial

import trio

from pyzk.client import Backoff, BadVersionError, ConnectionLossError, SetData, ZooKeeper, connect, retry


async def transfer(zk: ZooKeeper) -> None:
    """Move 10 from one account to the other."""
    one, one_stat = await zk.get("/example/one")
    two, two_stat = await zk.get("/example/two")
    await zk.multi(
        [
            SetData("/example/one", b"%d" % (int(one or b"0") - 10), one_stat.version),
            SetData("/example/two", b"%d" % (int(two or b"0") + 10), two_stat.version),
        ]
    )


async def main(servers: str) -> None:
    async with connect(servers) as zk:
        await zk.create("/example/one", b"100", make_parents=True)
        await zk.create("/example/two", b"0")
        # Somebody else may change an account between our reads and our write. Then we begin again.
        policy = Backoff(max_elapsed=20, retry_on=(BadVersionError,))
        try:
            async with trio.open_nursery() as nursery:
                for _ in range(5):
                    nursery.start_soon(partial(retry, zk, transfer, policy=policy))
        except* ConnectionLossError as errors:
            print("a reply was lost, and the money may have been moved:", errors.exceptions)
        print((await zk.get("/example/one"))[0], (await zk.get("/example/two"))[0])
        await zk.delete("/example", recursive=True)


if __name__ == "__main__":
    trio.run(main, sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:2181")
