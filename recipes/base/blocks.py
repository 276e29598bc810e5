"""``async with recipe:`` by any number of tasks at once."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Generic, TypeVar

import trio

T = TypeVar("T")


class Blocks(Generic[T]):
    """The base of a recipe whose ``async with`` blocks are independent of each other."""

    def __init__(self) -> None:
        self._blocks: dict[trio.lowlevel.Task, list[AbstractAsyncContextManager[T]]] = {}

    def _block(self) -> AbstractAsyncContextManager[T]:
        """What a block is made of."""
        raise NotImplementedError

    async def __aenter__(self) -> T:
        block = self._block()
        entered = await block.__aenter__()
        self._blocks.setdefault(trio.lowlevel.current_task(), []).append(block)
        return entered

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> bool | None:
        task = trio.lowlevel.current_task()
        blocks = self._blocks[task]
        block = blocks.pop()
        if not blocks:
            del self._blocks[task]
        return await block.__aexit__(kind, error, tb)
