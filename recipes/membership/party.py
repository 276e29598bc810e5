"""Parties: who is there (recipe-rules.md B.10, D.11)."""

from __future__ import annotations

import re
import uuid
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Literal, Self

import attrs

from ...client import ACL, GetData, NoNodeError, ZooKeeper
from ...protocol.paths import join, validate_path
from ..base.creating import ParentsMode
from ..base.following import watch_children
from ..base.running import Running, steady
from ..base.words import check_word
from .persistent_node import Conflict, PersistentNode

Layout = Literal["kazoo", "kazoo-shallow", "curator-group"]
"""Whose members we are and see: kazoo's Party (``<32 hex digits>__party__`` holding the id), kazoo's
ShallowParty (``<32 hex digits>-<id>``), or Curator's GroupMember (``<id>``, holding anything)."""

_KAZOO = "__party__"
_PATTERNS: Mapping[Layout, re.Pattern[str]] = {
    "kazoo": re.compile(_KAZOO),
    "kazoo-shallow": re.compile(r"^[0-9a-f]{32}-"),
    "curator-group": re.compile(""),
}
"""Which children are members."""


@attrs.frozen
class Member:
    """A member of a party.

    :ivar name: of its znode. It alone says whether two members are the same.
    :ivar id: what it calls itself; unique in the layout ``"curator-group"`` only.
    :ivar data: what its znode held when it was first seen; None in the layout ``"kazoo-shallow"``, where the
        list of names is all that is read.
    """

    name: str
    id: str
    data: bytes | None = attrs.field(eq=False, default=None)


@attrs.frozen
class Change:
    """Who has come and who has gone since the change before."""

    joined: frozenset[Member]
    left: frozenset[Member]


class Party(Running):
    """The members of a group; we are one of them for as long as the block lasts.

        party = Party(zk, "/services/api", "10.0.0.1:80")
        async with party:
            print(await party.members())

    The block begins once we have joined. We join again when somebody deletes our znode, and in the next
    session when ours has expired. Who only looks on needs no block. What makes it impossible, such as
    :class:`NoAuthError`, cancels the block, which raises it.

    Children that are not of the layout are no members; in ``"curator-group"`` all are.

    :param path: the directory of the members; created when one joins.
    :param id: what we call ourselves: in the layout ``"curator-group"`` the name of the znode, in
        ``"kazoo-shallow"`` a part of it, so it must be fit for that there.
    :param data: what our znode holds; by default what the owner of the layout writes: the id, or nothing in
        ``"curator-group"``. In the layout ``"kazoo"`` it is always the id.
    :param conflict: what to do when a member of another session has our name, which only
        ``"curator-group"`` allows: see :class:`.PersistentNode`.
    :param parents: how a missing directory is created: the server removes a container some time after the
        last member has gone.
    :param acl: of what is created; everything for everyone if None.
    """

    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        id: str = "",
        data: bytes | None = None,
        *,
        layout: Layout = "kazoo",
        conflict: Conflict = "wait",
        parents: Literal["container", "persistent"] = "container",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        super().__init__()
        validate_path(path)
        check_word("layout", layout, Layout)
        check_word("conflict", conflict, Conflict)
        check_word("parents", parents, ParentsMode)
        if layout == "kazoo" and data is not None:
            raise ValueError("a member's data are its id in the layout of kazoo")
        if data is None:
            data = b"" if layout == "curator-group" else id.encode()
        self.path = path
        self.zk = zk
        self._layout = layout
        self._id = id
        self._data = data
        self._conflict: Conflict = conflict
        self._parents: Literal["container", "persistent"] = parents
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
            join(self.path, name),
            self._data,
            conflict=self._conflict,
            parents=self._parents,
            acl=self._acl,
        )
        async with node:
            await node.ready()
            yield

    async def members(self) -> list[Member]:
        """Who is there, by the order of their names. Costs a list, and a read of each but in
        ``"kazoo-shallow"``."""
        try:
            names = await steady(self.zk, lambda: self.zk.get_children(self.path))
        except NoNodeError:
            return []
        return list((await self.describe(names, {})).values())

    def changes(self) -> Changes:
        """An async iterator over the changes: ``async for change in party.changes()``. The first has all who
        are there as joined. Members that come and go while nobody looks are left out, and so is one that
        comes back under the same name."""
        return Changes(self)

    async def describe(self, names: Iterable[str], known: Mapping[str, Member]) -> dict[str, Member]:
        """The members that some znodes stand for, by their names. Those that are gone again are left out.

        :param known: need not be read.
        """
        names = sorted(filter(_PATTERNS[self._layout].search, names))
        if self._layout == "kazoo-shallow":
            return {name: Member(name, name.partition("-")[2]) for name in names}
        read = await steady(self.zk, lambda: self._read([name for name in names if name not in known]))
        return {name: member for name in names if (member := known.get(name) or read.get(name))}

    async def _read(self, names: Sequence[str]) -> dict[str, Member]:
        members = {}
        for name, pending in [(name, self.zk.submit(GetData(join(self.path, name)))) for name in names]:
            with suppress(NoNodeError):
                data, _ = await pending.wait()
                id = name if self._layout == "curator-group" else (data or b"").decode(errors="replace")
                members[name] = Member(name, id, data)
        return members


class Changes:
    """The changes of a party. No watch is held while nobody waits for the next."""

    def __init__(self, party: Party) -> None:
        self._party = party
        self._lists = watch_children(party.zk, party.path)
        self._names: list[str] | None = None  # read, but not looked at
        self._members: dict[str, Member] = {}

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Change:
        """The next change. Raises what :func:`.watch_children` raises."""
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
