"""The client as users know it: one method for each thing to ask of the service."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Literal, TypeVar, Unpack, overload

import attrs
import trio

from ..protocol.constants import AddWatchMode, WatcherType
from ..protocol.errors import BadArgumentsError, NodeExistsError, NoNodeError, NotEmptyError
from ..protocol.paths import join, parent_of
from ..protocol.records import ACL, ClientInfo, Stat
from .arguments import check_arguments
from .connection import Credential, Metrics
from .hosts import Host
from .janitor import Janitor
from .operations import (
    AddWatch,
    Create,
    CreateOptions,
    Delete,
    Exists,
    GetACL,
    GetAllChildrenNumber,
    GetChildren,
    GetChildrenAndStat,
    GetConfig,
    GetData,
    GetEphemerals,
    Multi,
    MultiRead,
    Operation,
    Reconfig,
    RemoveWatches,
    SetACL,
    SetData,
    Sync,
    WhoAmI,
    server_path,
)
from .registry import Kind
from .runner import Background, Pending, Runner, Session, wait_settled
from .session import SessionState
from .transaction import Transaction
from .watch import Watch, WatchStream

T = TypeVar("T")
Data = bytes | None


class ZooKeeper:
    """A client; made by :func:`.connect`.

    Any number of tasks may share it. An operation is submitted when it is first awaited, before anything
    else can run, and operations are carried out in the order in which they were submitted.

    Every method that asks the server may raise :class:`ConnectionLossError` (``sent`` says whether the
    request may have been applied; of reads it only says that there was no server for the length of the
    session timeout), :class:`SessionExpiredError`, :class:`ClosingError`, and :class:`BadArgumentsError` for
    an argument that cannot be sent, before anything is; the docstrings name what else to expect. Cancelling
    a call that has not left the client yet withdraws it; after that it runs its course on the server.

    :ivar chroot: the path in front of every path; ``""`` for none.
    :ivar session: the session's state.
    :ivar janitor: removes, in the background, what cancelled or failed tasks could not.
    :ivar metrics: what was sent.
    """

    def __init__(self, runner: Runner, session: Session, background: Background, chroot: str) -> None:
        self.chroot = chroot
        self.session = session
        self.janitor = Janitor(self)
        self._runner = runner
        self._machine = runner.machine
        self._watches = runner.machine.watches
        self._background = background
        self._watches.remove = self._remove_watch

    @property
    def server(self) -> Host | None:
        """Where the present connection goes, or the last one went."""
        return self._runner.server

    @property
    def metrics(self) -> Metrics:
        return self._machine.metrics

    @property
    def watch_count(self) -> int:
        """How many local watches are armed."""
        return len(self._watches)

    @property
    def event_count(self) -> int:
        """How many watch events have come from servers."""
        return self._watches.events

    @property
    def closing(self) -> bool:
        """Whether nothing can be submitted any more."""
        return not self._machine.accepting

    def start_soon(self, function: Callable[..., Awaitable[object]], *args: Any) -> None:
        """Run ``function(*args)`` until it ends or the client closes. What it raises ends the client."""
        check_arguments(function=function)
        self._background.start_soon(function, *args)

    def keep_lease(self, moved: Callable[[], object]) -> Callable[[], None]:
        """Keep ``session.lease_deadline()`` ahead of the present, as far as the servers allow: unless you
        send writes anyway, the client sends 5 to 8 ``sync`` per session timeout, and no pings.

        :param moved: called after each change of the deadline; it must not raise.

        Returns what takes this back; calling that again does nothing.
        """
        check_arguments(moved=moved)
        lease = self._machine.lease
        keeper = partial(moved)  # another for each call, should the function be the same
        lease.keep(keeper)
        self._runner.reset_timer()
        return lambda: lease.release(keeper)

    # --- the way of every operation ----------------------------------------------------------------------

    def submit(self, operation: Operation[T]) -> Pending[T]:
        """Send an operation without waiting for its result: the way to pipeline from a single task.

        Cancelling a wait on the :class:`Pending` leaves the operation alone.
        """
        return self._submit(operation, self.chroot)

    def _submit(self, operation: Operation[T], prefix: str) -> Pending[T]:
        if not isinstance(operation, Operation):
            raise BadArgumentsError(None, f"an Operation is what can be submitted, not {operation!r:.100}")
        body = operation.encode(prefix)  # first: it tells what is wrong with the operation
        pending: Pending[T] = Pending(
            operation.opcode,
            body,
            operation.path,
            lambda reply: operation.decode(reply, prefix),
            retry=operation.idempotent,
        )
        self._runner.submit(pending)
        return pending

    def withdraw(self, pending: Pending[Any]) -> bool:
        """Take back what was submitted and has not left the client: it then fails as not sent. Returns False
        if it is too late for that."""
        return self._machine.withdraw(pending)

    async def _call(self, operation: Operation[T], prefix: str | None = None) -> T:
        """Carry out an operation. Its path is below the chroot, or below ``prefix`` if that is given."""
        pending = self._submit(operation, self.chroot if prefix is None else prefix)
        await wait_settled(pending, self._machine.withdraw)
        return pending.result()

    # --- writes ------------------------------------------------------------------------------------------

    @overload
    async def create(
        self,
        path: str,
        data: Data = b"",
        *,
        acl: Sequence[ACL] | None = None,
        ephemeral: bool = False,
        sequential: bool = False,
        container: bool = False,
        ttl: float | None = None,
        make_parents: bool = False,
        include_stat: Literal[False] = False,
    ) -> str: ...
    @overload
    async def create(
        self,
        path: str,
        data: Data = b"",
        *,
        acl: Sequence[ACL] | None = None,
        ephemeral: bool = False,
        sequential: bool = False,
        container: bool = False,
        ttl: float | None = None,
        make_parents: bool = False,
        include_stat: Literal[True],
    ) -> tuple[str, Stat]: ...
    async def create(
        self,
        path: str,
        data: Data = b"",
        *,
        acl: Sequence[ACL] | None = None,
        ephemeral: bool = False,
        sequential: bool = False,
        container: bool = False,
        ttl: float | None = None,
        make_parents: bool = False,
        include_stat: bool = False,
    ) -> str | tuple[str, Stat]:
        """Create a znode and return its path, which for a sequential one ends in the server's number.

        :param acl: everything for everyone if None.
        :param container: the server removes the znode some time after its last child.
        :param ttl: seconds after which the server removes the znode if it has no children and was not
            changed; servers have to be told to allow this.
        :param make_parents: create missing parents, persistent and with the same ACL.
        :param include_stat: return the path and the Stat.

        Raises :class:`NodeExistsError`, :class:`NoNodeError` (no parent),
        :class:`NoChildrenForEphemeralsError`, :class:`NoAuthError`, :class:`InvalidACLError`.
        """
        created, stat = await self.create_with_stat(
            path,
            data,
            make_parents=make_parents,
            acl=acl,
            ephemeral=ephemeral,
            sequential=sequential,
            container=container,
            ttl=ttl,
        )
        return (created, stat) if include_stat else created

    async def create_with_stat(
        self, path: str, data: Data = b"", *, make_parents: bool = False, **options: Unpack[CreateOptions]
    ) -> tuple[str, Stat]:
        """The same as :meth:`create`, but return the path and the Stat."""
        operation = Create(path, data, **options)
        while True:
            try:
                return await self._call(operation)
            except NoNodeError:
                if not make_parents or path == "/":
                    raise
                await self.ensure_path(parent_of(path) or "/", acl=operation.acl)

    async def ensure_path(
        self, path: str, *, acl: Sequence[ACL] | None = None, container: bool = False
    ) -> None:
        """Create whatever is missing of a path. ``/`` stands for the chroot, which is created too.

        :param container: make the missing znodes containers.
        """
        missing, full = [server_path(self.chroot, path)], ""
        while missing:
            full = missing[-1]
            if full == "/":
                return
            try:
                await self._call(Create(full, acl=acl, container=container), prefix="")
            except NodeExistsError:
                pass
            except NoNodeError:
                missing.append(parent_of(full) or "/")
                continue
            missing.pop()

    async def set(self, path: str, data: Data, *, version: int = -1) -> Stat:
        """Replace the data and return the new Stat.

        :param version: the version that the data must have; -1 for any.

        Raises :class:`NoNodeError`, :class:`BadVersionError`, :class:`NoAuthError`.
        """
        return await self._call(SetData(path, data, version))

    async def delete(self, path: str, *, version: int = -1, recursive: bool = False) -> None:
        """Delete a znode.

        :param version: the version that its data must have; -1 for any.
        :param recursive: delete everything below first. This is no transaction: others see it happen.

        Raises :class:`NoNodeError`, :class:`NotEmptyError`, :class:`BadVersionError`, :class:`NoAuthError`.
        """
        while True:
            if recursive:
                await self._delete_descendants(path)
            try:
                await self._call(Delete(path, version))
            except NotEmptyError:
                if not recursive:
                    raise
            else:
                return

    async def _delete_descendants(self, path: str) -> None:
        level = [path]
        found: list[str] = []
        while level:
            listings = [(parent, self.submit(GetChildren(parent))) for parent in level]
            level = []
            for parent, pending in listings:
                try:
                    level += [join(parent, name) for name in await pending.wait()]
                except NoNodeError:
                    if parent == path:
                        raise
            found += level
        # Deepest first: the server works them off in this order, so there is no need to wait in between.
        for pending_delete in [self.submit(Delete(child)) for child in reversed(found)]:
            # Somebody else may be at work here too; the last delete tells.
            with suppress(NoNodeError, NotEmptyError):
                await pending_delete.wait()

    async def set_acls(self, path: str, acl: Sequence[ACL], *, version: int = -1) -> Stat:
        """Replace the access control list.

        :param version: the ``aversion`` that the list must have; -1 for any.

        Raises :class:`NoNodeError`, :class:`BadVersionError`, :class:`InvalidACLError`, :class:`NoAuthError`.
        """
        return await self._call(SetACL(path, acl, version))

    async def multi(self, operations: Iterable[Operation[Any]]) -> list[Any]:
        """Carry out :class:`Create`, :class:`Delete`, :class:`SetData` and :class:`Check` as one: all or
        nothing, under a single zxid. Returns their results in order.

        Raises the error of the operation that failed; its ``index`` says which it was.
        """
        return await self._call(Multi(operations))

    def transaction(self) -> Transaction:
        """Collect operations for :meth:`multi` by method calls."""
        return Transaction(self.multi)

    async def reconfig(
        self,
        joining: str | None = None,
        leaving: str | None = None,
        new_members: str | None = None,
        *,
        from_config: int = -1,
    ) -> tuple[Data, Stat]:
        """Change the members of the ensemble and return its new configuration.

        :param joining: servers to add or change, as in ``server.4=host:2888:3888;2181``, comma separated.
        :param leaving: ids of servers to remove, comma separated.
        :param new_members: instead of these two: all servers.
        :param from_config: the version of the configuration that this may replace; -1 for any.

        Raises :class:`ReconfigDisabledError`, :class:`NewConfigNoQuorumError`,
        :class:`ReconfigInProgressError`, :class:`NoAuthError`, :class:`BadVersionError`.
        """
        return await self._call(Reconfig(joining, leaving, new_members, from_config))

    # --- reads -------------------------------------------------------------------------------------------

    @overload
    async def get(self, path: str, *, watch: Literal[False] = False) -> tuple[Data, Stat]: ...
    @overload
    async def get(self, path: str, *, watch: Literal[True]) -> tuple[Data, Stat, Watch]: ...
    async def get(self, path: str, *, watch: bool = False) -> tuple[Data, Stat] | tuple[Data, Stat, Watch]:
        """The data and the Stat. Data that was never set is None, which is not the same as empty.

        :param watch: also return a watch for a change of the data and for the end of the znode.

        Raises :class:`NoNodeError` (nothing is armed then), :class:`NoAuthError`.
        """
        if watch:
            return await self.get_and_watch(path)
        return await self._call(GetData(path))

    async def get_and_watch(self, path: str) -> tuple[Data, Stat, Watch]:
        """The data, the Stat, and a watch for a change of the data and for the end of the znode.

        :raises NoNodeError: there is no such znode; nothing is armed.
        :raises NoAuthError: the ACL does not allow it; nothing is armed.
        """
        (data, stat), watch = await self._read_and_watch(GetData(path), Kind.DATA)
        return data, stat, watch

    @overload
    async def exists(self, path: str, *, watch: Literal[False] = False) -> Stat | None: ...
    @overload
    async def exists(self, path: str, *, watch: Literal[True]) -> tuple[Stat | None, Watch]: ...
    async def exists(self, path: str, *, watch: bool = False) -> Stat | tuple[Stat | None, Watch] | None:
        """The Stat, or None where there is no such znode.

        :param watch: also return a watch: for the znode's creation if there is none, else as for :meth:`get`.
        """
        if watch:
            return await self.exists_and_watch(path)
        try:
            return await self._call(Exists(path))
        except NoNodeError:
            return None

    async def exists_and_watch(self, path: str) -> tuple[Stat | None, Watch]:
        """The Stat, or None where there is no such znode; and a watch: for the znode's creation if there is
        none, else as for :meth:`get_and_watch`."""
        return await self._read_and_watch(Exists(path), Kind.DATA)

    @overload
    async def get_children(
        self, path: str, *, watch: Literal[False] = False, include_stat: Literal[False] = False
    ) -> list[str]: ...
    @overload
    async def get_children(
        self, path: str, *, watch: Literal[False] = False, include_stat: Literal[True]
    ) -> tuple[list[str], Stat]: ...
    @overload
    async def get_children(
        self, path: str, *, watch: Literal[True], include_stat: Literal[False] = False
    ) -> tuple[list[str], Watch]: ...
    @overload
    async def get_children(
        self, path: str, *, watch: Literal[True], include_stat: Literal[True]
    ) -> tuple[list[str], Stat, Watch]: ...
    async def get_children(
        self, path: str, *, watch: bool = False, include_stat: bool = False
    ) -> list[str] | tuple[list[str], Stat] | tuple[list[str], Watch] | tuple[list[str], Stat, Watch]:
        """The names of the children, in no particular order.

        :param watch: also return a watch for children that come or go, and for the end of the znode.
        :param include_stat: also return the Stat.

        Raises :class:`NoNodeError` (nothing is armed then), :class:`NoAuthError`.
        """
        if include_stat:
            if not watch:
                return await self.get_children_and_stat(path)
            return await self.get_children_stat_and_watch(path)
        if not watch:
            return await self._call(GetChildren(path))
        return await self.get_children_and_watch(path)

    async def get_children_and_stat(self, path: str) -> tuple[list[str], Stat]:
        """The names of the children, in no particular order, and the Stat of the parent."""
        return await self._call(GetChildrenAndStat(path))

    async def get_children_and_watch(self, path: str) -> tuple[list[str], Watch]:
        """The names of the children, in no particular order, and a watch for children that come or go and for
        the end of the parent. Raises as :meth:`get_children`; nothing is armed then."""
        return await self._read_and_watch(GetChildren(path), Kind.CHILD)

    async def get_children_stat_and_watch(self, path: str) -> tuple[list[str], Stat, Watch]:
        """The same as :meth:`get_children_and_watch`, with the Stat of the parent."""
        (names, stat), watch = await self._read_and_watch(GetChildrenAndStat(path), Kind.CHILD)
        return names, stat, watch

    async def get_acls(self, path: str) -> tuple[list[ACL], Stat]:
        """The access control list and the Stat.

        Raises :class:`NoNodeError`, :class:`NoAuthError`.
        """
        return await self._call(GetACL(path))

    async def get_ephemerals(self, prefix: str = "/") -> list[str]:
        """The paths of this session's ephemeral znodes that begin with a string. Server 3.6 or later."""
        return await self._call(GetEphemerals(prefix))

    async def get_all_children_number(self, path: str) -> int:
        """The number of znodes below a path, at all depths. Server 3.6 or later.

        Raises :class:`NoNodeError`, :class:`NoAuthError`.
        """
        return await self._call(GetAllChildrenNumber(path))

    async def multi_read(self, operations: Iterable[GetData | GetChildren]) -> list[Any]:
        """Several :class:`GetData` and :class:`GetChildren` in one round trip. A result is what the single
        read would have returned, or the error it would have raised. Server 3.6 or later."""
        return await self._call(MultiRead(operations))

    async def sync(self, path: str = "/") -> None:
        """Wait until the connected server has everything that was committed when this was asked. A read
        submitted after it, even without waiting, sees at least that."""
        return await self._call(Sync(path))

    async def who_am_i(self) -> list[ClientInfo]:
        """The identities of this connection, as the server knows them. Server 3.7 or later."""
        return await self._call(WhoAmI())

    @overload
    async def get_config(self, *, watch: Literal[False] = False) -> tuple[Data, Stat]: ...
    @overload
    async def get_config(self, *, watch: Literal[True]) -> tuple[Data, Stat, Watch]: ...
    async def get_config(self, *, watch: bool = False) -> tuple[Data, Stat] | tuple[Data, Stat, Watch]:
        """The configuration of the ensemble; its Stat's version is the one :meth:`reconfig` asks for."""
        if watch:
            return await self.get_config_and_watch()
        return await self._call(GetConfig())

    async def get_config_and_watch(self) -> tuple[Data, Stat, Watch]:
        """The configuration, its Stat, and a watch for the next one."""
        (data, stat), watch = await self._read_and_watch(GetConfig(), Kind.DATA)
        return data, stat, watch

    async def add_auth(self, scheme: str, credential: bytes | str) -> None:
        """Add an identity to this connection and to every later one: ``add_auth("digest", "user:password")``.

        Raises :class:`AuthFailedError`; the server then closes the connection, and the client opens another.
        """
        check_arguments(scheme=scheme, credential=credential)
        pending = self._machine.add_credential(Credential(scheme, credential), trio.current_time())
        self._runner.wake()
        await wait_settled(pending, self._machine.withdraw)
        pending.result()

    # --- watches -----------------------------------------------------------------------------------------

    @asynccontextmanager
    async def watch(
        self, path: str, *, recursive: bool = False, buffer: int = 1024
    ) -> AsyncIterator[WatchStream]:
        """Watch a path for as long as the block lasts. Server 3.6 or later.

            async with zk.watch("/app", recursive=True) as events:
                async for event in events:
                    match event:
                        case Missed(): ...                                    # read again
                        case WatchEvent(type=EventType.CREATED, path=path): ...

        The watch is armed when the block begins: read inside it.

        :param recursive: also report everything below. CHILD events come only without it.
        :param buffer: how many unread events are kept; beyond that they give way to a single Missed.
        """
        check_arguments(buffer=buffer)
        kind = Kind.RECURSIVE if recursive else Kind.PERSISTENT
        full = server_path(self.chroot, path)
        stream = WatchStream(path, self.chroot, buffer)
        pending = self._submit_watching(
            lambda asks: AddWatch(path, AddWatchMode(bool(recursive or not asks))),
            full,
            kind,
            stream,
            lambda error: None,
        )
        try:
            await wait_settled(pending, None)
            pending.result()
            yield stream
        finally:
            pending.on_settled(lambda _: self._watches.leave(full, stream))

    async def _read_and_watch(self, operation: Any, kind: Kind) -> tuple[Any, Watch]:
        prefix = "" if isinstance(operation, GetConfig) else self.chroot
        full = server_path(prefix, operation.path)
        watch = Watch(operation.path, prefix, lambda watch: self._watches.leave(full, watch))
        is_exists = isinstance(operation, Exists)
        pending = self._submit_watching(
            lambda asks: attrs.evolve(operation, watch=asks),
            full,
            kind,
            watch,
            lambda error: Kind.EXIST if is_exists and isinstance(error, NoNodeError) else None,
        )
        try:
            await wait_settled(pending, self._machine.withdraw)
            return pending.result(), watch
        except NoNodeError:
            if is_exists:
                return None, watch
            raise
        except BaseException:  # cancelled: the watch goes as soon as it is there
            pending.on_settled(lambda _: watch.cancel())
            raise

    def _submit_watching(
        self,
        operation: Callable[[bool], Operation[Any]],
        full: str,
        kind: Kind,
        watcher: Watch | WatchStream,
        armed_by: Callable[[Exception], Kind | None],
    ) -> Pending[Any]:
        """Submit a request that arms a watch.

        :param operation: makes the operation, given whether it has to ask the server for this kind of watch.
        :param armed_by: which kind of watch an error leaves behind.
        """
        asks = self._watches.reserve(full, kind)
        try:
            pending = self.submit(operation(asks))
        except Exception:
            self._watches.settle(full, kind, None, watcher)
            raise

        def settled(pending: Pending[Any]) -> None:
            armed = armed_by(pending.error) if pending.error is not None else kind
            self._watches.settle(full, kind, armed, watcher)

        pending.on_settled(settled)
        return pending

    def _remove_watch(self, path: str, type: WatcherType) -> None:
        """Nobody needs the server's watch any more. Without a connection there is none."""
        if self.session.state is SessionState.CONNECTED and not self.closing:
            operation = RemoveWatches(path, type)
            self._runner.submit(Pending(operation.opcode, operation.encode(""), path))
