"""Recipes for trio, such as locks, elections and queues::

from pyzk.client import connect
from pyzk.recipes import Lock

async with connect("10.0.0.1:2181,10.0.0.2:2181/app") as zk:
    async with Lock(zk, "/locks/printer") as grant:
        ...
"""

from ..protocol.layouts import ContenderKind
from .barrier import Barrier
from .base.creating import Parents
from .base.following import watch_children, watch_node
from .caches.cache import Cache, ChildrenCache, NodeCache, TreeCache
from .caches.events import CachedNode, CacheEvent, CacheEventType
from .codecs import ASCII_FLOAT, ASCII_INT, INT32, INT64, RAW, Codec, MalformedValue
from .counter import Counter
from .double_barrier import DoubleBarrier
from .election import LeaderElection, Term
from .errors import (
    AmbiguousResult,
    BarrierBroken,
    ClientClosed,
    Deadlock,
    ForeignLayout,
    InconsistentLimit,
    LockLost,
    LockRevoked,
    LossReason,
    Rebalance,
    RecipeError,
    SequenceExhausted,
    WouldBlock,
)
from .leader_latch import LeaderLatch
from .locks.acquiring import Grants
from .locks.grant import Grant
from .locks.lock import Contender, Lock, LockRegistry, LockStatistics, contenders, revoke
from .locks.multi_lock import MultiLock
from .locks.role import LockLayout
from .locks.rwlock import RWLock, WriteGrant
from .locks.semaphore import LeaseHolder, Semaphore
from .locks.single_node import SingleNodeLock
from .locks.strategy import PARENT, PREDECESSOR, Strategy, polling
from .locks.time_lease import MultiTimeLease, TimeLease, TimeLeaseHolder
from .membership.party import Change, Member, Party
from .membership.persistent_node import PersistentNode
from .membership.ttl_node import TtlNode
from .partitioner import Partitioner
from .queues.claim_queue import ClaimQueue
from .queues.delay_queue import DelayQueue
from .queues.id_queue import IdQueue
from .queues.items import Item, QueueEmpty, QueueFull, UndecidedItem
from .queues.priority_queue import PriorityQueue
from .queues.queue import Queue
from .shared_value import SharedValue, Versioned

__all__ = [
    "ASCII_FLOAT",
    "ASCII_INT",
    "INT32",
    "INT64",
    "PARENT",
    "PREDECESSOR",
    "RAW",
    "AmbiguousResult",
    "Barrier",
    "BarrierBroken",
    "Cache",
    "CacheEvent",
    "CacheEventType",
    "CachedNode",
    "Change",
    "ChildrenCache",
    "ClaimQueue",
    "ClientClosed",
    "Codec",
    "Contender",
    "ContenderKind",
    "Counter",
    "Deadlock",
    "DelayQueue",
    "DoubleBarrier",
    "ForeignLayout",
    "Grant",
    "Grants",
    "IdQueue",
    "InconsistentLimit",
    "Item",
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
    "Member",
    "MultiLock",
    "MultiTimeLease",
    "NodeCache",
    "Parents",
    "Partitioner",
    "Party",
    "PersistentNode",
    "PriorityQueue",
    "Queue",
    "QueueEmpty",
    "QueueFull",
    "RWLock",
    "Rebalance",
    "RecipeError",
    "Semaphore",
    "SequenceExhausted",
    "SharedValue",
    "SingleNodeLock",
    "Strategy",
    "Term",
    "TimeLease",
    "TimeLeaseHolder",
    "TreeCache",
    "TtlNode",
    "UndecidedItem",
    "Versioned",
    "WouldBlock",
    "WriteGrant",
    "contenders",
    "polling",
    "revoke",
    "watch_children",
    "watch_node",
]
