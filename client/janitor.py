"""Removing, in the background, what a cancelled or failed task has left behind (recipe-rules.md D.1.7)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import trio

from ..protocol.errors import (
    ClosingError,
    ConnectionLossError,
    NoNodeError,
    SessionExpiredError,
    ZooKeeperError,
)
from ..protocol.paths import join
from ..protocol.records import Stat
from .arguments import check_arguments
from .operations import Delete
from .request import Request
from .retry import repeat

if TYPE_CHECKING:
    from .zookeeper import ZooKeeper

logger = logging.getLogger(__name__)


class Job:
    """A job of the janitor.

    :ivar done: set when there is nothing left to do, or nothing that can be done.
    :ivar error: what made it impossible.
    """

    def __init__(self) -> None:
        self.done = trio.Event()
        self.error: ZooKeeperError | None = None


class Janitor:
    """Repeats each job until it is done, or until the session that it was given in has ended: what belonged
    to that session is gone with it. Jobs outlive the task that gave them, but not the client."""

    def __init__(self, zk: ZooKeeper) -> None:
        self._zk = zk
        self._jobs = 0
        self._idle = trio.Event()
        self._idle.set()

    def delete(self, *paths: str) -> Job:
        """Delete a znode, whatever its version. Several go in one transaction as long as all are there."""
        check_arguments(paths=paths)

        async def job() -> None:
            if len(paths) > 1:
                try:
                    await self._zk.multi([Delete(path) for path in paths])
                    return
                except NoNodeError:
                    pass
            for path in paths:
                with suppress(NoNodeError):
                    await self._zk.delete(path)

        return self._start(paths[0], job)

    def delete_prefixed(self, parent: str, prefix: str) -> Job:
        """Delete the children of ``parent`` whose name starts with ``prefix`` and which this session owns:
        the way to undo a create that may or may not have happened."""
        check_arguments(prefix=prefix)

        async def job() -> None:
            await self._zk.sync(parent)  # an ambiguous create may not be seen here yet (recipe-rules.md 0.10)
            for name in await self._zk.get_children(parent):
                if name.startswith(prefix):
                    await self._delete_own(join(parent, name))

        return self._start(parent, job)

    def delete_own(self, path: str) -> Job:
        """Delete a znode if this session owns it: the same for a create by its full name."""

        async def job() -> None:
            await self._zk.sync(path)
            await self._delete_own(path)

        return self._start(path, job)

    async def _delete_own(self, path: str) -> None:
        stat = await self._zk.exists(path)
        if stat is not None and stat.ephemeralOwner == self._zk.session.id:
            with suppress(NoNodeError):
                await self._zk.delete(path)

    def delete_when_settled(self, pending: Request[tuple[str, Stat]], prefix: str | None = None) -> None:
        """Delete what a create on its way will have created.

        :param prefix: a prefix that only its name has: should the reply be lost, :meth:`delete_prefixed`
            looks for it.
        """
        check_arguments(prefix=prefix)

        def settled(pending: Request[tuple[str, Stat]]) -> None:
            if pending.error is None:
                self.delete(pending.result()[0])
            elif isinstance(pending.error, ConnectionLossError) and pending.sent and prefix and pending.path:
                self.delete_prefixed(pending.path.rpartition("/")[0] or "/", prefix)

        pending.on_settled(settled)

    async def idle(self) -> None:
        """Wait until there is nothing left to do."""
        await self._idle.wait()

    def _start(self, path: str, work: Callable[[], Awaitable[None]]) -> Job:
        job = Job()
        if self._zk.closing:
            job.done.set()
            return job
        self._jobs += 1
        if self._idle.is_set():
            self._idle = trio.Event()
        self._zk.start_soon(self._do, job, path, work, self._zk.session.generation)
        return job

    async def _do(self, job: Job, path: str, work: Callable[[], Awaitable[None]], generation: int) -> None:
        try:
            await repeat(self._zk, work, generation)
        except (NoNodeError, SessionExpiredError, ClosingError):
            pass
        except ZooKeeperError as error:
            job.error = error
            logger.warning("Could not clean up below %s: %s", path, error)
        finally:
            job.done.set()
            self._jobs -= 1
            if not self._jobs:
                self._idle.set()
