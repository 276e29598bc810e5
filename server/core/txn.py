"""Effects and transactions: the results of validated writes. The Txns, in their order, are the server's
history.

A resolver (:mod:`.operations.writes`) resolves a request to an :data:`Effect`: the final name of a sequential
znode, the new version. Applying an effect is the only way in which a tree changes, and cannot fail
(:meth:`.tree.DataTree.apply`).

Each zxid is one :class:`Txn`, which holds all that another tree needs. A tree that starts equal and replays
every Txn (:meth:`.tree.DataTree.replay`) is equal after each of them. The tree computes the rest from its
own state: a parent's cversion and pzxid, the usage of a quota.

==================  ==============================  ==================================================
effect of the Txn   caused by                       the tree
==================  ==============================  ==================================================
an :data:`Effect`   a request, the reaper           carries it out
Multi               a multi                         carries out its effects; quotas are booked once
CloseSession        the client, or an expiry        deletes the session's ephemerals, in that order
Replace             a test restores a snapshot      becomes a copy of the snapshot
CreateSession       a handshake                     stays as it is
Refused             a write that failed             stays as it is
==================  ==============================  ==================================================
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import attrs

from ...protocol.records import ACL
from .znode import Znode


class Create(NamedTuple):
    """
    :ivar name: the last component of the path.
    :ivar owner: the stored ephemeralOwner: 0, a session id, or the mark of a container or TTL znode.
    """

    path: str
    name: str
    data: bytes | None
    acl: tuple[ACL, ...]
    owner: int

    @property
    def parent(self) -> str:
        """The parent's path; ``""`` for a top-level znode."""
        return self.path[: -len(self.name) - 1]


class Delete(NamedTuple):
    """:ivar name: the last component of the path."""

    path: str
    name: str

    @property
    def parent(self) -> str:
        """As in :class:`Create`."""
        return self.path[: -len(self.name) - 1]


class SetData(NamedTuple):
    """:ivar version: the new one."""

    path: str
    data: bytes | None
    version: int


class SetACL(NamedTuple):
    """:ivar aversion: the new one."""

    path: str
    acl: tuple[ACL, ...]
    aversion: int


class Check(NamedTuple):
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


@attrs.define(eq=False)
class Replace:
    """The whole tree was replaced.

    :ivar root: the other tree's root. The znode and everything below it must not change: each tree takes a
        copy.
    :ivar gone: ids of sessions that are over: their ephemerals are left out.
    :ivar copies: copies that were made before. A tree takes one of them away, as long as there is one.
    """

    root: Znode
    gone: frozenset[int]
    copies: list[Znode] = attrs.field(factory=list)


@attrs.define
class Refused:
    """A write that failed: it consumes a zxid all the same (semantics.md section 2)."""

    err: int


Effect: TypeAlias = Create | Delete | SetData | SetACL | Check
"""The change that one operation makes to the tree."""
Resolved: TypeAlias = (
    tuple[type[Create], tuple[str, str, bytes | None, tuple[ACL, ...], int], Znode]
    | tuple[type[Delete], tuple[str, str], Znode]
    | tuple[type[SetData], tuple[str, bytes | None, int], Znode]
    | tuple[type[SetACL], tuple[str, tuple[ACL, ...], int], Znode]
    | tuple[type[Check], tuple[str], Znode]
)
"""An effect before it is applied: its kind, its fields, and the znode that it changes, which for a create or
delete is the parent. The object is made only if there are watchers or a history, because it costs each write
5 %."""
Change: TypeAlias = tuple[Effect, Znode, Znode]
"""An applied effect, its znode (also if it is deleted), and the znode that the effect has changed, which for
a create or delete is the parent."""
AnyEffect: TypeAlias = Effect | Multi | CloseSession | Replace | CreateSession | Refused
"""The change that one transaction makes."""


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
