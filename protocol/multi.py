"""Transactions and batched reads: the bodies of ops 14 and 22 (wire.md section 10).

Both are a run of (MultiHeader, record) closed by a terminator, which no declared record can express.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, NamedTuple

import attrs

from .constants import CreateMode, OpCode
from .jute import JuteError, Record, reader
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

TRANSACTION_OPS: dict[int, type[Record]] = {
    OpCode.CREATE: CreateRequest,
    OpCode.CREATE2: CreateRequest,
    OpCode.CREATE_CONTAINER: CreateRequest,
    OpCode.CREATE_TTL: CreateTTLRequest,
    OpCode.DELETE: DeleteRequest,
    OpCode.SET_DATA: SetDataRequest,
    OpCode.CHECK: CheckVersionRequest,
}
READ_OPS: dict[int, type[Record]] = {
    OpCode.GET_CHILDREN: GetChildrenRequest,
    OpCode.GET_DATA: GetDataRequest,
}


@cache
def _readers() -> dict[int, Callable[..., tuple[Record, int]]]:
    return {int(op): reader(cls) for op, cls in (TRANSACTION_OPS | READ_OPS).items()}


_CREATES = frozenset(op for op, cls in TRANSACTION_OPS.items() if cls in (CreateRequest, CreateTTLRequest))
_RESULTS: dict[int, type[Record]] = {
    OpCode.CREATE: CreateResponse,
    OpCode.CREATE2: Create2Response,
    OpCode.SET_DATA: SetDataResponse,
    OpCode.GET_CHILDREN: GetChildrenResponse,
    OpCode.GET_DATA: GetDataResponse,
    OpCode.ERROR: ErrorResponse,
}
_HEADER = struct.Struct(">iBi")  # MultiHeader
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


_make = MultiOp._make  # a tuple's own constructor, without the detour over keywords


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
    ops: list[MultiOp] = []
    unpack, size = _HEADER.unpack_from, _HEADER.size
    readers = _readers()
    reads = False
    try:
        while True:
            op, done, _ = unpack(data, pos)
            pos += size
            if done:
                break
            read = readers.get(op)
            if read is None:
                raise JuteError(f"op {op} cannot be part of a multi")
            request, pos = read(data, pos)
            if op in _CREATES:
                op, request = _reread_create(op, request)
            elif op in READ_OPS:
                reads = True
            ops.append(_make((op, request)))
    except struct.error:
        raise JuteError("a multi without its end") from None
    if reads and not all(op in READ_OPS for op, _ in ops):
        raise JuteError("a multi cannot mix reads and transaction operations")
    return ops


def _reread_create(op: int, request: Any) -> tuple[int, Record]:
    flags = request.flags
    if op == OpCode.CREATE_TTL:
        if flags in (CreateMode.PERSISTENT_WITH_TTL, CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL):
            return op, request
        request = CreateRequest(request.path, request.data, request.acl, flags)
        return (OpCode.CREATE_CONTAINER if flags == CreateMode.CONTAINER else OpCode.CREATE), request
    if not 0 <= flags <= 6:
        raise JuteError(f"unknown create flag {flags} in a multi")
    if flags >= CreateMode.PERSISTENT_WITH_TTL:
        raise JuteError("a TTL create mode without its TTL")
    return (OpCode.CREATE_CONTAINER if flags == CreateMode.CONTAINER else op), request


def encode_results(results: Iterable[MultiResult]) -> bytes:
    """The response body."""
    parts = []
    for result in results:
        parts.append(MultiHeader(result.type, False, result.err).encode())
        if result.response is not None:
            parts.append(result.response.encode())
    return b"".join([*parts, TERMINATOR])


def decode_results(data: bytes, pos: int = 0) -> list[MultiResult]:
    """Decode a response body; raises :class:`.jute.JuteError`."""
    results: list[MultiResult] = []
    while True:
        header, pos = MultiHeader.read(data, pos)
        if header.done:
            return results
        response: Record | None = None
        if header.type in _RESULTS:
            response, pos = _RESULTS[header.type].read(data, pos)
        elif header.type not in (OpCode.DELETE, OpCode.CHECK):
            raise JuteError(f"unknown result type {header.type} in a multi")
        results.append(MultiResult(header.type, header.err, response))
