"""Descriptions of requests, replies and events in words, for the flight recorder.

A client decides how large its messages are, and other clients wait while a message is described. So only the
first 4 KiB of a larger message and the few fields at the end of the message are read. The time and the memory
of a description do not grow with the size of the message. The description of a larger message ends with the
size of the message in bytes.
"""

from __future__ import annotations

import codecs
import struct
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

import attrs

from ...protocol import records
from ...protocol.constants import AddWatchMode, CreateMode, EventType
from ...protocol.errors import error_for
from ...protocol.jute import JuteError
from ...protocol.multi import READ_OPS, TRANSACTION_OPS, decode_multi
from ...protocol.operations import CLIENTS, OpCode
from .operations import decode, name_of, paths_in

_TEXT = 32  # characters of data that are shown
_NAMES = 6  # names of children, or operations of a multi, that are shown

_HEADER = 16  # bytes: xid, zxid and error code of a reply
_REFUSED = b"\xff\xff\xff\xff"  # the first result of a multi that was refused is an error, as all of them are
_RESULT = struct.Struct(">i?ii")
"""One result of a refused multi: the type -1, a false ``done``, and the error code twice."""
LARGE = 4096
"""Only this number of bytes is read from the beginning of a larger message."""
_SAMPLE = 64 * 1024
"""Large replies are compared by this number of bytes at each of their two ends."""
_INT = struct.Struct(">i")
_BEGINS_MULTI = struct.Struct(">i?i")  # records.MultiHeader
_WATCHING = (OpCode.EXISTS, OpCode.GET_DATA, OpCode.GET_CHILDREN, OpCode.GET_CHILDREN2)
_SETS_WATCHES = (OpCode.SET_WATCHES, OpCode.SET_WATCHES2)

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
    """The fields of one operation of a request, for programs.

    :ivar op: its name.
    :ivar kind: the kind of a create: ``ephemeral``, ``sequential``, ``ephemeral, sequential`` ...; empty if
        plain.
    :ivar version: the version that the znode must have; -1 means every version.
    :ivar empty: whether the data is null.
    """

    op: str
    path: str
    kind: str = ""
    watch: bool = False
    version: int = -1
    empty: bool = True


@attrs.frozen(kw_only=True)
class Facts:
    """The facts about a message, as values for programs.

    :ivar asked: the operations of a request.
    :ivar size: the size of the whole message, in bytes, without the four bytes of the length.
    :ivar answer: a hash of the reply. Two replies with the same content have the same hash.
    :ivar created: the path of the new znode, in the reply to a create.
    :ivar refused: for a refused multi: the operation that failed, from 0, and its error code.
    :ivar step: for an event: ``created``, ``deleted``, ``changed``, ``children changed``; for a session:
        ``begins``, ``closed``, ``expired``; for a connection: ``opened``, ``attached``, ``refused``,
        ``over``.
    :ivar timeout: the timeout of a session that begins, in seconds.
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

    :ivar path: the znode concerned, if there is exactly one.
    :ivar paths: all znodes concerned.
    """

    text: str
    path: str | None = None
    paths: Sequence[str] = ()
    facts: Facts = NO_FACTS


def data_text(data: bytes | None, size: int | None = None) -> str:
    """Show a znode's data, short enough for a line. If there is much data, only the beginning is read.

    :param size: the size of the data in bytes, if ``data`` is only the beginning of the data.
    """
    if data is None:
        return "null"
    size = len(data) if size is None else size
    try:
        # Of a part the last character may be cut
        text = data.decode() if size <= min(len(data), LARGE) else _decoder().decode(data[:LARGE])
    except UnicodeDecodeError:
        return f"<{size:,} bytes>"
    if not text.isprintable():
        return f"<{size:,} bytes>"
    whole = len(text) <= _TEXT and size <= len(data)
    return repr(text) if whole else f"{text[:_TEXT]!r}.. ({size:,} bytes)"


def error_name(err: int) -> str:
    """Return the name of the exception for an error code."""
    return type(error_for(err)).__name__ if err else "ok"


def describe_request(op: int, frame: bytes) -> Described:
    """Describe a request; ``frame`` begins with its header."""
    if len(frame) > LARGE:
        return _describe_large(op, frame)
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


def some(words: Sequence[str], count: int | None = None) -> str:
    """Show the first few names of a collection.

    :param count: the number of all names, if ``words`` does not have all names.
    """
    return _some(words, len(words) if count is None else count)


def _some(first: Sequence[str], count: int) -> str:
    """Show the first few names, and how many names are not shown."""
    shown = first[:_NAMES]
    more = f", and {count - len(shown)} more" if count > len(shown) else ""
    return f"[{', '.join(shown)}{more}]"


def describe_reply(op: int, request_path: str | None, err: int, body: bytes) -> str:
    """Describe the reply to a request."""
    if err:
        return error_name(err)
    try:
        return _result(op, request_path, body) or "ok"
    except (JuteError, struct.error):
        return "ok"


def reply_facts(op: int, err: int, body: bytes) -> Facts:
    """Return the facts about a reply, for programs."""
    created, refused = None, None
    if not err and op in _CREATES:
        created = next(_strings(body[:LARGE], 0), None)
    elif op == OpCode.MULTI and body.startswith(_REFUSED):
        refused = _refusal(body)
    told = body if len(body) <= 2 * _SAMPLE else (len(body), body[:_SAMPLE], body[-_SAMPLE:])
    return Facts(size=len(body) + _HEADER, answer=hash((err, told)), created=created, refused=refused)


def _refusal(body: bytes) -> tuple[int, int] | None:
    """Return the number of the refused operation of a multi, from 0, and its error code. None if no operation
    was refused.

    In the reply to a refused multi, all results have the same size. The results before the refused operation
    have the error code 0, and all other results have an error.
    """

    def error(number: int) -> int:
        err: int = _RESULT.unpack_from(body, number * _RESULT.size)[2]
        return err

    count = len(body) // _RESULT.size
    number = bisect_left(range(count), True, key=lambda n: error(n) != 0)
    return (number, error(number)) if number < count else None


def _result(op: int, request_path: str | None, body: bytes) -> str:
    head = body[:LARGE]
    if op in _CREATES:
        path = next(_strings(head, 0), "")
        # of a sequential znode only the end is news
        return "ok" if path == request_path else f"..{path[len(request_path or '') :]}"
    if op == OpCode.GET_DATA:
        (size,) = _INT.unpack_from(body)
        stat = records.Stat.read(body, 4 + max(size, 0))[0]
        return f"{data_text(None if size < 0 else head[4 : 4 + size], size)} version {stat.version}"
    if op in (OpCode.EXISTS, OpCode.SET_DATA):
        return f"version {records.ExistsResponse.read(body)[0].stat.version}"
    if op in (OpCode.GET_CHILDREN, OpCode.GET_CHILDREN2):
        (count,) = _INT.unpack_from(body)
        names = [name for _, name in zip(range(count), _strings(head, 4), strict=False)]
        # of very many not the first in their order, but the first that were sent
        return _some(sorted(names) if len(names) == count else names, max(count, 0))
    if op == OpCode.MULTI:
        refused = _refusal(body) if body.startswith(_REFUSED) else None
        return f"{error_name(refused[1])} at operation {refused[0]}" if refused else "ok"
    return "ok"


# --- what is large -----------------------------------------------------------------------------------------


def _decoder() -> codecs.IncrementalDecoder:
    return codecs.getincrementaldecoder("utf-8")()


def _strings(head: bytes, pos: int) -> Iterator[str]:
    """Yield the strings at the beginning of a message. The last string may be incomplete."""
    while pos + 4 <= len(head):
        (size,) = _INT.unpack_from(head, pos)
        pos += 4
        if size >= 0:
            yield head[pos : pos + size].decode("utf-8", "replace")
            pos += size


def _describe_large(op: int, frame: bytes) -> Described:
    """Describe a request by its beginning, and the fields at its end."""
    name, head = name_of(op), frame[:LARGE]
    facts, total = Facts(size=len(frame)), f"({len(frame):,} bytes)"
    if op in (OpCode.MULTI, OpCode.MULTI_READ):
        asked = list(_first_operations(head))
        paths = [each.path for each in asked]
        shown = ", ".join(f"{each.op} {each.path}" for each in asked[:_NAMES])
        return Described(f"{name} [{shown}, ..] {total}", None, paths, attrs.evolve(facts, asked=asked))
    if op in _SETS_WATCHES:
        paths = list(_strings(head, 20))[:-1]  # behind the zxid and the count; the last one may be cut
        return Described(f"{name} [{', '.join(paths[:_NAMES])}, ..] {total}", None, paths, facts)
    if "path" not in getattr(OpCode(op).request if op in CLIENTS else None, "__annotations__", ()):
        return Described(f"{name} {total}", facts=facts)
    path = next(_strings(head, 8), "")
    words, kind, version, empty = [name, path], "", -1, True
    if op in _CREATES:
        (flags,) = _INT.unpack_from(frame, len(frame) - (12 if op == OpCode.CREATE_TTL else 4))
        kind = "container" if op == OpCode.CREATE_CONTAINER else _kind(flags)
    elif op in (OpCode.SET_DATA, OpCode.SET_ACL, OpCode.DELETE, OpCode.CHECK):
        (version,) = _INT.unpack_from(frame, len(frame) - 4)
    if op in _CREATES or op == OpCode.SET_DATA:
        at = 12 + max(_INT.unpack_from(frame, 8)[0], 0)
        size = _INT.unpack_from(frame, at)[0] if at + 4 <= len(frame) else 0
        empty = size <= 0
        if not empty:
            words.append(data_text(head[at + 4 : at + 4 + size], size))
    watch = op in _WATCHING and frame.endswith(b"\1")
    words += [f"({kind})"] if kind else []
    words += ["+watch"] if watch else []
    words += [f"if version {version}"] if version != -1 else []
    if total[1:] not in words[-1]:
        words.append(total)
    asked = [Asked(name, path, kind, watch, version, empty)]
    return Described(" ".join(words), path, [path], attrs.evolve(facts, asked=asked))


def _first_operations(head: bytes) -> Iterator[Asked]:
    """Yield the complete operations at the beginning of a multi."""
    pos = 8
    with suppress(JuteError, struct.error):
        while True:
            op, done, _ = _BEGINS_MULTI.unpack_from(head, pos)
            cls = (TRANSACTION_OPS | READ_OPS).get(op)
            if done or cls is None:
                return
            request, pos = cls.read(head, pos + _BEGINS_MULTI.size)
            yield _asked(op, str(getattr(request, "path", "")), request)


def describe_event(event: EventType) -> str:
    return _EVENTS.get(event, event.name.lower())
