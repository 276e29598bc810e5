"""The options of locks. They have two forms.

Callers see the ``TypedDict`` classes, which are the keyword arguments of the recipes. The recipes use
:class:`Holding`, which has the defaults and the checks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypedDict

import attrs

from ...client import ACL
from ...protocol.layouts import ContenderKind
from ..base.bound import Bound
from ..base.choices import one_of
from ..base.creating import Parents, ZnodeOptions
from ..base.ownership import Ownership, Suspended
from .grant import OnRevoke
from .role import LockLayout
from .strategy import Strategy

OnSessionLoss = Literal["requeue", "raise"]
"""The reaction of a waiting contender to the expiry of its session. ``"requeue"``: begin anew in the next
session. ``"raise"``: raise :class:`SessionExpiredError`."""


class HoldingOptions(TypedDict, total=False):
    """The options of locks, semaphores and elections.

    ``parents``: the kind of a missing parent: ``"container"`` (the default) or ``"persistent"``. The server
    deletes a container some time after its last child was deleted.

    ``acl``: the ACL of every znode that is created. The default gives all permissions to everybody.

    ``suspended``: the moment at which the holder loses the lock while there is no connection. ``"deadline"``
    (the default): when the session may have expired. ``"cancel"``: at once. ``"ignore"``: only when the
    server says that the session has expired. Before this moment another client may already hold the lock.

    ``margin``: the time in seconds before the end of the lease at which the lock is lost: see
    :class:`.Ownership`.

    ``on_session_loss``: the reaction of a waiting contender when its session expires. ``"requeue"`` (the
    default): begin anew in the next session. ``"raise"``: raise :class:`SessionExpiredError`.

    ``cleanup_grace``: the time in seconds that the end of a wait or a release can wait for the server. The
    default is 1.
    """

    parents: Parents
    acl: Sequence[ACL] | None
    suspended: Suspended
    margin: float | None
    on_session_loss: OnSessionLoss
    cleanup_grace: float


class ElectionOptions(HoldingOptions, total=False):
    """The options of elections: see :class:`.Lock`."""

    on_revoke: OnRevoke
    strategy: Strategy


class RWLockOptions(ElectionOptions, total=False):
    """The options of read/write locks: see :class:`.Lock`."""

    data: bytes
    layout: LockLayout
    reentrant: bool
    monitor: bool
    recognise: frozenset[ContenderKind]


class LockOptions(RWLockOptions, total=False):
    """The options of locks: see :class:`.Lock`."""

    local_queue: bool
    max_handoffs: int


@attrs.frozen
class Holding(ZnodeOptions):
    """The options of waiting, holding and releasing: :class:`HoldingOptions` with defaults.

    :raises ValueError: an option has a value that it does not accept.
    """

    suspended: Suspended = attrs.field(default="deadline", validator=one_of(Suspended))
    margin: float | None = None
    on_session_loss: OnSessionLoss = attrs.field(default="requeue", validator=one_of(OnSessionLoss))
    cleanup_grace: float = 1.0

    def ownership(self, bound: Bound, path: str) -> Ownership:
        """Return an ownership on a znode."""
        return Ownership(bound, path, suspended=self.suspended, margin=self.margin)
