"""Effects and transactions: the results of validated writes. The Txns, in their order, are the history of the
server.

A resolver (:mod:`.operations.writes`) resolves a request to an :data:`Effect`. An effect has, for example,
the final name of a sequential znode, or the new version. Only effects change a tree, and an effect cannot
fail (:meth:`.tree.DataTree.apply`).

Each zxid has one :class:`Txn`, which holds all that another tree needs to make the same change. If two trees
are equal and one replays every Txn of the other (:meth:`.tree.DataTree.replay`), the trees are equal after
each Txn. A tree computes the rest from its own state: a parent's cversion and pzxid, the usage of a quota.

==================  ==============================  ==================================================
effect of the Txn   caused by                       the tree
==================  ==============================  ==================================================
an :data:`Effect`   a request, the reaper           carries out the effect
Multi               a multi                         carries out its effects; updates quotas at the end
CloseSession        the client, or an expiry        deletes the ephemerals of the session, in order
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
    """The creation of a znode.

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
        """The path of the parent; ``""`` for a top-level znode."""
        return self.path[: -len(self.name) - 1]


class Delete(NamedTuple):
    """The deletion of a znode.

    :ivar name: the last component of the path.
    """

    path: str
    name: str

    @property
    def parent(self) -> str:
        """The path of the parent; ``""`` for a top-level znode."""
        return self.path[: -len(self.name) - 1]


class SetData(NamedTuple):
    """New data of a znode.

    :ivar version: the new version.
    """

    path: str
    data: bytes | None
    version: int


class SetACL(NamedTuple):
    """A new ACL of a znode.

    :ivar aversion: the new aversion.
    """

    path: str
    acl: tuple[ACL, ...]
    aversion: int


class Check(NamedTuple):
    """A check of a version that has succeeded. It changes nothing."""

    path: str


@attrs.define
class Multi:
    """The effects of a multi, in the order of its operations."""

    effects: tuple[Effect, ...]


@attrs.define
class CreateSession:
    """The start of a session.

    :ivar timeout: the negotiated timeout in ms.
    """

    timeout: int


@attrs.define
class CloseSession:
    """The end of a session.

    :ivar paths: the ephemeral znodes of the session, in the order in which they are deleted.
    :ivar expired: whether the session has expired; otherwise its client has closed it.
    """

    paths: tuple[str, ...]
    expired: bool


@attrs.define(eq=False)
class Replace:
    """The whole tree was replaced.

    :ivar root: the root of the new tree. This znode and all znodes below it must not change, because each
        server makes its own copy.
    :ivar gone: the ids of sessions that are over. Their ephemerals are left out.
    :ivar copies: copies of the new tree that were made before. A server removes one copy from the list and
        uses it. If the list is empty, the server makes a copy.
    """

    root: Znode
    gone: frozenset[int]
    copies: list[Znode] = attrs.field(factory=list)


@attrs.define
class Refused:
    """A write that failed. It takes a zxid too (semantics.md section 2)."""

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
"""An effect before it is applied: its kind, its fields, and the znode that it changes. A create or delete
changes the parent. The object of the effect is made only if there are watchers or a history, because making
it takes 5 % of the time of a write."""
Change: TypeAlias = tuple[Effect, Znode, Znode]
"""An applied effect, the znode at its path (also if the effect has deleted it), and the znode that the effect
has changed. A create or delete changes the parent."""
AnyEffect: TypeAlias = Effect | Multi | CloseSession | Replace | CreateSession | Refused
"""The change that one transaction makes."""


@attrs.define
class Txn:
    """One transaction.

    :ivar time: the wall-clock time in ms since the epoch.
    :ivar session: the id of the session that has caused the transaction; 0 for the server itself.
    """

    zxid: int
    time: int
    session: int
    effect: AnyEffect
