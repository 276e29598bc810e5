"""The one table of operations: everything that the protocol defines for an op code (wire.md section 8).

Every other table of operations is made from this table. The other tables say what a multi may contain, what
the server answers, and how logs, commands and tests name the operations. To add an operation, add a row for
it.

A row holds the code, the short name that the ``cons`` command shows, the records of request and response
(None for an empty body), and flags:

* ``TAKES_ZXID``: the request takes a zxid, even if it is refused.
* ``IN_MULTI``, ``IN_MULTI_READ``: the operation may be part of a multi, or of a multiRead.
* ``ALONE``: a client may send the operation as a separate request, and the engine answers.
* ``CREDENTIALS``: a client may send the operation to prove its identity, and the connection answers. The
  operation takes no zxid, and does not prolong the session.

An operation without ``ALONE`` and ``CREDENTIALS`` is not for clients: if a client sends it as a separate
request, the connection ends.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag

from . import records as r
from .jute import Record


class Flags(IntFlag):
    """The effects of an operation, and the requests that may contain the operation. The head of this module
    describes each flag."""

    NOTHING = 0
    TAKES_ZXID = 1
    IN_MULTI = 2
    IN_MULTI_READ = 4
    ALONE = 8
    CREDENTIALS = 16


_INTERNAL = Flags.NOTHING
_READ = Flags.ALONE
_WRITE = Flags.ALONE | Flags.TAKES_ZXID
_WRITE_OR_PART = _WRITE | Flags.IN_MULTI
_BATCHED_READ = _READ | Flags.IN_MULTI_READ


class OpCode(IntEnum):
    """The type field of a request header: each op code with the row of the table.

    :ivar short: the name that the ``cons`` command shows; ``NA`` if ``cons`` has no name for the operation.
    :ivar request: the record of the request.
    :ivar response: the record of the reply.
    :ivar flags: see above.
    """

    short: str
    request: type[Record] | None
    response: type[Record] | None
    flags: Flags

    def __new__(
        cls,
        code: int,
        short: str = "NA",
        request: type[Record] | None = None,
        response: type[Record] | None = None,
        flags: Flags = _INTERNAL,
    ) -> OpCode:
        op = int.__new__(cls, code)
        op._value_ = code
        op.short = short
        op.request = request
        op.response = response
        op.flags = flags
        return op

    @property
    def word(self) -> str:
        """The word for the operation in logs, metrics and tests. All variants of an operation have the same
        word: CREATE_TTL is ``create``."""
        return self.name.lower().removesuffix("2").removesuffix("_container").removesuffix("_ttl")

    NOTIFICATION = 0
    CREATE = 1, "CREA", r.CreateRequest, r.CreateResponse, _WRITE_OR_PART
    DELETE = 2, "DELE", r.DeleteRequest, None, _WRITE_OR_PART
    EXISTS = 3, "EXIS", r.ExistsRequest, r.ExistsResponse, _READ
    GET_DATA = 4, "GETD", r.GetDataRequest, r.GetDataResponse, _BATCHED_READ
    SET_DATA = 5, "SETD", r.SetDataRequest, r.SetDataResponse, _WRITE_OR_PART
    GET_ACL = 6, "GETA", r.GetACLRequest, r.GetACLResponse, _READ
    SET_ACL = 7, "SETA", r.SetACLRequest, r.SetACLResponse, _WRITE
    GET_CHILDREN = 8, "GETC", r.GetChildrenRequest, r.GetChildrenResponse, _BATCHED_READ
    SYNC = 9, "SYNC", r.SyncRequest, r.SyncResponse, _READ
    PING = 11, "PING", None, None, _READ
    GET_CHILDREN2 = 12, "GETC", r.GetChildren2Request, r.GetChildren2Response, _READ
    CHECK = 13, "CHEC", r.CheckVersionRequest, None, Flags.IN_MULTI
    MULTI = 14, "MULT", None, None, _WRITE  # see .multi for the bodies of 14 and 22
    CREATE2 = 15, "CREA", r.CreateRequest, r.Create2Response, _WRITE_OR_PART
    RECONFIG = 16, "RECO", r.ReconfigRequest, r.GetDataResponse, _WRITE
    CHECK_WATCHES = 17, "CHKW", r.CheckWatchesRequest, None, _READ
    REMOVE_WATCHES = 18, "REMW", r.RemoveWatchesRequest, None, _READ
    CREATE_CONTAINER = 19, "CREA", r.CreateRequest, r.Create2Response, _WRITE_OR_PART
    DELETE_CONTAINER = 20
    CREATE_TTL = 21, "CREA", r.CreateTTLRequest, r.Create2Response, _WRITE_OR_PART
    MULTI_READ = 22, "MLTR", None, None, _READ
    AUTH = 100, "NA", r.AuthPacket, None, Flags.CREDENTIALS
    SET_WATCHES = 101, "SETW", r.SetWatches, None, _READ
    SASL = 102, "NA", r.GetSASLRequest, r.SetSASLResponse, Flags.CREDENTIALS
    GET_EPHEMERALS = 103, "GETE", r.GetEphemeralsRequest, r.GetEphemeralsResponse, _READ
    GET_ALL_CHILDREN_NUMBER = (
        *(104, "GETACN", r.GetAllChildrenNumberRequest),
        *(r.GetAllChildrenNumberResponse, _READ),
    )
    SET_WATCHES2 = 105, "STW2", r.SetWatches2, None, _READ
    ADD_WATCH = 106, "ADDW", r.AddWatchRequest, r.ErrorResponse, _READ
    WHO_AM_I = 107, "HOMI", None, r.WhoAmIResponse, _READ
    CREATE_SESSION = -10, "SESS"
    CLOSE_SESSION = -11, "CLOS", None, None, _WRITE
    ERROR = -1, "NA", None, r.ErrorResponse  # the type of a result in a multi


def with_flags(flags: Flags) -> frozenset[int]:
    """Return the op codes that have any of these flags.

    The codes are plain ints, because the server looks up every request in such a set. To hash or compare a
    member of an enum takes ten times as long as for an int.
    """
    return frozenset(op.value for op in OpCode if op.flags & flags)


CLIENTS = with_flags(Flags.ALONE)
"""The op codes that the engine answers."""
WRITES = with_flags(Flags.TAKES_ZXID)
CREDENTIALS = with_flags(Flags.CREDENTIALS)
PING: int = OpCode.PING.value
CLOSE_SESSION: int = OpCode.CLOSE_SESSION.value
