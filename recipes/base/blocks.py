"""``async with recipe:`` in any number of tasks at the same time."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Generic, TypeVar

from .holder import current_holder

T = TypeVar("T")


class TaskBlocks(Generic[T]):
    """The ``async with`` blocks that tasks have entered. Blocks of different tasks are independent of each
    other; the blocks of one task are nested."""

    def __init__(self) -> None:
        self._blocks: dict[object, list[AbstractAsyncContextManager[T]]] = {}

    async def enter(self, block: AbstractAsyncContextManager[T]) -> T:
        """Enter a block in the current task."""
        entered = await block.__aenter__()
        self._blocks.setdefault(current_holder(), []).append(block)
        return entered

    async def leave(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> bool | None:
        """Leave the innermost block of the current task."""
        holder = current_holder()
        blocks = self._blocks[holder]
        block = blocks.pop()
        if not blocks:
            del self._blocks[holder]
        return await block.__aexit__(kind, error, tb)
