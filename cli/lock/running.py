"""A command that runs while this process holds a lock.

The rules:

* One task receives all signals, from the start of this process to its end. Before the command runs, a signal
  ends the wait for the lock. After the command has started, a signal is sent on to the command.
* The lock is released when the command and all processes that it has started have ended.
* If the lock is lost, the command is ended before another process can get the lock. Therefore this process
  gives up the lock earlier than the lease ends. Two margins make the difference: the time for the command to
  end after SIGTERM, and a time for clocks that differ.
"""

from __future__ import annotations

import argparse
import math
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, suppress
from typing import TypedDict

import trio

from ...client import NoNodeError, ZooKeeper, ZooKeeperError
from ...protocol.text import session_text
from ...recipes.base.ownership import Suspended
from ...recipes.errors import LockLost, LossReason, RecipeError, WouldBlock
from ...recipes.locks.grant import Grant
from ...recipes.locks.lock import Lock
from ...recipes.locks.rwlock import RWLock
from ...recipes.locks.semaphore import Semaphore
from ...recipes.locks.semaphore_layouts import SemaphoreLayout
from ..asking import confirm
from ..child import Child, find, heeded, runnable
from ..connecting import client
from ..context import Context
from ..status import Failure, Status, say
from .arguments import PROG, Options
from .listing import as_json, survey, table

_CONNECT_TIMEOUT = 15.0
"""Seconds to reach a server: enough for a few rounds through the list of servers."""
_CLOCK_MARGIN = 0.1
"""The margin for clocks that differ, as a fraction of the session timeout. The command must end earlier than
the session can expire, by this margin."""
_TIME_TO_END = 0.1
"""The fraction of the session timeout that the command has to end after SIGTERM."""
_REPORT_AFTER = 0.5
"""The seconds of a wait after which ``--verbose`` prints who holds the lock."""
_TELL_AFTER = 1.0
"""The seconds of a wait after which a terminal shows who holds the lock, without ``--verbose``."""
_SURVEY_TIMEOUT = 1.0
"""Seconds to wait for the names of the lock's holders. This time is short, because the user has already
waited for the lock."""


async def show(options: Options) -> int:
    """Print the holders and waiters: ``--list``. Returns the exit status.

    :raises Failure: the server was not reached or refuses.
    """
    from ..verbs.servers import connected_sessions  # it speaks HTTP, which a lock does not need

    async with _client(options) as zk:
        write = as_json if options.json else table
        found = await survey(zk, options.path)
        text = write(options.path, found, time.time(), await connected_sessions(_context(options)))
    encoding = sys.stdout.encoding
    print(text.encode(encoding, "backslashreplace").decode(encoding))  # the data of others may be any text
    return 0


def _context(options: Options) -> Context:
    """Return the context for a verb of ``pyzk``."""
    given = {"hosts": options.hosts, "connect_timeout": _SURVEY_TIMEOUT, "token": None, "verb": "--list"}
    context = Context(argparse.Namespace(**given))
    context.ssl_context = options.ssl_context
    return context


async def take_away(options: Options) -> int:
    """Delete the znodes of the lock's holders: ``--break``. Returns the exit status.

    :raises Failure: nobody holds the lock, the answer is no, the server was not reached, or the server
        refuses.
    """
    async with _client(options) as zk:
        found = await survey(zk, options.path)
        if not found.holders:
            raise Failure(Status.NO, f"nobody holds {options.path}")
        paths = [path for entry in found.holders for path in entry.paths]
        who = ", ".join(entry.describe(time.time()) for entry in found.holders)
        what = f"{options.path} is held by {who}: delete {' '.join(paths)}"
        await confirm(zk, what, yes=options.yes, ssl_context=options.ssl_context)
        for path in paths:
            with suppress(NoNodeError):  # it has let go meanwhile
                await zk.delete(path)
            say(PROG, f"deleted {path}")
    return 0


async def run(options: Options) -> int:
    """Run the command while holding the lock. Returns the exit status.

    :raises Failure: the lock was not acquired or was lost, or the command cannot be run.
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
                failure = error  # raised here, it would leave the nursery in a group
            nursery.cancel_scope.cancel()
    if job.stopped_by:
        return Status.SIGNAL + job.stopped_by
    if failure is not None:
        raise failure
    return status


def _client(options: Options) -> AbstractAsyncContextManager[ZooKeeper]:
    return client(
        PROG,
        options.hosts,
        session_timeout=options.session_timeout,
        connect_timeout=min(_CONNECT_TIMEOUT, options.timeout or math.inf),
        auth=options.auth,
        ssl_context=options.ssl_context,
    )


class Job:
    """One command and its lock.

    :ivar stopped_by: the signal that has ended the wait; 0 if there was no such signal.
    """

    def __init__(self, options: Options, nursery: trio.Nursery) -> None:
        self.options = options
        self.stopped_by = 0
        self._nursery = nursery
        self._child: Child | None = None

    async def listen(self, signals: AsyncIterator[int]) -> None:
        """Receive the signals of the process."""
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
        """Acquire the lock and run the command. Returns the exit status.

        :raises Failure: see :func:`run`.
        """
        options = self.options
        began = trio.current_time()
        async with _client(options) as zk:
            try:
                with trio.move_on_at(began + (options.timeout or math.inf)) as patience:
                    if options.verbose or sys.stderr.isatty():
                        self._nursery.start_soon(self._report_holder, zk)
                    async with contend(zk, options) as grant:
                        patience.deadline = math.inf
                        # A signal that came together with the grant ends the wait: do not run the command.
                        await trio.lowlevel.checkpoint_if_cancelled()
                        self._report(f"{options.path} was granted, token {grant.token}")
                        status = await self._supervise(grant)
                if not patience.cancelled_caught:
                    self._report(f"{options.path} was released")
                    return status
            except WouldBlock:
                pass
            except LockLost as error:
                raise Failure(
                    Status.LOST, f"{options.path} was lost: {error.reason.value}; the command was ended"
                ) from None
            except RecipeError as error:
                raise Failure(Status.REFUSED, str(error)) from None
            raise Failure(
                Status.BUSY, f"{await self._holder(zk)}; try again later, or wait longer: --timeout"
            )

    async def _supervise(self, grant: Grant) -> int:
        """Run the command until all processes of the command have ended. Returns its exit status."""
        options = self.options
        child = self._child = _start(options, grant)
        try:
            await child.ended.wait()
            await child.end(options.kill_after)
        finally:
            with trio.CancelScope(shield=True):
                await child.end(grace(grant, options.kill_after))
        return child.status

    # --- messages ----------------------------------------------------------------------------------------

    def _report(self, message: str) -> None:
        if self.options.verbose:
            say(PROG, message)

    async def _report_holder(self, zk: ZooKeeper) -> None:
        await trio.sleep(_REPORT_AFTER if self.options.verbose else _TELL_AFTER)
        if self._child is None:
            say(PROG, f"waiting: {await self._holder(zk)}")

    async def _holder(self, zk: ZooKeeper) -> str:
        """Return a message about the holder. If the holder is unknown, the message does not describe the
        holder."""
        found = None
        with suppress(ZooKeeperError), trio.move_on_after(_SURVEY_TIMEOUT):
            found = await survey(zk, self.options.path)
        if not (found and found.holders):
            return f"{self.options.path} was held by another process"
        others = f" and {more} more" if (more := len(found.holders) - 1) else ""
        return f"{self.options.path} is held by {found.holders[0].describe(time.time())}{others}"


class _HoldOptions(TypedDict):
    """The arguments that locks and semaphores have in common."""

    data: bytes
    suspended: Suspended
    margin: float


def contend(zk: ZooKeeper, options: Options) -> AbstractAsyncContextManager[Grant]:
    """Return the context manager that holds the lock, the read lock or the semaphore."""
    hold_options: _HoldOptions = {
        "data": options.data,
        "suspended": options.suspended,
        "margin": (_CLOCK_MARGIN + _TIME_TO_END) * zk.session.negotiated_timeout,
    }
    lock: Lock | Semaphore
    if options.slots:
        layout: SemaphoreLayout = "kazoo" if options.layout == "kazoo" else "curator"
        lock = Semaphore(zk, options.path, options.slots, layout=layout, **hold_options)
    elif options.shared:
        lock = RWLock(zk, options.path, layout=options.layout, **hold_options).read()
    else:
        lock = Lock(zk, options.path, layout=options.layout, **hold_options)
    return lock if options.timeout else lock.nowait()


def grace(grant: Grant, kill_after: float) -> float:
    """Return the number of seconds in which the command must end. If the number is 0 or less, another process
    may already hold the lock."""
    if grant.reason is None:
        return kill_after
    if grant.reason in (LossReason.SESSION_EXPIRED, LossReason.NODE_DELETED):
        return 0.0
    session = grant.zk.session
    lasts = session.lease_deadline() - _CLOCK_MARGIN * session.negotiated_timeout
    return min(kill_after, lasts - trio.current_time())


def _start(options: Options, grant: Grant) -> Child:
    environment = os.environ | {
        "PYZK_LOCK_PATH": options.path,
        "PYZK_LOCK_NODE": "\n".join(grant.paths),
        "PYZK_LOCK_TOKEN": str(grant.token),
        "PYZK_LOCK_SESSION": session_text(grant.session_id),
    }
    with runnable(options.command[0]):
        return Child(options.command, environment)
