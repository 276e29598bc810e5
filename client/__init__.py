"""A ZooKeeper client for trio::

from pyzk.client import connect

async with connect("10.0.0.1:2181,10.0.0.2:2181/app", session_timeout=10) as zk:
    path = await zk.create("/jobs/job-", b"...", ephemeral=True, sequential=True, make_parents=True)
    data, stat = await zk.get(path)
"""

from ..protocol import paths
from ..protocol.constants import CreateMode, EventType, Perms
from ..protocol.errors import (
    AuthFailedError,
    BadArgumentsError,
    BadVersionError,
    ClosingError,
    ConnectionLossError,
    InvalidACLError,
    MarshallingError,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    SessionExpiredError,
    UnimplementedError,
    ZooKeeperError,
)
from ..protocol.records import ACL, OPEN_ACL, READ_ACL, ClientInfo, Id, Stat
from .batch import Multi
from .connect import connect
from .events import Event, Missed, MissedReason, WatchEvent
from .hosts import Host
from .janitor import Job
from .machine import SessionState
from .observer import Observer, StateChange
from .operations import (
    Check,
    Create,
    CreateOptions,
    Delete,
    Exists,
    GetACL,
    GetChildren,
    GetChildrenAndStat,
    GetData,
    Operation,
    SetACL,
    SetData,
    Sync,
)
from .pending import Pending
from .retry import UNANSWERED, repeat
from .runner import Connector
from .session import Session, StateChanges
from .transaction import Transaction
from .watch import Watch, WatchStream
from .zookeeper import ZooKeeper

__all__ = [
    "ACL",
    "OPEN_ACL",
    "READ_ACL",
    "UNANSWERED",
    "AuthFailedError",
    "BadArgumentsError",
    "BadVersionError",
    "Check",
    "ClientInfo",
    "ClosingError",
    "ConnectionLossError",
    "Connector",
    "Create",
    "CreateMode",
    "CreateOptions",
    "Delete",
    "Event",
    "EventType",
    "Exists",
    "GetACL",
    "GetChildren",
    "GetChildrenAndStat",
    "GetData",
    "Host",
    "Id",
    "InvalidACLError",
    "Job",
    "MarshallingError",
    "Missed",
    "MissedReason",
    "Multi",
    "NoAuthError",
    "NoChildrenForEphemeralsError",
    "NoNodeError",
    "NodeExistsError",
    "NotEmptyError",
    "Observer",
    "Operation",
    "Pending",
    "Perms",
    "Session",
    "SessionExpiredError",
    "SessionState",
    "SetACL",
    "SetData",
    "Stat",
    "StateChange",
    "StateChanges",
    "Sync",
    "Transaction",
    "UnimplementedError",
    "Watch",
    "WatchEvent",
    "WatchStream",
    "ZooKeeper",
    "ZooKeeperError",
    "connect",
    "paths",
    "repeat",
]
