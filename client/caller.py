"""How operations are carried out: submitted, waited for, with or without a watch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import trio

from ..protocol.constants import WatcherType
from ..protocol.errors import BadArgumentsError, NoNodeError
from .machine import SessionState
from .operations import Operation, RemoveWatches
from .pending import Pending, runs_in_task, sends_itself, wait_settled
from .registry import WatchKind
from .runner import Runner
from .session import Session
from .watch import Watch, WatchStream

T = TypeVar("T")
Data = bytes | None


class Caller:
    """Carries out operations whose paths are below a chroot.

    :ivar chroot: the path in front of every path; ``""`` for none.
    :ivar session: the session, and what is known of it.
    :ivar on_submit: called with each operation that is submitted here; None for nothing.
    """

    def __init__(self, runner: Runner, session: Session, chroot: str) -> None:
        self.chroot = chroot
        self.session = session
        self.on_submit: Callable[[Pending[Any]], object] | None = None
        self._runner = runner
        self._machine = runner.machine
        self._watches = runner.machine.data.watches

    @property
    def lender(self) -> Runner | None:
        """What lends the connection for the calls of this object; None if all of them must be seen here."""
        return self._runner if self.on_submit is None else None

    @property
    def closing(self) -> bool:
        """True if nothing can be submitted any more."""
        return not self._machine.accepting

    def submit(self, operation: Operation[T]) -> Pending[T]:
        """Send an operation without waiting for its result: the way to pipeline from a single task.

        Cancelling a wait on the :class:`Pending` leaves the operation alone.
        """
        return self._submit(operation)

    def withdraw(self, pending: Pending[Any]) -> bool:
        """Take back an operation that has not left the client: it fails as not sent. Returns False if it has
        left, or is settled."""
        return self._machine.withdraw(pending)

    def _submit(self, operation: Operation[T], prefix: str | None = None, send: bool = True) -> Pending[T]:
        """Send an operation whose path is below ``prefix``; below the chroot if None.

        :param send: False if the caller sends it.
        """
        if prefix is None:
            prefix = self.chroot
        if not isinstance(operation, Operation):
            raise BadArgumentsError(
                None, f'only an operation can be submitted, such as GetData("/a"), not {operation!r:.100}'
            )
        body = operation.encode(prefix)  # before the op code: it names the argument that is wrong
        pending: Pending[T] = Pending(
            operation.opcode,
            body,
            operation.path,
            lambda reply: operation.decode(reply, prefix),
            refusal=operation.refusal,
            retry=operation.idempotent,
        )
        if send:
            self._runner.submit(pending)
        if self.on_submit is not None:
            self.on_submit(pending)
        return pending

    async def _call(self, operation: Operation[T], prefix: str | None = None) -> T:
        if runs_in_task():
            await trio.lowlevel.checkpoint_if_cancelled()  # else a request would be sent for nobody
            pending = self._submit(operation, prefix)
        else:
            pending = self._submit(operation, prefix, not sends_itself())
        await wait_settled(pending, self._machine.withdraw)
        return pending.result()

    async def _read_and_watch(
        self,
        read: Callable[[str, bool], Operation[T]],
        watch: Watch,
        kind: WatchKind,
        missing: WatchKind | None = None,
    ) -> T:
        """Make a read that arms a one-shot watch.

        :param read: makes the operation of a path, and of whether it arms a watch at the server.
        :param missing: the kind of watch that a :class:`NoNodeError` leaves behind, if any.
        """
        if runs_in_task():
            await trio.lowlevel.checkpoint_if_cancelled()
        pending = self._arm(lambda asks: read(watch.path, asks), watch, kind, missing)
        try:
            await wait_settled(pending, self._machine.withdraw)
        except BaseException:  # cancelled: remove the watch as soon as it is armed
            pending.on_settled(lambda _: watch.cancel())
            raise
        return pending.result()

    def _arm(
        self,
        operation: Callable[[bool], Operation[T]],
        watcher: Watch | WatchStream,
        kind: WatchKind,
        missing: WatchKind | None = None,
    ) -> Pending[T]:
        """Submit an operation that arms a watch.

        :param operation: makes the operation, given whether it has to ask the server for this kind of watch.
        :param missing: the kind of watch that a :class:`NoNodeError` leaves behind, if any.
        """
        full = watcher.server_path
        asks = self._watches.reserve(full, kind)
        try:
            pending = self._submit(operation(asks), watcher.prefix)
        except Exception:
            self._watches.settle(full, kind, None, watcher)
            raise

        def settled(pending: Pending[T]) -> None:
            error = pending.error
            armed = missing if isinstance(error, NoNodeError) else None if error else kind
            self._watches.settle(full, kind, armed, watcher)

        pending.on_settled(settled)
        return pending

    def _remove_watch(self, path: str, type: WatcherType) -> None:
        """Have the server remove a watch without users. Without a connection it has none."""
        if self.session.state is SessionState.CONNECTED and not self.closing:
            operation = RemoveWatches(path, type)
            self._runner.submit(Pending(operation.opcode, operation.encode(""), path))
