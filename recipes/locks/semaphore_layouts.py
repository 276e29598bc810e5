"""What semaphores look like in the tree: Curator's way, and kazoo's (recipe-rules.md B.5). They do not see
each other, and nothing could make them."""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from functools import partial
from typing import Literal

import attrs

from ...client import BadVersionError, NodeExistsError, NoNodeError
from ...protocol.paths import join, split
from ..base.bound import Bound
from ..base.creating import Parents
from ..errors import ForeignLayout, InconsistentLimit, SequenceExhausted
from .contender import LAST_SEQUENCE, Terms
from .names import Kind, Naming, parse

LayoutName = Literal["curator", "kazoo"]

_HEX = re.compile(r"[0-9a-f]{32}")


class Layout:
    """
    :ivar gate: where those contend who want leases; one at a time may take some.
    :ivar leases: the parent of the leases.
    :ivar parents: how that is created.
    :ivar sequential: whether the server adds a number to the name of a lease.
    """

    gate: str
    leases: str
    naming: Naming
    sequential: bool

    def __init__(self, terms: Terms) -> None:
        self.parents = terms.parents_mode
        self._terms = terms

    def new_name(self) -> str:
        """For a new lease; no other has it, or begins like it."""
        raise NotImplementedError

    def is_lease(self, name: str) -> bool:
        """Whether a name is that of a lease of this layout."""
        raise NotImplementedError

    def counted(self, names: Sequence[str]) -> list[str]:
        """Those of the children that take up a lease each."""
        return [name for name in names if self.is_lease(name)]

    def remark(self, names: Sequence[str]) -> None:
        """Say once that there are children of another layout."""
        foreign = [name for name in names if not self.is_lease(name)]
        if foreign:
            counts = "they count as leases" if self.counted(foreign) else "they are ignored"
            self._terms.warn("foreign", "%s; %s", ForeignLayout(self.leases, sorted(foreign)), counts)

    def check_names(self, paths: Sequence[str]) -> None:
        """Raises :class:`SequenceExhausted` if these leases, just created, have used up the numbers."""

    async def check_limit(self, bound: Bound) -> None:
        """Raises :class:`InconsistentLimit` if the others have another limit."""


class CuratorLayout(Layout):
    """``<path>/locks`` and ``<path>/leases``; the limit is stored nowhere."""

    naming: Naming = "curator"
    sequential = True

    def __init__(self, terms: Terms, limit: int) -> None:
        super().__init__(terms)
        self.gate = join(terms.path, "locks")
        self.leases = join(terms.path, "leases")

    def new_name(self) -> str:
        return f"_c_{uuid.uuid4()}{Kind.CURATOR_LEASE.value}"

    def is_lease(self, name: str) -> bool:
        place = parse(name)
        return place is not None and place.kind is Kind.CURATOR_LEASE

    def check_names(self, paths: Sequence[str]) -> None:
        for path in paths:
            place = parse(split(path)[1])
            if place is None or not 0 <= place.sequence < LAST_SEQUENCE:
                raise SequenceExhausted(self.leases)


class KazooLayout(Layout):
    """Leases below the path itself, the gate beside it, and the limit as the data of the path."""

    naming: Naming = "kazoo"
    sequential = False

    def __init__(self, terms: Terms, limit: int) -> None:
        super().__init__(terms)
        self.gate = f"{terms.path}-__lock__"
        self.leases = terms.path
        self.parents = self._limited = _Limited(
            self.parents.container, self.parents.acl, limit=limit, terms=terms
        )

    def new_name(self) -> str:
        return uuid.uuid4().hex

    def is_lease(self, name: str) -> bool:
        return _HEX.fullmatch(name) is not None

    def counted(self, names: Sequence[str]) -> list[str]:
        return list(names)  # kazoo counts them all

    async def check_limit(self, bound: Bound) -> None:
        await self._limited.create(bound, self.leases)


@attrs.frozen(kw_only=True)
class _Limited(Parents):
    """The parent of leases, which holds their limit in decimal digits. It is persistent: a container would
    be removed, and the limit with it, when nobody holds a lease for a while."""

    limit: int
    terms: Terms

    async def create(self, bound: Bound, path: str) -> None:
        """Have the znode there, and the same limit in it.

        kazoo creates it first and sets the limit then; ours is there from the beginning.
        """
        zk, text = bound.zk, str(self.limit).encode()
        while True:
            try:
                data, stat = await bound.repeat(lambda: zk.get(path))
                if data:
                    self._compare(path, data)
                    return
                await bound.repeat(partial(zk.set, path, text, version=stat.version))
            except NoNodeError:
                await self._create(bound, path, text)
            except BadVersionError:
                pass  # somebody was faster

    async def _create(self, bound: Bound, path: str, text: bytes) -> None:
        zk = bound.zk
        try:
            await bound.repeat(lambda: zk.create(path, text, acl=self.acl))
        except NodeExistsError:
            pass
        except NoNodeError:
            await super().create(bound, split(path)[0])

    def _compare(self, path: str, data: bytes) -> None:
        try:
            stored = int(data.decode())
        except ValueError:  # it may serve another purpose
            self.terms.warn("limit", "%s holds %.100r, which is no limit of leases; ignoring it", path, data)
            return
        if stored != self.limit:
            raise InconsistentLimit(path, stored, self.limit)
