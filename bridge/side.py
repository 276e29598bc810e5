"""What the two faces do differently."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import trio

from .loop import Loop

if TYPE_CHECKING:
    from .faces import Faces


class Side(Protocol):
    """One face.

    :ivar name: of the package; ``head``: its docstring.
    :ivar extras: what the package exports besides.
    :ivar waits: whether methods that wait are ``async def``.
    :ivar short: errors whose tracebacks begin where the user calls (:mod:`pyzk.recipes.base.tracebacks`).
    :ivar words: pairs of a pattern and its replacement, for docstrings.
    """

    name: str
    head: str
    waits: bool
    short: tuple[type[BaseException], ...]
    words: Sequence[tuple[str, str]]
    extras: dict[str, Any]
    faces: Faces

    def holder(self) -> object:
        """Return the caller: this thread, or this task of asyncio."""

    def call(
        self,
        loop: Loop,
        function: Callable[..., Any],
        args: Any,
        kwargs: Any,
        waits_for_requests: bool = False,
        borrows: bool = False,
    ) -> Any:
        """Have ``function(*args, **kwargs)`` awaited in the loop, and return (or await) its result."""

    def call_back(self, loop: Loop, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Do what :meth:`call` does, for a function that calls a function of the caller."""

    def block(self, loop: Loop | None, block: Any) -> Any:
        """Return the context manager for a block of trio's. Without a loop, it uses that of the process."""

    def event(self, loop: Loop, event: trio.Event) -> Any:
        """Return the event for one of trio's."""

    def notice(self, function: Callable[..., object]) -> Callable[..., None]:
        """Return a function to be called in the loop, which has ``function`` called where the user expects
        it. Its keyword argument ``failed`` is called in the loop with the error, if there is one."""


def reworded(text: str | None, side: Side) -> str | None:
    """Return a docstring in the words of a face."""
    for pattern, words in side.words if text else ():
        text = re.sub(pattern, words, text or "")
    return text
