"""What clients can ask for: the table of contents of the server (wire.md section 8).

Each operation is a function ``(engine, client, request)`` with the name of its op code. It returns the body
of the reply, already encoded, or raises the error that is the reply. The request is a tuple of what its
record declares, in that order: no object is made of it. An operation without a record of its own gets the
whole frame. What may take long is done in steps (:mod:`.long`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....protocol.jute import fields_reader
from ....protocol.operations import CLIENTS, WRITES, OpCode
from . import long, multi, reads, watching, writes
from .long import Steps, Unfinished
from .multi import RefusedRead

__all__ = [
    "IN_STEPS",
    "OPERATIONS",
    "RefusedRead",
    "Steps",
    "Unfinished",
    "UnknownOperation",
    "look_up",
]

_Reader = Callable[[bytes, int], tuple[Any, ...]]
_Method = Callable[[Any, Any, Any], bytes]
Operation = tuple[_Reader | None, _Method, bool]
"""What reads the request, what does it, whether it takes a zxid."""

_METHODS: dict[str, _Method] = {
    name: method for module in (writes, multi, reads, watching) for name, method in vars(module).items()
}
_BY_CODE = {op: (OpCode(op).request, _METHODS[OpCode(op).name.lower()], op in WRITES) for op in CLIENTS}
IN_STEPS = frozenset(op for op, (_, method, _) in _BY_CODE.items() if method in long.IN_STEPS)
"""The op codes of what is done in steps."""

OPERATIONS: dict[int, Operation] = {}
"""By op code, those that were asked for already: others are entered by :func:`look_up`. Auth and sasl are the
connection's own affair."""


class UnknownOperation(Exception):
    """The op code is not one that clients may send: answered with -6, then the connection closes."""


def look_up(op: int) -> Operation:
    """Enter an operation in :data:`OPERATIONS`, its request's reader compiled. Raises
    :class:`UnknownOperation`."""
    try:
        cls, method, takes_zxid = _BY_CODE[op]
    except KeyError:
        raise UnknownOperation from None
    OPERATIONS[op] = fields_reader(cls) if cls else None, method, takes_zxid
    return OPERATIONS[op]
