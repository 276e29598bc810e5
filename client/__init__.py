"""A ZooKeeper client for trio::

from pyzk.client import connect

async with connect("10.0.0.1:2181,10.0.0.2:2181/app", session_timeout=10) as zk:
    path = await zk.create("/jobs/job-", b"...", ephemeral=True, sequential=True, make_parents=True)
    data, stat = await zk.get(path)
"""

from ..protocol import paths
from ..protocol.constants import CreateMode, EventType, Perms
from ..protocol.errors import (
    APIError,
    AuthFailedError,
    BadArgumentsError,
    BadVersionError,
    ClosingError,
    ConnectionLossError,
    DataInconsistencyError,
    EphemeralOnLocalSessionError,
    InvalidACLError,
    InvalidCallbackError,
    MarshallingError,
    NewConfigNoQuorumError,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    NotReadOnlyError,
    NoWatcherError,
    OperationTimeoutError,
    QuotaExceededError,
    ReconfigDisabledError,
    ReconfigInProgressError,
    RequestTimeoutError,
    RuntimeInconsistencyError,
    SessionClosedRequireAuthError,
    SessionExpiredError,
    SessionMovedError,
    SystemZooKeeperError,
    ThrottledOpError,
    UnimplementedError,
    UnknownCodeError,
    UnknownSessionError,
    ZooKeeperError,
)
from ..protocol.records import ACL, OPEN_ACL, READ_ACL, ClientInfo, Id, Stat
from .auth import CREATOR_ALL_ACL, make_digest_acl
from .batch import Multi, Transaction
from .cleanup import Job
from .connect import connect
from .hosts import Host
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
from .registry import Event, Missed, MissedReason, WatchEvent
from .repeating import UNANSWERED, Backoff, Effect, Failure, Policy, maybe_applied, repeat, retry
from .runner import Connector
from .session import Session, StateChanges
from .watch import Watch, WatchStream
from .zookeeper import ZooKeeper

__all__ = [
    "ACL",
    "CREATOR_ALL_ACL",
    "OPEN_ACL",
    "READ_ACL",
    "UNANSWERED",
    "APIError",
    "AuthFailedError",
    "Backoff",
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
    "DataInconsistencyError",
    "Delete",
    "Effect",
    "EphemeralOnLocalSessionError",
    "Event",
    "EventType",
    "Exists",
    "Failure",
    "GetACL",
    "GetChildren",
    "GetChildrenAndStat",
    "GetData",
    "Host",
    "Id",
    "InvalidACLError",
    "InvalidCallbackError",
    "Job",
    "MarshallingError",
    "Missed",
    "MissedReason",
    "Multi",
    "NewConfigNoQuorumError",
    "NoAuthError",
    "NoChildrenForEphemeralsError",
    "NoNodeError",
    "NoWatcherError",
    "NodeExistsError",
    "NotEmptyError",
    "NotReadOnlyError",
    "Observer",
    "Operation",
    "OperationTimeoutError",
    "Pending",
    "Perms",
    "Policy",
    "QuotaExceededError",
    "ReconfigDisabledError",
    "ReconfigInProgressError",
    "RequestTimeoutError",
    "RuntimeInconsistencyError",
    "Session",
    "SessionClosedRequireAuthError",
    "SessionExpiredError",
    "SessionMovedError",
    "SessionState",
    "SetACL",
    "SetData",
    "Stat",
    "StateChange",
    "StateChanges",
    "Sync",
    "SystemZooKeeperError",
    "ThrottledOpError",
    "Transaction",
    "UnimplementedError",
    "UnknownCodeError",
    "UnknownSessionError",
    "Watch",
    "WatchEvent",
    "WatchStream",
    "ZooKeeper",
    "ZooKeeperError",
    "connect",
    "make_digest_acl",
    "maybe_applied",
    "paths",
    "repeat",
    "retry",
]
