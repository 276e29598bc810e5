"""Sessions that a test moves to another server. All other servers refuse the client of such a session until
it has connected to its new server."""

from __future__ import annotations

from typing import Protocol


class Target(Protocol):
    """A server to which sessions can be moved."""

    @property
    def number(self) -> int:
        """The number of the server."""

    @property
    def serves(self) -> bool:
        """Whether the server serves clients."""


class Redirects:
    """The sessions that a test moves, with their new servers."""

    def __init__(self) -> None:
        self._targets: dict[int, Target] = {}

    def begin(self, session_id: int, target: Target) -> None:
        """Move a session to a server."""
        self._targets[session_id] = target

    def end(self, session_id: int) -> None:
        """Forget a session that has come to its new server, or that is over. If the session was not moved, do
        nothing."""
        self._targets.pop(session_id, None)

    def elsewhere(self, session_id: int, member: Target) -> Target | None:
        """Return the server to which a session must move, if it is another server that serves clients."""
        target = self._targets.get(session_id)
        return target if target is not None and target is not member and target.serves else None
