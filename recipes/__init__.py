"""Recipes for trio: locks first, then the family.

from pyzk.client import connect
from pyzk.recipes import Lock

async with connect("10.0.0.1:2181,10.0.0.2:2181/app") as zk:
    async with Lock(zk, "/locks/printer") as grant:
        ...
"""

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
from .grant import Grant
from .lock import Contender, Lock, LockRegistry, LockStatistics, contenders, revoke
from .names import Kind
from .rwlock import RWLock, WriteGrant
from .single_node import SingleNodeLock
from .strategy import PARENT, PREDECESSOR, Strategy, polling

__all__ = [
    "PARENT",
    "PREDECESSOR",
    "AmbiguousResult",
    "BarrierBroken",
    "ClientClosed",
    "Contender",
    "Deadlock",
    "ForeignLayout",
    "Grant",
    "InconsistentLimit",
    "Kind",
    "Lock",
    "LockLost",
    "LockRegistry",
    "LockRevoked",
    "LockStatistics",
    "LossReason",
    "RWLock",
    "Rebalance",
    "RecipeError",
    "SequenceExhausted",
    "SingleNodeLock",
    "Strategy",
    "WouldBlock",
    "WriteGrant",
    "contenders",
    "polling",
    "revoke",
]
