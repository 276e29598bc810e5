"""Tasks that live as long as the client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import trio


class Background:
    """Tasks that run until :meth:`cancel`, even if everything around them is cancelled: when the client's
    block is cancelled from outside, it still takes a connection to close the session."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._scopes: set[trio.CancelScope] = set()

    def start_soon(self, function: Callable[..., Awaitable[object]], *args: Any) -> None:
        """Run ``function(*args)`` in a task."""
        scope = trio.CancelScope(shield=True)
        self._scopes.add(scope)
        self._nursery.start_soon(self._run, scope, function, args)

    async def _run(
        self, scope: trio.CancelScope, function: Callable[..., Awaitable[object]], args: tuple[Any, ...]
    ) -> None:
        try:
            with scope:
                await function(*args)
        finally:
            self._scopes.discard(scope)

    def cancel(self) -> None:
        """Cancel all of them."""
        for scope in list(self._scopes):
            scope.cancel()
