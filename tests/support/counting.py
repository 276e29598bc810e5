"""Counting what Python does: calls of functions, and instructions of bytecode."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from pyzk.server.storage.building import collector_paused

# Comprehensions are calls in 3.11 and none from 3.12 on: they are never counted, so one number does for all.
_INLINED = frozenset(("<listcomp>", "<dictcomp>", "<setcomp>"))


@collector_paused()  # it would call the finalizers of what other tests have left, in the middle of a count
def count_calls(action: Callable[[], object]) -> int:
    count = 0

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        if event == "call" and frame.f_code.co_name not in _INLINED:
            count += 1

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        action()
    finally:
        sys.setprofile(before)
    return count - 1  # the action itself


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
