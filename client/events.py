"""The events that a watch reports."""

from __future__ import annotations

import enum

import attrs

from ..protocol.constants import EventType


@attrs.frozen
class WatchEvent:
    """A change at a znode.

    :ivar type: CREATED, DELETED, CHANGED (the data) or CHILD (a child was created or deleted).
    :ivar path: the znode.
    :ivar zxid: of the change; None where the server does not say (before 3.9, and for changes made while the
        client was disconnected).
    """

    type: EventType
    path: str
    zxid: int | None = None


class MissedReason(enum.Enum):
    """Why events may be missing."""

    RECONNECTED = "the connection was lost, and there is another"
    EXPIRED = "the session expired"
    OVERFLOW = "too many events were unread"


@attrs.frozen
class Missed:
    """Changes may be unreported: read again what you follow.

    The watch is armed, with one exception: a one-shot watch that fires with EXPIRED is gone, as are the
    session's ephemeral znodes.

    :ivar path: the path that is watched.
    """

    path: str
    reason: MissedReason


Event = WatchEvent | Missed
