"""Parties: the members of a group (recipe-rules.md B.10, D.11).

The rules:

* A member is an ephemeral znode in the directory of the party. A :class:`.PersistentNode` keeps the znode: it
  is created again after a deletion, and in the next session.
* The name of the znode identifies the member. So a member that leaves and joins again with the same name is
  the same member.
* The znode of each member is read once, when its name is new. In kazoo's shallow layout the name holds the
  id, and no znode is read.
* Changes are the differences between two lists of names. A slow reader does not see members that joined and
  left in between.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Literal, Self

import attrs

from ...client import ACL, GetData, NoNodeError, ZooKeeper, paths
from ...protocol.paths import validate_path
from ..base.choices import check_choice
from ..base.creating import Parents
from ..base.following import watch_children
from ..base.running import Running, steady
from .persistent_node import Conflict, PersistentNode

PartyLayout = Literal["kazoo", "kazoo-shallow", "curator-group"]
"""The names of the members' znodes. ``"kazoo"`` uses the names of kazoo's Party: ``<32 hex
digits>__party__``, with the id as data. ``"kazoo-shallow"`` uses the names of kazoo's ShallowParty: ``<32 hex
digits>-<id>``. ``"curator-group"`` uses the names of Curator's GroupMember: ``<id>``, with any data."""

_KAZOO = "__party__"
_PATTERNS: Mapping[PartyLayout, re.Pattern[str]] = {
    "kazoo": re.compile(_KAZOO),
    "kazoo-shallow": re.compile(r"^[0-9a-f]{32}-"),
    "curator-group": re.compile(""),
}
"""The patterns of the names of members, by layout."""


@attrs.frozen
class Member:
    """A member of a party.

    :ivar name: the name of the member's znode. Two members are the same if their names are the same.
    :ivar id: the id that the member has chosen. Two members may have the same id, except in the layout
        ``"curator-group"``.
    :ivar data: the data of the member's znode when the znode was first read. The data is None in the layout
        ``"kazoo-shallow"``, in which no znode is read.
    """

    name: str
    id: str
    data: bytes | None = attrs.field(eq=False, default=None)


@attrs.frozen
class Change:
    """The members that have joined and the members that have left since the last change."""

    joined: frozenset[Member]
    left: frozenset[Member]


class Party(Running):
    """The members of a group. During its block this object is a member too.

        party = Party(zk, "/services/api", "10.0.0.1:80")
        async with party:
            print(await party.members())

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
        super().__init__()
        validate_path(path)
        check_choice("layout", layout, PartyLayout)
        check_choice("conflict", conflict, Conflict)
        check_choice("parents", parents, Parents)
        if layout == "kazoo" and data is not None:
            raise ValueError("with layout='kazoo' the data of a member is its id; leave out data")
        if data is None:
            data = b"" if layout == "curator-group" else id.encode()
        self.path = path
        self.zk = zk
        self._layout = layout
        self._id = id
        self._data = data
        self._conflict: Conflict = conflict
        self._parents: Parents = parents
        self._acl = acl

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path}>"

    @asynccontextmanager
    async def _run(self) -> AsyncIterator[None]:
        unique = uuid.uuid4().hex
        name = {
            "kazoo": unique + _KAZOO,
            "kazoo-shallow": f"{unique}-{self._id}",
            "curator-group": self._id,
        }[self._layout]
        node = PersistentNode(
            self.zk,
            paths.join(self.path, name),
            data=self._data,
            conflict=self._conflict,
            parents=self._parents,
            acl=self._acl,
        )
        async with node:
            await node.ready()
            yield

    async def members(self) -> list[Member]:
        """List the members in the order of their names. This costs one request, and one more request for each
        member. In ``"kazoo-shallow"`` a call costs only one request."""
        try:
            names = await steady(self.zk, lambda: self.zk.get_children(self.path))
        except NoNodeError:
            return []
        return list((await self.describe(names, {})).values())

    def changes(self) -> Changes:
        """Follow the members: ``async for change in party.changes()``. In the first change all present
        members have joined. A slow reader does not see members that joined and left in between."""
        return Changes(self)

    async def describe(self, names: Iterable[str], known: Mapping[str, Member]) -> dict[str, Member]:
        """Return the members among some children by their names. A member that leaves during the call is left
        out.

        :param known: the members that were read before, by name.
        """
        names = sorted(filter(_PATTERNS[self._layout].search, names))
        if self._layout == "kazoo-shallow":
            return {name: Member(name, name.partition("-")[2]) for name in names}
        read = await steady(self.zk, lambda: self._read([name for name in names if name not in known]))
        return {name: member for name in names if (member := known.get(name) or read.get(name))}

    async def _read(self, names: Sequence[str]) -> dict[str, Member]:
        members = {}
        for name, pending in [(name, self.zk.submit(GetData(paths.join(self.path, name)))) for name in names]:
            with suppress(NoNodeError):
                data, _ = await pending.wait()
                id = name if self._layout == "curator-group" else (data or b"").decode(errors="replace")
                members[name] = Member(name, id, data)
        return members


class Changes:
    """The changes of a party, as an async iterator. A watch exists only while a task waits for the next
    change."""

    def __init__(self, party: Party) -> None:
        self._party = party
        self._lists = watch_children(party.zk, party.path)
        self._names: list[str] | None = None  # names that were listed, but not compared yet
        self._members: dict[str, Member] = {}

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Change:
        """Wait for the next change. The iterator can still be used after an error.

        :raises ZooKeeperError: the error of a read, for example :class:`NoAuthError`.
        :raises ClosingError: the client was closed.
        """
        while True:
            if self._names is None:
                self._names = await anext(self._lists) or []
            before, after = self._members, await self._party.describe(self._names, self._members)
            self._names, self._members = None, after
            change = Change(
                joined=frozenset(after.values()) - frozenset(before.values()),
                left=frozenset(before.values()) - frozenset(after.values()),
            )
            if change.joined or change.left:
                return change
