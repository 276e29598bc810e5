"""A call that is stopped before one of its instructions, as the handler of a signal may stop it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from types import FrameType
from typing import Any

import pytest

cannot_stop = pytest.mark.skipif(
    sys.version_info[:2] == (3, 12),
    reason="Python 3.12 crashes where instructions are traced beside other threads",
)


class Stop(BaseException):
    """Raised where the handler of a signal may raise."""


def stopped_at(number: int, files: Collection[str | None], function: Callable[[], object]) -> bool:
    """Call a function, and stop it before an instruction.

    :param number: which one, counted from 1.
    :param files: only instructions of these source files are counted.
    :returns: whether there are so many.
    """
    left = number

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal left
        if frame.f_code.co_filename not in files:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            left -= 1
            if not left:
                sys.settrace(None)
                raise Stop
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    except Stop:
        pass
    finally:
        sys.settrace(before)
    return left <= 0
