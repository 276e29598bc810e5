"""Refused writes whose client has neither accepted the refusal nor read the znode since then."""

from __future__ import annotations

from typing import Final, Generic, TypeVar

from .table import Table
from .world import Client, Exchange, parent_of

PATIENCE: Final = 10
"""A client that does not read the znode in this number of requests after the refusal has accepted the
refusal."""

T = TypeVar("T")


class Refusals(Generic[T]):
    """Remembers refused writes.

    A client that reads the znode or its parent after a refusal makes a new decision. A client that reads
    neither of the two in its next 10 requests has accepted the refusal. The end of the session without a read
    means the same.
    """

    def __init__(self) -> None:
        self._open: Table[int, dict[str, tuple[int, T]]] = Table(dict)
        """The number of requests since the refusal and the refused write, by session and by path of the
        znode."""

    def add(self, client: Client, path: str, what: T) -> None:
        """Note that a write to a znode was refused."""
        self._open[client.id][path] = 0, what

    def taken(self, client: Client, exchange: Exchange) -> list[T]:
        """Take note of a client's exchange, and return the refusals that the client has accepted with this
        exchange."""
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
        """List the refusals that a client has accepted by the end of its session."""
        return [what for _, what in self._open.pop(client.id, {}).values()]
