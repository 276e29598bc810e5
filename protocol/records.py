"""The declarations of all records of the client protocol (wire.md sections 4, 5 and 9).

The order of the fields is the order on the wire. The server decodes requests and encodes responses. The
client encodes requests and decodes responses. Both sides use only these declarations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeAlias

from .jute import Boolean, Buffer, Int, Long, Record, Text, UString, Vector, frozen_record, record

# --- shared ---------------------------------------------------------------------------------------------


@frozen_record
class Id(Record):
    """The clients that an ACL entry names: a scheme (``world``, ``digest``, ``ip`` ...) and an identity in
    this scheme."""

    scheme: UString
    id: UString


@frozen_record
class ACL(Record):
    """One entry of an access control list: permission bits (:class:`.constants.Perms`) for an identity."""

    perms: Int
    id: Id


OPEN_ACL: tuple[ACL, ...] = (ACL(31, Id("world", "anyone")),)
"""The ACL that gives all permissions to everybody. Decoders return this same object for this ACL, so ``is``
recognises the ACL."""
AclVector = Annotated[Vector[ACL], OPEN_ACL]
READ_ACL: tuple[ACL, ...] = (ACL(1, Id("world", "anyone")),)


def _utc(ms: int) -> str:
    """Write a time in ms since the epoch as a date; as a number of ms if Python cannot represent the date."""
    import datetime  # imported here, because an idle server needs no dates

    try:
        moment = datetime.datetime.fromtimestamp(ms / 1000, datetime.UTC)
    except (OverflowError, ValueError, OSError):
        return f"{ms} ms"
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{ms % 1000:03}Z"


@frozen_record
class Stat(Record):
    """The metadata of a znode. Times are in ms since the epoch. A version is an int32, which becomes negative
    after its largest value."""

    czxid: Long
    mzxid: Long
    ctime: Long
    mtime: Long
    version: Int
    cversion: Int
    aversion: Int
    ephemeralOwner: Long
    dataLength: Int
    numChildren: Int
    pzxid: Long

    def __repr__(self) -> str:
        """Return a text such as ``Stat(version=3, dataLength=12, ..., mtime=2024-05-17T08:30:00.250Z)``. The
        fields that users need most often come first. Zxids and session ids are hexadecimal, and times are in
        UTC."""
        shown = [f"{name}={getattr(self, name)}" for name in ("version", "dataLength", "numChildren")]
        shown += [
            f"{name}={getattr(self, name):#x}" for name in ("ephemeralOwner", "czxid", "mzxid", "pzxid")
        ]
        shown += [f"{name}={_utc(getattr(self, name))}" for name in ("ctime", "mtime")]
        shown += [f"{name}={getattr(self, name)}" for name in ("cversion", "aversion")]
        return f"Stat({', '.join(shown)})"


@frozen_record
class ClientInfo(Record):
    """One identity of a connection: a scheme, and the user in this scheme."""

    authScheme: UString
    user: UString


# --- handshake and headers ------------------------------------------------------------------------------


@record
class ConnectRequest(Record):
    """The first frame of a client, without its optional last byte (see :class:`ReadOnlyFlag`)."""

    protocolVersion: Int
    lastZxidSeen: Long
    timeOut: Int
    sessionId: Long
    passwd: Buffer


@record
class ConnectResponse(Record):
    """The first frame of the server, without its optional last byte."""

    protocolVersion: Int
    timeOut: Int
    sessionId: Long
    passwd: Buffer


@record
class ReadOnlyFlag(Record):
    """The byte that clients since 3.4 append to the handshake. A server appends the byte to its answer only
    if the client has sent the byte."""

    readOnly: Boolean


@record
class RequestHeader(Record):
    xid: Int
    type: Int


@record
class ReplyHeader(Record):
    xid: Int
    zxid: Long
    err: Int


@record
class MultiHeader(Record):
    type: Int
    done: Boolean
    err: Int


@record
class WatcherEvent(Record):
    type: Int
    state: Int
    path: UString


# --- requests -------------------------------------------------------------------------------------------

# The server reads a request as a plain tuple of the values of its fields, in their order. A small request
# takes 1 us, and an object would cost 90 ns more. The type of the tuple follows the record.


@record
class CreateRequest(Record):
    path: UString
    data: Buffer
    acl: AclVector
    flags: Int


CreateFields: TypeAlias = tuple[str | None, bytes | None, Sequence[ACL] | None, int]


@record
class CreateTTLRequest(Record):
    path: UString
    data: Buffer
    acl: AclVector
    flags: Int
    ttl: Long


CreateTTLFields: TypeAlias = tuple[str | None, bytes | None, Sequence[ACL] | None, int, int]


@record
class DeleteRequest(Record):
    path: UString
    version: Int


DeleteFields: TypeAlias = tuple[str | None, int]


@record
class ExistsRequest(Record):
    path: UString
    watch: Boolean


ExistsFields: TypeAlias = tuple[str | None, bool]


@record
class GetDataRequest(Record):
    path: UString
    watch: Boolean


GetDataFields: TypeAlias = tuple[str | None, bool]


@record
class SetDataRequest(Record):
    path: UString
    data: Buffer
    version: Int


SetDataFields: TypeAlias = tuple[str | None, bytes | None, int]


@record
class GetACLRequest(Record):
    path: UString


GetACLFields: TypeAlias = tuple[str | None]


@record
class SetACLRequest(Record):
    path: UString
    acl: AclVector
    version: Int


SetACLFields: TypeAlias = tuple[str | None, Sequence[ACL] | None, int]


@record
class GetChildrenRequest(Record):
    path: UString
    watch: Boolean


GetChildrenFields: TypeAlias = tuple[str | None, bool]


@record
class GetChildren2Request(Record):
    path: UString
    watch: Boolean


GetChildren2Fields: TypeAlias = tuple[str | None, bool]


@record
class GetAllChildrenNumberRequest(Record):
    path: UString


GetAllChildrenNumberFields: TypeAlias = tuple[str | None]


@record
class GetEphemeralsRequest(Record):
    prefixPath: UString


GetEphemeralsFields: TypeAlias = tuple[str | None]


@record
class SyncRequest(Record):
    path: UString


SyncFields: TypeAlias = tuple[str | None]


@record
class CheckVersionRequest(Record):
    path: UString
    version: Int


CheckVersionFields: TypeAlias = tuple[str | None, int]


@record
class CheckWatchesRequest(Record):
    path: UString
    type: Int


CheckWatchesFields: TypeAlias = tuple[str | None, int]


@record
class RemoveWatchesRequest(Record):
    path: UString
    type: Int


RemoveWatchesFields: TypeAlias = tuple[str | None, int]


@record
class AddWatchRequest(Record):
    path: UString
    mode: Int


AddWatchFields: TypeAlias = tuple[str | None, int]


@record
class SetWatches(Record):
    relativeZxid: Long
    dataWatches: Vector[UString]
    existWatches: Vector[UString]
    childWatches: Vector[UString]


SetWatchesFields: TypeAlias = tuple[
    int, Sequence[str | None] | None, Sequence[str | None] | None, Sequence[str | None] | None
]


@record
class SetWatches2(Record):
    relativeZxid: Long
    dataWatches: Vector[UString]
    existWatches: Vector[UString]
    childWatches: Vector[UString]
    persistentWatches: Vector[UString]
    persistentRecursiveWatches: Vector[UString]


SetWatches2Fields: TypeAlias = tuple[
    int,
    Sequence[str | None] | None,
    Sequence[str | None] | None,
    Sequence[str | None] | None,
    Sequence[str | None] | None,
    Sequence[str | None] | None,
]


@record
class ReconfigRequest(Record):
    joiningServers: UString
    leavingServers: UString
    newMembers: UString
    curConfigId: Long


ReconfigFields: TypeAlias = tuple[str | None, str | None, str | None, int]


@record
class AuthPacket(Record):
    type: Int
    scheme: UString
    auth: Buffer


@record
class GetSASLRequest(Record):
    token: Buffer


# --- responses ------------------------------------------------------------------------------------------


@record
class CreateResponse(Record):
    path: Text


@record
class Create2Response(Record):
    path: Text
    stat: Stat


@record
class ExistsResponse(Record):
    stat: Stat


@record
class GetDataResponse(Record):
    data: Buffer
    stat: Stat


@record
class SetDataResponse(Record):
    stat: Stat


@record
class GetACLResponse(Record):
    acl: AclVector
    stat: Stat


@record
class SetACLResponse(Record):
    stat: Stat


@record
class GetChildrenResponse(Record):
    children: Vector[Text]


@record
class GetChildren2Response(Record):
    children: Vector[Text]
    stat: Stat


@record
class GetAllChildrenNumberResponse(Record):
    totalNumber: Int


@record
class GetEphemeralsResponse(Record):
    ephemerals: Vector[Text]


@record
class SyncResponse(Record):
    path: UString


@record
class ErrorResponse(Record):
    err: Int


@record
class SetSASLResponse(Record):
    token: Buffer


@record
class WhoAmIResponse(Record):
    clientInfo: Vector[ClientInfo]
