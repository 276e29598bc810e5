"""Made by ``python -m pyzk.bridge.generate`` from the client and the recipes: change those."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Self

from ..client import ACL, CreateMode
from ..recipes import Change, Member, Parents
from ..recipes.base.ownership import Suspended
from ..recipes.membership.party import Changes as TrioChanges
from ..recipes.membership.party import Party as TrioParty
from ..recipes.membership.party import PartyLayout
from ..recipes.membership.persistent_node import Conflict
from ..recipes.membership.persistent_node import KeptNode as TrioKeptNode
from ..recipes.membership.persistent_node import PersistentNode as TrioPersistentNode
from ..recipes.membership.ttl_node import TtlNode as TrioTtlNode
from ..recipes.partitioner import Partitioner as TrioPartitioner
from .base import Running
from .client import ZooKeeper
from .grants import Grant
from .wrapper import ThreadWrapper


class Party(Running, of=TrioParty):
    """The members of a group. During its block this object is a member too.

        party = Party(zk, "/services/api", "10.0.0.1:80")
        with party:
            print(party.members())

    The block begins when the member has joined. The member joins again when its znode is deleted, and in the
    next session. Listing and following the members also work without a block. If an error like
    :class:`NoAuthError` makes the membership impossible, the block is cancelled and raises that error.

    A child whose name does not fit the layout is not a member. In ``"curator-group"`` every child is a
    member.

    :param path: the path of the directory of the members. The directory is created when a member joins.
    :param id: the id of this member. In ``"curator-group"`` the id is the name of the znode, and in
        ``"kazoo-shallow"`` the id is a part of the name. So in these layouts the id must be a valid name.
    :param data: the data of this member's znode. The default is the id, except in ``"curator-group"``, where
        it is empty data. The libraries have the same defaults. In the layout ``"kazoo"`` the data is always
        the id.
    :param conflict: the reaction if a member of another session has the same name: see
        :class:`.PersistentNode`. Equal names are possible only in ``"curator-group"``.
    :param parents: the kind of a missing directory: see :data:`.Parents`.
    :param acl: the ACL of every znode that is created; None gives all permissions to everybody.
    :raises ValueError: an option has a wrong value.
    """

    _trio: TrioParty

    @property
    def path(self) -> str:
        return self._trio.path

    @property
    def zk(self) -> ZooKeeper:
        return self._wrap(self._trio.zk)

    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        id: str = "",
        *,
        data: bytes | None = None,
        layout: PartyLayout = "kazoo",
        conflict: Conflict = "wait",
        parents: Parents = "container",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        self._make(zk, path, id, data=data, layout=layout, conflict=conflict, parents=parents, acl=acl)

    def members(self) -> list[Member]:
        """List the members in the order of their names. This costs one request, and one more request for each
        member. In ``"kazoo-shallow"`` a call costs only one request."""
        return self._call(self._trio.members)

    def changes(self) -> Changes:
        """Follow the members: ``for change in party.changes()``. In the first change all present
        members have joined. A slow reader does not see members that joined and left in between."""
        return self._wrap(self._trio.changes())


class Changes(ThreadWrapper, of=TrioChanges):
    """The changes of a party, as an iterator. A watch exists only while a thread waits for the next
    change."""

    _trio: TrioChanges

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Change:
        """Wait for the next change. The iterator can still be used after an error.

        :raises ZooKeeperError: the error of a read, for example :class:`NoAuthError`.
        :raises ClosingError: the client was closed.
        """
        return self._next(self._trio.__anext__)


class KeptNode(Running, of=TrioKeptNode):
    """The base of recipes that keep a znode: it creates the znode, watches it, and creates it again when it
    is gone."""

    _trio: TrioKeptNode

    @property
    def path(self) -> str:
        return self._trio.path

    @property
    def zk(self) -> ZooKeeper:
        return self._wrap(self._trio.zk)

    def ready(self) -> None:
        """Wait until the znode exists.

        :raises RuntimeError: the block has ended or has not begun.
        """
        return self._call(self._trio.ready)

    def set_data(self, data: bytes) -> None:
        """Change the data of the znode and of each znode that is created later, and wait until the data is
        written. A cancellation ends the wait, but the change continues. Outside the block nothing is written.

        :raises RuntimeError: the block ended before the data was written.
        """
        return self._call(self._trio.set_data, data)


class PersistentNode(KeptNode, of=TrioPersistentNode):
    """Keeps a znode until the end of the block. The znode is created again after a deletion, and in the next
    session.

        with PersistentNode(zk, "/services/api/10.0.0.1", data=b"port=80") as node:
            node.ready()

    The block begins at once, even without a connection. At its end the block deletes the znode, and waits at
    most ``cleanup_grace`` seconds for the deletion. Without a connection the znode is deleted later. The
    layout and the behaviour are the same as in Curator's PersistentNode.

    If an ephemeral znode of another owner is at the path, ``conflict`` decides what happens. A znode of an
    earlier session of this object is deleted. A persistent znode has no owner. So an existing persistent
    znode is adopted, and its data is replaced.

    If an error like :class:`NoAuthError` makes it impossible to keep the znode, the block is cancelled and
    raises this error.

    :param data: the data of the znode.
    :param mode: the kind of the znode: EPHEMERAL, PERSISTENT, or EPHEMERAL_SEQUENTIAL. A sequential znode
        keeps its number when it is created again. Its name is ``_c_<uuid>-<name><number>``, as in Curator's
        mode with protection.
    :param conflict: the reaction to a znode of another owner: see :data:`Conflict`. Two owners with
        ``"takeover"`` replace each other's znode without end.
    :param parents: the kind of missing parents: see :data:`.Parents`.
    :param acl: the ACL of every znode that is created; None gives all permissions to everybody.
    :param cleanup_grace: the time in seconds that the end of the block can wait for the server.
    :raises ValueError: an option has a wrong value.

    :ivar path: the path of the znode. After the creation of a sequential znode it includes the number.
    """

    _trio: TrioPersistentNode

    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        *,
        data: bytes = b"",
        mode: CreateMode = CreateMode.EPHEMERAL,
        conflict: Conflict = "wait",
        parents: Parents = "container",
        acl: Sequence[ACL] | None = None,
        cleanup_grace: float = 1.0,
    ) -> None:
        self._make(
            zk,
            path,
            data=data,
            mode=mode,
            conflict=conflict,
            parents=parents,
            acl=acl,
            cleanup_grace=cleanup_grace,
        )


class TtlNode(KeptNode, of=TrioTtlNode):
    """Keeps a znode until ``ttl`` seconds after the end of the block, even if the session ends earlier.

        with TtlNode(zk, "/reports/today", data=b"...", ttl=3600) as node:
            node.ready()

    The znode of Curator's PersistentTtlNode is a container with the same child. So Curator's recipe and this
    recipe can each keep a znode that the other has created.

    If an error makes it impossible to keep the znode, the block is cancelled and raises this error.
    :class:`UnimplementedError` means that the server does not allow TTL znodes: set ``extendedTypesEnabled``
    in its configuration.

    :param ttl: the time in seconds for which the znode exists after the end of the block.
    :param parents: the kind of missing parents: see :data:`.Parents`.
    :param acl: the ACL of every znode that is created; None gives all permissions to everybody.
    :raises ValueError: an option has a wrong value.
    """

    _trio: TrioTtlNode

    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        *,
        data: bytes = b"",
        ttl: float,
        parents: Parents = "container",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        self._make(zk, path, data=data, ttl=ttl, parents=parents, acl=acl)


class Partitioner(Running, of=TrioPartitioner):
    """Divides items among the members of a group. Each item belongs to one member. This object is a member
    until the end of its block.

        with Partitioner(zk, "/work", ["a", "b", "c"], id="10.0.0.1") as partitioner:
            while True:
                with suppress(Rebalance, LockLost):
                    with partitioner.share() as items:
                        ...     # only this member works on these items; cancelled when the members change

    The znodes are the same as in kazoo's SetPartitioner: a member is ``<path>/party/<32 hex digits>-<id>``. A
    lock, ``<path>/locks/<item>``, guards each item. So an item never belongs to two members, even if these
    members have read different lists of members. Members of both libraries can be mixed; all members must
    have the same items. Other children of the party are ignored with a warning; kazoo treats them as members.

    When the session expires, the items are lost, and the member joins again in the next session. If another
    member has the same id, the block raises :class:`NodeExistsError`.

    :param items: the items, which must be valid names of znodes. With n members, each member gets every nth
        item of the sorted items.
    :param id: the id of this member. No other member may have the same id. After a restart the member must
        wait until the old session of its process has ended.
    :param settle: the time in seconds without a change of the members before the items are divided.
    :param margin: the time in seconds before the end of the lease at which an item is lost: see
        :class:`.Ownership`.
    :param parents, suspended, acl: see :class:`.HoldingOptions`.
    :raises BadArgumentsError: the path is not a valid path.
    :raises ValueError: an option has a value that is not allowed, or a name contains a slash.
    """

    _trio: TrioPartitioner

    @property
    def zk(self) -> ZooKeeper:
        return self._wrap(self._trio.zk)

    @property
    def path(self) -> str:
        return self._trio.path

    @property
    def id(self) -> str:
        return self._trio.id

    @property
    def settle(self) -> float:
        return self._trio.settle

    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        items: Iterable[str],
        id: str,
        *,
        settle: float = 30.0,
        parents: Parents = "container",
        suspended: Suspended = "deadline",
        margin: float | None = None,
        acl: Sequence[ACL] | None = None,
    ) -> None:
        self._make(
            zk, path, items, id, settle=settle, parents=parents, suspended=suspended, margin=margin, acl=acl
        )

    def members(self) -> list[Member]:
        """List the present members."""
        return self._call(self._trio.members)

    def share(self) -> AbstractContextManager[dict[str, Grant]]:
        """Wait for this member's share of the items. During the block no other member has these items. The
        share may be empty.

        Yields the items in order. Each item has the grant of its lock, which can be used for fencing.

        :raises Rebalance: the members have changed. The block was cancelled; ask for the next share.
        :raises LockLost: an item was lost for another reason. The block was cancelled; ask for the next
            share.
        :raises NodeExistsError: another member has the same id.
        :raises RuntimeError: the partitioner's block has ended or has not begun.
        """
        return self._block(self._trio.share())
