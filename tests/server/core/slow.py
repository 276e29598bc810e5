"""A client whose requests take many turns."""

from __future__ import annotations

from typing import Any

from ...support.world import Peer


class Slow:
    """A client whose turn is over after each step; all else is that of a connection.

    :ivar steps: the steps that were done.
    """

    def __init__(self, peer: Peer) -> None:
        self._connection = peer.connection
        self.steps = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def turn_is_over(self, ahead: float = 0.0) -> bool:
        self.steps += 1
        return True
