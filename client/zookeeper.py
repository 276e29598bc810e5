"""The client, with one method for each operation of the service."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, TypeVar, Unpack

import trio

from ..protocol import paths
from ..protocol.constants import CONFIG_PATH, AddWatchMode, WatcherType
from ..protocol.errors import BadArgumentsError, NodeExistsError, NoNodeError, NotEmptyError
from ..protocol.records import ACL, ClientInfo, Stat
from ..protocol.text import session_text
from .arguments import check_arguments
from .auth import Credential
from .batch import Multi, MultiRead, Transaction
from .cleanup import Background, Cleanup, Jobs
from .handoff import Handoff
from .hosts import ConnectString, Host
from .machine import SessionState
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
    GetData,
    GetEphemerals,
    Operation,
    Reconfig,
    RemoveWatches,
    SetACL,
    SetData,
    Sync,
    WhoAmI,
    server_path,
)
from .pending import Pending, runs_in_task, sends_itself, wait_settled
from .registry import WatchKind
from .runner import Runner
from .session import Session
from .session_data import Metrics
from .watch import Watch, WatchStream, arm

T = TypeVar("T")
Data = bytes | None

_PARENT_ROUNDS = 100
"""The largest number of attempts to create a znode while other clients delete its parents again. No client
loses a race that often, but a server with an injected fault may refuse the create for ever."""


class ZooKeeper:
    """A client; made by :func:`.connect`.

    Any number of tasks can share the client. An operation is submitted when its method is first awaited,
    before any other task runs. The server executes operations in the order in which they were submitted.

    Each method that sends a request can raise, in addition to the errors in its docstring:

    * :class:`ConnectionLossError`: the connection was lost. For a write, ``sent`` says whether the write may
      have been applied. The client repeats a read until the read is answered. A read fails only if the client
      had no server for the length of the session timeout.
    * :class:`SessionExpiredError` and :class:`ClosingError`.
    * :class:`BadArgumentsError`: an argument cannot be sent. Nothing was sent.
    * :class:`UnimplementedError`: the server is older than the release in the docstring of the method. If the
      docstring has no release, the method needs release 3.5 or later.

    If a call is cancelled, its request is withdrawn unless the request has left the client. A request that
    has left the client is executed.

    :ivar chroot: the path in front of every path; ``""`` for none.
    :ivar session: the state of the session.
    :ivar on_submit: called with each operation that is submitted through this object; None for no call.
    :ivar cleanup: deletes, in the background, the znodes that cancelled or failed tasks could not delete.
    """

    def __init__(
        self, runner: Runner, session: Session, background: Background, chroot: str, jobs: Jobs
    ) -> None:
        self.chroot = chroot
        self.session = session
        self.on_submit: Callable[[Pending[Any]], object] | None = None
        self.cleanup = Cleanup(self, jobs)
        self._runner = runner
        self._machine = runner.machine
        self._watches = runner.machine.data.watches
        self._watches.remove = self._remove_watch
        self._background = background

    def __repr__(self) -> str:
        where = f"{self.server or 'no server yet'}{self.chroot}"
        return (
            f"<ZooKeeper at {where}, {self.session.state.name}, session {session_text(self.session.id)}, "
            f"{self.requests_in_flight} requests in flight, {self.requests_waiting} waiting>"
        )

    @property
    def server(self) -> Host | None:
        """The server of the present connection, or of the last connection; None before the first
        connection."""
        return self._runner.reporter.server

    @property
    def metrics(self) -> Metrics:
        """Counters of the sent requests."""
        return self._machine.data.metrics

    @property
    def requests_in_flight(self) -> int:
        """The number of requests that were sent and not answered."""
        return self._machine.in_flight

    @property
    def requests_waiting(self) -> int:
        """The number of requests that were not sent yet; most of them wait for a connection."""
        return len(self._machine.data.outbox)

    @property
    def watch_count(self) -> int:
        """The number of local watches that are armed."""
        return len(self._watches)

    @property
    def event_count(self) -> int:
        """The number of watch events that have come from servers."""
        return self._watches.events

    async def update_hosts(self, hosts: str) -> None:
        """Replace the list of servers.

        The client may move to another server and keeps its session, so that each server gets its share of the
        clients. The client decides by the probability rule of the Java client. The client moves when all
        requests in flight are answered, so no request is lost.

        :param hosts: ``host:port,host:port`` or ``srv+zk://name``, as for :func:`.connect`.
        :raises BadArgumentsError: a host is malformed; or there is a chroot, and it is not the chroot of this
            client.
        """
        check_arguments(hosts=hosts)
        try:
            parsed = ConnectString.parse(hosts)
        except ValueError as error:
            raise BadArgumentsError(None, str(error)) from None
        if parsed.chroot not in ("", self.chroot):
            raise BadArgumentsError(
                None, f"the chroot cannot be changed to {parsed.chroot!r}: use zk.view, or connect again"
            )
        await self._runner.update_hosts(parsed.hosts)

    def view(self, path: str) -> ZooKeeper:
        """Return a client whose paths are relative to a znode of this client. Both clients have the same
        connection and the same session. A view costs no request. A view ends with this client: do not close
        the view.

            jobs = zk.view("/app/jobs")
            await jobs.get("/a")  # the znode /app/jobs/a of zk

        The znode itself need not exist; ``await view.ensure_path("/")`` creates it.

        :raises BadArgumentsError: the path is malformed.
        """
        chroot = server_path(self.chroot, path) if path != "/" else self.chroot
        view = ZooKeeper(self._runner, self.session, self._background, chroot, self.cleanup.jobs)
        view.on_submit = self.on_submit
        return view

    def start_soon(self, function: Callable[..., Awaitable[object]], *args: Any) -> None:
        """Run ``function(*args)`` in a task of the client, until it returns or the client closes. If the
        function raises an exception, the client ends."""
        check_arguments(function=function)
        self._background.start_soon(function, *args)

    def keep_lease(self, moved: Callable[[], object]) -> Callable[[], None]:
        """Keep ``session.lease_deadline()`` in the future, as far as the servers allow. If the program sends
        no writes, the client sends 5 to 8 ``sync`` requests per session timeout instead of pings.

        :param moved: called after each change of the deadline; it must not raise.
        :returns: a function that takes this call back. A second call of this function does nothing.
        """
        check_arguments(moved=moved)
        lease = self._machine.data.lease
        keeper = partial(moved)  # a new object for each call, even if the function is the same
        lease.keep(keeper, trio.current_time())
        self._runner.reset_timer()
        return lambda: lease.release(keeper)

    async def add_auth(self, scheme: str, credential: bytes | str) -> None:
        """Add an identity to this connection and to every later one: ``add_auth("digest", "user:password")``.

        :raises AuthFailedError: the server refused the identity. The server closes the connection, and the
            client opens another one.
        """
        check_arguments(scheme=scheme, credential=credential)
        pending = self._machine.add_credential(Credential(scheme, credential), trio.current_time())
        self._runner.wake()
        await wait_settled(pending, self._machine.withdraw)
        pending.result()

    # --- writes ----------------------------------------------------------------------------------------

    async def create(
        self, path: str, data: Data = b"", *, make_parents: bool = False, **options: Unpack[CreateOptions]
    ) -> str:
        """Create a znode and return its path. The path of a sequential znode ends in the number from the
        server.

        :param data: the data; None for null data. A read of null data returns None, not ``b""``.
        :param make_parents: whether missing parents are created, as persistent znodes with the same ACL.
        :param options: ``acl``, ``ephemeral``, ``sequential``, ``container``, ``ttl`` (seconds):
            see :class:`Create`.
        :raises NodeExistsError: the znode exists already.
        :raises NoNodeError: the parent does not exist. With ``make_parents``, other clients have deleted the
            parent again in each of 100 attempts.
        :raises NoChildrenForEphemeralsError: the parent is ephemeral.
        :raises NoAuthError: the ACL of the parent does not permit this operation.
        :raises InvalidACLError: the server does not accept the ACL.
        :raises ValueError: the options exclude each other.
        """
        path, _ = await self.create_with_stat(path, data, make_parents=make_parents, **options)
        return path

    async def create_with_stat(
        self, path: str, data: Data = b"", *, make_parents: bool = False, **options: Unpack[CreateOptions]
    ) -> tuple[str, Stat]:
        """Create a znode as :meth:`create` does, and return its path and its Stat."""
        operation = Create(path, data, **options)
        rounds = _PARENT_ROUNDS if make_parents and path != "/" else 0
        while True:
            try:
                return await self._call(operation)
            except NoNodeError:
                if not rounds:
                    raise
                rounds -= 1
                await self.ensure_path(paths.parent(path), acl=operation.acl)

    async def ensure_path(
        self, path: str, *, acl: Sequence[ACL] | None = None, container: bool = False
    ) -> None:
        """Create a znode and its parents if they are missing. ``/`` means the chroot, which is created too.

        :param acl: the ACL of the znodes that are created; None gives everyone all permissions.
        :param container: whether the created znodes are containers.
        :raises NoNodeError: the server refuses a znode below ``/``, for example because of an injected fault.
        :raises NoChildrenForEphemeralsError: one of the parents is ephemeral.
        :raises NoAuthError: the ACL of a parent does not permit this operation.
        :raises InvalidACLError: the server does not accept the ACL.
        """
        missing = [server_path(self.chroot, path)]
        while missing and missing[-1] != "/":
            try:
                with suppress(NodeExistsError):
                    await self._call(Create(missing[-1], acl=acl, container=container), prefix="")
                missing.pop()
            except NoNodeError:
                if (parent := paths.parent(missing[-1])) == "/":
                    raise
                missing.append(parent)

    async def set(self, path: str, data: Data, *, version: int = -1) -> Stat:
        """Replace the data and return the new Stat.

        :param data: the data; None for null data. A read of null data returns None, not ``b""``.
        :param version: the version that the data must have; -1 for any.
        :raises NoNodeError: there is no such znode.
        :raises BadVersionError: the data has another version.
        :raises NoAuthError: the ACL does not permit this operation.
        """
        return await self._call(SetData(path, data, version))

    async def delete(self, path: str, *, version: int = -1, recursive: bool = False) -> None:
        """Delete a znode.

        :param version: the version that the data of the znode must have; -1 for any.
        :param recursive: whether all znodes below the znode are deleted first. This is not a transaction:
            other clients see the steps.
        :raises NoNodeError: there is no such znode.
        :raises NotEmptyError: the znode has children.
        :raises BadVersionError: the data of the znode has another version.
        :raises NoAuthError: the ACL of the parent does not permit this operation.
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

    async def set_acl(self, path: str, acl: Sequence[ACL], *, version: int = -1) -> Stat:
        """Replace the ACL and return the new Stat.

        :param version: the ``aversion`` that the ACL must have; -1 for any.
        :raises NoNodeError: there is no such znode.
        :raises BadVersionError: the ACL has another version.
        :raises InvalidACLError: the server does not accept the ACL.
        :raises NoAuthError: the present ACL does not permit this operation.
        """
        return await self._call(SetACL(path, acl, version))

    async def multi(self, operations: Iterable[Operation[Any]]) -> list[Any]:
        """Carry out :class:`Create`, :class:`Delete`, :class:`SetData` and :class:`Check` as one transaction,
        under one zxid. The server executes all of them or none.

        :returns: the results in order: a path, None, a Stat, None.
        :raises ZooKeeperError: the error of the operation that failed; ``index`` is its position.
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
        """Change the members of the ensemble and return its new configuration with its Stat.

        :param joining: servers to add or change, as in ``server.4=host:2888:3888;2181``, comma separated.
        :param leaving: ids of servers to remove, comma separated.
        :param new_members: all servers, instead of ``joining`` and ``leaving``.
        :param from_config: the version that the present configuration must have; -1 for any.
        :raises ReconfigDisabledError: the servers do not allow it.
        :raises NewConfigNoQuorumError: too few of the new members are connected and up to date.
        :raises ReconfigInProgressError: another change is under way.
        :raises BadVersionError: the present configuration has another version.
        :raises NoAuthError: this client is not allowed to do this.
        """
        return await self._call(Reconfig(joining, leaving, new_members, from_config))

    # --- reads and watches -----------------------------------------------------------------------------

    async def get(self, path: str) -> tuple[Data, Stat]:
        """Read the data and the Stat. Data that is null on the server is None, and empty data is ``b""``.

        :raises NoNodeError: there is no such znode.
        :raises NoAuthError: the ACL does not permit this operation.
        """
        return await self._call(GetData(path))

    async def get_and_watch(self, path: str) -> tuple[Data, Stat, Watch]:
        """Read as :meth:`get` does, and arm a watch that fires when the data changes or the znode is deleted.
        If the call raises an error, no watch is armed."""
        watch = Watch(path, self.chroot, self._watches)
        data, stat = await self._read_and_watch(GetData, watch, WatchKind.DATA)
        return data, stat, watch

    async def exists(self, path: str) -> Stat | None:
        """Read the Stat; None if there is no such znode."""
        try:
            return await self._call(Exists(path))
        except NoNodeError:
            return None

    async def exists_and_watch(self, path: str) -> tuple[Stat | None, Watch]:
        """Read as :meth:`exists` does, and arm a watch. If the znode does not exist, the watch fires when it
        is created. Otherwise the watch fires when the data changes or the znode is deleted."""
        watch = Watch(path, self.chroot, self._watches)
        try:
            return await self._read_and_watch(Exists, watch, WatchKind.DATA, missing=WatchKind.EXIST), watch
        except NoNodeError:
            return None, watch

    async def get_children(self, path: str) -> list[str]:
        """Read the names of the children, in no particular order.

        :raises NoNodeError: there is no such znode.
        :raises NoAuthError: the ACL does not permit this operation.
        """
        return await self._call(GetChildren(path))

    async def get_children_and_stat(self, path: str) -> tuple[list[str], Stat]:
        """Read the names of the children as :meth:`get_children` does, and the Stat of the parent."""
        return await self._call(GetChildrenAndStat(path))

    async def get_children_and_watch(self, path: str) -> tuple[list[str], Watch]:
        """Read as :meth:`get_children` does, and arm a watch that fires when a child is created or deleted,
        or the parent is deleted. If the call raises an error, no watch is armed."""
        watch = Watch(path, self.chroot, self._watches)
        return await self._read_and_watch(GetChildren, watch, WatchKind.CHILD), watch

    async def get_children_stat_and_watch(self, path: str) -> tuple[list[str], Stat, Watch]:
        """Read and watch as :meth:`get_children_and_watch` does, and read the Stat of the parent."""
        watch = Watch(path, self.chroot, self._watches)
        names, stat = await self._read_and_watch(GetChildrenAndStat, watch, WatchKind.CHILD)
        return names, stat, watch

    async def get_acl(self, path: str) -> tuple[list[ACL], Stat]:
        """Read the ACL and the Stat.

        :raises NoNodeError: there is no such znode.
        :raises NoAuthError: the ACL allows neither reading nor administration.
        """
        return await self._call(GetACL(path))

    async def get_ephemerals(self, prefix: str = "/") -> list[str]:
        """Read the paths of this session's ephemeral znodes that begin with a string. Server 3.6 or later."""
        return await self._call(GetEphemerals(prefix))

    async def get_all_children_number(self, path: str) -> int:
        """Read the number of znodes below a path, at all depths. Server 3.6 or later.

        :raises NoNodeError: there is no such znode.
        :raises NoAuthError: the ACL does not permit this operation.
        """
        return await self._call(GetAllChildrenNumber(path))

    async def multi_read(self, operations: Iterable[GetData | GetChildren]) -> list[Any]:
        """Carry out several :class:`GetData` and :class:`GetChildren` in one round trip. Server 3.6 or later.

        :returns: for each operation, in order, its result, or the error that it would raise alone.
        """
        return await self._call(MultiRead(operations))

    async def sync(self, path: str = "/") -> None:
        """Wait until the connected server has applied everything that the ensemble had committed when the
        call was made. A read that is submitted after the ``sync`` shows at least that state, even if the
        caller does not wait for the ``sync``."""
        return await self._call(Sync(path))

    async def who_am_i(self) -> list[ClientInfo]:
        """Read the identities that the server has for this connection. Server 3.7 or later."""
        return await self._call(WhoAmI())

    async def get_config(self) -> tuple[Data, Stat]:
        """Read the configuration of the ensemble and its Stat.

        :raises NoAuthError: the ACL does not permit this operation.
        """
        return await self._call(GetData(CONFIG_PATH), prefix="")

    async def get_config_and_watch(self) -> tuple[Data, Stat, Watch]:
        """Read as :meth:`get_config` does, and arm a watch that fires when the configuration changes."""
        watch = Watch(CONFIG_PATH, "", self._watches)
        data, stat = await self._read_and_watch(GetData, watch, WatchKind.DATA)
        return data, stat, watch

    @asynccontextmanager
    async def watch(
        self, path: str, *, recursive: bool = False, buffer: int = 1024
    ) -> AsyncIterator[WatchStream]:
        """Watch a path for as long as the block lasts. Server 3.6 or later.

            async with zk.watch("/app", recursive=True) as events:
                async for event in events:
                    match event:
                        case Missed(): ...                               # read again what you follow
                        case WatchEvent(type=EventType.CREATED, path=path): ...

        The watch is armed when the block begins: read inside it.

        :param recursive: report all znodes below the path too. CHILD events come only without it.
        :param buffer: the number of unread events that are kept. If more come, one Missed replaces all of
            them.
        """
        check_arguments(buffer=buffer)
        kind = WatchKind.RECURSIVE if recursive else WatchKind.PERSISTENT
        stream = WatchStream(path, self.chroot, self._watches, buffer)
        pending = arm(
            lambda asks: self.submit(AddWatch(path, AddWatchMode(bool(recursive or not asks)))),
            *(stream, self._watches, kind),
        )
        try:
            await wait_settled(pending, None)
            pending.result()
            yield stream
        finally:
            pending.on_settled(lambda _: stream.leave())

    # --- how operations are carried out ----------------------------------------------------------------

    @property
    def source(self) -> Handoff | None:
        """The object that hands the connection to callers in other threads; None if all calls must go through
        this object."""
        return self._runner.handoff if self.on_submit is None else None

    @property
    def closing(self) -> bool:
        """True if no more operations can be submitted."""
        return not self._machine.accepting

    def submit(self, operation: Operation[T]) -> Pending[T]:
        """Send an operation without waiting for its result, so that a single task can pipeline operations.

        Cancelling a wait on the :class:`Pending` does not cancel the operation.
        """
        return self._submit(operation)

    def withdraw(self, pending: Pending[Any]) -> bool:
        """Withdraw an operation that has not left the client: it fails as not sent. Returns False if the
        request has left the client already or is settled."""
        return self._machine.withdraw(pending)

    def _submit(self, operation: Operation[T], prefix: str | None = None, send: bool = True) -> Pending[T]:
        """Send an operation whose path is below ``prefix``; None means the chroot.

        :param send: False if the caller itself sends the operation.
        """
        if prefix is None:
            prefix = self.chroot
        if not isinstance(operation, Operation):
            raise BadArgumentsError(
                None, f'only an operation can be submitted, such as GetData("/a"), not {operation!r:.100}'
            )
        body = operation._encode(prefix)  # before the op code: it names the argument that is wrong
        pending: Pending[T] = Pending(
            operation.opcode,
            body,
            operation.path,
            lambda reply: operation._decode(reply, prefix),
            refusal=operation._refusal,
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

        :param read: makes the operation. Its arguments are the path, and whether the operation arms a watch
            at the server.
        :param missing: the kind of watch that a :class:`NoNodeError` leaves behind, if any.
        """
        if runs_in_task():
            await trio.lowlevel.checkpoint_if_cancelled()
        pending = arm(
            lambda asks: self._submit(read(watch.path, asks), watch.prefix),
            *(watch, self._watches, kind, missing),
        )
        try:
            await wait_settled(pending, self._machine.withdraw)
        except BaseException:  # cancelled: remove the watch as soon as it is armed
            pending.on_settled(lambda _: watch.cancel())
            raise
        return pending.result()

    def _remove_watch(self, path: str, type: WatcherType) -> None:
        """Make the server remove a watch without users. Without a connection nothing is sent, because the
        server has already removed the watch."""
        if self.session.state is SessionState.CONNECTED and not self.closing:
            operation = RemoveWatches(path, type)
            self._runner.submit(Pending(operation.opcode, operation._encode(""), path))

    async def _delete_descendants(self, path: str) -> None:
        level = [path]
        found: list[str] = []
        while level:
            listings = [(parent, self.submit(GetChildren(parent))) for parent in level]
            level = []
            for parent, pending in listings:
                try:
                    level += [paths.join(parent, name) for name in await pending.wait()]
                except NoNodeError:
                    if parent == path:
                        raise
            found += level
        # Children before parents: the server keeps the order, so there is no need to wait in between.
        for pending_delete in [self.submit(Delete(child)) for child in reversed(found)]:
            # Other clients may create and delete here too; the delete of the path itself will tell.
            with suppress(NoNodeError, NotEmptyError):
                await pending_delete.wait()
