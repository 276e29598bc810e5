"""Which requests make the server grow: what is refused while memory is short (:mod:`..memory`)."""

from __future__ import annotations

from ....protocol.multi import decode_fields
from ....protocol.operations import OpCode

_GROWING = frozenset(
    op.value
    for op in (
        OpCode.CREATE,
        OpCode.CREATE2,
        OpCode.CREATE_CONTAINER,
        OpCode.CREATE_TTL,
        OpCode.SET_DATA,
        OpCode.SET_ACL,
        OpCode.RECONFIG,
        OpCode.ADD_WATCH,
        OpCode.SET_WATCHES,
        OpCode.SET_WATCHES2,
    )
)
_WATCHING = frozenset(
    op.value for op in (OpCode.EXISTS, OpCode.GET_DATA, OpCode.GET_CHILDREN, OpCode.GET_CHILDREN2)
)
"""Reads whose last byte says whether to set a watch."""


def grows(op: int, frame: bytes) -> bool:
    """Whether a request makes the server keep more than before it. Raises :class:`JuteError` for a multi that
    cannot be read."""
    if op == OpCode.MULTI:
        return any(each in _GROWING for each, _ in decode_fields(frame, 8))
    return op in _GROWING or (op in _WATCHING and frame[-1] != 0)
