"""The options of locks, in two forms.

The caller sees the ``TypedDict`` classes: the keyword arguments of each recipe. The recipe keeps
:class:`Holding`, which has the defaults and the checks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypedDict

import attrs

from ...client import ACL
from ...protocol.layouts import ContenderKind
from ..base.bound import Bound
from ..base.creating import Parents, ZnodeOptions
from ..base.hold import Hold, Suspended
from ..base.words import one_of
from .grant import OnRevoke
from .role import LockLayout
from .strategy import Strategy

OnSessionLoss = Literal["requeue", "raise"]
"""The reaction of a waiting contender to the expiry of its session: begin anew in the next session, or
raise."""


class HoldingOptions(TypedDict, total=False):
    """The options of locks, semaphores and elections.

    ``parents``: what a missing parent is created as: ``"container"`` (the default) or ``"persistent"``. The
    server deletes a container some time after the last child has gone.

    ``acl``: the ACL of every znode that is created; everything for everyone by default.

    ``suspended``: when the holder loses the lock while there is no connection. ``"deadline"`` (the default):
    when the session may have expired. ``"cancel"``: at once. ``"ignore"``: only when the server says that the
    session has expired; another client may hold the lock before that.

    ``margin``: seconds by which the lease is taken to be shorter, see :class:`.Hold`.

    ``on_session_loss``: what a waiting contender does when its session expires. ``"requeue"`` (the default):
    begin anew in the next session. ``"raise"``: raise :class:`SessionExpiredError`.

    ``cleanup_grace``: seconds for which giving up or releasing may wait for the server; 1 by default.
    """

    parents: Parents
    acl: Sequence[ACL] | None
    suspended: Suspended
    margin: float | None
    on_session_loss: OnSessionLoss
    cleanup_grace: float


class ElectionOptions(HoldingOptions, total=False):
    """The options of elections; :class:`.Lock` says what each means."""

    on_revoke: OnRevoke
    strategy: Strategy


class RWLockOptions(ElectionOptions, total=False):
    """The options of read/write locks; :class:`.Lock` says what each means."""

    data: bytes
    layout: LockLayout
    reentrant: bool
    monitor: bool
    recognise: frozenset[ContenderKind]


class LockOptions(RWLockOptions, total=False):
    """The options of locks; :class:`.Lock` says what each means."""

    local_queue: bool
    max_handoffs: int


@attrs.frozen
class Holding(ZnodeOptions):
    """The options of waiting, holding and giving up: :class:`HoldingOptions` with defaults.

    :raises ValueError: an option is none of the words that it takes.
    """

    suspended: Suspended = attrs.field(default="deadline", validator=one_of(Suspended))
    margin: float | None = None
    on_session_loss: OnSessionLoss = attrs.field(default="requeue", validator=one_of(OnSessionLoss))
    cleanup_grace: float = 1.0

    def hold(self, bound: Bound, path: str) -> Hold:
        """Make the hold on a znode."""
        return Hold(bound, path, suspended=self.suspended, margin=self.margin)
