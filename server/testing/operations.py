"""Requests as a test names them: operations by word, znodes by glob."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import attrs

from ...protocol import records
from ...protocol.constants import OpCode
from ...protocol.jute import JuteError, Record
from ...protocol.multi import decode_multi

REQUESTS: dict[int, type[Record]] = {
    OpCode.CREATE: records.CreateRequest,
    OpCode.CREATE2: records.CreateRequest,
    OpCode.CREATE_CONTAINER: records.CreateRequest,
    OpCode.CREATE_TTL: records.CreateTTLRequest,
    OpCode.DELETE: records.DeleteRequest,
    OpCode.EXISTS: records.ExistsRequest,
    OpCode.GET_DATA: records.GetDataRequest,
    OpCode.SET_DATA: records.SetDataRequest,
    OpCode.GET_ACL: records.GetACLRequest,
    OpCode.SET_ACL: records.SetACLRequest,
    OpCode.GET_CHILDREN: records.GetChildrenRequest,
    OpCode.GET_CHILDREN2: records.GetChildren2Request,
    OpCode.GET_ALL_CHILDREN_NUMBER: records.GetAllChildrenNumberRequest,
    OpCode.GET_EPHEMERALS: records.GetEphemeralsRequest,
    OpCode.SYNC: records.SyncRequest,
    OpCode.CHECK_WATCHES: records.CheckWatchesRequest,
    OpCode.REMOVE_WATCHES: records.RemoveWatchesRequest,
    OpCode.ADD_WATCH: records.AddWatchRequest,
    OpCode.SET_WATCHES: records.SetWatches,
    OpCode.SET_WATCHES2: records.SetWatches2,
    OpCode.RECONFIG: records.ReconfigRequest,
}
"""What each request that has a record of its own is read as."""

_FAMILIES: dict[str, tuple[OpCode, ...]] = {
    # Clients choose among these by themselves, so a test need not know which it will be.
    "create": (OpCode.CREATE, OpCode.CREATE2, OpCode.CREATE_CONTAINER, OpCode.CREATE_TTL),
    "delete": (OpCode.DELETE,),
    "exists": (OpCode.EXISTS,),
    "get_data": (OpCode.GET_DATA,),
    "set_data": (OpCode.SET_DATA,),
    "get_acl": (OpCode.GET_ACL,),
    "set_acl": (OpCode.SET_ACL,),
    "get_children": (OpCode.GET_CHILDREN, OpCode.GET_CHILDREN2),
    "get_all_children_number": (OpCode.GET_ALL_CHILDREN_NUMBER,),
    "get_ephemerals": (OpCode.GET_EPHEMERALS,),
    "sync": (OpCode.SYNC,),
    "ping": (OpCode.PING,),
    "multi": (OpCode.MULTI,),
    "multi_read": (OpCode.MULTI_READ,),
    "reconfig": (OpCode.RECONFIG,),
    "set_watches": (OpCode.SET_WATCHES, OpCode.SET_WATCHES2),
    "add_watch": (OpCode.ADD_WATCH,),
    "check_watches": (OpCode.CHECK_WATCHES,),
    "remove_watches": (OpCode.REMOVE_WATCHES,),
    "who_am_i": (OpCode.WHO_AM_I,),
    "close_session": (OpCode.CLOSE_SESSION,),
}
_ALIASES = {"get": "get_data", "set": "set_data", "close": "close_session"}
_NAMES = {op.value: name for name, ops in _FAMILIES.items() for op in ops}
_BY_WORD = {name.replace("_", ""): name for name in _FAMILIES} | _ALIASES
_KNOWN_OPS = {op.name.lower().replace("_", "") for op in OpCode}

ALL_BUT_PING = frozenset(_NAMES) - {OpCode.PING.value}


def name_of(op: int) -> str:
    """The word for an op code; all creates are ``create``."""
    return _NAMES.get(op) or (OpCode(op).name.lower() if op in list(OpCode) else f"op {op}")


def op_codes(op: str | Iterable[str] | None) -> frozenset[int]:
    """The op codes meant by one or several words; None is everything but pings.

    Underscores and capitals do not matter. Raises :class:`ValueError` for a word that is no operation.
    """
    if op is None:
        return ALL_BUT_PING
    words = (op,) if isinstance(op, str) else tuple(op)
    return frozenset(code.value for word in words for code in _FAMILIES[operation_name(word)])


def operation_name(word: str) -> str:
    """The name of an operation as it is written in this package."""
    key = word.replace("_", "").lower()
    if key in _BY_WORD:
        return _BY_WORD[key]
    if key in _KNOWN_OPS:
        raise ValueError(
            f"op {word!r} is no request that passes the engine, so it can be neither matched nor spoiled; "
            "to keep clients out use refuse_connections()"
        )
    raise ValueError(f"unknown op {word!r}; there are: {', '.join(sorted(_FAMILIES))}")


def decode(op: int, frame: bytes) -> Record | None:
    """The record of a request, which begins behind its header; None if it has none or is malformed."""
    cls = REQUESTS.get(op)
    try:
        return cls.read(frame, 8)[0] if cls else None
    except JuteError:
        return None


def paths_in(op: int, frame: bytes) -> list[str]:
    """The paths that a request names: none, one, or those inside a multi or a setWatches."""
    if op in (OpCode.MULTI, OpCode.MULTI_READ):
        try:
            found = [getattr(item.request, "path", None) for item in decode_multi(frame, 8)]
        except JuteError:
            found = []
    else:
        found = []
        request = decode(op, frame)
        for name in ("path", "prefixPath"):
            found.append(getattr(request, name, None))
        for name in ("dataWatches", "existWatches", "childWatches"):
            found += getattr(request, name, None) or ()
        for name in ("persistentWatches", "persistentRecursiveWatches"):
            found += getattr(request, name, None) or ()
    return [path for path in found if path is not None]


def glob(pattern: str) -> re.Pattern[str]:
    """Compile a path glob: ``*`` is any text within one name, ``**`` any text at all, ``?`` one character."""
    parts = re.split(r"(\*\*|\*|\?)", pattern)
    words = {"**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(words.get(part) or re.escape(part) for part in parts), re.DOTALL)


@attrs.frozen
class Selection:
    """Which messages a fault or a hold is meant for.

    :ivar ops: op codes.
    :ivar pattern: what a path must match; None for any message.
    :ivar session: a session's id; None for any.
    """

    ops: frozenset[int]
    pattern: re.Pattern[str] | None
    session: int | None

    @classmethod
    def of(cls, op: str | Iterable[str] | None, path: str | None, session: int | None) -> Selection:
        """:raises ValueError: for a word that is no operation."""
        return cls(op_codes(op), None if path is None else glob(path), session)

    def has_request(self, session: int, op: int, frame: bytes) -> bool:
        """Whether a request of this session is meant."""
        return op in self.ops and self.has_paths(session, lambda: paths_in(op, frame))

    def has_paths(self, session: int, paths: Callable[[], Iterable[str]]) -> bool:
        """Whether a message of this session about one of these paths is meant."""
        if self.session not in (None, session):
            return False
        pattern = self.pattern
        return pattern is None or any(pattern.fullmatch(path) for path in paths())
