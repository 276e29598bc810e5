"""Counting what Python does: calls of functions, and instructions of bytecode."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, Self

from pyzk.server.storage.building import collector_paused

# Comprehensions are calls in 3.11 and none from 3.12 on: they are never counted, so one number does for all.
_INLINED = frozenset(("<listcomp>", "<dictcomp>", "<setcomp>"))


class CountingCalls:
    """A block in which the calls of Python functions by this thread are counted, those of other tasks too.

    :ivar calls: how many there were, with that of ``__exit__``.
    """

    def __enter__(self) -> Self:
        self.calls = 0
        self._before = sys.getprofile()
        self._paused = collector_paused()  # it would call the finalizers of what other tests have left
        self._paused.__enter__()
        sys.setprofile(self._profile)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(self._before)
        self._paused.__exit__(None, None, None)

    def _profile(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_name not in _INLINED:
            self.calls += 1


def count_calls(action: Callable[[], object]) -> int:
    with CountingCalls() as counted:
        action()
    return counted.calls - 2  # the action itself, and the end of the block


@collector_paused()
def count_instructions(action: Callable[[], object]) -> int:
    return _count_by_monitoring(action) if sys.version_info >= (3, 12) else _count_by_tracing(action)


def _count_by_tracing(action: Callable[[], object]) -> int:
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        if event == "opcode":
            count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    finally:
        sys.settrace(before)
    return count


def _count_by_monitoring(action: Callable[[], object]) -> int:
    count = 0
    here = threading.get_ident()

    def instruction(code: CodeType, offset: int) -> None:
        nonlocal count
        if threading.get_ident() == here:  # an earlier test may have left a thread
            count += 1

    monitoring: Any = sys.monitoring  # type: ignore[attr-defined, unused-ignore]
    tool, events = 4, monitoring.events  # one of the numbers that are nobody's by convention
    monitoring.use_tool_id(tool, "cost")
    monitoring.register_callback(tool, events.INSTRUCTION, instruction)
    monitoring.set_events(tool, events.INSTRUCTION)
    try:
        action()
    finally:
        monitoring.set_events(tool, events.NO_EVENTS)
        monitoring.register_callback(tool, events.INSTRUCTION, None)
        monitoring.free_tool_id(tool)
    return count
