"""Several operations in one request: ``multi`` and ``multi_read`` (semantics.md section 11, wire.md
section 10). The rules:

* A transaction holds writes and checks. It takes one zxid, and is applied as a whole or not at all.
* Its operations use the same resolvers as single requests (:mod:`.writes`). Each operation is applied before
  the next one is validated, and the tree keeps a journal of the changes.
* If an operation fails, the journal undoes all changes. The reply is not an error: its body has a code for
  each operation.
* A null path in any operation makes the whole request fail: the reply is an error, and has no body. A null
  ACL makes the whole request fail too, and such a request takes no zxid.
* A multiRead takes no zxid and sets no watch. Each of its reads has its own result. It is done in steps
  (:mod:`.long`). The last step joins the parts of the reply, because a small request can ask for many MB.
* One request must not hold both reads and writes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from ....protocol import records
from ....protocol.errors import MarshallingError, RuntimeInconsistencyError, ZooKeeperError
from ....protocol.jute import JuteError
from ....protocol.multi import (
    READ_OPS,
    RESULT_TYPES,
    TERMINATOR,
    TRANSACTION_OPS,
    Reread,
    decode_fields,
    is_spoiled_by_null_acl,
)
from ....protocol.operations import OpCode
from ....protocol.records import MultiHeader
from ..txn import Change, Create, Refused
from .long import Steps, in_steps
from .reads import get_children, readable
from .writes import RESOLVERS

if TYPE_CHECKING:
    from ..client import Client
    from ..transactions import Transactions

_GET_DATA, _GET_CHILDREN = OpCode.GET_DATA.value, OpCode.GET_CHILDREN.value
_OK = {op: MultiHeader(type_, False, 0).encode() for op, type_ in RESULT_TYPES.items()}
PARTS = {op: (*RESOLVERS[op], _OK[op]) for op in TRANSACTION_OPS}
"""The resolver, whether the result holds a Stat, and the header of the result, by op code."""
_AT = 8
"""The position of the body in a frame, after the xid and the op code."""
_STEP = 32
"""The number of reads in one step (:mod:`.long`)."""
_LARGE = 2**20
"""A reply with more bytes than this number is joined from its parts in a separate step."""
_COPYING = 3e-10
"""The time in seconds that copying one byte of a large reply takes."""
_NEVER = RuntimeInconsistencyError.code
_GET_DATA_OK = partial(
    struct.Struct(">iBii").pack, _GET_DATA, 0, 0
)  # MultiHeader, then the length of the data
_LENGTH = struct.Struct(">i").pack


class RefusedRead(Exception):
    """A refused multiRead whose reply still has a body."""

    def __init__(self, code: int, body: bytes) -> None:
        super().__init__(code)
        self.code = code
        self.body = body


class NoZxidError(Exception):
    """A multi that is refused as a whole, and takes no zxid.

    :ivar body: the body of the reply.
    """

    def __init__(self, code: int, body: bytes = b"") -> None:
        super().__init__(code)
        self.code = code
        self.body = body


def multi(engine: Transactions, client: Client, frame: bytes) -> bytes:
    """Carry out all writes of a transaction under one zxid, or none of them.

    Each operation is validated and applied before the next operation, which sees its result. If an operation
    fails, all changes are undone. Watches fire when all operations have succeeded.

    No other request is processed meanwhile. An operation takes 2 to 5 us, with the time to undo it, and 3 us
    more for each entry of an ACL. This time does not depend on the number of operations and the size of the
    tree. A multi of 1 MB has some 40,000 operations and takes 0.05 to 0.2 s.

    :raises ZooKeeperError: the body cannot be decoded, or it has a read or a null path.
    :raises NoZxidError: the body has a null ACL.
    :raises Exception: a bug or a lack of memory; all changes are undone.
    """
    try:
        requests = _decode(frame, engine.reread)
    except MarshallingError as error:
        if is_spoiled_by_null_acl(frame, _AT, engine.reread):
            raise NoZxidError(error.code) from None
        raise
    if requests and requests[0][0] in READ_OPS:
        raise MarshallingError(None, "reads in a transaction")
    tree = engine.tree
    results: list[bytes] = []
    tree.begin()
    try:
        changes = engine.carry_out(client, requests, results)
    except Exception as error:
        tree.roll_back()
        if isinstance(error, MarshallingError) or not isinstance(error, ZooKeeperError):
            raise  # an internal failure makes the whole multi fail
        if any(request[0] is None for _, request in requests):
            raise MarshallingError(None, "a null path") from None
        if engine.on_refusal is not None:
            engine.on_refusal(error)
        engine.record(Refused(error.code), client.session_id, frame)
        return failure(len(requests), len(results) // 2, error.code)
    tree.commit()
    if changes or engine.is_recorded:
        engine.written_together(client, frame, changes)
    results.append(TERMINATOR)
    return b"".join(results)


def carry_out(
    engine: Transactions,
    client: Client,
    requests: Iterable[tuple[int, tuple[Any, ...]]],
    results: list[bytes],
) -> list[Change]:
    """Resolve and apply each operation, and encode its :class:`~pyzk.protocol.multi.MultiResult`.

    :param results: the list to which two entries are added for each operation: the header, with the path of a
        create; and the Stat, or empty bytes.
    :returns: the changes; an empty list if there are neither watchers nor a history.
    """
    change, zxid, time = engine.tree.change, engine.zxid, engine.time
    changes: list[Change] = []
    note = engine.note_parts(changes)
    parts, append = PARTS, results.append
    for op, request in requests:
        resolve, with_stat, result = parts[op]
        kind, fields, at = resolve(engine, client, request)
        node = change(kind, fields, at, zxid, time)
        if note is not None:
            note(kind, fields, node, at)
        if kind is Create:
            path = fields[0].encode()
            result += _LENGTH(len(path)) + path
        append(result)
        append(node.packed_stat() if with_stat else b"")
    return changes


def failure(total: int, failed: int, code: int) -> bytes:
    """Encode the results of a transaction that failed. The result of the failed operation has the error code
    of this operation. The results of earlier operations have 0, and the results of later operations have -2.

    :param failed: the index of the operation that failed.
    """
    return _error(0) * failed + _error(code) + _error(_NEVER) * (total - failed - 1) + TERMINATOR


def _error(code: int) -> bytes:
    return MultiHeader(OpCode.ERROR, False, code).encode() + records.ErrorResponse(code).encode()


@in_steps
def multi_read(engine: Transactions, client: Client, frame: bytes) -> Steps:
    """Carry out some reads. Each read succeeds or fails alone, and sets no watch.

    :raises MarshallingError: the body cannot be decoded.
    :raises RefusedRead: an operation is not a read, or a path is null.
    """
    results: list[bytes] = []
    size = 0
    for number, (op, request) in enumerate(_decode(frame, engine.reread), 1):
        if size > engine.settings.max_unsent:  # a small request can ask for any amount of data
            client.reject(f"its multiRead asks for more than {engine.settings.max_unsent:,} bytes")
            return b""
        if op not in READ_OPS or request[0] is None:
            # the request is refused, but the body has the results of the reads before (wire.md section 6)
            raise RefusedRead(MarshallingError.code, b"".join([*results, TERMINATOR]))
        try:
            if op == _GET_DATA:  # not copied yet: many clients may wait for their turn to join a large reply
                node = readable(engine, client, request[0])
                body = node.data or b""
                results += (
                    _GET_DATA_OK(len(body) if node.data is not None else -1),
                    body,
                    node.packed_stat(),
                )
            else:
                body = get_children(engine, client, (request[0], False))
                results += (_OK[_GET_CHILDREN], body)
        except ZooKeeperError as error:
            results.append(_error(error.code))
        else:
            size += len(body)
        if number % _STEP == 0:
            yield 0.0
    if size > _LARGE:
        yield size * _COPYING
    results.append(TERMINATOR)
    return b"".join(results)


def _decode(frame: bytes, reread: Reread) -> list[tuple[int, tuple[Any, ...]]]:
    try:
        return decode_fields(frame, _AT, reread)
    except JuteError as error:
        raise MarshallingError(None, str(error)) from error
