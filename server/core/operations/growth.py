"""The requests that make the server grow, which are refused while memory is short (:mod:`..memory`)."""

from __future__ import annotations

from typing import Final

from ....protocol.jute import fields_of
from ....protocol.multi import decode_fields
from ....protocol.operations import WRITES, OpCode

_SHRINKING: Final = frozenset((OpCode.DELETE.value, OpCode.CLOSE_SESSION.value))
_KEEPING: Final = WRITES - _SHRINKING | {
    op.value for op in (OpCode.ADD_WATCH, OpCode.SET_WATCHES, OpCode.SET_WATCHES2)
}
_MAY_WATCH: Final = frozenset(
    op.value
    for op in OpCode
    if op.request is not None and any(name == "watch" for name, *_ in fields_of(op.request))
)
"""Reads whose last byte says whether to set a watch."""


def grows(op: int, frame: bytes) -> bool:
    """Return whether the server keeps more after a request than before it.

    :raises JuteError: a multi that cannot be read.
    """
    if op == OpCode.MULTI:
        return any(part in _KEEPING for part, _ in decode_fields(frame, 8))
    return op in _KEEPING or (op in _MAY_WATCH and frame[-1] != 0)
