"""Readers share the lock, a writer has it alone, in the order of their arrival.

python examples/lock_readers_writers.py 127.0.0.1:2181
"""

import sys

import trio

from pyzk.client import connect
from pyzk.recipes import RWLock, contenders

PATH = "/example-readers-writers"


async def program(servers: str, name: str, log: list[str]) -> None:
    async with connect(servers) as zk:
        rw = RWLock(zk, PATH)
        async with rw.read() if name.startswith("r") else rw.write():
            log.append(f"+{name}")
            print(f"{name} {'reads' if name.startswith('r') else 'writes'}")
            await trio.sleep(0.2)
            log.append(f"-{name}")


async def main(servers: str) -> None:
    log: list[str] = []
    async with connect(servers) as zk:
        async with trio.open_nursery() as nursery, RWLock(zk, PATH).write() as grant:
            for count, name in enumerate(["r1", "r2", "w3", "r4"], 1):
                nursery.start_soon(program, servers, name, log)
                while len(await contenders(zk, PATH)) <= count:
                    await trio.sleep(0.01)
            async with grant.downgrade():
                await trio.sleep(0.1)
                assert "+w3" not in log, "readers come in beside a writer that has become one; writers wait"
        assert sorted(log[:4]) == ["+r1", "+r2", "-r1", "-r2"]
        assert log[4:] == ["+w3", "-w3", "+r4", "-r4"]
        await zk.delete(PATH)


if __name__ == "__main__":
    trio.run(main, sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:2181")
