"""Requests, replies and events in words, for the flight recorder."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import attrs

from ...protocol import records
from ...protocol.constants import AddWatchMode, CreateMode, EventType
from ...protocol.errors import RuntimeInconsistencyError, error_for
from ...protocol.jute import JuteError
from ...protocol.multi import decode_multi, decode_results
from ...protocol.operations import OpCode
from .operations import decode, name_of, paths_in

_TEXT = 32  # characters of data that are shown
_NAMES = 6  # names of children, or operations of a multi, that are shown

_HEADER = 16  # bytes: xid, zxid and error code of a reply
_REFUSED = b"\xff\xff\xff\xff"  # the first result of a multi that was refused is an error, as all of them are

_CREATES = (OpCode.CREATE, OpCode.CREATE2, OpCode.CREATE_CONTAINER, OpCode.CREATE_TTL)
_KINDS = {
    CreateMode.PERSISTENT: "",
    CreateMode.EPHEMERAL: "ephemeral",
    CreateMode.PERSISTENT_SEQUENTIAL: "sequential",
    CreateMode.EPHEMERAL_SEQUENTIAL: "ephemeral, sequential",
    CreateMode.CONTAINER: "container",
    CreateMode.PERSISTENT_WITH_TTL: "TTL",
    CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL: "sequential, TTL",
}
_EVENTS = {
    EventType.CREATED: "created",
    EventType.DELETED: "deleted",
    EventType.CHANGED: "changed",
    EventType.CHILD: "children changed",
}


@attrs.frozen
class Asked:
    """One operation of a request, for programs.

    :ivar op: its name.
    :ivar kind: of a create: ``ephemeral``, ``sequential``, ``ephemeral, sequential`` ...; empty if plain.
    :ivar version: that the znode must have; -1 for any.
    :ivar empty: whether it brings no data.
    """

    op: str
    path: str
    kind: str = ""
    watch: bool = False
    version: int = -1
    empty: bool = True


@attrs.frozen(kw_only=True)
class Facts:
    """What programs need to know of a message, beside its words.

    :ivar asked: the operations of a request.
    :ivar size: of the whole message, in bytes, without its length.
    :ivar answer: a number that is another for another reply.
    :ivar created: the path of the new znode, in the reply to a create.
    :ivar refused: of a multi that was refused: which operation, from 0, and its error code.
    :ivar step: of an event: ``created``, ``deleted``, ``changed``, ``children changed``. Of a session:
        ``begins``, ``closed``, ``expired``. Of a connection: ``opened``, ``attached``, ``refused``, ``over``.
    :ivar timeout: of a session that begins, in seconds.
    """

    asked: Sequence[Asked] = ()
    size: int = 0
    answer: int = 0
    created: str | None = None
    refused: tuple[int, int] | None = None
    step: str = ""
    timeout: float = 0.0


NO_FACTS: Final = Facts()


@attrs.frozen
class Described:
    """A message in words.

    :ivar path: the znode concerned, if it is one.
    :ivar paths: all znodes concerned.
    """

    text: str
    path: str | None = None
    paths: Sequence[str] = ()
    facts: Facts = NO_FACTS


def data_text(data: bytes | None) -> str:
    """Show a znode's data, short enough for a line."""
    if data is None:
        return "null"
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return f"<{len(data):,} bytes>"
    if not text.isprintable():
        return f"<{len(data):,} bytes>"
    return repr(text) if len(text) <= _TEXT else f"{text[:_TEXT]!r}.. ({len(data):,} bytes)"


def error_name(err: int) -> str:
    """Return the name of the exception for an error code."""
    return type(error_for(err)).__name__ if err else "ok"


def describe_request(op: int, frame: bytes) -> Described:
    """Describe a request; ``frame`` begins with its header."""
    if op in (OpCode.MULTI, OpCode.MULTI_READ):
        return _describe_multi(op, frame)
    request = decode(op, frame)
    path = getattr(request, "path", None)
    words = [name_of(op)]
    if path is not None:
        words.append(path)
    if request is not None:
        words += _arguments(op, request)
    asked = () if path is None else (_asked(op, path, request),)
    paths = [path] if path is not None else paths_in(op, frame)
    return Described(" ".join(words), path, paths, Facts(asked=asked, size=len(frame)))


def _asked(op: int, path: str, request: Any) -> Asked:
    kind = ""
    if isinstance(request, records.CreateRequest | records.CreateTTLRequest):
        kind = "container" if op == OpCode.CREATE_CONTAINER else _kind(request.flags)
    watch, version = getattr(request, "watch", False), getattr(request, "version", -1)
    return Asked(name_of(op), path, kind, watch, version, not getattr(request, "data", None))


def _arguments(op: int, request: Any) -> list[str]:
    words: list[str] = []
    if isinstance(request, records.CreateRequest | records.CreateTTLRequest):
        kind = "container" if op == OpCode.CREATE_CONTAINER else _kind(request.flags)
        if request.data:
            words.append(data_text(request.data))
        if kind:
            words.append(f"({kind})")
    elif isinstance(request, records.SetDataRequest):
        words.append(data_text(request.data))
    elif isinstance(request, records.AddWatchRequest):
        words.append("recursive" if request.mode == AddWatchMode.PERSISTENT_RECURSIVE else "persistent")
    elif isinstance(request, records.SetWatches | records.SetWatches2):
        armed = [*(request.dataWatches or ()), *(request.existWatches or ()), *(request.childWatches or ())]
        words.append(some([str(path) for path in armed]))
    if getattr(request, "watch", False):
        words.append("+watch")
    if getattr(request, "version", -1) != -1:
        words.append(f"if version {request.version}")
    return words


def _kind(flags: int) -> str:
    return _KINDS.get(CreateMode(flags), "") if flags in list(CreateMode) else f"flags {flags}"


def _describe_multi(op: int, frame: bytes) -> Described:
    try:
        items = decode_multi(frame, 8)
    except JuteError:
        return Described(f"{name_of(op)} (malformed)")
    operations, asked = [], []
    for item in items:
        request: Any = item.request
        asked.append(_asked(item.op, str(request.path), request))
        words = [name_of(item.op), str(request.path), *_arguments(item.op, request)]
        operations.append(" ".join(words))
    path = getattr(items[0].request, "path", None) if len(items) == 1 else None
    facts = Facts(asked=asked, size=len(frame))
    return Described(f"{name_of(op)} {some(operations)}", path, paths_in(op, frame), facts)


def some(words: Sequence[str]) -> str:
    """Show the first few of some names."""
    shown = ", ".join(words[:_NAMES])
    return f"[{shown}]" if len(words) <= _NAMES else f"[{shown}, and {len(words) - _NAMES} more]"


def describe_reply(op: int, request_path: str | None, err: int, body: bytes) -> str:
    """Describe the reply to a request."""
    if err:
        return error_name(err)
    try:
        return _result(op, request_path, body) or "ok"
    except JuteError:
        return "ok"


def reply_facts(op: int, err: int, body: bytes) -> Facts:
    """Return what programs need to know of a reply."""
    created, refused = None, None
    with suppress(JuteError):
        if not err and op in _CREATES:
            created = records.CreateResponse.read(body)[0].path
        elif op == OpCode.MULTI and body.startswith(_REFUSED):
            refused = _refusal(body)
    return Facts(size=len(body) + _HEADER, answer=hash((err, body)), created=created, refused=refused)


def _refusal(body: bytes) -> tuple[int, int] | None:
    """Return which operation of a multi was refused, from 0, and its error code; None if none was."""
    for number, result in enumerate(decode_results(body)):
        if result.err and result.err != RuntimeInconsistencyError.code:  # the code of those beside it
            return number, result.err
    return None


def _result(op: int, request_path: str | None, body: bytes) -> str:
    if op in _CREATES:
        path = records.CreateResponse.read(body)[0].path
        # of a sequential znode only the end is news
        return "ok" if path == request_path else f"..{path[len(request_path or '') :]}"
    if op == OpCode.GET_DATA:
        response = records.GetDataResponse.read(body)[0]
        return f"{data_text(response.data)} version {response.stat.version}"
    if op in (OpCode.EXISTS, OpCode.SET_DATA):
        return f"version {records.ExistsResponse.read(body)[0].stat.version}"
    if op in (OpCode.GET_CHILDREN, OpCode.GET_CHILDREN2):
        return some(sorted(records.GetChildrenResponse.read(body)[0].children or ()))
    if op == OpCode.MULTI:
        refused = _refusal(body)
        return f"{error_name(refused[1])} at operation {refused[0]}" if refused else "ok"
    return "ok"


def describe_event(event: EventType) -> str:
    return _EVENTS.get(event, event.name.lower())
