"""Several operations in one request: all or nothing for writes, each for itself for reads.

semantics.md section 11 and wire.md section 10.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...protocol import records
from ...protocol.constants import OpCode
from ...protocol.errors import MarshallingError, RuntimeInconsistencyError, ZooKeeperError
from ...protocol.jute import JuteError, Record
from ...protocol.multi import READ_OPS, TERMINATOR, MultiOp, MultiResult, decode_multi, encode_results
from ...protocol.records import MultiHeader
from ..txn import Check, Create, Delete, Multi, Refused, SetData
from .reads import readable

if TYPE_CHECKING:
    from ..engine import ACLs, Client, Engine
    from ..znode import Znode

_CREATE, _CREATE2, _DELETE = OpCode.CREATE.value, OpCode.CREATE2.value, OpCode.DELETE.value
_SET_DATA, _CHECK = OpCode.SET_DATA.value, OpCode.CHECK.value
_INT = struct.Struct(">i")
_OK = {op: MultiHeader(op, False, 0).encode() for op in (_CREATE, _CREATE2, _DELETE, _SET_DATA, _CHECK)}

_Step = Create | Delete | SetData | Check


class RefusedRead(Exception):
    """A multiRead that is refused, but whose reply has a body all the same."""

    def __init__(self, code: int, body: bytes) -> None:
        super().__init__(code)
        self.code = code
        self.body = body


def multi(engine: Engine, client: Client, frame: bytes) -> bytes:
    """One zxid for all. Each step is validated and applied in turn, so that it sees those before it; if one
    fails, all are undone. Watches fire once all is well."""
    operations = _decode(frame)
    if operations and operations[0].op in READ_OPS:
        raise MarshallingError(None, "reads in a transaction")
    done: list[tuple[_Step, ACLs, ACLs]] = []
    undo: list[Callable[[], None]] = []
    results: list[bytes] = []
    engine.tree.quotas.freeze()
    try:
        for item in operations:
            step = _prepare(engine, client, item.op, item.request)
            undo_step = engine.tree.undo_of(step)
            node, parent = engine.tree.apply(step, engine.zxid, engine.time)
            undo.append(undo_step)
            done.append((step, node.acl, parent.acl))
            results.append(_result(item.op, step, node))
    except Exception as error:
        for undo_step in reversed(undo):
            undo_step()
        if isinstance(error, MarshallingError) or not isinstance(error, ZooKeeperError):
            raise  # an internal failure spoils the whole multi
        engine.record(Refused(error.code), client.session_id)
        return _failure(len(operations), len(results), error.code)
    finally:
        engine.tree.quotas.thaw()
    if engine.watches:
        for step, own, parents in done:
            engine.fire(step, own, parents)
    engine.record(Multi(tuple(step for step, _, _ in done)), client.session_id)
    return b"".join([*results, TERMINATOR])


def _prepare(engine: Engine, client: Client, op: int, request: Any) -> _Step:
    who = client.identities
    if op == _SET_DATA:
        return engine.prepare.set_data(request, who)
    if op == _DELETE:
        return engine.prepare.delete(request, who)
    if op == _CHECK:
        return engine.prepare.check(request, who)
    return engine.prepare.create(op, request, client.session_id, who)


def _result(op: int, step: _Step, node: Znode) -> bytes:
    """The bytes of a :class:`~pyzk.protocol.multi.MultiResult`."""
    if op == _SET_DATA:
        return _OK[op] + node.packed_stat()
    if op in (_DELETE, _CHECK):
        return _OK[op]
    path = step.path.encode()
    answer = _INT.pack(len(path)) + path
    if op == _CREATE:
        return _OK[op] + answer
    # containers and TTL znodes answer as create2 does (wire.md, trap 30)
    return _OK[_CREATE2] + answer + node.packed_stat()


def _failure(total: int, failed: int, code: int) -> bytes:
    """0 before the step that failed, its own code at it, -2 after it."""
    codes = [0] * failed + [code] + [RuntimeInconsistencyError.code] * (total - failed - 1)
    return encode_results(MultiResult(OpCode.ERROR, c, records.ErrorResponse(c)) for c in codes)


def multi_read(engine: Engine, client: Client, frame: bytes) -> bytes:
    """Each read succeeds or fails alone. Watches are never set."""
    results: list[MultiResult] = []
    size = 0
    for item in _decode(frame):
        request = item.request
        if size > engine.settings.max_unsent:  # a small request can ask for any amount of data
            client.abort(f"its multiRead asks for more than {engine.settings.max_unsent:,} bytes")
            return b""
        try:
            if isinstance(request, records.GetDataRequest):
                node = readable(engine, client, request.path)
                response: Record = records.GetDataResponse(node.data, node.stat())
                size += len(node.data or b"")
            elif isinstance(request, records.GetChildrenRequest):
                node = readable(engine, client, request.path)
                response = records.GetChildrenResponse(tuple(node.children or ()))
                size += sum(map(len, response.children or ()))
            else:  # refused, but with what was read so far in the body (wire.md section 6)
                raise RefusedRead(MarshallingError.code, encode_results(results))
            results.append(MultiResult(item.op, 0, response))
        except MarshallingError:
            raise
        except ZooKeeperError as error:
            results.append(MultiResult(OpCode.ERROR, error.code, records.ErrorResponse(error.code)))
    return encode_results(results)


def _decode(frame: bytes) -> list[MultiOp]:
    try:
        return decode_multi(frame, 8)
    except JuteError as error:
        raise MarshallingError(None, str(error)) from None
