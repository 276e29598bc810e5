"""Says where the sweep waits, on standard error, after one second without a step."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from .judging import place

_SILENCE: Final = 1.0  # seconds of real time
_TURNS: Final = str(Path("threads", "turns.py"))
"""The module in which the sweep waits for a thread. This module writes its own lines."""


@contextmanager
def silence_told(progress: Callable[[], object]) -> Iterator[None]:
    """Say on standard error where the calling thread waits, if it makes no progress inside the block.

    :param progress: a function whose result changes with each step.
    """
    over = threading.Event()
    watched = threading.get_ident()

    def watch() -> None:
        before, told = None, False
        while not over.wait(_SILENCE):
            now = progress()
            told = told and now == before
            if now == before and not told:
                told = _tell(watched)
            before = now

    watcher = threading.Thread(target=watch, name="sweep: silence", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def _tell(thread: int) -> bool:
    """Say where a thread waits; return whether a line was written."""
    frames = list(traceback.extract_stack(sys._current_frames()[thread]))
    if any(frame.filename.endswith(_TURNS) for frame in frames):
        return False
    print(f"sweep: no step for {_SILENCE:g} s: it waits in {place(frames)}", file=sys.stderr)
    return True
