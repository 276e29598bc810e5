"""A holder whose session has ended is cancelled; the program goes on.

python examples/aio/lock_lost.py 127.0.0.1:2181
"""

import asyncio
import sys

from pyzk.aio import Lock, LockLost, connect

PATH = "/example-lost"


async def main(servers: str) -> None:
    async with connect(servers) as zk, connect(servers) as operator:
        try:
            async with Lock(zk, PATH) as grant:
                await operator.delete(grant.path)  # as the end of the session does
                await asyncio.sleep(60)  # cancelled, before the sleep is over
        except LockLost as error:
            print(error.reason.value)

        # A limit for the wait, in asyncio's own terms.
        async with Lock(operator, PATH):
            try:
                async with asyncio.timeout(0.2), Lock(zk, PATH):
                    raise AssertionError("it is taken")
            except TimeoutError:
                print(
                    f"out of patience; {len(await Lock(zk, PATH).contenders())} znode is left, the holder's"
                )
        await zk.delete(PATH)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:2181"))
