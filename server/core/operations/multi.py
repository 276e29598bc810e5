"""Several operations in one request: all or nothing for writes, each for itself for reads.

semantics.md section 11 and wire.md section 10.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from ....protocol import records
from ....protocol.errors import MarshallingError, RuntimeInconsistencyError, ZooKeeperError
from ....protocol.jute import JuteError
from ....protocol.multi import READ_OPS, RESULT_TYPES, TERMINATOR, TRANSACTION_OPS, decode_fields
from ....protocol.operations import OpCode
from ....protocol.records import MultiHeader
from ..txn import Create, Multi, Refused
from .long import Steps, in_steps
from .reads import get_children, readable
from .writes import STEPS

if TYPE_CHECKING:
    from ..engine import Change, Client, Engine

_GET_DATA, _GET_CHILDREN = OpCode.GET_DATA.value, OpCode.GET_CHILDREN.value
_OK = {op: MultiHeader(type_, False, 0).encode() for op, type_ in RESULT_TYPES.items()}
_PARTS = {op: (*STEPS[op], _OK[op]) for op in TRANSACTION_OPS}
_STEP = 32
"""How many reads are done in one step."""
_LARGE = 2**20
"""Bytes of a reply that is not put together in the midst of other work."""
_COPYING = 3e-10
"""Seconds that it takes to put one byte of many into a reply, and that into what is sent."""
_NEVER = RuntimeInconsistencyError.code
_GET_DATA_OK = partial(
    struct.Struct(">iBii").pack, _GET_DATA, 0, 0
)  # MultiHeader, then the length of the data
_LENGTH = struct.Struct(">i").pack


class RefusedRead(Exception):
    """A multiRead that is refused, but whose reply has a body all the same."""

    def __init__(self, code: int, body: bytes) -> None:
        super().__init__(code)
        self.code = code
        self.body = body


def multi(engine: Engine, client: Client, frame: bytes) -> bytes:
    """One zxid for all. Each step is validated and applied in turn, so that it sees those before it; if one
    fails, all are undone. Watches fire once all is well.

    Nobody is served meanwhile, so each step costs the same whatever the number of steps and the size of the
    tree: 2 to 5 us, its undoing included, and 3 us more for each entry of an ACL. A multi of 1 MB, some
    40,000 steps, takes 0.05 to 0.2 s.
    """
    steps = _decode(frame)
    if steps and steps[0][0] in READ_OPS:
        raise MarshallingError(None, "reads in a transaction")
    tree = engine.tree
    results: list[bytes] = []
    tree.begin()
    try:
        changes = _carry_out(engine, client, steps, results)
    except Exception as error:
        tree.roll_back()
        if isinstance(error, MarshallingError) or not isinstance(error, ZooKeeperError):
            raise  # an internal failure spoils the whole multi
        if engine.on_refusal is not None:
            engine.on_refusal(error)
        engine.record(Refused(error.code), client.session_id)
        return _failure(len(steps), len(results), error.code)
    tree.commit()
    engine.fire(changes)
    if engine.on_txn is not None:
        engine.record(Multi(tuple(effect for effect, _, _ in changes)), client.session_id)
    results.append(TERMINATOR)
    return b"".join(results)


def _carry_out(
    engine: Engine, client: Client, steps: Iterable[tuple[int, tuple[Any, ...]]], results: list[bytes]
) -> list[Change]:
    """Resolve and apply each step, and encode its :class:`~pyzk.protocol.multi.MultiResult`: the header,
    and the body of the reply that the operation alone would have.

    :returns: the changes, if anybody is to be told.
    """
    change, zxid, time = engine.tree.change, engine.zxid, engine.time
    heard = bool(engine.watches.watchers) or engine.on_txn is not None
    changes: list[Change] = []
    for op, request in steps:
        resolve, with_stat, result = _PARTS[op]
        kind, fields, at = resolve(engine, client, request)
        node = change(kind, fields, at, zxid, time)
        if heard:
            changes.append((kind(*fields), node, at))
        if kind is Create:
            path = fields[0].encode()
            result += _LENGTH(len(path)) + path
        results.append(result + node.packed_stat() if with_stat else result)
    return changes


def _failure(total: int, failed: int, code: int) -> bytes:
    """0 before the step that failed, its own code at it, -2 after it."""
    return _error(0) * failed + _error(code) + _error(_NEVER) * (total - failed - 1) + TERMINATOR


def _error(code: int) -> bytes:
    return MultiHeader(OpCode.ERROR, False, code).encode() + records.ErrorResponse(code).encode()


@in_steps
def multi_read(engine: Engine, client: Client, frame: bytes) -> Steps:
    """Each read succeeds or fails alone. Watches are never set."""
    results: list[bytes] = []
    size = 0
    for number, (op, request) in enumerate(_decode(frame), 1):
        if size > engine.settings.max_unsent:  # a small request can ask for any amount of data
            client.reject(f"its multiRead asks for more than {engine.settings.max_unsent:,} bytes")
            return b""
        if op not in READ_OPS:  # refused, but with what was read so far in the body (wire.md section 6)
            raise RefusedRead(MarshallingError.code, b"".join([*results, TERMINATOR]))
        try:
            if op == _GET_DATA:  # not copied yet: many may wait for their turn to put a large reply together
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
        except MarshallingError:
            raise
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


def _decode(frame: bytes) -> list[tuple[int, tuple[Any, ...]]]:
    try:
        return decode_fields(frame, 8)
    except JuteError as error:
        raise MarshallingError(None, str(error)) from None
