"""Sessions that a test moves: until their client has come to a certain server, all others refuse it."""

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
        """The session is where it belongs, or over. Does nothing if it was not moved."""
        self._targets.pop(session_id, None)

    def elsewhere(self, session_id: int, member: Target) -> Target | None:
        """Return the server at which a session is to go on, if that is another one, which serves clients."""
        target = self._targets.get(session_id)
        return target if target is not None and target is not member and target.serves else None
