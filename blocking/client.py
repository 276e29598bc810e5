"""Made by ``python -m pyzk.bridge.generate`` from the client and the recipes: change those."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import random
import ssl
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, TypeVar, Unpack

from ..client import (
    ACL,
    ClientInfo,
    CreateOptions,
    GetChildren,
    GetData,
    Host,
    Observer,
    Operation,
    Policy,
    Stat,
)
from ..client.connect import connect as trio_connect
from ..client.repeating import retry as trio_retry
from ..client.runner import Connector
from ..client.session_data import Metrics
from ..client.zookeeper import Data
from ..client.zookeeper import ZooKeeper as TrioZooKeeper
from .requests import Pending, Transaction
from .session import Session
from .threads import THREADS
from .watches import Watch, WatchStream
from .wrapper import ThreadWrapper

T = TypeVar("T")


class ZooKeeper(ThreadWrapper, of=TrioZooKeeper):
    """A client; made by :func:`.connect`.

    Any number of threads can share the client. An operation is submitted when its method is first awaited,
    before any other thread runs. The server executes operations in the order in which they were submitted.

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
    :ivar cleanup: deletes, in the background, the znodes that cancelled or failed threads could not delete.
    """

    _trio: TrioZooKeeper

    @property
    def chroot(self) -> str:
        return self._trio.chroot

    @property
    def session(self) -> Session:
        return self._wrap(self._trio.session)

    @property
    def server(self) -> Host | None:
        """The server of the present connection, or of the last connection; None before the first
        connection."""
        return self._wrap(self._trio.server)

    @property
    def metrics(self) -> Metrics:
        """Counters of the sent requests."""
        return self._look_if_open(lambda: self._trio.metrics)

    @property
    def requests_in_flight(self) -> int:
        """The number of requests that were sent and not answered."""
        return self._trio.requests_in_flight

    @property
    def requests_waiting(self) -> int:
        """The number of requests that were not sent yet; most of them wait for a connection."""
        return self._trio.requests_waiting

    @property
    def watch_count(self) -> int:
        """The number of local watches that are armed."""
        return self._look_if_open(lambda: self._trio.watch_count)

    @property
    def event_count(self) -> int:
        """The number of watch events that have come from servers."""
        return self._trio.event_count

    def update_hosts(self, hosts: str) -> None:
        """Replace the list of servers.

        The client may move to another server and keeps its session, so that each server gets its share of the
        clients. The client decides by the probability rule of the Java client. The client moves when all
        requests in flight are answered, so no request is lost.

        :param hosts: ``host:port,host:port`` or ``srv+zk://name``, as for :func:`.connect`.
        :raises BadArgumentsError: a host is malformed; or there is a chroot, and it is not the chroot of this
            client.
        """
        return self._call(self._trio.update_hosts, hosts)

    def view(self, path: str) -> ZooKeeper:
        """Return a client whose paths are relative to a znode of this client. Both clients have the same
        connection and the same session. A view costs no request. A view ends with this client: do not close
        the view.

            jobs = zk.view("/app/jobs")
            jobs.get("/a")  # the znode /app/jobs/a of zk

        The znode itself need not exist; ``view.ensure_path("/")`` creates it.

        :raises BadArgumentsError: the path is malformed.
        """
        return self._wrap(self._trio.view(path))

    def add_auth(self, scheme: str, credential: bytes | str) -> None:
        """Add an identity to this connection and to every later one: ``add_auth("digest", "user:password")``.

        :raises AuthFailedError: the server refused the identity. The server closes the connection, and the
            client opens another one.
        """
        return self._request(self._trio.add_auth, scheme, credential)

    def create(
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
        return self._direct(self._trio.create, path, data, make_parents=make_parents, **options)

    def create_with_stat(
        self, path: str, data: Data = b"", *, make_parents: bool = False, **options: Unpack[CreateOptions]
    ) -> tuple[str, Stat]:
        """Create a znode as :meth:`create` does, and return its path and its Stat."""
        return self._direct(self._trio.create_with_stat, path, data, make_parents=make_parents, **options)

    def ensure_path(self, path: str, *, acl: Sequence[ACL] | None = None, container: bool = False) -> None:
        """Create a znode and its parents if they are missing. ``/`` means the chroot, which is created too.

        :param acl: the ACL of the znodes that are created; None gives everyone all permissions.
        :param container: whether the created znodes are containers.
        :raises NoNodeError: the server refuses a znode below ``/``, for example because of an injected fault.
        :raises NoChildrenForEphemeralsError: one of the parents is ephemeral.
        :raises NoAuthError: the ACL of a parent does not permit this operation.
        :raises InvalidACLError: the server does not accept the ACL.
        """
        return self._direct(self._trio.ensure_path, path, acl=acl, container=container)

    def set(self, path: str, data: Data, *, version: int = -1) -> Stat:
        """Replace the data and return the new Stat.

        :param data: the data; None for null data. A read of null data returns None, not ``b""``.
        :param version: the version that the data must have; -1 for any.
        :raises NoNodeError: there is no such znode.
        :raises BadVersionError: the data has another version.
        :raises NoAuthError: the ACL does not permit this operation.
        """
        return self._direct(self._trio.set, path, data, version=version)

    def delete(self, path: str, *, version: int = -1, recursive: bool = False) -> None:
        """Delete a znode.

        :param version: the version that the data of the znode must have; -1 for any.
        :param recursive: whether all znodes below the znode are deleted first. This is not a transaction:
            other clients see the steps.
        :raises NoNodeError: there is no such znode.
        :raises NotEmptyError: the znode has children.
        :raises BadVersionError: the data of the znode has another version.
        :raises NoAuthError: the ACL of the parent does not permit this operation.
        """
        return self._request(self._trio.delete, path, version=version, recursive=recursive)

    def set_acl(self, path: str, acl: Sequence[ACL], *, version: int = -1) -> Stat:
        """Replace the ACL and return the new Stat.

        :param version: the ``aversion`` that the ACL must have; -1 for any.
        :raises NoNodeError: there is no such znode.
        :raises BadVersionError: the ACL has another version.
        :raises InvalidACLError: the server does not accept the ACL.
        :raises NoAuthError: the present ACL does not permit this operation.
        """
        return self._direct(self._trio.set_acl, path, acl, version=version)

    def multi(self, operations: Iterable[Operation[Any]]) -> list[Any]:
        """Carry out :class:`Create`, :class:`Delete`, :class:`SetData` and :class:`Check` as one transaction,
        under one zxid. The server executes all of them or none.

        :returns: the results in order: a path, None, a Stat, None.
        :raises ZooKeeperError: the error of the operation that failed; ``index`` is its position.
        """
        return self._direct(self._trio.multi, operations)

    def transaction(self) -> Transaction:
        """Collect operations for :meth:`multi` by method calls."""
        return self._wrap(self._trio.transaction())

    def reconfig(
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
        return self._direct(self._trio.reconfig, joining, leaving, new_members, from_config=from_config)

    def get(self, path: str) -> tuple[Data, Stat]:
        """Read the data and the Stat. Data that is null on the server is None, and empty data is ``b""``.

        :raises NoNodeError: there is no such znode.
        :raises NoAuthError: the ACL does not permit this operation.
        """
        return self._direct(self._trio.get, path)

    def get_and_watch(self, path: str) -> tuple[Data, Stat, Watch]:
        """Read as :meth:`get` does, and arm a watch that fires when the data changes or the znode is deleted.
        If the call raises an error, no watch is armed."""
        return self._request(self._trio.get_and_watch, path)

    def exists(self, path: str) -> Stat | None:
        """Read the Stat; None if there is no such znode."""
        return self._direct(self._trio.exists, path)

    def exists_and_watch(self, path: str) -> tuple[Stat | None, Watch]:
        """Read as :meth:`exists` does, and arm a watch. If the znode does not exist, the watch fires when it
        is created. Otherwise the watch fires when the data changes or the znode is deleted."""
        return self._request(self._trio.exists_and_watch, path)

    def get_children(self, path: str) -> list[str]:
        """Read the names of the children, in no particular order.

        :raises NoNodeError: there is no such znode.
        :raises NoAuthError: the ACL does not permit this operation.
        """
        return self._direct(self._trio.get_children, path)

    def get_children_and_stat(self, path: str) -> tuple[list[str], Stat]:
        """Read the names of the children as :meth:`get_children` does, and the Stat of the parent."""
        return self._direct(self._trio.get_children_and_stat, path)

    def get_children_and_watch(self, path: str) -> tuple[list[str], Watch]:
        """Read as :meth:`get_children` does, and arm a watch that fires when a child is created or deleted,
        or the parent is deleted. If the call raises an error, no watch is armed."""
        return self._request(self._trio.get_children_and_watch, path)

    def get_children_stat_and_watch(self, path: str) -> tuple[list[str], Stat, Watch]:
        """Read and watch as :meth:`get_children_and_watch` does, and read the Stat of the parent."""
        return self._request(self._trio.get_children_stat_and_watch, path)

    def get_acl(self, path: str) -> tuple[list[ACL], Stat]:
        """Read the ACL and the Stat.

        :raises NoNodeError: there is no such znode.
        :raises NoAuthError: the ACL allows neither reading nor administration.
        """
        return self._direct(self._trio.get_acl, path)

    def get_ephemerals(self, prefix: str = "/") -> list[str]:
        """Read the paths of this session's ephemeral znodes that begin with a string. Server 3.6 or later."""
        return self._direct(self._trio.get_ephemerals, prefix)

    def get_all_children_number(self, path: str) -> int:
        """Read the number of znodes below a path, at all depths. Server 3.6 or later.

        :raises NoNodeError: there is no such znode.
        :raises NoAuthError: the ACL does not permit this operation.
        """
        return self._direct(self._trio.get_all_children_number, path)

    def multi_read(self, operations: Iterable[GetData | GetChildren]) -> list[Any]:
        """Carry out several :class:`GetData` and :class:`GetChildren` in one round trip. Server 3.6 or later.

        :returns: for each operation, in order, its result, or the error that it would raise alone.
        """
        return self._direct(self._trio.multi_read, operations)

    def sync(self, path: str = "/") -> None:
        """Wait until the connected server has applied everything that the ensemble had committed when the
        call was made. A read that is submitted after the ``sync`` shows at least that state, even if the
        caller does not wait for the ``sync``."""
        return self._direct(self._trio.sync, path)

    def who_am_i(self) -> list[ClientInfo]:
        """Read the identities that the server has for this connection. Server 3.7 or later."""
        return self._direct(self._trio.who_am_i)

    def get_config(self) -> tuple[Data, Stat]:
        """Read the configuration of the ensemble and its Stat.

        :raises NoAuthError: the ACL does not permit this operation.
        """
        return self._direct(self._trio.get_config)

    def get_config_and_watch(self) -> tuple[Data, Stat, Watch]:
        """Read as :meth:`get_config` does, and arm a watch that fires when the configuration changes."""
        return self._request(self._trio.get_config_and_watch)

    def watch(
        self, path: str, *, recursive: bool = False, buffer: int = 1024
    ) -> AbstractContextManager[WatchStream]:
        """Watch a path for as long as the block lasts. Server 3.6 or later.

            with zk.watch("/app", recursive=True) as events:
                for event in events:
                    match event:
                        case Missed(): ...                               # read again what you follow
                        case WatchEvent(type=EventType.CREATED, path=path): ...

        The watch is armed when the block begins: read inside it.

        :param recursive: report all znodes below the path too. CHILD events come only without it.
        :param buffer: the number of unread events that are kept. If more come, one Missed replaces all of
            them.
        """
        return self._block(self._trio.watch(path, recursive=recursive, buffer=buffer))

    @property
    def closing(self) -> bool:
        """True if no more operations can be submitted."""
        return self._trio.closing

    def submit(self, operation: Operation[T]) -> Pending[T]:
        """Send an operation without waiting for its result, so that a single thread can pipeline operations.

        Cancelling a wait on the :class:`Pending` does not cancel the operation.
        """
        return self._look(self._trio.submit, operation)


def connect(
    hosts: str,
    *,
    session_timeout: float = 10.0,
    connect_timeout: float = 15.0,
    close_grace: float = 1.0,
    auth: Iterable[tuple[str, bytes | str]] = (),
    sasl: tuple[str, str] | None = None,
    on_expired: Literal["cancel", "new_session"] = "cancel",
    resume: tuple[int, bytes] | None = None,
    ssl_context: ssl.SSLContext | None = None,
    connector: Connector | None = None,
    request_limit: int = 1048575,
    reply_limit: int = 67108864,
    follow_config: bool = False,
    read_only: bool = False,
    observer: Observer | None = None,
    rng: random.Random | None = None,
) -> AbstractContextManager[ZooKeeper]:
    """Open a client with a session, until the end of the block.

        with connect("10.0.0.1:2181,10.0.0.2:2181/app", session_timeout=10) as zk:
            ...

    The block begins when there is a session, and nothing of the client runs after the block. The end of the
    block closes the session, and the server deletes the session's ephemeral znodes. Exceptions of the block
    are raised unchanged, not in a group.

    When the server says that the session has expired, the session's ephemeral znodes are already deleted.
    Then the block is cancelled, and ``connect`` raises :class:`SessionExpiredError`. With
    ``on_expired="new_session"`` the block continues: all pending calls raise SessionExpiredError,
    ``session.generation`` increases by 1, and later calls use a new session.

    :param hosts: ``host:port,host:port/chroot``, tried in random order. Host names are looked up again for
        each round of attempts. Each address of a name counts as one server.
        ``srv+zk://_zookeeper._tcp.example.com/chroot`` means the servers in the SRV records of that name;
        ``dns-srv://``, the prefix of the Java client, means the same. The SRV records are looked up again for
        each round too. The look-up needs the package dnspython.
    :param session_timeout: seconds without contact after which the server may end the session. The server can
        choose another timeout: see ``session.negotiated_timeout``.
    :param connect_timeout: seconds to wait for the first session; ``math.inf`` waits for ever.
    :param close_grace: the seconds that the end of the block can take to finish the cleanup's jobs and to
        close the session.
    :param auth: pairs of scheme and credential, as for :meth:`.ZooKeeper.add_auth`.
    :param sasl: the name and the password of a user. The client logs in by SASL DIGEST-MD5 on each
        connection, before it sends anything else.
    :param resume: the id and the password of a session to take over. Pass the ``session_timeout`` with which
        the session was created, because a new leader of the servers uses that timeout (docs/lease.md).
    :param ssl_context: use TLS. The TLS context decides how the host name is checked.
    :param connector: opens the stream to a host name and a port of ``hosts``. Tests and tunnels use this
        parameter. The client then looks up no names, so ``hosts`` cannot be a name of SRV records.
    :param request_limit: the largest request in bytes, the ``jute.maxbuffer`` of the servers.
    :param reply_limit: the largest reply in bytes.
    :param follow_config: whether the client replaces its list of servers by the servers of the ensemble's
        configuration, as :meth:`.ZooKeeper.update_hosts` does. The client does this at the beginning and
        after each change of the configuration.
    :param read_only: whether the client also connects to a read-only server as long as no other server
        answers. A read-only server answers reads, and writes raise :class:`NotReadOnlyError`. Meanwhile the
        client looks for a full server. The block can begin with a read-only server.
    :param observer: the object that receives state changes, failed attempts and requests, for metrics.
    :param rng: the random numbers for the order of the servers and the pauses between attempts.
    :raises ConnectionLossError: there is no session within ``connect_timeout``.
    :raises AuthFailedError: the first server refuses an identity; or, after a lost connection, a server
        refuses an identity and no other server accepts it.
    :raises SessionExpiredError: the session has expired, with ``on_expired="cancel"``.
    :raises ValueError: a parameter has a wrong type or value.
    """
    return THREADS.block(
        None,
        trio_connect(
            hosts,
            session_timeout=session_timeout,
            connect_timeout=connect_timeout,
            close_grace=close_grace,
            auth=auth,
            sasl=sasl,
            on_expired=on_expired,
            resume=resume,
            ssl_context=ssl_context,
            connector=connector,
            request_limit=request_limit,
            reply_limit=reply_limit,
            follow_config=follow_config,
            read_only=read_only,
            observer=observer,
            rng=rng,
        ),
    )


def retry(zk: ZooKeeper, call: Callable[[ZooKeeper], T], *, policy: Policy | None = None) -> T:
    """Make a call of one or several steps, and make it again from its beginning as the policy says::

        async def increase(zk):
            data, stat = zk.get("/counter")
            zk.set("/counter", str(int(data) + 1).encode(), version=stat.version)

        retry(zk, increase, policy=Backoff(tries=5, max_elapsed=30, retry_on=(BadVersionError,)))

    :param call: a function whose argument is a client. The function must use this client, which records the
        writes of the attempt.
    :param policy: None for :class:`Backoff` with its defaults. In the example, a lost reply to ``set`` would
        then be raised, because the counter may have been increased.
    :raises Exception: the error of the last attempt, with a note about the attempts and the outcome.
    """
    return THREADS.ask_back(trio_retry, zk, call, policy=policy)
