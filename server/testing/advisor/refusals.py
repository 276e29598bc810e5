"""Refused writes after which the client has not shown yet whether it accepts the refusal."""

from __future__ import annotations

from typing import Final, Generic, TypeVar

from .table import Table
from .world import Client, Exchange, parent_of

PATIENCE: Final = 10
"""The number of requests that a client may make before it looks at the znode whose write was refused."""

T = TypeVar("T")


class Refusals(Generic[T]):
    """Remembers refused writes.

    A client that reads the znode or its parent after a refusal makes a new decision. A client that reads
    neither in its next 10 requests, or before its session ends, has accepted the refusal.
    """

    def __init__(self) -> None:
        self._open: Table[int, dict[str, tuple[int, T]]] = Table(dict)
        """The number of requests since the refusal, and the write, by session and znode."""

    def add(self, client: Client, path: str, what: T) -> None:
        """Note that a write to a znode was refused."""
        self._open[client.id][path] = 0, what

    def taken(self, client: Client, exchange: Exchange) -> list[T]:
        """Note an exchange of the client, and return the refusals that the client has accepted with it."""
        found = self._open.get(client.id)
        if not found:
            return []
        taken = []
        for path, (requests, what) in list(found.items()):
            if any(asked.path in (path, parent_of(path)) for asked in exchange.asked):
                del found[path]
            elif requests + 1 >= PATIENCE:
                del found[path]
                taken.append(what)
            else:
                found[path] = requests + 1, what
        return taken

    def left(self, client: Client) -> list[T]:
        """List the refusals after which the client has not read the znode before the end of its session."""
        return [what for _, what in self._open.pop(client.id, {}).values()]
