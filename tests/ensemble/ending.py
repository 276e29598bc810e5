"""How a session comes to its end before its time."""

from __future__ import annotations

from contextlib import suppress

import trio

from pyzk.client import SessionExpiredError, ZooKeeper, connect


async def end_session(hosts: str, zk: ZooKeeper) -> None:
    """Have the session of somebody else ended, as when it expires. Returns when its owner knows."""
    ended, resume = zk.session.expired, (zk.session.id, zk.session.password)
    while not ended.is_set():
        with suppress(SessionExpiredError):
            async with connect(hosts, resume=resume, close_grace=30):
                pass  # closes it, unless the owner comes back before and takes it away again
        with trio.move_on_after(2):
            await ended.wait()
