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
from ..memory import reserve
from . import long, multi, reads, watching, writes
from .growth import grows
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

_Reader = Callable[[bytes, int], Any]
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
connection's own affair. Empty while memory is short: then each request passes :func:`look_up`."""
reserve.when_short(OPERATIONS.clear)
_READERS: dict[int, _Reader | None] = {}  # compiled already


class UnknownOperation(Exception):
    """The op code is not one that clients may send: answered with -6, then the connection closes."""


def look_up(op: int) -> Operation:
    """Enter an operation in :data:`OPERATIONS`, its request's reader compiled.

    :raises UnknownOperation: there is none.
    """
    try:
        cls, method, takes_zxid = _BY_CODE[op]
    except KeyError:
        raise UnknownOperation from None
    if op not in _READERS:
        _READERS[op] = fields_reader(cls) if cls else None
    read = _READERS[op]
    if reserve.short:
        return _reader_while_short(op, read), method, takes_zxid
    OPERATIONS[op] = read, method, takes_zxid
    return OPERATIONS[op]


def _reader_while_short(op: int, read: _Reader | None) -> _Reader:
    """Make a reader that raises :class:`MemoryError` for a request that makes the server grow."""

    def read_unless_growing(frame: bytes, pos: int) -> Any:
        if grows(op, frame) and reserve.is_still_short():
            raise MemoryError("memory is short")
        return read(frame, pos) if read is not None else frame

    return read_unless_growing
