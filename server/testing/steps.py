"""Work in steps: a generator yields between two steps, and returns the result.

A caller that must serve clients lets other tasks run between two steps. Any other caller runs all steps at
once.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")


def finish(steps: Generator[None, None, T]) -> T:
    """Do all steps at once, and return the result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            value: T = end.value
            return value
