"""What recipes raise, beside the errors of the client."""

from __future__ import annotations

import enum
from collections.abc import Sequence

from ..protocol.errors import ClosingError

ClientClosed = ClosingError
"""The client was closed: nothing can be acquired any more."""


class LossReason(enum.Enum):
    """Why something that was held may belong to another by now."""

    SESSION_EXPIRED = "the session expired"
    LEASE_EXPIRED = "the session may have ended: the leader has not answered for too long"
    SUSPENDED = "the connection was lost"
    NODE_DELETED = "its znode was deleted"
    CLIENT_CLOSED = "the client was closed"
    RELEASED = "it was given up elsewhere in this process"


class RecipeError(Exception):
    """The base of all that follow."""


class LockLost(RecipeError):
    """What was held (a lock, a lease, leadership, a claim) may belong to another by now.

    :ivar path: the znode that stood for it.
    """

    def __init__(self, reason: LossReason, path: str) -> None:
        super().__init__(f"{path} is lost: {reason.value}")
        self.reason = reason
        self.path = path


class LockRevoked(RecipeError):
    """Somebody has asked for the lock back, and the lock was made with ``on_revoke="cancel"``."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} was revoked")
        self.path = path


class WouldBlock(RecipeError):
    """It is not free at the moment."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} is held by another")
        self.path = path


class SequenceExhausted(RecipeError):
    """The sequence numbers below a znode have run out (recipe-rules.md 0.4): several contenders may get the
    same one, so no order can be had there. Delete the znode, or use another path."""

    def __init__(self, path: str) -> None:
        super().__init__(f"the sequence numbers below {path} have run out; delete it or use another path")
        self.path = path


class AmbiguousResult(RecipeError):
    """The connection was lost at a moment that leaves it open whether the operation was carried out.

    :ivar operation: which one, in words.
    """

    def __init__(self, operation: str) -> None:
        super().__init__(f"the connection was lost: {operation} may have been carried out or not")
        self.operation = operation


class BarrierBroken(RecipeError):
    """The session ended between entering a barrier and leaving it."""


class Rebalance(RecipeError):
    """The members have changed: the share of each is computed anew."""


class ForeignLayout(RecipeError):
    """There are znodes of a layout that is not this recipe's.

    :ivar names: the names of the znodes.
    """

    def __init__(self, path: str, names: Sequence[str]) -> None:
        shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
        super().__init__(f"foreign znodes below {path}: {shown}")
        self.path = path
        self.names = tuple(names)


class InconsistentLimit(RecipeError):
    """A semaphore has another limit than the one stored."""

    def __init__(self, path: str, stored: int, given: int) -> None:
        super().__init__(f"{path} allows {stored} leases, not {given}")
        self.stored = stored
        self.given = given


class Deadlock(RecipeError):
    """A task waits for something that it holds itself."""
