"""What a write does, once validated: the stream of these is the server's history.

Preparing a request yields one of the effects below with everything resolved (the final name of a
sequential znode, the new version); :meth:`.tree.DataTree.apply` carries it out and cannot fail. A
:class:`Txn` adds when and by whom.
"""

from __future__ import annotations

from typing import TypeAlias

import attrs

from ...protocol.records import ACL


@attrs.define
class Create:
    """
    :ivar parent: the parent's path; ``""`` for a top-level znode.
    :ivar owner: the stored ephemeralOwner: 0, a session id, or the mark of a container or TTL znode.
    """

    path: str
    parent: str
    data: bytes | None
    acl: tuple[ACL, ...]
    owner: int


@attrs.define
class Delete:
    path: str
    parent: str


@attrs.define
class SetData:
    path: str
    data: bytes | None
    version: int


@attrs.define
class SetACL:
    path: str
    acl: tuple[ACL, ...]
    aversion: int


@attrs.define
class Check:
    """A version that matched; changes nothing."""

    path: str


@attrs.define
class Multi:
    effects: tuple[Effect, ...]


@attrs.define
class CreateSession:
    """:ivar timeout: the negotiated timeout in ms."""

    timeout: int


@attrs.define
class CloseSession:
    """:ivar paths: the session's ephemeral znodes, deleted with it in this order.
    :ivar expired: whether time ended it, not its client."""

    paths: tuple[str, ...]
    expired: bool


@attrs.define
class Refused:
    """A write that failed: it consumes a zxid all the same (semantics.md section 2)."""

    err: int


Effect: TypeAlias = Create | Delete | SetData | SetACL | Check
"""What one operation does to the tree."""
AnyEffect: TypeAlias = Effect | Multi | CreateSession | CloseSession | Refused
"""What one transaction does."""


@attrs.define
class Txn:
    """One transaction.

    :ivar time: wall-clock time in ms since the epoch.
    :ivar session: the id of the session that asked for it; 0 for the server itself.
    """

    zxid: int
    time: int
    session: int
    effect: AnyEffect
