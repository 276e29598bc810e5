"""Removing, in the background, what a cancelled or failed task has left behind (recipes.md D.1.7)."""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import trio

from ..protocol.errors import (
    ClosingError,
    ConnectionLossError,
    NoNodeError,
    OperationTimeoutError,
    SessionExpiredError,
    SessionMovedError,
    ZooKeeperError,
)
from ..protocol.paths import join
from ..protocol.records import Stat
from .request import Request

if TYPE_CHECKING:
    from .zookeeper import ZooKeeper

logger = logging.getLogger(__name__)

_TRY_AGAIN = (ConnectionLossError, OperationTimeoutError, SessionMovedError)
_LONGEST_PAUSE = 1.0


class Janitor:
    """Repeats each job until it is done, or until the session that it was given in has ended: what belonged
    to that session is gone with it. Jobs outlive the task that gave them, but not the client."""

    def __init__(self, zk: ZooKeeper) -> None:
        self._zk = zk
        self._jobs = 0
        self._idle = trio.Event()
        self._idle.set()

    def delete(self, path: str) -> None:
        """Delete a znode, whatever its version."""

        async def job() -> None:
            await self._zk.delete(path)

        self._start(path, job)

    def delete_prefixed(self, parent: str, prefix: str) -> None:
        """Delete the children of ``parent`` whose name starts with ``prefix`` and which this session owns:
        the way to undo a create that may or may not have happened."""

        async def job() -> None:
            zk = self._zk
            await zk.sync(parent)  # an ambiguous create may not be visible here yet (recipes.md 0.10)
            for name in await zk.get_children(parent):
                if not name.startswith(prefix):
                    continue
                path = join(parent, name)
                stat = await zk.exists(path)
                if stat is not None and stat.ephemeralOwner == zk.session.id:
                    with suppress(NoNodeError):
                        await zk.delete(path)

        self._start(parent, job)

    def delete_when_settled(self, pending: Request[tuple[str, Stat]], prefix: str | None = None) -> None:
        """Delete what a create on its way will have created.

        :param prefix: a prefix that only its name has: should the reply be lost, :meth:`delete_prefixed`
            looks for it.
        """

        def settled(pending: Request[tuple[str, Stat]]) -> None:
            if pending.error is None:
                self.delete(pending.result()[0])
            elif isinstance(pending.error, ConnectionLossError) and pending.sent and prefix and pending.path:
                self.delete_prefixed(pending.path.rpartition("/")[0] or "/", prefix)

        pending.on_settled(settled)

    async def idle(self) -> None:
        """Wait until there is nothing left to do."""
        await self._idle.wait()

    def _start(self, path: str, job: Callable[[], Awaitable[None]]) -> None:
        if self._zk.closing:
            return
        self._jobs += 1
        if self._idle.is_set():
            self._idle = trio.Event()
        self._zk.start_soon(self._work, path, job, self._zk.session.generation)

    async def _work(self, path: str, job: Callable[[], Awaitable[None]], generation: int) -> None:
        pause = 0.05
        try:
            while self._zk.session.generation == generation:
                try:
                    await job()
                    return
                except _TRY_AGAIN:
                    await trio.sleep(random.uniform(0, pause))
                    pause = min(2 * pause, _LONGEST_PAUSE)
                    await self._zk.session.wait_connected()
        except (NoNodeError, SessionExpiredError, ClosingError):
            pass
        except ZooKeeperError as error:
            logger.warning("Could not clean up below %s: %s", path, error)
        finally:
            self._jobs -= 1
            if not self._jobs:
                self._idle.set()
