"""Transactions and batched reads: the bodies of ops 14 and 22 (wire.md section 10).

The rules:

* Both bodies are a run: pairs of a MultiHeader and a record, and a last header that says ``done``. The type
  field in a header says which record follows. A declared record cannot describe a run, so this module
  compiles its own reader of runs.
* The first type decides whether the run is a transaction or a batch of reads. A run cannot mix reads and
  writes.
* The decoder treats creates as the real server's decoder does (:func:`decode_multi`). So clients get the same
  answers as from the real server.
* The type of a result is the first op code in the table that has the same response record
  (:data:`RESULT_TYPES`). An error has its own type.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import attrs

from .constants import CreateMode
from .jute import JuteError, Record, fields_of
from .jute.compile import ReaderSource, indented
from .operations import Flags, OpCode
from .records import CreateRequest, CreateTTLRequest, MultiHeader


def _requests(flag: Flags) -> dict[int, type[Record]]:
    return {op.value: op.request for op in OpCode if op.flags & flag and op.request is not None}


TRANSACTION_OPS = _requests(Flags.IN_MULTI)
READ_OPS = _requests(Flags.IN_MULTI_READ)
_REQUESTS = TRANSACTION_OPS | READ_OPS

_CREATE, _CREATE_CONTAINER, _CREATE_TTL = (
    op.value for op in (OpCode.CREATE, OpCode.CREATE_CONTAINER, OpCode.CREATE_TTL)
)
_CONTAINER = CreateMode.CONTAINER.value
TTL_MODES = (CreateMode.PERSISTENT_WITH_TTL.value, CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL.value)

_BY_RESPONSE = {OpCode(op).response: op for op in sorted(_REQUESTS, reverse=True) if OpCode(op).response}
RESULT_TYPES = {op: _BY_RESPONSE.get(OpCode(op).response, op) for op in _REQUESTS}
"""The type field of a result, by op code: the first op code that has the same response record. So results for
containers and TTL znodes have the type of create2 (wire.md, trap 30)."""
_RESPONSES = {op: OpCode(op).response for op in (*RESULT_TYPES.values(), OpCode.ERROR.value)}
_INT = struct.Struct(">i")
Reread: TypeAlias = Callable[[int, tuple[Any, ...]], tuple[int, tuple[Any, ...]]]
_Reader: TypeAlias = Callable[[bytes, int], list[tuple[int, tuple[Any, ...]]]]
TERMINATOR = MultiHeader(-1, True, -1).encode()


class NullACLError(JuteError):
    """A create has no ACL. If the first error of a multi is such a create, the multi takes no zxid (wire.md
    section 10)."""


class MultiOp(NamedTuple):
    """One operation of a multi.

    :ivar op: the op code, after the change by the decoder (see :func:`decode_multi`).
    """

    op: int
    request: Record


@attrs.define
class MultiResult:
    """The result of one operation.

    :ivar type: the type of the result on the wire: an op code, or -1 for an error.
    :ivar err: the error code; 0 if the operation succeeded. In a failed transaction, an operation before the
        failed operation has 0, and an operation after the failed operation has -2.
    :ivar response: the record of the response; None for delete and check.
    """

    type: int
    err: int
    response: Record | None


def encode_multi(ops: Iterable[MultiOp]) -> bytes:
    """Encode a request body. The operations are not checked."""
    parts = []
    for item in ops:
        parts += [MultiHeader(item.op, False, -1).encode(), item.request.encode()]
    return b"".join([*parts, TERMINATOR])


def decode_multi(data: bytes, pos: int = 0) -> list[MultiOp]:
    """Decode a request body exactly as the real server does.

    The decoder changes some creates before they are validated. Ops 1 and 15 (create and create2) with flag 4
    create a container. Op 19 (createContainer) creates a container with any flag. Op 21 (createTTL) loses its
    TTL if its flag is not a TTL mode.

    :raises JuteError: the body is malformed.
    """
    return [MultiOp(op, _REQUESTS[op](*fields)) for op, fields in decode_fields(data, pos)]


def reread_create(op: int, fields: tuple[Any, ...]) -> tuple[int, tuple[Any, ...]]:
    """Return the op code and the fields that the real server's decoder reads from a create.

    :raises JuteError: the decoder refuses the create.
    """
    flags = fields[3]
    if op == _CREATE_TTL:
        if flags in TTL_MODES:
            return op, fields
        return (_CREATE_CONTAINER if flags == _CONTAINER else _CREATE), fields[:4]
    if not 0 <= flags <= 6:
        raise JuteError(f"unknown create flag {flags} in a multi")
    if fields[2] is None:
        raise NullACLError("a create with a null ACL in a multi")
    if flags in TTL_MODES:
        raise JuteError("a TTL create mode without its TTL")
    return (_CREATE_CONTAINER if flags == _CONTAINER else op), fields


def decode_fields(data: bytes, pos: int, reread: Reread = reread_create) -> list[tuple[int, tuple[Any, ...]]]:
    """Decode as :func:`decode_multi` does, but return each record as a plain tuple of its values.

    :param reread: a function that changes the op code and the fields of a create, as the decoder does.
    :raises JuteError: the body is malformed.
    """
    transactions, reads = _readers(reread)
    try:
        (op,) = _INT.unpack_from(data, pos)
    except struct.error:
        raise JuteError("a multi without its end") from None
    return (reads if op in READ_OPS else transactions)(data, pos)


def is_spoiled_by_null_acl(data: bytes, pos: int, reread: Reread) -> bool:
    """Return whether the first error of a body that cannot be decoded is a create with a null ACL.

    :param reread: the function that was passed to :func:`decode_fields`.
    """
    reads = _INT.unpack_from(data, pos)[0] in READ_OPS if len(data) >= pos + _INT.size else False
    try:
        while True:
            header, pos = MultiHeader.read(data, pos)
            if header.done or header.type not in _REQUESTS:
                return False
            request, pos = _REQUESTS[header.type].read(data, pos)
            if isinstance(request, CreateRequest | CreateTTLRequest):
                reread(header.type, tuple(getattr(request, name) for name in request.__match_args__))
            if (header.type in READ_OPS) is not reads:
                return False
    except NullACLError:
        return True
    except JuteError:
        return False


@cache
def _readers(reread: Reread) -> tuple[_Reader, _Reader]:
    """Compile the readers of transactions and of reads."""
    creates = (CreateRequest, CreateTTLRequest)
    # The generated reader tries the op codes in this order. The usual operations of large multis come first.
    order = dict.fromkeys((OpCode.SET_DATA.value, OpCode.CHECK.value, *TRANSACTION_OPS))
    writes = {
        op: (cls, reread if cls in creates else None)
        for op, cls in ((op, TRANSACTION_OPS[op]) for op in order)
    }
    reads = {op: (cls, None) for op, cls in READ_OPS.items()}
    return _run_reader(writes), _run_reader(reads)


def _run_reader(kinds: Mapping[int, tuple[type[Record], Reread | None]]) -> _Reader:
    """Compile a reader of a run. In a run, a header precedes each record, and a last header marks the end.


    :param kinds: for each op code, the record, and a function that changes the op code and the fields, or
        None.
    """
    source = ReaderSource("read_run", "data, pos")
    op, done, error, items = map(source.local, ("op", "done", "error", "items"))
    header = fields_of(MultiHeader)

    def next_header() -> None:
        source.read_into((op, done, error), header)  # unpacked with the fields before it
        source.unpack()

    next_header()
    source.lines += [f"{items} = []", f"while not {done}:"]
    for code, (cls, adjust) in kinds.items():
        before, source.lines = source.lines, []
        fields = ", ".join(source.read(fields_of(cls)))
        next_header()
        item = f"({code}, ({fields},))"
        if adjust is not None:
            item = source.constant("adjust", adjust) + item
        source.lines.append(f"{items}.append({item})")
        source.lines = [*before, f"    if {op} == {code}:", *indented([*source.lines, "continue"], 2)]
    source.lines.append(f"    raise JuteError(f'a record has the unknown type {{{op}}}')")
    return source.returning(items, header).function()


def encode_results(results: Iterable[MultiResult]) -> bytes:
    """Encode a response body."""
    parts = []
    for result in results:
        parts.append(MultiHeader(result.type, False, result.err).encode())
        if result.response is not None:
            parts.append(result.response.encode())
    return b"".join([*parts, TERMINATOR])


def decode_results(data: bytes, pos: int = 0, most: float = math.inf) -> list[MultiResult]:
    """Decode a response body.

    :raises JuteError: the body is malformed, or has more than ``most`` results.
    """
    results: list[MultiResult] = []
    while True:
        header, pos = MultiHeader.read(data, pos)
        if header.done:
            return results
        if len(results) >= most:
            raise JuteError(f"more than {most} results in a multi")
        if header.type not in _RESPONSES:
            raise JuteError(f"unknown result type {header.type} in a multi")
        response: Record | None = None
        cls = _RESPONSES[header.type]
        if cls is not None:
            response, pos = cls.read(data, pos)
        results.append(MultiResult(header.type, header.err, response))
