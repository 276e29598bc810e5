"""The operations of clients (wire.md section 8).

Each operation is a function ``(engine, client, request)`` with the name of its op code. The request is a
tuple of the fields of its record, in their order. An operation without a record gets the whole frame.

=================  =====================================================================================
:mod:`.reads`      reads of the tree
:mod:`.watching`   watches
:mod:`.session`    the session, or the ensemble
:mod:`.multi`      several operations in one request
:mod:`.writes`     changes of the tree
=================  =====================================================================================

Each function returns the encoded body of the reply. The functions of :mod:`.writes` are resolvers: they
return an effect, which the engine applies. A function raises a
:class:`~pyzk.protocol.errors.ZooKeeperError` to answer with this error. An operation that may take long is
done in steps (:mod:`.long`).

A new operation needs a row in :mod:`pyzk.protocol.operations`, a record in :mod:`pyzk.protocol.records`, and
a function here. :data:`OPERATIONS` is made of these three. CONTRIBUTING.md has the whole list.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from ....protocol.jute import fields_reader
from ....protocol.operations import CLIENTS, WRITES, OpCode
from . import long, multi, reads, session, watching, writes
from .long import Steps, Unfinished
from .multi import NoZxidError, RefusedRead
from .remembered import PATH_AND_WATCH, READS

__all__ = [
    "IN_STEPS",
    "OPERATIONS",
    "PLAIN_READS",
    "READS",
    "NoZxidError",
    "Operation",
    "RefusedRead",
    "Steps",
    "Unfinished",
    "UnknownOperation",
    "look_up",
]

_Method: TypeAlias = Callable[[Any, Any, Any], Any]
Operation: TypeAlias = tuple[Any, _Method, bool, bool | None]
"""The reader of the request, :data:`READS` or None; the function; whether the operation takes a zxid; whether
the reply has the Stat, or None for a function that is not a resolver."""

_METHODS: dict[str, _Method] = {
    name: method
    for module in (reads, watching, session, multi, writes)
    for name, method in vars(module).items()
}
_BY_CODE = {op: _METHODS[OpCode(op).name.lower()] for op in CLIENTS}
IN_STEPS = frozenset(op for op, method in _BY_CODE.items() if method in long.IN_STEPS)
"""The op codes of the operations that are done in steps."""

PLAIN_READS: dict[int, _Method] = {op: _BY_CODE[op] for op in CLIENTS if OpCode(op).request in PATH_AND_WATCH}
"""The functions of the reads whose fields :data:`READS` has."""
OPERATIONS: dict[int, Operation] = {}
"""The operations that clients have used before, by op code. :func:`look_up` adds further operations. The
connection answers auth and sasl requests itself."""


class UnknownOperation(Exception):
    """Clients may not send this op code: the server answers -6, then the connection closes."""


def look_up(op: int, operations: dict[int, Operation] = OPERATIONS) -> Operation:
    """Add an operation to a table such as :data:`OPERATIONS`, with the compiled reader of its request.

    :raises UnknownOperation: clients may not send this op code.
    """
    if op not in CLIENTS:
        raise UnknownOperation
    cls = OpCode(op).request
    read: Any = fields_reader(cls) if cls else None
    if cls in PATH_AND_WATCH:
        read = READS
    _, with_stat = writes.RESOLVERS.get(op, (None, None))
    operations[op] = read, _BY_CODE[op], op in WRITES, with_stat
    return operations[op]
