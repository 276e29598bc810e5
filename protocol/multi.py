"""Transactions and batched reads: the bodies of ops 14 and 22 (wire.md section 10).

Both are a run of (MultiHeader, record) closed by a terminator, which no declared record can express.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import attrs

from .constants import CreateMode, OpCode
from .jute import JuteError, Record, run_reader
from .records import (
    CheckVersionRequest,
    Create2Response,
    CreateRequest,
    CreateResponse,
    CreateTTLRequest,
    DeleteRequest,
    ErrorResponse,
    GetChildrenRequest,
    GetChildrenResponse,
    GetDataRequest,
    GetDataResponse,
    MultiHeader,
    SetDataRequest,
    SetDataResponse,
)

TRANSACTION_OPS: dict[int, type[Record]] = {  # in the order in which a decoder tries them
    OpCode.SET_DATA: SetDataRequest,
    OpCode.CHECK: CheckVersionRequest,
    OpCode.CREATE: CreateRequest,
    OpCode.DELETE: DeleteRequest,
    OpCode.CREATE2: CreateRequest,
    OpCode.CREATE_CONTAINER: CreateRequest,
    OpCode.CREATE_TTL: CreateTTLRequest,
}
READ_OPS: dict[int, type[Record]] = {
    OpCode.GET_CHILDREN: GetChildrenRequest,
    OpCode.GET_DATA: GetDataRequest,
}


_REQUESTS = {int(op): cls for op, cls in (TRANSACTION_OPS | READ_OPS).items()}
_READS = frozenset(map(int, READ_OPS))
# plain ints: to compare with a member of an enum costs ten times as much
_CREATE, _CREATE_CONTAINER, _CREATE_TTL = (
    op.value for op in (OpCode.CREATE, OpCode.CREATE_CONTAINER, OpCode.CREATE_TTL)
)
_CONTAINER = CreateMode.CONTAINER.value
_TTL_MODES = (CreateMode.PERSISTENT_WITH_TTL.value, CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL.value)

_RESULTS: dict[int, type[Record]] = {
    OpCode.CREATE: CreateResponse,
    OpCode.CREATE2: Create2Response,
    OpCode.SET_DATA: SetDataResponse,
    OpCode.GET_CHILDREN: GetChildrenResponse,
    OpCode.GET_DATA: GetDataResponse,
    OpCode.ERROR: ErrorResponse,
}
_INT = struct.Struct(">i")
_Reader: TypeAlias = Callable[[bytes, int], list[tuple[int, tuple[Any, ...]]]]
TERMINATOR = MultiHeader(-1, True, -1).encode()


class MultiOp(NamedTuple):
    """One operation of a multi.

    :ivar op: its op code, after the decoder's own reading of it (see :func:`decode_multi`).
    """

    op: int
    request: Record


@attrs.define
class MultiResult:
    """The result of one operation.

    :ivar type: the result type of the wire, an op code or -1 (error).
    :ivar err: the error code, 0 if it succeeded. In a failed transaction: 0 before the operation that
        failed, its own code at it, -2 after it.
    :ivar response: its record; None for delete and check.
    """

    type: int
    err: int
    response: Record | None


def encode_multi(ops: Iterable[MultiOp]) -> bytes:
    """The request body: each operation as it is, with no check of what a server would accept."""
    parts = []
    for item in ops:
        parts += [MultiHeader(item.op, False, -1).encode(), item.request.encode()]
    return b"".join([*parts, TERMINATOR])


def decode_multi(data: bytes, pos: int = 0) -> list[MultiOp]:
    """Decode a request body as the real server does, quirks included; raises :class:`.jute.JuteError`.

    The decoder changes some creates before anything validates them: flag 4 makes a container of ops 1 and
    15, op 19 makes one whatever its flag, op 21 with a flag that is no TTL mode loses its TTL.
    """
    return [MultiOp(op, _REQUESTS[op](*fields)) for op, fields in decode_fields(data, pos)]


def decode_fields(data: bytes, pos: int) -> list[tuple[int, tuple[Any, ...]]]:
    """The same with the values of each record as a plain tuple."""
    transaction, reads = _readers()
    try:
        (op,) = _INT.unpack_from(data, pos)
    except struct.error:
        raise JuteError("a multi without its end") from None
    return (reads if op in _READS else transaction)(data, pos)


@cache
def _readers() -> tuple[_Reader, _Reader]:
    """Of transactions, and of reads: they do not mix."""
    writes = {
        int(op): (cls, _reread_create if cls in (CreateRequest, CreateTTLRequest) else None)
        for op, cls in TRANSACTION_OPS.items()
    }
    reads = {int(op): (cls, None) for op, cls in READ_OPS.items()}
    return run_reader(MultiHeader, writes), run_reader(MultiHeader, reads)


def _reread_create(op: int, fields: tuple[Any, ...]) -> tuple[int, tuple[Any, ...]]:
    flags = fields[3]
    if op == _CREATE_TTL:
        if flags in _TTL_MODES:
            return op, fields
        return (_CREATE_CONTAINER if flags == _CONTAINER else _CREATE), fields[:4]
    if not 0 <= flags <= 6:
        raise JuteError(f"unknown create flag {flags} in a multi")
    if flags in _TTL_MODES:
        raise JuteError("a TTL create mode without its TTL")
    return (_CREATE_CONTAINER if flags == _CONTAINER else op), fields


def encode_results(results: Iterable[MultiResult]) -> bytes:
    """The response body."""
    parts = []
    for result in results:
        parts.append(MultiHeader(result.type, False, result.err).encode())
        if result.response is not None:
            parts.append(result.response.encode())
    return b"".join([*parts, TERMINATOR])


def decode_results(data: bytes, pos: int = 0, most: float = math.inf) -> list[MultiResult]:
    """Decode a response body; raises :class:`.jute.JuteError`, also for more than ``most`` results."""
    results: list[MultiResult] = []
    while True:
        header, pos = MultiHeader.read(data, pos)
        if header.done:
            return results
        if len(results) >= most:
            raise JuteError(f"more than {most} results in a multi")
        response: Record | None = None
        if header.type in _RESULTS:
            response, pos = _RESULTS[header.type].read(data, pos)
        elif header.type not in (OpCode.DELETE, OpCode.CHECK):
            raise JuteError(f"unknown result type {header.type} in a multi")
        results.append(MultiResult(header.type, header.err, response))
