"""The errors of recipes, in addition to the errors of the client."""

from __future__ import annotations

import enum
from collections.abc import Sequence

from ..protocol.errors import ClosingError

ClientClosed = ClosingError
"""The client was closed, so nothing can be acquired."""


class LossReason(enum.Enum):
    """The reasons for the loss of an ownership."""

    SESSION_EXPIRED = "the session expired"
    LEASE_EXPIRED = "the session may have ended: the leader has not answered for too long"
    SUSPENDED = "the connection was lost"
    NODE_DELETED = "its znode was deleted"
    CLIENT_CLOSED = "the client was closed"
    RELEASED = "another task or thread of this process has given it up"
    REVOKED = "another client has asked for it"


class RecipeError(Exception):
    """The base of all errors of recipes."""


class LockLost(RecipeError):
    """A lock, a lease, leadership or a claim was lost: another client may already have it. Catch this error
    around code that relies on the ownership.

    :ivar reason: the reason for the loss.
    :ivar path: the path of the znode of the ownership.
    """

    def __init__(self, reason: LossReason, path: str) -> None:
        super().__init__(f"{path} is lost: {reason.value}")
        self.reason = reason
        self.path = path


class LockRevoked(LockLost):
    """Another client has asked the holder to give the lock back, and ``on_revoke`` of the lock is
    ``"cancel"``."""

    def __init__(self, path: str) -> None:
        super().__init__(LossReason.REVOKED, path)


class WouldBlock(RecipeError):
    """Another client or task holds the lock now, and the call was made with ``wait=False``.

    :ivar path: the path of the lock.
    """

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} is held by another client or task")
        self.path = path


class SequenceExhausted(RecipeError):
    """The sequence numbers below a znode have run out (recipe-rules.md 0.4). New children may get equal
    numbers, so their order is unknown. Delete the znode, or use another path.

    :ivar path: the path of the znode.
    """

    def __init__(self, path: str) -> None:
        super().__init__(f"the sequence numbers below {path} have run out; delete it or use another path")
        self.path = path


class AmbiguousResult(RecipeError):
    """The connection was lost, and the client cannot know whether the operation was carried out.

    :ivar operation: a description of the operation.
    """

    def __init__(self, operation: str) -> None:
        super().__init__(
            f"the connection was lost: {operation} may have been carried out; check before you retry"
        )
        self.operation = operation


class BarrierBroken(RecipeError):
    """The session ended inside a double barrier."""


class Rebalance(RecipeError):
    """The members of a partitioner have changed: the items are divided again."""


class ForeignLayout(RecipeError):
    """A directory holds znodes of another layout. Use another path, or the layout of the other program.

    :ivar path: the directory.
    :ivar names: the names of these znodes.
    """

    def __init__(self, path: str, names: Sequence[str]) -> None:
        shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
        super().__init__(f"{path} has znodes of another layout: {shown}; use another path, or that layout")
        self.path = path
        self.names = tuple(names)


class InconsistentLimit(RecipeError):
    """The limit of a semaphore is not the stored limit. All clients must use the same limit.

    :ivar stored: the stored limit.
    :ivar given: the limit of this object.
    """

    def __init__(self, path: str, stored: int, given: int) -> None:
        super().__init__(f"{path} allows {stored} leases, not {given}; use the same limit in all clients")
        self.stored = stored
        self.given = given


class Deadlock(RecipeError):
    """A task has tried to acquire a lock that the task already holds."""
