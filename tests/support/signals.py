"""A signal that comes just before any chosen instruction, as one from outside may.

Python notes a signal when it comes, and calls its handler at the next of certain points: where a function
begins, behind calls of C, where a loop goes round. So a signal that comes before each instruction, one
after the other, has its handler called at each point at which that can happen. Instructions between which
Python neither looks for signals nor runs other code count once.
"""

from __future__ import annotations

import _thread
import dis
import signal
import sys
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

SIGNAL = signal.SIGUSR1

_PLAIN = (
    *("LOAD_FAST", "LOAD_CONST", "LOAD_GLOBAL", "LOAD_DEREF", "LOAD_NAME", "STORE_FAST", "STORE_DEREF"),
    *("COPY", "SWAP", "NOP", "PUSH_NULL", "KW_NAMES", "CACHE", "RETURN_CONST", "RETURN_VALUE", "PRECALL"),
    *("IS_OP", "EXTENDED_ARG", "JUMP_FORWARD", "POP_JUMP_FORWARD", "POP_JUMP_IF", "BUILD_TUPLE", "BUILD_MAP"),
    *("PUSH_EXC_INFO", "POP_EXCEPT", "RERAISE", "MAKE_CELL", "CHECK_EXC_MATCH", "END_"),
)


class _Sent:
    """``_Sent()[number]`` notes a signal. It is no call, so Python does not look for signals behind it."""

    __getitem__ = _thread.interrupt_main


_sent: Any = _Sent()
_counted: dict[CodeType, frozenset[int]] = {}


def _offsets(code: CodeType) -> frozenset[int]:
    """Return where the instructions are that count."""
    found = _counted.get(code)
    if found is None:
        found = _counted[code] = frozenset(
            each.offset for each in dis.get_instructions(code) if not each.opname.startswith(_PLAIN)
        )
    return found


class Points:
    """The instructions of this thread, from :meth:`watch` on.

    :param modules: on Python 3.12 and 3.13, those whose instructions count; on 3.11 all do.
    """

    def __init__(self, modules: Collection[ModuleType]) -> None:
        self._left = 0
        self._thread = threading.get_ident()
        self._tool = 3
        self._codes: list[CodeType] = []
        if sys.version_info >= (3, 12):
            for module in modules:
                _collect(module, self._codes)
            for code in self._codes:
                _offsets(code)

    @contextmanager
    def open(self) -> Iterator[None]:
        """From 3.12 on, instructions are instrumented once, while no other thread executes them: those
        versions may crash where that is done meanwhile."""
        if sys.version_info < (3, 12):
            yield
            return
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined, unused-ignore]
        monitoring.use_tool_id(self._tool, "signals")
        for code in self._codes:
            monitoring.set_local_events(self._tool, code, monitoring.events.INSTRUCTION)
        try:
            yield
        finally:
            for code in self._codes:
                monitoring.set_local_events(self._tool, code, monitoring.events.NO_EVENTS)
            monitoring.free_tool_id(self._tool)

    def run(self, number: int, function: Callable[[], object]) -> bool:
        """Call a function, and send this thread a signal before one of its instructions.

        :param number: which one, counted from 1.
        :returns: whether there are so many. The function's error, or that of the handler, comes out.
        """
        self._left = number
        if sys.version_info >= (3, 12):
            self._register(self._instruction)
            try:
                function()
            finally:
                self._register(None)
            return self._left <= 0
        before = sys.gettrace()
        sys.settrace(self._trace)
        try:
            function()
        finally:
            sys.settrace(before)
        return self._left <= 0

    @property
    def happened(self) -> bool:
        """True if the last run had so many instructions."""
        return self._left <= 0

    def _trace(self, frame: FrameType, event: str, argument: object) -> Any:
        if self._left <= 0 or frame.f_code is _RUN:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode" and frame.f_lasti in _offsets(frame.f_code):
            self._left -= 1
            if not self._left:
                sys.settrace(None)  # before: this function would be the next at which Python looks
                _sent[SIGNAL]
        return self._trace

    def _instruction(self, code: CodeType, offset: int) -> None:
        if self._left <= 0 or threading.get_ident() != self._thread:
            return
        if offset in _counted[code]:
            self._left -= 1
            if not self._left:
                self._register(None)  # before: this function would be the next at which Python looks
                _sent[SIGNAL]

    def _register(self, function: Callable[..., object] | None) -> None:
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined, unused-ignore]
        monitoring.register_callback(self._tool, monitoring.events.INSTRUCTION, function)


_RUN = Points.run.__code__


def _collect(module: ModuleType, codes: list[CodeType]) -> None:
    def add(code: CodeType) -> None:
        if code.co_filename == module.__file__ and code not in codes:
            codes.append(code)
            for constant in code.co_consts:
                if isinstance(constant, CodeType):
                    add(constant)

    def look(thing: Any) -> None:
        if isinstance(thing, FunctionType):
            add(thing.__code__)
        elif isinstance(thing, property) and thing.fget is not None:
            look(thing.fget)
        elif isinstance(thing, staticmethod | classmethod) or hasattr(thing, "__wrapped__"):
            look(thing.__wrapped__)

    for thing in list(vars(module).values()):
        look(thing)
        if isinstance(thing, type) and thing.__module__ == module.__name__:
            for member in list(vars(thing).values()):
                look(member)
