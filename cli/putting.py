"""The creation of a tree on a server, with ACLs that may forbid the creation of children.

* A znode is created with the ACL of the copied znode, so that nobody can read the data without permission. An
  ACL such as ``world:anyone:r`` allows nobody to create children. A znode with children and such an ACL first
  gets additional entries, which allow the creation of children and the change of the ACL. If this client has
  identities, the additional entries are only for this client. Otherwise the additional entries are for
  everybody, but do not allow reading. (Everybody who may set the ACL can also allow himself to read. So use a
  copy without identities only for trees without secrets.)
* The right ACLs are set after all znodes are created. A leaf gets its right ACL earlier than its parent.
* If a copy ends halfway, these additional entries remain. The next copy continues the work: it keeps a znode
  that has the same data, and it replaces an ACL with additional entries by the right ACL.
* Servers check the ACL of the parent before they check whether a znode exists. Therefore a refused create is
  no failure if the znode exists already.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import attrs

from ..client import (
    ACL,
    Create,
    Id,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    Pending,
    Perms,
    SetACL,
    Stat,
    ZooKeeper,
)
from ..protocol.dump import Node
from ..protocol.paths import join
from .pipeline import Pipeline
from .status import Failure, Status


@attrs.define
class Putter:
    """Creates a tree on a server. Requests are pipelined; the server carries out the requests in order,
    parents first.

    :ivar top: the path of the top of the tree.
    :ivar overwrite: whether to replace the data and the ACL of existing znodes.
    :ivar identified: whether this client has identities.
    :ivar done: called with each znode that exists now.
    """

    zk: ZooKeeper
    top: str
    overwrite: bool
    identified: bool
    done: Callable[[Node], None]
    _restricted: list[tuple[str, tuple[ACL, ...]]] = attrs.field(factory=list, init=False)
    """The znodes that get their ACL at the end, parents first."""
    _existed: set[str] = attrs.field(factory=set, init=False)
    """The paths of the znodes that existed before the copy."""

    async def put(self, nodes: AsyncIterator[Node]) -> None:
        """Create the znodes, parents before children.

        :raises Failure: a znode exists with other data, and ``overwrite`` is not set.
        """
        creates = Pipeline(self._settle)
        async for node, has_children in _with_children(nodes):
            path = self._at(node)
            acl = node.acl
            if has_children and acl is not None and not _all_may_create(acl):
                self._restricted.append((path, acl))
                acl = self._widened(acl)
            create = Create(path, node.data, acl=acl, container=node.kind == "container", ttl=node.ttl)
            about = attrs.evolve(node, acl=acl)
            await creates.add(about, self.zk.submit(create), len(node.data or b""))
        await creates.finish()
        changes = Pipeline(self._settle_acl)
        for path, acl in reversed(self._restricted):
            if path in self._existed and not await self._is_widened(path, acl):
                continue
            await changes.add(path, self.zk.submit(SetACL(path, acl)))
        await changes.finish()

    def _at(self, node: Node) -> str:
        return self.top if node.path == "/" else join(self.top, node.path[1:])

    def _widened(self, acl: tuple[ACL, ...]) -> tuple[ACL, ...]:
        if self.identified:
            return (*acl, ACL(Perms.ALL, Id("auth", "")))
        return (*acl, ACL(Perms.CREATE | Perms.ADMIN, Id("world", "anyone")))

    async def _is_widened(self, path: str, acl: tuple[ACL, ...]) -> bool:
        """Return whether an existing znode has this ACL with the additional entries of an unfinished copy."""
        try:
            found, _ = await self.zk.get_acl(path)
        except NoAuthError:
            return False
        return self.overwrite or (len(found) > len(acl) and set(acl) <= set(found))

    async def _settle(self, node: Node, pending: Pending[tuple[str, Stat]]) -> None:
        try:
            await pending.wait()
        except (NodeExistsError, NoAuthError) as error:
            path = self._at(node)
            self._existed.add(path)
            try:
                await self._replace(path, node)
            except NoNodeError:
                raise error from None
        self.done(node)

    async def _settle_acl(self, path: str, pending: Pending[Stat]) -> None:
        await pending.wait()

    async def _replace(self, path: str, node: Node) -> None:
        """Give an existing znode the data and the ACL of another znode."""
        if self.overwrite:
            await self.zk.set(path, node.data)
            if node.acl is not None:
                await self.zk.set_acl(path, node.acl)
        elif (await self.zk.get(path))[0] != node.data:
            raise Failure(
                Status.NO, f"{path} exists and has other data; pass --overwrite to replace the data"
            )


def _all_may_create(acl: tuple[ACL, ...]) -> bool:
    return any(entry.id == Id("world", "anyone") and entry.perms & Perms.CREATE for entry in acl)


async def _with_children(nodes: AsyncIterator[Node]) -> AsyncIterator[tuple[Node, bool]]:
    """Yield each znode, and whether the next znode is below this znode."""
    last: Node | None = None
    async for node in nodes:
        if last is not None:
            yield last, node.path.startswith(f"{last.path.rstrip('/')}/")
        last = node
    if last is not None:
        yield last, False
