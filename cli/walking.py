"""Reading a tree: parents before children, and children in the order of their names.

Requests are pipelined. Memory is limited: a walk keeps the names of the children of the znodes on the path
down, and at most :data:`AHEAD` answers for each level. Data is read ahead up to :data:`BYTES_AHEAD`. The walk
reads the Stats first, so the size of the data is known before the data is read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Collection, Iterable, Iterator
from contextlib import aclosing

import attrs

from ..client import (
    ACL,
    BadArgumentsError,
    GetACL,
    GetChildrenAndStat,
    GetData,
    NoAuthError,
    NoNodeError,
    Pending,
    Stat,
    ZooKeeper,
)
from ..protocol.paths import join, validate_name
from .pipeline import AHEAD, BYTES_AHEAD

RESERVED = "/zookeeper"
"""The server's own subtree."""


@attrs.frozen
class Found:
    """A found znode.

    :ivar names: the valid names of the znode's children, sorted.
    """

    path: str
    stat: Stat
    names: list[str]


@attrs.define
class _Ahead:
    path: str
    depth: int
    pending: Pending[tuple[list[str], Stat]] | None = None


@attrs.define
class Walker:
    """Walks through a tree.

    :ivar refused: the paths of znodes that this client may not read. These znodes and all znodes below these
        znodes are left out.
    :ivar forbidden: the paths of children whose names the rules of paths forbid. A correct server has no such
        names. These znodes are left out, because no request can name them.
    :ivar depth: the number of levels below the top; None for all levels.
    :ivar leave_out: the paths that are left out, together with all paths below.
    """

    zk: ZooKeeper
    depth: int | None = None
    leave_out: Collection[str] = ()
    refused: list[str] = attrs.field(factory=list)
    forbidden: list[str] = attrs.field(factory=list)

    def walk(self, top: str) -> aclosing[AsyncGenerator[Found, None]]:
        """Yield every znode at and below a path. Znodes that are deleted meanwhile are left out.

            async with walker.walk("/app") as znodes:
                async for found in znodes: ...

        :raises NoNodeError: there is no znode at the path.
        """
        return aclosing(self._walk(top))

    def read(self, top: str, *, with_acl: bool = True) -> aclosing[AsyncGenerator[Znode, None]]:
        """Yield every znode at and below a path, with the data and the ACL of the znode."""
        return aclosing(self._read(top, with_acl))

    async def _walk(self, top: str) -> AsyncGenerator[Found, None]:
        stack = [_Ahead(top, 0)]
        while stack:
            for ahead in stack[-AHEAD:]:
                if ahead.pending is None:
                    ahead.pending = self.zk.submit(GetChildrenAndStat(ahead.path))
            at = stack.pop()
            assert at.pending is not None
            try:
                names, stat = await at.pending.wait()
            except NoNodeError:
                if at.path == top:
                    raise
                continue
            except NoAuthError:
                if at.path == top:
                    raise
                self.refused.append(at.path)
                continue
            names = sorted(sound(names, at.path, self.forbidden))
            yield Found(at.path, stat, names)
            if self.depth is None or at.depth < self.depth:
                below = [join(at.path, name) for name in reversed(names)]
                stack += [_Ahead(path, at.depth + 1) for path in below if path not in self.leave_out]

    async def _read(self, top: str, with_acl: bool) -> AsyncGenerator[Znode, None]:
        queue: deque[_Reading] = deque()
        size = 0
        async with self.walk(top) as znodes:
            async for found in znodes:
                queue.append(_Reading.start(self.zk, found, with_acl))
                size += found.stat.dataLength
                while len(queue) > AHEAD or size > BYTES_AHEAD:
                    size -= queue[0].found.stat.dataLength
                    if znode := await self._finish(queue.popleft(), top):
                        yield znode
        while queue:
            if znode := await self._finish(queue.popleft(), top):
                yield znode

    async def _finish(self, reading: _Reading, top: str) -> Znode | None:
        path = reading.found.path
        try:
            data, stat = await reading.data.wait()
            acl = tuple((await reading.acl.wait())[0]) if reading.acl is not None else None
        except NoNodeError:
            if path == top:
                raise
        except NoAuthError:
            if path == top:
                raise
            self.refused.append(path)
        else:
            return Znode(path, stat, data, acl)
        return None


@attrs.frozen
class Znode:
    """A znode with its content.

    :ivar acl: the ACL; None if it was not requested.
    """

    path: str
    stat: Stat
    data: bytes | None
    acl: tuple[ACL, ...] | None


@attrs.frozen
class _Reading:
    found: Found
    data: Pending[tuple[bytes | None, Stat]]
    acl: Pending[tuple[list[ACL], Stat]] | None

    @classmethod
    def start(cls, zk: ZooKeeper, found: Found, with_acl: bool) -> _Reading:
        acl = zk.submit(GetACL(found.path)) if with_acl else None
        return cls(found, zk.submit(GetData(found.path)), acl)


def sound(names: Iterable[str], parent: str, forbidden: list[str]) -> Iterator[str]:
    """Return the valid names of children. The paths of children with invalid names are added to the list."""
    for name in names:
        try:
            validate_name(name, name)
            if "/" in name:
                raise BadArgumentsError(name)
        except BadArgumentsError:
            forbidden.append(join(parent, name))
        else:
            yield name


def order(path: str) -> str:
    """Return the key by which a walk sorts paths: a ``/`` is sorted before all other characters."""
    return path.replace("/", "\0") if path != "/" else "\0"
