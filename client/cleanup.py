"""The background deletion of znodes that cancelled or failed tasks have left behind (recipe-rules.md D.1.7).

The rules:

* A job is repeated until it succeeds.
* A job ends with the session in which it was begun, because the session's ephemeral znodes are deleted with
  the session.
* A job continues after the end of the task that has begun it, but not after the end of the client. At the end
  of the client's block, the block waits for the jobs for at most ``close_grace`` seconds.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import trio

from ..protocol import paths
from ..protocol.errors import (
    ClosingError,
    ConnectionLossError,
    NoNodeError,
    SessionExpiredError,
    ZooKeeperError,
)
from ..protocol.records import Stat
from .arguments import check_arguments
from .operations import Delete
from .repeating import pass_writes, repeat
from .request import Request

if TYPE_CHECKING:
    from .zookeeper import ZooKeeper


class Background:
    """Tasks that run until :meth:`cancel`, even if the blocks around them are cancelled. A cancelled block of
    the client still closes the session, and needs the tasks of the connection to do this."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._scopes: set[trio.CancelScope] = set()

    def start_soon(self, function: Callable[..., Awaitable[object]], *args: Any) -> None:
        """Run ``function(*args)`` in a task."""
        scope = trio.CancelScope(shield=True)
        self._scopes.add(scope)
        self._nursery.start_soon(self._run, scope, function, args)

    async def _run(
        self, scope: trio.CancelScope, function: Callable[..., Awaitable[object]], args: tuple[Any, ...]
    ) -> None:
        try:
            with scope:
                await function(*args)
        finally:
            self._scopes.discard(scope)

    def cancel(self) -> None:
        """Cancel all tasks."""
        for scope in list(self._scopes):
            scope.cancel()


logger = logging.getLogger(__name__)


class Job:
    """A job of the cleanup.

    :ivar done: set when the job has ended.
    :ivar error: the error of the job; None if the job has succeeded, or if its session or the client has
        ended.
    """

    def __init__(self) -> None:
        self.done = trio.Event()
        self.error: ZooKeeperError | None = None


class Jobs:
    """Counts the jobs of a client and of its views that have not ended."""

    def __init__(self) -> None:
        self._count = 0
        self._idle = trio.Event()
        self._idle.set()

    def begin(self) -> None:
        """Note that a job begins."""
        self._count += 1
        if self._idle.is_set():
            self._idle = trio.Event()

    def end(self) -> None:
        """Note that a job has ended."""
        self._count -= 1
        if not self._count:
            self._idle.set()

    async def idle(self) -> None:
        """Wait until no job is left."""
        await self._idle.wait()


class Cleanup:
    """Executes jobs by the rules above. Its methods return at once.

    :ivar jobs: counts the jobs.
    """

    def __init__(self, zk: ZooKeeper, jobs: Jobs) -> None:
        self._zk = zk
        self.jobs = jobs

    def delete(self, *paths: str) -> Job:
        """Delete znodes, whatever their versions: in one transaction, or one by one if some do not exist.

        :raises BadArgumentsError: there is no path.
        """
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
        """Delete the children of ``parent`` that this session owns and whose names start with ``prefix``.
        This undoes a create that may have been applied.

        :raises BadArgumentsError: the prefix is neither a str nor None.
        """
        check_arguments(prefix=prefix)

        async def job() -> None:
            await pass_writes(self._zk)  # the create may come yet (recipe-rules.md 0.10)
            for name in await self._zk.get_children(parent):
                if name.startswith(prefix):
                    await self._delete_own(paths.join(parent, name))

        return self._start(parent, job)

    def delete_own(self, path: str) -> Job:
        """Delete a znode if this session owns it. This undoes a create whose request named the whole path."""

        async def job() -> None:
            await pass_writes(self._zk)
            await self._delete_own(path)

        return self._start(path, job)

    async def _delete_own(self, path: str) -> None:
        stat = await self._zk.exists(path)
        if stat is not None and stat.ephemeralOwner == self._zk.session.id:
            with suppress(NoNodeError):
                await self._zk.delete(path)

    def delete_when_settled(self, pending: Request[tuple[str, Stat]], prefix: str | None = None) -> None:
        """Delete the znode of a create after the outcome of the create is known.

        :param prefix: a prefix that no other name has. If the reply is lost, :meth:`delete_prefixed` finds
            the znode by it.
        :raises BadArgumentsError: the prefix is neither a str nor None.
        """
        check_arguments(prefix=prefix)

        def settled(pending: Request[tuple[str, Stat]]) -> None:
            if pending.error is None:
                self.delete(pending.result()[0])
            elif isinstance(pending.error, ConnectionLossError) and pending.sent and prefix and pending.path:
                self.delete_prefixed(paths.parent(pending.path), prefix)

        pending.on_settled(settled)

    async def idle(self) -> None:
        """Wait until no job of this client and of its views is left."""
        await self.jobs.idle()

    def _start(self, path: str, work: Callable[[], Awaitable[None]]) -> Job:
        job = Job()
        if self._zk.closing:
            job.done.set()
            return job
        self.jobs.begin()
        self._zk.start_soon(self._do, job, path, work, self._zk.session.generation)
        return job

    async def _do(self, job: Job, path: str, work: Callable[[], Awaitable[None]], generation: int) -> None:
        try:
            await repeat(self._zk, work, generation)
        except (NoNodeError, SessionExpiredError, ClosingError):
            pass
        except ZooKeeperError as error:
            job.error = error
            logger.warning("Could not delete %s or znodes below it: %s. Delete them by hand.", path, error)
        finally:
            job.done.set()
            self.jobs.end()
