"""What happens in an ensemble. Times are whole ms of the ensemble's clock; servers are numbers."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from pyzk.server.core.txn import Txn


class Committed(NamedTuple):
    """An entry of the log is committed."""

    txn: Txn


class Applied(NamedTuple):
    """A server has applied an entry.

    :ivar left: the ephemerals that the end of a session has left in the server's tree.
    """

    server: int
    txn: Txn
    left: tuple[str, ...] = ()


class Copied(NamedTuple):
    """A server has got a copy of another one's tree, as it is right behind ``zxid``."""

    server: int
    zxid: int


class Began(NamedTuple):
    """A leader begins an epoch.

    :ivar timeouts: of the sessions that it knows, in ms.
    """

    epoch: int
    server: int
    timeouts: dict[int, int]
    now: int


class Follows(NamedTuple):
    """Whom a server follows from now on: the epoch of its leader, or None."""

    server: int
    epoch: int | None


class Linked(NamedTuple):
    """Whether messages pass between a server and its leader from now on: the leader's epoch, or None."""

    server: int
    epoch: int | None
    now: int


class Heard(NamedTuple):
    """A leader hears of a session.

    :ivar timeout: a new one that was negotiated, in ms; 0 if it stays.
    """

    epoch: int
    session: int
    timeout: int
    now: int


class Ending(NamedTuple):
    """A leader proposes the end of a session.

    :ivar expired: time has ended it, not its client.
    :ivar by_test: a test has done it.
    """

    epoch: int
    session: int
    expired: bool
    by_test: bool
    now: int


class Asked(NamedTuple):
    """A client asks for a session, or for its own.

    :ivar seen: the last zxid that it has seen.
    """

    connection: int
    server: int
    session: int
    password: bytes
    seen: int
    now: int


class Attached(NamedTuple):
    """A client is given a session.

    :ivar session: 0: it is told that its session is gone.
    """

    connection: int
    session: int
    password: bytes


class Request(NamedTuple):
    """
    :ivar body: what follows the header.
    :ivar least: of a sync: the zxid that its reply must have reached.
    """

    connection: int
    xid: int
    op: int
    body: bytes
    now: int
    least: int = 0


class Reply(NamedTuple):
    connection: int
    xid: int
    zxid: int
    err: int
    body: bytes
    now: int


class Event(NamedTuple):
    """A watch has fired."""

    connection: int
    zxid: int
    type: int
    path: str


Fact: TypeAlias = (
    Committed
    | Applied
    | Copied
    | Began
    | Follows
    | Linked
    | Heard
    | Ending
    | Asked
    | Attached
    | Request
    | Reply
    | Event
)
