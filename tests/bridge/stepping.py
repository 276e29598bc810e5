"""A program that works under a lock, step by step, and is stopped meanwhile by whoever has started it.

``python -m tests.bridge.stepping PACKAGE HOSTS PATH TIMEOUT ROUNDS`` takes the lock at PATH in each round,
prints ``holding``, and makes steps until the lock is lost. Then it prints the times of its last steps, in
seconds of ``time.monotonic()``, as a list in JSON.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
import time
from collections import deque
from typing import Any

PAUSE = 0.003  # seconds between two steps


def _say(what: object) -> None:
    print(json.dumps(what), flush=True)


def with_threads(hosts: str, path: str, timeout: float, rounds: int) -> None:
    """A step is what follows a check, as docs/threads-and-asyncio.md tells users of threads to do it."""
    from pyzk.blocking import Lock, LockLost, connect

    with connect(hosts, session_timeout=timeout, on_expired="new_session") as zk:
        for _ in range(rounds):
            steps: deque[float] = deque(maxlen=1000)
            try:
                with Lock(zk, path) as grant:
                    _say("holding")
                    while True:
                        grant.check()
                        steps.append(time.monotonic())
                        time.sleep(PAUSE)
            except LockLost:
                _say(list(steps))


async def _work(package: Any, sleep: Any, hosts: str, path: str, timeout: float, rounds: int) -> None:
    async with package.connect(hosts, session_timeout=timeout, on_expired="new_session") as zk:
        for _ in range(rounds):
            steps: deque[float] = deque(maxlen=1000)
            try:
                async with package.Lock(zk, path):
                    _say("holding")
                    while True:
                        steps.append(time.monotonic())
                        await sleep(PAUSE)
            except package.LockLost:
                _say(list(steps))


def with_asyncio(*arguments: Any) -> None:
    import pyzk.aio

    asyncio.run(_work(pyzk.aio, asyncio.sleep, *arguments))


def with_uvloop(*arguments: Any) -> None:
    import pyzk.aio

    importlib.import_module("uvloop").run(_work(pyzk.aio, asyncio.sleep, *arguments))


def with_trio(*arguments: Any) -> None:
    import trio

    from pyzk import client, recipes

    class Wrapper:
        connect = staticmethod(client.connect)
        Lock = recipes.Lock
        LockLost = recipes.LockLost

    trio.run(_work, Wrapper, trio.sleep, *arguments)


WRAPPERS = {"trio": with_trio, "asyncio": with_asyncio, "uvloop": with_uvloop, "threads": with_threads}

if __name__ == "__main__":
    name, *where, seconds, count = sys.argv[1:]
    WRAPPERS[name](*where, float(seconds), int(count))
