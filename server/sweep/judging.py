"""The result of a run in words: the errors, the remaining znodes, and the places where clients wait."""

from __future__ import annotations

import asyncio
import queue
import selectors
import threading
import traceback
from pathlib import Path
from typing import Final

from ..testing.controls import Controls
from .lab import BaseLab, GaveUp
from .model import Outcome, without_numbers

_OURS: Final = str(Path(__file__).parents[2])
_FOREIGN: Final = (
    "/trio/",
    "/kazoo/",
    str(Path(threading.__file__)),
    str(Path(queue.__file__)),
    str(Path(selectors.__file__)),
    str(Path(asyncio.__file__).parent),
    "/site-packages/outcome/",
)


def judge_error(outcome: Outcome, lab: BaseLab, error: BaseException) -> None:
    """Judge the error that ended a scenario."""
    if not (isinstance(error, GaveUp) or lab.forgives(error)):
        outcome.judge("wrong" if isinstance(error, AssertionError) else "error", first_line(error))


def innermost(error: BaseException) -> BaseException:
    """Return the first error inside nested exception groups, or the error itself if the error is not a
    group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def place(frames: list[traceback.FrameSummary]) -> str:
    """Return where a task or thread waits: the line of the user's code, and the function of the client that
    this line calls."""
    own = [
        frame
        for frame in frames
        if not frame.filename.startswith(_OURS) and not any(part in frame.filename for part in _FOREIGN)
    ]
    called = [
        frame
        for frame in frames
        if "/kazoo/" in frame.filename
        or (frame.filename.startswith(_OURS) and "/sweep/" not in frame.filename)
    ]
    words = [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in own[-1:]]
    words += [f"{Path(frame.filename).name} {frame.name}" for frame in called[:1]]
    return " -> ".join(words) or "no line of the user's code"


def look_at_what_is_left(server: Controls, outcome: Outcome) -> None:
    nodes = server.dump(form="nodes")
    ephemeral = sorted(path for path, node in nodes.items() if node.kind == "ephemeral")
    if ephemeral:
        outcome.judge("leak", f"left behind: {without_numbers(ephemeral[0])}")
    outcome.left = sorted(without_numbers(path) for path, node in nodes.items() if node.kind != "ephemeral")


def first_line(error: BaseException) -> str:
    text = (str(error).splitlines() or [""])[0][:160]
    if isinstance(error, AssertionError):
        return text or "an assertion failed"
    return f"{type(error).__name__}: {text}"
