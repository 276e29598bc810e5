"""A ZooKeeper client and recipes for threads::

from pyzk.blocking import connect, Lock

with connect("10.0.0.1:2181,10.0.0.2:2181/app") as zk:
    with Lock(zk, "/locks/printer") as grant:
        ...
"""

# Made by python -m pyzk.bridge.stubs: change the classes of the client and of the recipes instead.

import random
import ssl
import threading
from collections.abc import (
    Callable as Callable,
    Iterable as Iterable,
    Mapping as Mapping,
    Sequence as Sequence,
)
from contextlib import AbstractContextManager as AbstractContextManager
from datetime import datetime as datetime
from pyzk.blocking.threads import timeout as timeout
from pyzk.bridge.agent import Interrupted as Interrupted
from pyzk.client import (
    ACL as ACL,
    APIError as APIError,
    AddWatch as AddWatch,
    AddWatchMode as AddWatchMode,
    AuthFailedError as AuthFailedError,
    Backoff as Backoff,
    BadArgumentsError as BadArgumentsError,
    BadVersionError as BadVersionError,
    CREATOR_ALL_ACL as CREATOR_ALL_ACL,
    Check as Check,
    ClientInfo as ClientInfo,
    ClosingError as ClosingError,
    ConnectionLossError as ConnectionLossError,
    Create as Create,
    CreateMode as CreateMode,
    CreateOptions as CreateOptions,
    DataInconsistencyError as DataInconsistencyError,
    Delete as Delete,
    EphemeralOnLocalSessionError as EphemeralOnLocalSessionError,
    Event as Event,
    EventType as EventType,
    Exists as Exists,
    Failure as Failure,
    GetACL as GetACL,
    GetAllChildrenNumber as GetAllChildrenNumber,
    GetChildren as GetChildren,
    GetChildrenAndStat as GetChildrenAndStat,
    GetData as GetData,
    GetEphemerals as GetEphemerals,
    Host as Host,
    Id as Id,
    InvalidACLError as InvalidACLError,
    InvalidCallbackError as InvalidCallbackError,
    MarshallingError as MarshallingError,
    Missed as Missed,
    MissedReason as MissedReason,
    Multi as Multi,
    MultiRead as MultiRead,
    NewConfigNoQuorumError as NewConfigNoQuorumError,
    NoAuthError as NoAuthError,
    NoChildrenForEphemeralsError as NoChildrenForEphemeralsError,
    NoNodeError as NoNodeError,
    NoWatcherError as NoWatcherError,
    NodeExistsError as NodeExistsError,
    NotEmptyError as NotEmptyError,
    NotReadOnlyError as NotReadOnlyError,
    OPEN_ACL as OPEN_ACL,
    Observer as Observer,
    Operation as Operation,
    OperationTimeoutError as OperationTimeoutError,
    Outcome as Outcome,
    Perms as Perms,
    Policy as Policy,
    QuotaExceededError as QuotaExceededError,
    READ_ACL as READ_ACL,
    Reconfig as Reconfig,
    ReconfigDisabledError as ReconfigDisabledError,
    ReconfigInProgressError as ReconfigInProgressError,
    RemoveWatches as RemoveWatches,
    RequestTimeoutError as RequestTimeoutError,
    RuntimeInconsistencyError as RuntimeInconsistencyError,
    SessionClosedRequireAuthError as SessionClosedRequireAuthError,
    SessionExpiredError as SessionExpiredError,
    SessionMovedError as SessionMovedError,
    SessionState as SessionState,
    SetACL as SetACL,
    SetData as SetData,
    Stat as Stat,
    StateChange as StateChange,
    Sync as Sync,
    SystemZooKeeperError as SystemZooKeeperError,
    ThrottledOpError as ThrottledOpError,
    UNANSWERED as UNANSWERED,
    UnimplementedError as UnimplementedError,
    UnknownCodeError as UnknownCodeError,
    UnknownSessionError as UnknownSessionError,
    WatchEvent as WatchEvent,
    WatcherType as WatcherType,
    WhoAmI as WhoAmI,
    ZooKeeperError as ZooKeeperError,
    make_digest_acl as make_digest_acl,
    maybe_applied as maybe_applied,
    paths as paths,
)
from pyzk.client.runner import Connector as Connector
from pyzk.client.session_data import Metrics as Metrics
from pyzk.client.zookeeper import Data as Data
from pyzk.recipes import (
    ASCII_FLOAT as ASCII_FLOAT,
    ASCII_INT as ASCII_INT,
    AmbiguousResult as AmbiguousResult,
    BarrierBroken as BarrierBroken,
    CacheEvent as CacheEvent,
    CacheEventType as CacheEventType,
    CachedNode as CachedNode,
    Change as Change,
    ClientClosed as ClientClosed,
    Codec as Codec,
    Contender as Contender,
    ContenderKind as ContenderKind,
    Deadlock as Deadlock,
    ForeignLayout as ForeignLayout,
    INT32 as INT32,
    INT64 as INT64,
    InconsistentLimit as InconsistentLimit,
    Item as Item,
    LeaseHolder as LeaseHolder,
    LockLayout as LockLayout,
    LockLost as LockLost,
    LockRevoked as LockRevoked,
    LockStatistics as LockStatistics,
    LossReason as LossReason,
    MalformedValue as MalformedValue,
    Member as Member,
    PARENT as PARENT,
    PREDECESSOR as PREDECESSOR,
    Parents as Parents,
    QueueEmpty as QueueEmpty,
    QueueFull as QueueFull,
    RAW as RAW,
    Rebalance as Rebalance,
    RecipeError as RecipeError,
    SequenceExhausted as SequenceExhausted,
    Strategy as Strategy,
    TimeLeaseHolder as TimeLeaseHolder,
    UndecidedItem as UndecidedItem,
    Versioned as Versioned,
    WouldBlock as WouldBlock,
    polling as polling,
)
from pyzk.recipes.base.hold import Suspended as Suspended
from pyzk.recipes.caches.cache import Selector as Selector
from pyzk.recipes.counter import CounterOptions as CounterOptions
from pyzk.recipes.election import ElectionLayout as ElectionLayout
from pyzk.recipes.locks.grant import OnRevokeWord as OnRevokeWord
from pyzk.recipes.locks.options import HoldingOptions as HoldingOptions
from pyzk.recipes.locks.role import Purpose as Purpose
from pyzk.recipes.locks.semaphore_layouts import SemaphoreLayout as SemaphoreLayout
from pyzk.recipes.membership.party import PartyLayout as PartyLayout
from pyzk.recipes.membership.persistent_node import Conflict as Conflict
from pyzk.recipes.queues.base import QueueOptions as QueueOptions
from pyzk.recipes.queues.claim_queue import ClaimLayout as ClaimLayout
from pyzk.recipes.queues.priority_queue import PriorityLayout as PriorityLayout
from pyzk.recipes.queues.queue import QueueLayout as QueueLayout
from pyzk.recipes.shared_value import ValueOptions as ValueOptions
from types import TracebackType as TracebackType
from typing import (
    Any as Any,
    Generic as Generic,
    Literal as Literal,
    NoReturn as NoReturn,
    Self as Self,
    TypeVar as TypeVar,
    Unpack as Unpack,
    overload as overload,
)

T = TypeVar("T")
G = TypeVar("G")
N = TypeVar("N", int, float)

class ZooKeeper:
    """A client; made by :func:`.connect`."""

    chroot: str
    session: Session
    @property
    def server(self) -> Host | None:
        """The server of the present connection, or of the last one; None before there was any."""
    @property
    def metrics(self) -> Metrics:
        """Counters of what was sent."""
    @property
    def requests_in_flight(self) -> int:
        """The number of requests that were sent and not answered."""
    @property
    def requests_waiting(self) -> int:
        """The number of requests that were not sent yet; most of them wait for a connection."""
    @property
    def watch_count(self) -> int:
        """The number of local watches that are armed."""
    @property
    def event_count(self) -> int:
        """The number of watch events that have come from servers."""
    def update_hosts(self, hosts: str) -> None:
        """Replace the list of servers. So that each server gets its share of the clients, this client may move to another one, by the probability rule of the Java client; the session goes on there. The client moves when all requests in flight are answered; nothing is lost with the connection."""
    def view(self, path: str) -> ZooKeeper:
        """Return a client whose paths lie below a znode of this one. Both have the same connection and the same session: a view costs nothing, needs no closing, and ends with the client."""
    def add_auth(self, scheme: str, credential: bytes | str) -> None:
        """Add an identity to this connection and to every later one: ``add_auth("digest", "user:password")``."""
    def create(
        self, path: str, data: Data = b"", *, make_parents: bool = False, **options: Unpack[CreateOptions]
    ) -> str:
        """Create a znode and return its path. The path of a sequential znode ends in the server's number."""
    def create_with_stat(
        self, path: str, data: Data = b"", *, make_parents: bool = False, **options: Unpack[CreateOptions]
    ) -> tuple[str, Stat]:
        """Create a znode as :meth:`create` does, and return its path and its Stat."""
    def ensure_path(self, path: str, *, acl: Sequence[ACL] | None = None, container: bool = False) -> None:
        """Create a znode and its parents, as far as they are missing. ``/`` stands for the chroot, which is created as well."""
    def set(self, path: str, data: Data, *, version: int = ...) -> Stat:
        """Replace the data and return the new Stat."""
    def delete(self, path: str, *, version: int = ..., recursive: bool = False) -> None:
        """Delete a znode."""
    def set_acl(self, path: str, acl: Sequence[ACL], *, version: int = ...) -> Stat:
        """Replace the ACL and return the new Stat."""
    def multi(self, operations: Iterable[Operation[Any]]) -> list[Any]:
        """Carry out :class:`Create`, :class:`Delete`, :class:`SetData` and :class:`Check` as one transaction: all or nothing, under one zxid."""
    def transaction(self) -> Transaction:
        """Collect operations for :meth:`multi` by method calls."""
    def reconfig(
        self,
        joining: str | None = None,
        leaving: str | None = None,
        new_members: str | None = None,
        *,
        from_config: int = ...,
    ) -> tuple[Data, Stat]:
        """Change the members of the ensemble and return its new configuration with its Stat."""
    def get(self, path: str) -> tuple[Data, Stat]:
        """Read the data and the Stat. Data that is null on the server is None, and empty data is ``b""``."""
    def get_and_watch(self, path: str) -> tuple[Data, Stat, Watch]:
        """Read as :meth:`get` does, and arm a watch that fires when the data changes or the znode is deleted. If this raises, no watch is armed."""
    def exists(self, path: str) -> Stat | None:
        """Read the Stat; None if there is no such znode."""
    def exists_and_watch(self, path: str) -> tuple[Stat | None, Watch]:
        """Read as :meth:`exists` does, and arm a watch. If there is no such znode, it fires when the znode is created, else when the data changes or the znode is deleted."""
    def get_children(self, path: str) -> list[str]:
        """Read the names of the children, which come in no particular order."""
    def get_children_and_stat(self, path: str) -> tuple[list[str], Stat]:
        """Read as :meth:`get_children` does, and the Stat of the parent."""
    def get_children_and_watch(self, path: str) -> tuple[list[str], Watch]:
        """Read as :meth:`get_children` does, and arm a watch that fires when a child is created or deleted, or the parent is deleted. If this raises, no watch is armed."""
    def get_children_stat_and_watch(self, path: str) -> tuple[list[str], Stat, Watch]:
        """Read and watch as :meth:`get_children_and_watch` does, and read the Stat of the parent."""
    def get_acl(self, path: str) -> tuple[list[ACL], Stat]:
        """Read the ACL and the Stat."""
    def get_ephemerals(self, prefix: str = "/") -> list[str]:
        """Read the paths of this session's ephemeral znodes that begin with a string. Server 3.6 or later."""
    def get_all_children_number(self, path: str) -> int:
        """Read the number of znodes below a path, at all depths. Server 3.6 or later."""
    def multi_read(self, operations: Iterable[GetData | GetChildren]) -> list[Any]:
        """Carry out several :class:`GetData` and :class:`GetChildren` in one round trip. Server 3.6 or later."""
    def sync(self, path: str = "/") -> None:
        """Wait until the connected server has everything that the ensemble had committed when this was asked. A read submitted after it, even without waiting, sees at least that state."""
    def who_am_i(self) -> list[ClientInfo]:
        """Read the identities of this connection, as the server knows them. Server 3.7 or later."""
    def get_config(self) -> tuple[Data, Stat]:
        """Read the configuration of the ensemble and its Stat, whose version is what :meth:`reconfig` takes."""
    def get_config_and_watch(self) -> tuple[Data, Stat, Watch]:
        """Read as :meth:`get_config` does, and arm a watch that fires when the configuration changes."""
    def watch(
        self, path: str, *, recursive: bool = False, buffer: int = 1024
    ) -> AbstractContextManager[WatchStream]:
        """Watch a path for as long as the block lasts. Server 3.6 or later."""
    @property
    def closing(self) -> bool:
        """True if nothing can be submitted any more."""
    def submit(self, operation: Operation[T]) -> Pending[T]:
        """Send an operation without waiting for its result: the way to pipeline from a single thread."""

class Session:
    """The state of the session, for users. Times are those of ``time.monotonic()``, in seconds."""

    expired: threading.Event
    @property
    def id(self) -> int:
        """The session id; 0 until there is a session."""
    @property
    def password(self) -> bytes:
        """The password of the session: with the id, what it takes to resume it."""
    @property
    def generation(self) -> int:
        """1 for the first session, one more for each that replaced an expired one."""
    @property
    def state(self) -> SessionState:
        """The state of the session, as far as the client knows."""
    @property
    def negotiated_timeout(self) -> float:
        """The session timeout in seconds; before there is a session, the one that was asked for."""
    @property
    def last_zxid(self) -> int:
        """The highest zxid seen in a reply."""
    def lease_deadline(self) -> float:
        """Return the time before which the session cannot have ended; minus infinity without a session."""
    @property
    def changed(self) -> threading.Event:
        """Set at the next change of state. Take it before you look at the state, and no change is missed."""
    def wait_change(self) -> SessionState:
        """Wait for the next change of state and return the state as it is then. Two quick changes may look like one: :meth:`changes` keeps them apart."""
    def wait_connected(self) -> None:
        """Wait until requests are being served; all of them, not only reads by a read-only server."""
    def wait_served(self) -> None:
        """Wait until at least reads are being served, if only by a read-only server."""
    def changes(self) -> StateChanges:
        """Follow all changes of the state from now on"""

class StateChanges:
    """The changes of a session's state, as an iterator. No two changes are merged into one."""
    def __iter__(self) -> Self: ...
    def __next__(self) -> StateChange:
        """Wait for the next change."""

class Watch:
    """A one-shot watch, armed by a read. It fires once, at the first change after the state that was read."""

    path: str
    event: Event | None
    cancelled: bool
    def wait(self) -> Event:
        """Wait until it fires, with a :class:`WatchEvent`, or with :class:`Missed` if the session expired."""
    def cancel(self) -> None:
        """Remove the watch: from the server, too, if it was the last on this path."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None: ...

class WatchStream:
    """The events of a persistent watch, as an iterator."""

    path: str
    def __iter__(self) -> Self: ...
    def __next__(self) -> Event:
        """Wait for the next event."""

class Request(Generic[T]):
    """A request and its outcome, which is set once: a result or an error."""

    path: str | None
    sent: bool
    settled: bool
    error: Exception | None
    def result(self) -> T:
        """Return the result."""

class Pending(Request[T]):
    """An operation that was submitted."""
    def wait(self) -> T:
        """Wait for the result. Cancelling stops the wait, not the operation: any thread may wait again."""

class Transaction:
    """Operations of which the server carries out all or none."""

    operations: list[Operation[Any]]
    results: list[Any]
    def create(self, path: str, data: bytes | None = b"", **options: Unpack[CreateOptions]) -> None:
        """Create a znode. The result is its path."""
    def delete(self, path: str, *, version: int = ...) -> None:
        """Delete a znode whose data has this version (-1: any). The result is None."""
    def set(self, path: str, data: bytes | None, *, version: int = ...) -> None:
        """Replace data that has this version (-1: any). The result is the Stat."""
    def check(self, path: str, *, version: int = ...) -> None:
        """Demand that the znode exists and that its data has this version (-1: any). The result is None."""
    def commit(self) -> list[Any]:
        """Carry out the operations and return their results in order."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None: ...

class Acquirable(Generic[G]):
    """The base of everything that ``with`` acquires: each block anew, for any number of threads."""
    def acquire(self, *, wait: bool = True) -> G:
        """Acquire without a block: run what relies on the grant in ``with grant.scope()``, and call ``grant.release()`` at the end."""
    def __enter__(self) -> G: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> bool | None: ...
    def nowait(self) -> AbstractContextManager[G]:
        """Acquire without waiting: ``with lock.nowait() as grant``."""

class Running:
    """The base of a recipe that runs for as long as its block lasts. There is one block at a time; in it, any number of threads may use the object."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> bool | None: ...

class Grant:
    """A lock that is held; leadership and leases are such locks too."""

    token: int
    paths: tuple[str, ...]
    sequence: int
    requeues: int
    waited: float
    shared: bool
    revoked: threading.Event
    @property
    def path(self) -> str: ...
    @property
    def session_id(self) -> int: ...
    @property
    def generation(self) -> int:
        """The generation of the session that holds the lock."""
    @property
    def lost(self) -> threading.Event:
        """Set when the lock may belong to another."""
    @property
    def reason(self) -> LossReason | None:
        """Why the lock is lost; None if it is not lost."""
    @property
    def released(self) -> bool: ...
    @property
    def zk(self) -> ZooKeeper: ...
    def deadline(self) -> float:
        """Return the time, by ``time.monotonic()``, until which the lock is held for certain: see :meth:`.Hold.deadline`."""
    def fence(self) -> Check:
        """Return an operation that fails unless the lock is still held. Put it first into a transaction: then the holder carries out the whole transaction, or nothing happens."""
    def fences(self) -> list[Check]:
        """Return one operation for each znode of the lock. Together they fail unless the lock is still held."""
    def check(self) -> None:
        """Check, by the clock and by what the client knows, that the lock is still held. Asks nobody."""
    def on_lost(self, function: Callable[[], object]) -> None:
        """Call ``function()`` when the lock is lost; at once if it is. A release is no loss. It must not raise."""
    def verify(self) -> None:
        """Ask the server whether the lock is still held."""
    def scope(self) -> AbstractContextManager[None]:
        """Open a block that relies on the lock, for :meth:`.Acquirable.acquire`. The block is cancelled when the lock may have been lost."""
    def release(self) -> None:
        """Give up the lock. A lost connection is no error: the client deletes the znodes later. A lock that was entered several times is given up with the last release."""

class Grants(Sequence[Grant]):
    """Several grants that belong together."""

    acquired: tuple[Grant, ...]
    def scope(self) -> AbstractContextManager[None]:
        """Open a block that relies on all grants: see :meth:`.Grant.scope`."""
    def release(self) -> None:
        """Give up all grants, even if giving up some of them fails: see :meth:`.Grant.release`."""
    @overload
    def __getitem__(self, at: int) -> Grant: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Grant]: ...
    def __len__(self) -> int: ...

class WriteGrant(Grant):
    """The grant of a writer."""

    data: bytes
    acl: Sequence[ACL]
    def downgrade(self) -> AbstractContextManager[Grant]:
        """Go on as a reader: other readers are let in, and no writer comes in between."""

class Lock(Acquirable[Grant]):
    """An exclusive lock on a path."""

    zk: ZooKeeper
    path: str
    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        *,
        data: bytes = b"",
        layout: LockLayout = "curator",
        reentrant: bool = False,
        local_queue: bool = False,
        max_handoffs: int = 0,
        monitor: bool = True,
        on_revoke: OnRevoke = "ignore",
        recognise: frozenset[ContenderKind] = ...,
        strategy: Strategy = ...,
        purpose: Purpose = ...,
        grant_type: Callable[..., Grant] = ...,
        **options: Unpack[HoldingOptions],
    ) -> None: ...
    def acquire(self, *, wait: bool = True) -> Grant:
        """Acquire the lock without a block: run what relies on it in ``with grant.scope()``, and call ``grant.release()`` at the end."""
    def contenders(self) -> list[Contender]:
        """List the holder and those that wait, in order. The first one holds the lock (of several readers, the first of them)."""
    def is_locked(self) -> bool:
        """Return whether any contender, ours or another library's, holds the lock."""
    def statistics(self) -> LockStatistics:
        """Return a copy of the figures of this object."""

class WriteLock(Lock):
    """The writing side."""
    def __enter__(self) -> WriteGrant: ...

class LockRegistry:
    """One lock for each key, below one path: ``with registry["user/7"]``."""

    zk: ZooKeeper
    def __init__(self, zk: ZooKeeper, root: str, **options: Unpack[LockOptions]) -> None: ...
    def __getitem__(self, key: str) -> Lock: ...

class RWLock:
    """A read/write lock on a path: first come, first served, readers side by side."""

    zk: ZooKeeper
    path: str
    def __init__(self, zk: ZooKeeper, path: str, **options: Unpack[RWLockOptions]) -> None: ...
    def read(self) -> Lock:
        """Return the reading side: a lock like any other, but several readers hold it at a time."""
    def write(self) -> WriteLock:
        """Return the writing side, whose grants are :class:`WriteGrant`."""

class MultiLock(Acquirable[Grants]):
    """Several locks; a block holds all of them."""

    locks: tuple[AnyLock, ...]
    def __init__(self, locks: Iterable[AnyLock]) -> None: ...
    def acquire(self, *, wait: bool = True) -> Grants:
        """Acquire all members, or none: if one fails, the others are given up."""

class Semaphore(Acquirable[Grant]):
    """A limited number of leases, each of which has at most one holder."""

    zk: ZooKeeper
    path: str
    limit: int
    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        limit: int,
        *,
        layout: SemaphoreLayout = "curator",
        limit_source: SharedValue[int] | None = None,
        data: bytes = b"",
        **options: Unpack[HoldingOptions],
    ) -> None: ...
    def acquire(self, *, wait: bool = True) -> Grant:
        """Acquire a lease without a block: run what relies on it in ``with lease.scope()``, and call ``lease.release()`` at the end."""
    def acquire_many(self, count: int, *, wait: bool = True) -> AbstractContextManager[Grants]:
        """Acquire several leases, all or none: ``with semaphore.acquire_many(3) as leases``. Each lease may be released by itself before the block ends. It raises the errors of :meth:`acquire`."""
    def holders(self) -> list[LeaseHolder]:
        """List the holders of leases, the oldest lease first, whatever library created them; with ``layout="kazoo"`` also the other children, which count as leases."""

class SingleNodeLock(Acquirable[Grant]):
    """An exclusive lock that is one ephemeral znode."""

    zk: ZooKeeper
    path: str
    def __init__(
        self, zk: ZooKeeper, path: str, *, data: bytes = b"", **options: Unpack[HoldingOptions]
    ) -> None: ...
    def acquire(self, *, wait: bool = True) -> Grant:
        """Acquire the lock without a block: run what relies on it in ``with grant.scope()``, and call ``grant.release()`` at the end."""

class TimeLease:
    """A right that its holder has until a given time, whether the holder is alive or not."""

    path: str
    holder: str
    zk: ZooKeeper
    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        duration: float,
        holder: str,
        *,
        parents: Parents = "container",
        acl: Sequence[ACL] | None = None,
        now: Callable[[], datetime] = ...,
    ) -> None: ...
    def obtain(self) -> bool:
        """Obtain or renew the lease. Returns False if another holder has it, or if a later version of the layout has written it. Waits only while others read or write it."""
    def release(self) -> None:
        """Give the lease back before its end, if we have it. It raises the errors of :meth:`obtain`."""
    def last_holder(self) -> TimeLeaseHolder | None:
        """Return the last holder, even if the lease is over. Returns None if there is none, or if a later version of the layout has written it."""

class MultiTimeLease:
    """Several time leases, of which a holder wants any one: ``<path>/0`` to ``<path>/<count - 1>``. The layout is that of kazoo's MultiNonBlockingLease."""

    leases: tuple[TimeLease, ...]
    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        count: int,
        duration: float,
        holder: str,
        *,
        parents: Parents = "container",
        acl: Sequence[ACL] | None = None,
        now: Callable[[], datetime] = ...,
    ) -> None: ...
    def obtain(self) -> TimeLease | None:
        """Obtain or renew the first lease that no other holder has. Returns None if others have all of them. It raises the errors of :meth:`TimeLease.obtain`."""

class Term(Grant):
    """Leadership, for as long as it lasts."""

    number: int

class LeaderElection:
    """One leader at a time among any number of candidates, first come, first served."""

    zk: ZooKeeper
    path: str
    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        *,
        id: str = "",
        layout: ElectionLayout = "curator-latch",
        **options: Unpack[ElectionOptions],
    ) -> None: ...
    def lead(self) -> AbstractContextManager[Term]:
        """Wait to be elected; the block leads, and leaving it resigns. Any number of threads may be candidates at a time. It raises the errors of :meth:`.Lock.acquire`."""
    def run(self, lead: Callable[[Term], object]) -> NoReturn:
        """Be a candidate again and again, for ever, and call ``lead(term)`` after each election. Returning from it resigns; being deposed cancels it. Then we are a candidate again, at the end of the queue. It raises the errors of :meth:`lead` and ``lead(term)``, but none when we were deposed."""
    def contenders(self) -> list[Contender]:
        """List the candidates in order. The first one leads, or soon will."""
    def leader(self) -> Contender | None:
        """Return the first candidate. Costs the same whatever the number of candidates."""
    def observe(self) -> Latest[Contender | None]:
        """Follow who leads, without being a candidate."""

class LeaderLatch(Running):
    """A candidate for as long as the block lasts; the block does its own work meanwhile."""

    zk: ZooKeeper
    path: str
    election: LeaderElection
    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        *,
        id: str = "",
        layout: ElectionLayout = "curator-latch",
        **options: Unpack[ElectionOptions],
    ) -> None: ...
    @property
    def is_leader(self) -> bool:
        """True if this candidate leads at this moment, by the clock. Code that relies on leading belongs into :meth:`term`."""
    def wait_leader(self) -> Term:
        """Wait until it leads. The event ``lost`` of the term is set when it leads no longer."""
    def term(self) -> AbstractContextManager[Term]:
        """Wait until it leads; the block relies on leading. Leaving this block does not resign. Any number of threads may be in such a block at a time."""

class Partitioner(Running):
    """Divides items among the members of a group. Each item belongs to one member. We are a member for as long as the block lasts."""

    zk: ZooKeeper
    path: str
    id: str
    settle: float
    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        items: Iterable[str],
        id: str,
        *,
        settle: float = 30.0,
        parents: Parents = "container",
        suspended: Suspended = "deadline",
        margin: float | None = None,
        acl: Sequence[ACL] | None = None,
    ) -> None: ...
    def members(self) -> list[Member]:
        """List the present members."""
    def share(self) -> AbstractContextManager[dict[str, Grant]]:
        """Wait for our share of the items; in the block no other member has them. The share may be empty."""

class Barrier:
    """A barrier at a path: it stands while the znode exists."""

    zk: ZooKeeper
    path: str
    def __init__(
        self, zk: ZooKeeper, path: str, *, parents: Parents = "container", acl: Sequence[ACL] | None = None
    ) -> None: ...
    def create(self) -> None:
        """Create the barrier. If it exists already, nothing happens."""
    def remove(self) -> bool:
        """Remove the barrier. Returns whether it existed; after a lost reply, whether it may have existed."""
    def wait(self) -> None:
        """Wait until the barrier does not exist. Goes on after the connection or the session was lost."""

class DoubleBarrier:
    """Members begin their work together and end it together."""

    zk: ZooKeeper
    path: str
    parties: int
    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        parties: int,
        *,
        data: bytes = b"",
        parents: Parents = "container",
        acl: Sequence[ACL] | None = None,
    ) -> None: ...
    def __enter__(self) -> str: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> bool | None: ...

class Counter(Generic[N]):
    """A number at a path, which any client may add to."""

    zk: ZooKeeper
    path: str
    @overload
    def __init__(
        self: Counter[int], zk: ZooKeeper, path: str, *, default: int = ..., **options: Unpack[CounterOptions]
    ) -> None: ...
    @overload
    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        *,
        codec: Codec[N],
        default: N = ...,
        **options: Unpack[CounterOptions],
    ) -> None: ...
    def get(self) -> N:
        """Read the number."""
    def set(self, value: N) -> None:
        """Replace the number, whatever it is, and create the znode if it is gone. After a lost reply the write is repeated, also with ``exactly_once``."""
    def add(self, amount: N) -> tuple[N, N]:
        """Add a number, which may be negative. Returns the value before and after."""
    def compare_and_set(self, expected: N, value: N) -> bool:
        """Replace the number if it is ``expected``. Returns whether it was replaced."""
    def reserve(self: Counter[int], count: int) -> range:
        """Reserve the next ``count`` numbers: no two callers get the same number. If a lost reply leaves open whether they were reserved, the next numbers are: there may be gaps."""

class SharedValue(Generic[T]):
    """A value at a path, which any client may read, follow and replace."""

    zk: ZooKeeper
    path: str
    @overload
    def __init__(
        self: SharedValue[bytes], zk: ZooKeeper, path: str, **options: Unpack[ValueOptions]
    ) -> None: ...
    @overload
    def __init__(
        self, zk: ZooKeeper, path: str, *, codec: Codec[T], **options: Unpack[ValueOptions]
    ) -> None: ...
    def get(self) -> Versioned[T] | None:
        """Read the value; None if there is no znode."""
    def updates(self) -> AbstractContextManager[Updates[T]]:
        """Follow the value: the present value at once, then each later one; None while there is no znode. A slow reader skips to the latest value. The stream survives lost connections and expired sessions."""
    def set(self, value: T) -> None:
        """Replace the value, whatever it is. After a lost reply the write is repeated, which may undo a write of another client in between."""
    def compare_and_set(self, expected: Versioned[T] | None, value: T) -> bool:
        """Replace the value if it was not written since ``expected`` was read. Returns whether it was replaced."""

class Updates(Generic[T]):
    """The successive values of a :class:`SharedValue`, as an iterator; made by :meth:`SharedValue.updates`."""
    def __iter__(self) -> Self: ...
    def __next__(self) -> Versioned[T] | None:
        """Wait for the next value; None while there is no znode. After an error the iterator can be used again."""

class ItemQueue:
    """The base of all queues. Any number of threads may use one object."""

    zk: ZooKeeper
    path: str
    def get(self, *, wait: bool = True) -> Item:
        """Take the next item out of the queue."""
    def __iter__(self) -> Self: ...
    def __next__(self) -> Item: ...
    def claim(self, *, wait: bool = True) -> AbstractContextManager[Item]:
        """Take the next item if the block succeeds."""
    def peek(self) -> Item | None:
        """Read the next item and leave it in the queue; None if no item can be taken now."""
    def size(self) -> int:
        """Count the items, including those that are claimed."""

class Queue(ItemQueue):
    """A queue, first in, first out."""
    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        *,
        layout: QueueLayout = "native",
        safe: bool = True,
        **options: Unpack[QueueOptions],
    ) -> None: ...
    def put(self, data: bytes, *, wait: bool = True) -> None:
        """Put an item at the end."""
    def put_all(self, data: Sequence[bytes], *, wait: bool = True) -> None:
        """Put several items at the end, next to each other: all or none. See :meth:`put`."""

class ClaimQueue(ItemQueue):
    """A queue whose items are handled at least once: an item is deleted after it was handled."""
    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        *,
        layout: ClaimLayout = "kazoo-locking",
        lock_path: str | None = None,
        **options: Unpack[QueueOptions],
    ) -> None: ...
    def put(self, data: bytes, *, priority: int = ..., wait: bool = True) -> None:
        """Put an item behind the others of its priority; see :meth:`.Queue.put`."""
    def put_all(self, data: Sequence[bytes], *, priority: int = ..., wait: bool = True) -> None:
        """Put several items: all or none. See :meth:`put`."""

class PriorityQueue(ItemQueue):
    """A queue in order of priority, lower ones first; and for equal priorities first in, first out."""
    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        *,
        layout: PriorityLayout = "curator",
        lock_path: str | None = None,
        **options: Unpack[QueueOptions],
    ) -> None: ...
    def put(self, data: bytes, priority: int, *, wait: bool = True) -> None:
        """Put an item; see :meth:`.Queue.put`."""
    def put_all(self, data: Sequence[bytes], priority: int, *, wait: bool = True) -> None:
        """Put several items of one priority: all or none. See :meth:`put`."""

class DelayQueue(ItemQueue):
    """A queue whose items are due at a time, and cannot be taken before; the first one due comes first."""
    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        *,
        lock_path: str | None = None,
        clock: Callable[[], float] = ...,
        **options: Unpack[QueueOptions],
    ) -> None: ...
    def put(self, data: bytes, delay: float, *, wait: bool = True) -> None:
        """Put an item; see :meth:`.Queue.put`."""
    def put_all(self, data: Sequence[bytes], delay: float, *, wait: bool = True) -> None:
        """Put several items that are due at the same time: all or none. See :meth:`put`."""

class IdQueue(ItemQueue):
    """A queue, first in, first out, whose items have ids by which they can be removed."""
    def __init__(
        self, zk: ZooKeeper, path: str, *, lock_path: str | None = None, **options: Unpack[QueueOptions]
    ) -> None: ...
    def put(self, data: bytes, id: str, *, wait: bool = True) -> None:
        """Put an item at the end; see :meth:`.Queue.put`. Several items may have the same id."""
    def remove(self, id: str) -> int:
        """Remove the items with this id that are not claimed, and return how many were removed."""

class Party(Running):
    """The members of a group. During its block this object is a member too."""

    path: str
    zk: ZooKeeper
    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        id: str = "",
        *,
        data: bytes | None = None,
        layout: PartyLayout = "kazoo",
        conflict: Conflict = "wait",
        parents: Parents = "container",
        acl: Sequence[ACL] | None = None,
    ) -> None: ...
    def members(self) -> list[Member]:
        """List the members, in the order of their names. Costs 1 request, and 1 for each member, but in ``"kazoo-shallow"`` 1 in all."""
    def changes(self) -> Changes:
        """Follow the members: ``for change in party.changes()``. In the first change all members have joined. A slow reader skips members that came and went in between."""

class Changes:
    """The changes of a party. There is a watch only while a thread waits for the next change."""
    def __iter__(self) -> Self: ...
    def __next__(self) -> Change:
        """Wait for the next change. After an error the iterator can be used again."""

class KeptNode(Running):
    """The base: creates a znode, watches it, and creates it again when it is gone."""

    path: str
    zk: ZooKeeper
    def ready(self) -> None:
        """Wait until the znode is there."""
    def set_data(self, data: bytes) -> None:
        """Change the data of the znode, and of each that is created later, and wait until it is written."""

class PersistentNode(KeptNode):
    """Keeps a znode for as long as the block lasts: it is created again when it is deleted, and in the next session."""
    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        *,
        data: bytes = b"",
        mode: CreateMode = ...,
        conflict: Conflict = "wait",
        parents: Parents = "container",
        acl: Sequence[ACL] | None = None,
        cleanup_grace: float = 1.0,
    ) -> None: ...

class TtlNode(KeptNode):
    """Keeps a znode for as long as the block lasts and ``ttl`` seconds after, even if the session ends before."""
    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        *,
        data: bytes = b"",
        ttl: float,
        parents: Parents = "container",
        acl: Sequence[ACL] | None = None,
    ) -> None: ...

class Cache(Running):
    """A copy of a znode and of what is below it, kept up to date for as long as the block lasts."""

    path: str
    zk: ZooKeeper
    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        depth: int | None,
        *,
        with_data: bool = True,
        selector: Selector | None = None,
    ) -> None: ...
    @property
    def nodes(self) -> Mapping[str, CachedNode]:
        """All cached znodes, by path: a view, which may change at each checkpoint of your thread."""
    def __getitem__(self, path: str) -> CachedNode:
        """Return the cached znode at a path."""
    def __contains__(self, path: object) -> bool: ...
    def children(self, path: str) -> list[str]:
        """Return the names of the cached children of a znode, sorted."""
    @property
    def is_synced(self) -> bool:
        """True if the cache has been synced, and the connection has not been lost since."""
    def synced(self) -> None:
        """Wait until the cache is synced: it has everything that the tree held when the last walk began."""
    def events(self) -> CacheEvents:
        """Follow the changes; the first events are an ADDED for each cached znode. See :class:`.CacheEvents`."""

class NodeCache(Cache):
    """A copy of a single znode: a :class:`Cache` of depth 0."""
    def __init__(self, zk: ZooKeeper, path: str, *, with_data: bool = True) -> None: ...

class ChildrenCache(Cache):
    """A copy of a znode and its children: a :class:`Cache` of depth 1."""
    def __init__(
        self, zk: ZooKeeper, path: str, *, with_data: bool = True, selector: Selector | None = None
    ) -> None: ...

class TreeCache(Cache):
    """A copy of a znode and everything below: a :class:`Cache` of any depth."""
    def __init__(
        self, zk: ZooKeeper, path: str, *, with_data: bool = True, selector: Selector | None = None
    ) -> None: ...

class CacheEvents:
    """The changes of a cache, as an iterator that ends with the block of the cache. The first events are an ADDED for each cached znode."""
    def __iter__(self) -> Self: ...
    def __next__(self) -> CacheEvent:
        """Wait for the next event."""

class Latest(Generic[T]):
    """An iterator over the successive values of something that is read and watched."""
    def __iter__(self) -> Self: ...
    def __next__(self) -> T:
        """Wait for the next value. After an error the iterator can be used again."""

def connect(
    hosts: str,
    *,
    session_timeout: float = 10.0,
    connect_timeout: float = 15.0,
    close_grace: float = 1.0,
    auth: Iterable[tuple[str, bytes | str]] = ...,
    sasl: tuple[str, str] | None = None,
    on_expired: Literal["cancel", "new_session"] = "cancel",
    resume: tuple[int, bytes] | None = None,
    ssl_context: ssl.SSLContext | None = None,
    connector: Connector | None = None,
    request_limit: int = ...,
    reply_limit: int = ...,
    follow_config: bool = False,
    read_only: bool = False,
    observer: Observer | None = None,
    rng: random.Random | None = None,
) -> AbstractContextManager[ZooKeeper]:
    """Open a client with a session, for as long as a block lasts."""

def retry(zk: ZooKeeper, call: Callable[[ZooKeeper], T], *, policy: Policy | None = None) -> T:
    """Make a call of one or several steps, and make it again from its beginning as the policy says"""

def contenders(zk: ZooKeeper, path: str, recognise: frozenset[ContenderKind] = ...) -> list[Contender]:
    """List the holder of a lock and those that wait for it, in order, whatever library they use."""

def revoke(zk: ZooKeeper, contender: Contender | str) -> None:
    """Ask a holder to give a lock back. The holder may ignore that. Curator's revocable locks understand it, and ours (``on_revoke``). If the contender has gone meanwhile, nothing happens."""

def watch_children(zk: ZooKeeper, path: str) -> Latest[list[str] | None]:
    """Follow the names of the children of a znode, sorted; None while there is no such znode."""

def watch_node(zk: ZooKeeper, path: str) -> Latest[tuple[bytes | None, Stat | None]]:
    """Follow the data of a znode."""

OnRevoke = OnRevokeWord | Callable[[Grant], object]

class ElectionOptions(HoldingOptions, total=False):
    on_revoke: OnRevoke
    strategy: Strategy

class RWLockOptions(ElectionOptions, total=False):
    data: bytes
    layout: LockLayout
    reentrant: bool
    monitor: bool
    recognise: frozenset[ContenderKind]

class LockOptions(RWLockOptions, total=False):
    local_queue: bool
    max_handoffs: int

AnyLock = Lock | Semaphore | SingleNodeLock
__all__ = [
    "ACL",
    "APIError",
    "ASCII_FLOAT",
    "ASCII_INT",
    "Acquirable",
    "AddWatch",
    "AddWatchMode",
    "AmbiguousResult",
    "AuthFailedError",
    "Backoff",
    "BadArgumentsError",
    "BadVersionError",
    "Barrier",
    "BarrierBroken",
    "CREATOR_ALL_ACL",
    "Cache",
    "CacheEvent",
    "CacheEventType",
    "CacheEvents",
    "CachedNode",
    "Change",
    "Changes",
    "Check",
    "ChildrenCache",
    "ClaimQueue",
    "ClientClosed",
    "ClientInfo",
    "ClosingError",
    "Codec",
    "ConnectionLossError",
    "Contender",
    "ContenderKind",
    "Counter",
    "Create",
    "CreateMode",
    "CreateOptions",
    "DataInconsistencyError",
    "Deadlock",
    "DelayQueue",
    "Delete",
    "DoubleBarrier",
    "EphemeralOnLocalSessionError",
    "Event",
    "EventType",
    "Exists",
    "Failure",
    "ForeignLayout",
    "GetACL",
    "GetAllChildrenNumber",
    "GetChildren",
    "GetChildrenAndStat",
    "GetData",
    "GetEphemerals",
    "Grant",
    "Grants",
    "Host",
    "INT32",
    "INT64",
    "Id",
    "IdQueue",
    "InconsistentLimit",
    "Interrupted",
    "InvalidACLError",
    "InvalidCallbackError",
    "Item",
    "ItemQueue",
    "KeptNode",
    "Latest",
    "LeaderElection",
    "LeaderLatch",
    "LeaseHolder",
    "Lock",
    "LockLayout",
    "LockLost",
    "LockRegistry",
    "LockRevoked",
    "LockStatistics",
    "LossReason",
    "MalformedValue",
    "MarshallingError",
    "Member",
    "Missed",
    "MissedReason",
    "Multi",
    "MultiLock",
    "MultiRead",
    "MultiTimeLease",
    "NewConfigNoQuorumError",
    "NoAuthError",
    "NoChildrenForEphemeralsError",
    "NoNodeError",
    "NoWatcherError",
    "NodeCache",
    "NodeExistsError",
    "NotEmptyError",
    "NotReadOnlyError",
    "OPEN_ACL",
    "Observer",
    "Operation",
    "OperationTimeoutError",
    "Outcome",
    "PARENT",
    "PREDECESSOR",
    "Parents",
    "Partitioner",
    "Party",
    "Pending",
    "Perms",
    "PersistentNode",
    "Policy",
    "PriorityQueue",
    "Queue",
    "QueueEmpty",
    "QueueFull",
    "QuotaExceededError",
    "RAW",
    "READ_ACL",
    "RWLock",
    "Rebalance",
    "RecipeError",
    "Reconfig",
    "ReconfigDisabledError",
    "ReconfigInProgressError",
    "RemoveWatches",
    "Request",
    "RequestTimeoutError",
    "Running",
    "RuntimeInconsistencyError",
    "Semaphore",
    "SequenceExhausted",
    "Session",
    "SessionClosedRequireAuthError",
    "SessionExpiredError",
    "SessionMovedError",
    "SessionState",
    "SetACL",
    "SetData",
    "SharedValue",
    "SingleNodeLock",
    "Stat",
    "StateChange",
    "StateChanges",
    "Strategy",
    "Sync",
    "SystemZooKeeperError",
    "Term",
    "ThrottledOpError",
    "TimeLease",
    "TimeLeaseHolder",
    "Transaction",
    "TreeCache",
    "TtlNode",
    "UNANSWERED",
    "UndecidedItem",
    "UnimplementedError",
    "UnknownCodeError",
    "UnknownSessionError",
    "Updates",
    "Versioned",
    "Watch",
    "WatchEvent",
    "WatchStream",
    "WatcherType",
    "WhoAmI",
    "WouldBlock",
    "WriteGrant",
    "WriteLock",
    "ZooKeeper",
    "ZooKeeperError",
    "connect",
    "contenders",
    "make_digest_acl",
    "maybe_applied",
    "paths",
    "polling",
    "retry",
    "revoke",
    "timeout",
    "watch_children",
    "watch_node",
]
