"""Every record has the fields of wire.md sections 4, 5 and 9, in that order."""

from __future__ import annotations

from typing import Any

import pytest

from pyzk.protocol import records as r
from pyzk.protocol.jute import Record, fields_of

LAYOUTS = """
    Id: ustring scheme; ustring id
    ACL: int perms; Id id
    Stat: long czxid; long mzxid; long ctime; long mtime; int version; int cversion; int aversion; \
long ephemeralOwner; int dataLength; int numChildren; long pzxid
    ClientInfo: ustring authScheme; ustring user

    ConnectRequest: int protocolVersion; long lastZxidSeen; int timeOut; long sessionId; buffer passwd
    ConnectResponse: int protocolVersion; int timeOut; long sessionId; buffer passwd
    ReadOnlyFlag: boolean readOnly
    RequestHeader: int xid; int type
    ReplyHeader: int xid; long zxid; int err
    WatcherEvent: int type; int state; ustring path
    MultiHeader: int type; boolean done; int err

    CreateRequest: ustring path; buffer data; vector<ACL> acl; int flags
    CreateTTLRequest: ustring path; buffer data; vector<ACL> acl; int flags; long ttl
    DeleteRequest: ustring path; int version
    ExistsRequest: ustring path; boolean watch
    GetDataRequest: ustring path; boolean watch
    SetDataRequest: ustring path; buffer data; int version
    GetACLRequest: ustring path
    SetACLRequest: ustring path; vector<ACL> acl; int version
    GetChildrenRequest: ustring path; boolean watch
    GetChildren2Request: ustring path; boolean watch
    GetAllChildrenNumberRequest: ustring path
    GetEphemeralsRequest: ustring prefixPath
    SyncRequest: ustring path
    CheckVersionRequest: ustring path; int version
    CheckWatchesRequest: ustring path; int type
    RemoveWatchesRequest: ustring path; int type
    AddWatchRequest: ustring path; int mode
    SetWatches: long relativeZxid; vector<ustring> dataWatches; vector<ustring> existWatches; \
vector<ustring> childWatches
    SetWatches2: long relativeZxid; vector<ustring> dataWatches; vector<ustring> existWatches; \
vector<ustring> childWatches; vector<ustring> persistentWatches; vector<ustring> persistentRecursiveWatches
    ReconfigRequest: ustring joiningServers; ustring leavingServers; ustring newMembers; long curConfigId
    AuthPacket: int type; ustring scheme; buffer auth
    GetSASLRequest: buffer token

    CreateResponse: ustring path
    Create2Response: ustring path; Stat stat
    ExistsResponse: Stat stat
    GetDataResponse: buffer data; Stat stat
    SetDataResponse: Stat stat
    GetACLResponse: vector<ACL> acl; Stat stat
    SetACLResponse: Stat stat
    GetChildrenResponse: vector<ustring> children
    GetChildren2Response: vector<ustring> children; Stat stat
    GetAllChildrenNumberResponse: int totalNumber
    GetEphemeralsResponse: vector<ustring> ephemerals
    SyncResponse: ustring path
    ErrorResponse: int err
    SetSASLResponse: buffer token
    WhoAmIResponse: vector<ClientInfo> clientInfo
"""
ROWS = dict(line.strip().split(": ") for line in LAYOUTS.splitlines() if line.strip())


def type_name(kind: str, argument: Any) -> str:
    """The specification's name of a declared type; a text is a ustring that its sender never leaves null."""
    if kind == "record":
        return str(argument.__name__)
    if kind == "vector":
        element = argument[0].__name__ if isinstance(argument[0], type) else argument[0].__metadata__[0]
        return f"vector<{element.replace('text', 'ustring')}>"
    return kind.replace("text", "ustring")


@pytest.mark.parametrize("name", ROWS)
def test_the_layout_of(name: str) -> None:
    fields = fields_of(getattr(r, name))
    assert "; ".join(f"{type_name(kind, argument)} {field}" for field, kind, argument in fields) == ROWS[name]


def test_no_record_is_missing_from_the_table() -> None:
    declared = {
        name
        for name, value in vars(r).items()
        if isinstance(value, type) and issubclass(value, Record) and value is not Record
    }
    assert declared == set(ROWS)


def test_a_stat_takes_68_bytes() -> None:
    assert len(r.Stat(*range(11)).encode()) == 68
