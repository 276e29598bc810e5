"""Holding a lock while a command runs.

From the first moment to the last, signals come to one task: before there is a command they end the wait, and
then they are the command's. The lock is given back when nothing of the command is left.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any

import trio

from ...client import ZooKeeper, ZooKeeperError
from ...recipes.errors import LockLost, LossReason, RecipeError, WouldBlock
from ...recipes.locks.grant import Grant
from ...recipes.locks.lock import Lock
from ...recipes.locks.rwlock import RWLock
from ...recipes.locks.semaphore import Semaphore
from ...recipes.locks.semaphore_layouts import LayoutName
from ..child import Child, find, heeded, runnable
from ..connecting import client
from ..status import Failure, Status, say
from .arguments import PROG, Options
from .listing import as_json, survey, table

_CONNECT_TIMEOUT = 15.0
_MARGIN = 0.1
"""Of the session timeout: so long before the session may have expired the command has to be gone, which makes
up for clocks that differ."""
_TIME_TO_GO = 0.1
"""Of the session timeout: so long before that it is told to go."""
_LONG_WAIT = 0.5
"""Seconds after which ``--verbose`` tells whom we wait for."""
_PATIENCE = 1.0
"""Seconds to find out who holds what we did not get."""


async def show(options: Options) -> int:
    """``--list``."""
    async with _client(options) as zk:
        write = as_json if options.json else table
        text = write(options.path, await survey(zk, options.path), time.time())
    encoding = sys.stdout.encoding
    print(text.encode(encoding, "backslashreplace").decode(encoding))  # whatever others have put there
    return 0


async def run(options: Options) -> int:
    """Run the command while holding the lock; returns the exit status.

    Raises :class:`Failure`.
    """
    with runnable(options.command[0]):
        find(options.command[0])
    status, failure = 0, None
    with trio.open_signal_receiver(signal.SIGCHLD, *heeded()) as signals:
        async with trio.open_nursery() as nursery:
            job = Job(options, nursery)
            nursery.start_soon(job.listen, signals)
            try:
                status = await job.hold_and_run()
            except Failure as error:
                failure = error  # raised out of here it would come in a group
            nursery.cancel_scope.cancel()
    if job.stopped_by:
        return Status.SIGNAL + job.stopped_by
    if failure is not None:
        raise failure
    return status


def _client(options: Options) -> AbstractAsyncContextManager[ZooKeeper]:
    return client(
        options.hosts,
        session_timeout=options.session_timeout,
        connect_timeout=min(_CONNECT_TIMEOUT, options.timeout or math.inf),
        auth=options.auth,
    )


class Job:
    """What there is to do for one command.

    :ivar stopped_by: the signal that has ended the wait.
    """

    def __init__(self, options: Options, nursery: trio.Nursery) -> None:
        self.options = options
        self.stopped_by = 0
        self._nursery = nursery
        self._child: Child | None = None

    async def listen(self, signals: AsyncIterator[int]) -> None:
        async for number in signals:
            if number == signal.SIGCHLD:
                if self._child is not None:
                    self._child.reap()
            elif self._child is not None:
                self._child.signal(number)
            else:
                self.stopped_by = number
                self._nursery.cancel_scope.cancel()

    async def hold_and_run(self) -> int:
        options = self.options
        began = trio.current_time()
        async with _client(options) as zk:
            try:
                with trio.move_on_at(began + (options.timeout or math.inf)) as patience:
                    if options.verbose:
                        self._nursery.start_soon(self._tell_whom, zk)
                    async with contend(zk, options) as grant:
                        patience.deadline = math.inf
                        # What has ended the wait may have come with the grant: then there is no command.
                        await trio.lowlevel.checkpoint_if_cancelled()
                        self._remark(f"{options.path} is ours, token {grant.token}")
                        status = await self._supervise(grant)
                if not patience.cancelled_caught:
                    self._remark(f"{options.path} was released")
                    return status
            except WouldBlock:
                pass
            except LockLost as error:
                raise Failure(
                    Status.LOST, f"{options.path} was lost: {error.reason.value}; the command was ended"
                ) from None
            except RecipeError as error:
                raise Failure(Status.REFUSED, str(error)) from None
            raise Failure(Status.BUSY, f"{await self._whose(zk)}; try again later, or wait longer: --timeout")

    async def _supervise(self, grant: Grant) -> int:
        """Run the command."""
        options = self.options
        child = self._child = _start(options, grant)
        try:
            await child.ended.wait()
            await child.end(options.kill_after)
        finally:
            with trio.CancelScope(shield=True):
                await child.end(grace(grant, options.kill_after))
        return child.status

    # --- what it tells -----------------------------------------------------------------------------------

    def _remark(self, message: str) -> None:
        if self.options.verbose:
            say(PROG, message)

    async def _tell_whom(self, zk: ZooKeeper) -> None:
        await trio.sleep(_LONG_WAIT)
        if self._child is None:
            self._remark(f"waiting: {await self._whose(zk)}")

    async def _whose(self, zk: ZooKeeper) -> str:
        """Who holds it, as far as we can know."""
        found = None
        with suppress(ZooKeeperError), trio.move_on_after(_PATIENCE):
            found = await survey(zk, self.options.path)
        if not (found and found.holders):
            return f"{self.options.path} was held by another"
        others = f" and {more} more" if (more := len(found.holders) - 1) else ""
        return f"{self.options.path} is held by {found.holders[0].describe(time.time())}{others}"


def contend(zk: ZooKeeper, options: Options) -> AbstractAsyncContextManager[Grant]:
    """What is to be held: a block."""
    terms: dict[str, Any] = {
        "data": options.data,
        "suspended": options.suspended,
        "margin": (_MARGIN + _TIME_TO_GO) * zk.session.negotiated_timeout,
    }
    lock: Lock | Semaphore
    if options.slots:
        layout: LayoutName = "kazoo" if options.naming == "kazoo" else "curator"
        lock = Semaphore(zk, options.path, options.slots, layout=layout, **terms)
    elif options.shared:
        lock = RWLock(zk, options.path, naming=options.naming, **terms).read()
    else:
        lock = Lock(zk, options.path, naming=options.naming, **terms)
    return lock if options.timeout else lock.try_acquire()


def grace(grant: Grant, kill_after: float) -> float:
    """How many seconds the command has to end; none if another may hold the lock already."""
    if grant.reason is None:
        return kill_after
    if grant.reason in (LossReason.SESSION_EXPIRED, LossReason.NODE_DELETED):
        return 0.0
    session = grant.zk.session
    lasts = session.lease_deadline() - _MARGIN * session.negotiated_timeout
    return min(kill_after, lasts - trio.current_time())


def _start(options: Options, grant: Grant) -> Child:
    environment = os.environ | {
        "PYZK_LOCK_PATH": options.path,
        "PYZK_LOCK_NODE": "\n".join(grant.paths),
        "PYZK_LOCK_TOKEN": str(grant.token),
        "PYZK_LOCK_SESSION": f"0x{grant.session_id:x}",
    }
    with runnable(options.command[0]):
        return Child(options.command, environment)
