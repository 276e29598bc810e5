"""The znodes of semaphores, with the names of Curator or of kazoo (recipe-rules.md B.5). The two layouts do
not see each other."""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Sequence
from functools import partial
from typing import Literal

import attrs

from ...client import BadVersionError, NodeExistsError, NoNodeError, paths
from ...protocol.layouts import ContenderKind, parse
from ...protocol.layouts.waiting import LAST_SEQUENCE
from ..base.bound import Bound
from ..base.creating import ZnodeOptions
from ..base.warning import WarnOnce
from ..errors import ForeignLayout, InconsistentLimit, SequenceExhausted

logger = logging.getLogger(__name__)

SemaphoreLayout = Literal["curator", "kazoo"]

_HEX = re.compile(r"[0-9a-f]{32}")


class LeaseLayout:
    """The names of the znodes of a semaphore.

    :ivar gate: the path of the gate, which is a lock. The holder of the gate can take leases.
    :ivar parent: the path of the parent of the leases.
    :ivar options: the options for the creation of the leases and their parent.
    :ivar sequential: whether the server adds a number to the name of a lease.
    """

    gate: str
    parent: str
    sequential: bool

    def __init__(self, options: ZnodeOptions) -> None:
        self.options = options
        self._warn = WarnOnce(logger)

    def new_name(self) -> str:
        """Return the name of a new lease. The name is unique, and no other name begins with it."""
        raise NotImplementedError

    def is_lease(self, name: str) -> bool:
        """Return whether a child is a lease of this layout."""
        raise NotImplementedError

    def counted(self, names: Sequence[str]) -> list[str]:
        """Return the names of the children that take up leases."""
        return [name for name in names if self.is_lease(name)]

    def warn_about(self, names: Sequence[str]) -> None:
        """Log a warning once if there are children of another layout."""
        foreign = [name for name in names if not self.is_lease(name)]
        if foreign:
            counts = "they count as leases" if self.counted(foreign) else "they are ignored"
            self._warn("foreign", "%s; %s", ForeignLayout(self.parent, sorted(foreign)), counts)

    def check_names(self, created: Sequence[str]) -> None:
        """Check the names of leases that were just created.

        :raises SequenceExhausted: the sequence numbers have run out.
        """

    async def check_limit(self, bound: Bound) -> None:
        """Check that the stored limit, if there is one, equals the limit of this semaphore.

        :raises InconsistentLimit: another limit is stored.
        """


class CuratorLeases(LeaseLayout):
    """The layout of Curator: the gate is ``<path>/locks``, and the leases are below ``<path>/leases``. The
    limit is not stored."""

    sequential = True

    def __init__(self, path: str, limit: int, options: ZnodeOptions) -> None:
        super().__init__(options)
        self.gate = paths.join(path, "locks")
        self.parent = paths.join(path, "leases")

    def new_name(self) -> str:
        return f"_c_{uuid.uuid4()}{ContenderKind.CURATOR_LEASE.value}"

    def is_lease(self, name: str) -> bool:
        lease = parse(name)
        return lease is not None and lease.kind is ContenderKind.CURATOR_LEASE

    def check_names(self, created: Sequence[str]) -> None:
        for path in created:
            lease = parse(paths.name(path))
            if lease is None or not 0 <= lease.sequence < LAST_SEQUENCE:
                raise SequenceExhausted(self.parent)


class KazooLeases(LeaseLayout):
    """The layout of kazoo: the leases are below the path, the gate is beside the path, and the limit is the
    data of the path's znode."""

    sequential = False

    def __init__(self, path: str, limit: int, options: ZnodeOptions) -> None:
        super().__init__(_ParentWithLimit(options.parents, options.acl, limit=limit))
        self.gate = f"{path}-__lock__"
        self.parent = path

    def new_name(self) -> str:
        return uuid.uuid4().hex

    def is_lease(self, name: str) -> bool:
        return _HEX.fullmatch(name) is not None

    def counted(self, names: Sequence[str]) -> list[str]:
        return list(names)  # kazoo counts all children

    async def check_limit(self, bound: Bound) -> None:
        await self.options.create_parent(bound, self.parent)


@attrs.frozen(kw_only=True)
class _ParentWithLimit(ZnodeOptions):
    """Creates the parent of kazoo's leases. The data of the parent is the limit in decimal digits. The parent
    is persistent, because the server would delete an empty container together with the limit."""

    limit: int
    _warn: WarnOnce = attrs.field(factory=lambda: WarnOnce(logger), init=False)

    async def create_parent(self, bound: Bound, path: str) -> None:
        """Make sure that the znode exists and holds this limit. kazoo creates an empty znode and writes the
        limit later. This function creates the znode with the limit.

        :raises InconsistentLimit: the znode holds another limit.
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
                pass  # another client has written the znode at the same time: read it again

    async def _create(self, bound: Bound, path: str, text: bytes) -> None:
        zk = bound.zk
        try:
            await bound.repeat(lambda: zk.create(path, text, acl=self.acl))
        except NodeExistsError:
            pass
        except NoNodeError:
            await super().create_parent(bound, paths.parent(path))

    def _compare(self, path: str, data: bytes) -> None:
        try:
            stored = int(data.decode())
        except ValueError:  # the znode may serve another purpose
            self._warn("limit", "%s holds %.100r, which is no limit of leases; ignoring it", path, data)
            return
        if stored != self.limit:
            raise InconsistentLimit(path, stored, self.limit)
