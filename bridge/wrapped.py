"""The table of the classes and functions that have wrappers, and how their members are used. :mod:`.generate`
reads it.

Everything else that the client and the recipes export (errors, operations, records, options) is the same in
all wrappers.
"""

from __future__ import annotations

import ast
import inspect
from types import FunctionType
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

MODULES: dict[str, dict[Any, set[str]]] = {
    "session": {
        Session: {"note", "wake", "waking"},
        client.StateChanges: {"deliver", "end"},
    },
    "watches": {
        client.Watch: {"deliver", "end", "prefix", "server_path", "wakes"},
        client.WatchStream: {"deliver", "end", "leave", "prefix", "server_path"},
    },
    "requests": {
        Request: {
            *("body", "fail", "forget", "give_up_at", "on_settled", "opcode", "parse", "refusal", "refuse"),
            *("retry", "sent_at", "succeed", "take_reply", "xid"),
        },
        client.Pending: set(),
        client.Transaction: set(),
    },
    "client": {
        client.ZooKeeper: {"cleanup", "keep_lease", "source", "on_submit", "start_soon", "withdraw"},
        client.connect: set(),
        client.retry: set(),
    },
    "base": {
        Running: set(),
        Latest: set(),
        recipes.watch_children: set(),
        recipes.watch_node: set(),
    },
    "values": {
        recipes.Counter: set(),
        recipes.SharedValue: set(),
        Updates: set(),
    },
    "grants": {
        Acquirable: set(),
        recipes.Grant: {
            *("data_changed", "end", "enter_again", "on_release", "ownership", "passed_on", "surrender"),
        },
        recipes.Grants: {"end"},
        recipes.WriteGrant: set(),
    },
    "locks": {
        recipes.Lock: {"grant_type", "purpose"},
        WriteLock: set(),
        recipes.LockRegistry: set(),
        recipes.RWLock: set(),
        recipes.SingleNodeLock: set(),
        recipes.Semaphore: set(),
        recipes.MultiLock: set(),
        recipes.contenders: set(),
        recipes.revoke: set(),
    },
    "leases": {
        recipes.TimeLease: set(),
        recipes.MultiTimeLease: set(),
    },
    "elections": {
        recipes.Term: set(),
        recipes.LeaderElection: set(),
        recipes.LeaderLatch: set(),
    },
    "membership": {
        recipes.Party: {"describe"},
        Changes: set(),
        KeptNode: set(),
        recipes.PersistentNode: set(),
        recipes.TtlNode: set(),
        recipes.Partitioner: set(),
    },
    "barriers": {
        recipes.Barrier: set(),
        recipes.DoubleBarrier: set(),
    },
    "queues": {
        ItemQueue: set(),
        recipes.Queue: set(),
        recipes.ClaimQueue: set(),
        recipes.PriorityQueue: set(),
        recipes.DelayQueue: set(),
        recipes.IdQueue: set(),
    },
    "caches": {
        recipes.Cache: {"moved"},
        recipes.NodeCache: set(),
        recipes.ChildrenCache: set(),
        recipes.TreeCache: set(),
        CacheEvents: {"note"},
    },
}
"""The modules of wrappers. Each module can use the modules before it. For each module the table has the
classes and functions. For each class or function it has the members and parameters that only recipes use."""

WRAPPED: dict[type, set[str]] = {
    thing: hidden
    for things in MODULES.values()
    for thing, hidden in things.items()
    if isinstance(thing, type)
}
"""The classes that have wrappers."""

FUNCTIONS: list[FunctionType] = [
    thing for things in MODULES.values() for thing in things if isinstance(thing, FunctionType)
]
"""The functions that have wrappers."""

IN_LOOP = {
    "Cache.children",
    "Cache.events",
    "Cache.nodes",
    "Grant.on_lost",
    "LeaderLatch.is_leader",
    "LockRegistry.__getitem__",
    "Watch.cancel",
    "ZooKeeper.submit",
    "Session.changes",
}
"""Members that do not wait, but can be used only in the loop."""

UNTIL_LIMIT = {"Grant.check"}
"""Members that are used in the loop and check whether the caller holds something now. The process may be
stopped between the answer of the loop and the next step of the caller. Therefore the caller's thread too
compares the limit of the ownership with the clock."""

UP_TO_DATE = {"Session.last_zxid", "Session.lease_deadline", "ZooKeeper.metrics", "ZooKeeper.watch_count"}
"""Members that are read in the loop as long as the loop runs. These members also count calls that callers
make themselves (:mod:`.direct`), and the loop may change the figures meanwhile."""

CALLS_BACK = {"LeaderElection.run", "retry"}
"""Functions that call a function of the user, and wait for it."""

WAIT_FOR_REQUESTS = {"Pending", "ZooKeeper"}
"""Classes whose methods wait only for requests, and so need no task (:class:`.Taskless`)."""

WAIT_FOR_MORE = {"ZooKeeper.update_hosts"}
"""Methods of these classes that also wait for something other than requests."""


def _in_sequence(cls: type) -> set[str]:
    """Return the methods of a class that send one request after the other and use no watches. These methods
    await ``_call`` or another method of this kind, and nothing else."""
    (node,) = ast.parse(inspect.getsource(cls)).body
    assert isinstance(node, ast.ClassDef)
    methods = [each for each in node.body if isinstance(each, ast.AsyncFunctionDef)]
    awaited = {
        method.name: {
            ast.unparse(each.value).partition("(")[0]
            for each in ast.walk(method)
            if isinstance(each, ast.Await)
        }
        for method in methods
    }
    found: set[str] = set()
    while more := {
        name
        for name, used in awaited.items()
        if name not in found and used <= {"self._call", *[f"self.{each}" for each in found]}
    } - {"_call"}:
        found |= more
    return {f"{cls.__name__}.{name}" for name in found}


DIRECT = _in_sequence(client.ZooKeeper)
"""Methods that a caller can do itself (:mod:`.direct`)."""

NOTICES = {"on_lost"}
"""Methods that take a function of the user, call it, and do not wait for it."""
