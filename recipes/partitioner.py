"""Dividing items among the members of a group (recipe-rules.md B.10, D.11)."""

from __future__ import annotations

import logging
import math
import uuid
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import trio

from ..client import ACL, NodeExistsError, ZooKeeper, paths
from .base.choices import check_choice
from .base.creating import Parents
from .base.following import watch_children
from .base.ownership import Suspended
from .base.running import Running, alongside, steady
from .base.waiting import waiting_for
from .base.warning import WarnOnce
from .errors import LockLost, Rebalance
from .locks.grant import Grant
from .locks.lock import Lock
from .membership.party import Member, Party
from .membership.persistent_node import PersistentNode

logger = logging.getLogger(__name__)


class Partitioner(Running):
    """Divides items among the members of a group. Each item belongs to one member. This object is a member
    until the end of its block.

        async with Partitioner(zk, "/work", ["a", "b", "c"], id="10.0.0.1") as partitioner:
            while True:
                with suppress(Rebalance, LockLost):
                    async with partitioner.share() as items:
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
        super().__init__()
        paths.validate_path(path)
        check_choice("parents", parents, Parents)
        check_choice("suspended", suspended, Suspended)
        self.zk = zk
        self.path = path
        self.id = id
        self.settle = settle
        self._party = Party(zk, paths.join(path, "party"), layout="kazoo-shallow")  # only to list the members
        self._member = ""  # the name of our znode
        self._parents: Parents = parents
        self._acl = acl
        self._warn = WarnOnce(logger)
        names = sorted(set(items))
        if bad := [name for name in [id, *names] if "/" in name]:
            raise ValueError(f"{bad[0]!r} cannot be part of the name of a znode: leave out the slash")
        self._locks = {
            item: Lock(
                zk,
                paths.join(paths.join(path, "locks"), item),
                data=id.encode(),
                layout="kazoo",
                parents=parents,
                suspended=suspended,
                margin=margin,
                acl=acl,
            )
            for item in names
        }

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path}>"

    @asynccontextmanager
    async def _run(self) -> AsyncIterator[None]:
        self._member = f"{uuid.uuid4().hex}-{self.id}"
        path = paths.join(self._party.path, self._member)
        async with PersistentNode(
            self.zk, path, data=self.id.encode(), parents=self._parents, acl=self._acl
        ) as node:
            await node.ready()
            await self._refuse_a_double(await self._party.members())
            yield

    async def members(self) -> list[Member]:
        """List the present members."""
        return await self._party.members()

    @asynccontextmanager
    async def share(self) -> AsyncIterator[dict[str, Grant]]:
        """Wait for this member's share of the items. During the block no other member has these items. The
        share may be empty.

        Yields the items in order. Each item has the grant of its lock, which can be used for fencing.

        :raises Rebalance: the members have changed. The block was cancelled; ask for the next share.
        :raises LockLost: an item was lost for another reason. The block was cancelled; ask for the next
            share.
        :raises NodeExistsError: another member has the same id.
        :raises RuntimeError: the partitioner's block has ended or has not begun.
        """
        if self._block is None:
            raise RuntimeError(f"{self!r} does not run: call this inside of its async with block")
        while True:
            complete = False
            try:
                async with AsyncExitStack() as stack:
                    members = await stack.enter_async_context(self._settled())
                    items = {}
                    for item in await self._items(members):
                        items[item] = await stack.enter_async_context(self._locks[item])
                    complete = True
                    yield items
                    return
            except (Rebalance, LockLost):
                if complete:
                    raise

    @asynccontextmanager
    async def _settled(self) -> AsyncIterator[list[Member]]:
        """Open a block that begins when the members have not changed for ``settle`` seconds and this object
        is a member. The block is cancelled when the members change.

        :raises Rebalance: the members have changed.
        """
        changes = watch_children(self.zk, self._party.path)
        names = await anext(changes)
        why = f"whose members must stay the same for {self.settle:g} s"
        with waiting_for(self.zk, self.path, why):
            settled = False
            while not settled:
                present = names is not None and self._member in names
                with trio.move_on_after(self.settle if present else math.inf) as pause:
                    names = await anext(changes)
                settled = pause.cancelled_caught

        async def until_they_change() -> None:
            await anext(changes)
            raise Rebalance(f"the members of {self.path} have changed")

        async with alongside(self.zk, until_they_change):
            yield await self._describe(names or [])

    async def _describe(self, names: list[str]) -> list[Member]:
        members = await self._party.describe(names, {})
        foreign = set(names) - members.keys()
        if foreign:
            text = "Ignoring %s below %s: it is not a name of a member. Delete it, or use another path."
            self._warn("foreign", text, min(foreign), self._party.path)
        return list(members.values())

    async def _items(self, members: list[Member]) -> list[str]:
        """Return the share of this member, by kazoo's formula."""
        await self._refuse_a_double(members)
        ids = sorted(member.id for member in members)
        return list(self._locks)[ids.index(self.id) :: len(ids)]

    async def _refuse_a_double(self, members: list[Member]) -> None:
        """Check that no earlier member has the same id (trap E-46).

        :raises NodeExistsError: an earlier member has the same id.
        """
        names = [member.name for member in members if member.id == self.id]
        if names == [self._member]:
            return
        ages = {}
        for name in names:
            stat = await steady(self.zk, partial(self.zk.exists, paths.join(self._party.path, name)))
            if stat is not None:
                ages[name] = stat.czxid
        eldest = min(ages, key=ages.__getitem__, default=self._member)
        if eldest != self._member:
            path = paths.join(self._party.path, eldest)
            raise NodeExistsError(path, f"a member {self.id!r} exists already; give each member its own id")
