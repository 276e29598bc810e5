"""Pipelined requests: each request is sent before the earlier requests are answered. The number and the size
of unanswered requests are limited."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

import attrs

from ..client import Pending

T = TypeVar("T")

AHEAD = 200
"""The largest number of unanswered requests. This number allows 20,000 requests per second with a round trip
of 10 ms."""
BYTES_AHEAD = 8 * 2**20
"""The largest number of unanswered bytes, except the data of a single larger znode."""


@attrs.define
class Pipeline(Generic[T]):
    """Writes on their way. The server carries out the requests in the order in which the requests are added.

    :ivar settle: an async function that is called with the subject of each request, in the order in which the
        requests are added. It waits for the result or the error.
    """

    settle: Callable[[T, Pending[Any]], Awaitable[None]]
    _sent: deque[tuple[T, Pending[Any], int]] = attrs.field(factory=deque, init=False)
    _size: int = attrs.field(default=0, init=False)

    async def add(self, about: T, pending: Pending[Any], size: int = 0) -> None:
        """Add a submitted request.

        :param size: the number of bytes of its data.
        """
        self._sent.append((about, pending, size))
        self._size += size
        while len(self._sent) > AHEAD or self._size > BYTES_AHEAD:
            await self._next()

    async def finish(self) -> None:
        """Wait for all requests."""
        while self._sent:
            await self._next()

    async def _next(self) -> None:
        about, pending, size = self._sent.popleft()
        self._size -= size
        await self.settle(about, pending)
