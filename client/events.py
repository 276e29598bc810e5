"""What a watch reports. Values, no callbacks."""

from __future__ import annotations

import enum

import attrs

from ..protocol.constants import EventType


@attrs.frozen
class WatchEvent:
    """A change at a znode.

    :ivar type: CREATED, DELETED, CHANGED (the data) or CHILD (a child came or went).
    :ivar zxid: the transaction that changed it; None where the server does not say (before 3.9, and for
        changes made while the client was disconnected).
    """

    type: EventType
    path: str
    zxid: int | None = None


class MissedReason(enum.Enum):
    """Why events may be missing."""

    RECONNECTED = "the connection was lost and is back"
    EXPIRED = "the session expired"
    OVERFLOW = "the reader of the events was too slow"


@attrs.frozen
class Missed:
    """Changes may have gone unreported: read again what you follow. The watch itself is armed.

    With one exception: a one-shot watch that ends with EXPIRED is gone, and so are the session's ephemerals.

    :ivar path: the path that is watched.
    """

    path: str
    reason: MissedReason


Event = WatchEvent | Missed
