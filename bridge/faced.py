"""The table of what has a face, and how each member of it is used.

Everything else that the client and the recipes export (errors, operations, records, options) is the same in
all faces.
"""

from __future__ import annotations

from typing import Any

from .. import client, recipes
from ..client.request import Request
from ..client.session import Session
from ..recipes.base.following import Latest
from ..recipes.base.running import Running
from ..recipes.caches.events import CacheEvents
from ..recipes.locks.acquiring import Acquirable
from ..recipes.locks.rwlock import WriteLock
from ..recipes.membership.party import Changes
from ..recipes.membership.persistent_node import KeptNode
from ..recipes.queues.base import ItemQueue
from ..recipes.shared_value import Updates

FACED: dict[type, set[str]] = {
    client.ZooKeeper: {"janitor", "keep_lease", "lender", "on_submit", "start_soon", "withdraw"},
    Session: {"note", "wake"},
    client.StateChanges: {"deliver", "end"},
    client.Watch: {"deliver", "end", "prefix", "server_path"},
    client.WatchStream: {"deliver", "end", "leave", "prefix", "server_path"},
    Request: {
        "body",
        "fail",
        "forget",
        "give_up_at",
        "on_settled",
        "opcode",
        "parse",
        "refusal",
        "refuse",
        "retry",
        "sent_at",
        "succeed",
        "take_reply",
        "xid",
    },
    client.Pending: set(),
    client.Transaction: set(),
    Acquirable: set(),
    Running: set(),
    recipes.Grant: {
        "data_changed",
        "end",
        "enter_again",
        "hold",
        "on_release",
        "passed_on",
        "surrender",
    },
    recipes.Grants: {"end"},
    recipes.WriteGrant: set(),
    recipes.Lock: set(),
    WriteLock: set(),
    recipes.LockRegistry: set(),
    recipes.RWLock: set(),
    recipes.MultiLock: set(),
    recipes.Semaphore: set(),
    recipes.SingleNodeLock: set(),
    recipes.TimeLease: set(),
    recipes.MultiTimeLease: set(),
    recipes.Term: set(),
    recipes.LeaderElection: set(),
    recipes.LeaderLatch: set(),
    recipes.Partitioner: set(),
    recipes.Barrier: set(),
    recipes.DoubleBarrier: set(),
    recipes.Counter: set(),
    recipes.SharedValue: set(),
    Updates: set(),
    ItemQueue: set(),
    recipes.Queue: set(),
    recipes.ClaimQueue: set(),
    recipes.PriorityQueue: set(),
    recipes.DelayQueue: set(),
    recipes.IdQueue: set(),
    recipes.Party: {"describe"},
    Changes: set(),
    KeptNode: set(),
    recipes.PersistentNode: set(),
    recipes.TtlNode: set(),
    recipes.Cache: {"moved"},
    recipes.NodeCache: set(),
    recipes.ChildrenCache: set(),
    recipes.TreeCache: set(),
    CacheEvents: {"note"},
    Latest: set(),
}
"""The classes that have faces, and the members of each that are for recipes only."""

FUNCTIONS: tuple[Any, ...] = (
    client.retry,
    recipes.contenders,
    recipes.revoke,
    recipes.watch_children,
    recipes.watch_node,
)
"""The functions that have faces; ``connect`` is made by each package."""

IN_LOOP = {
    "Cache.children",
    "Cache.events",
    "Cache.nodes",
    "Grant.check",
    "Grant.on_lost",
    "LeaderLatch.is_leader",
    "LockRegistry.__getitem__",
    "Watch.cancel",
    "ZooKeeper.submit",
    "Session.changes",
}
"""Members that do not wait, but are used in the loop only."""

UNTIL_LIMIT = {"Grant.check"}
"""Those of them that say what holds now. The caller may be stopped between the answer of the loop and its own
next step, so the limit of the hold is compared with the clock in the caller's thread as well."""

UP_TO_DATE = {"Session.last_zxid", "Session.lease_deadline", "ZooKeeper.metrics", "ZooKeeper.watch_count"}
"""Members that are read in the loop as long as it runs: they tell of calls over a connection on loan, too
(:mod:`.borrowing`), and count what the loop may change meanwhile."""

CALLS_BACK = {"LeaderElection.run", "retry"}
"""Functions that call a function of their caller, and wait for it."""

WAIT_FOR_REQUESTS = {"Pending", "ZooKeeper"}
"""Classes whose methods wait for requests alone: they need no task (:class:`.Taskless`)."""

WAIT_FOR_MORE = {"ZooKeeper.update_hosts"}
"""Their methods that wait for more than requests."""

BORROW = {
    f"ZooKeeper.{name}"
    for name in (
        *("create", "create_with_stat", "ensure_path", "multi", "set", "set_acl"),
        *("exists", "get", "get_acl", "get_children", "get_children_and_stat", "get_all_children_number"),
        *("get_config", "get_ephemerals", "multi_read", "sync", "who_am_i"),
    )
}
"""Methods that send one request after the other, and use no watches: a caller may do them itself, over a
connection on loan (:mod:`.borrowing`)."""

NOTICES = {"on_lost", "on_revoke"}
"""Methods and options that take a function of the user, call it, and do not wait for it."""

SCALARS = {str, bytes, int, float, bool, type(None), client.Stat}
"""Types of most arguments and results, which are passed on as they are."""
