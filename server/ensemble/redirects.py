"""Sessions that a test moves: all other servers refuse their client until it has come to its new server."""

from __future__ import annotations

from typing import Protocol


class Target(Protocol):
    """A server to which sessions can be moved."""

    @property
    def number(self) -> int: ...

    @property
    def serves(self) -> bool: ...


class Redirects:
    def __init__(self) -> None:
        self._targets: dict[int, Target] = {}

    def begin(self, session_id: int, target: Target) -> None:
        self._targets[session_id] = target

    def end(self, session_id: int) -> None:
        """Forget a session that has arrived, or is over. Does nothing if it was not moved."""
        self._targets.pop(session_id, None)

    def elsewhere(self, session_id: int, member: Target) -> Target | None:
        """Return the server to which a session must move, if it is another server that serves clients."""
        target = self._targets.get(session_id)
        return target if target is not None and target is not member and target.serves else None
