"""The writes of the client: one method for each operation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, Unpack

from ..protocol import paths
from ..protocol.errors import NodeExistsError, NoNodeError, NotEmptyError
from ..protocol.records import ACL, Stat
from .batch import Multi
from .caller import Caller, Data
from .creating import Create, CreateOptions
from .operations import (
    Delete,
    GetChildren,
    Operation,
    Reconfig,
    SetACL,
    SetData,
    server_path,
)
from .transaction import Transaction

_PARENT_ROUNDS = 100
"""Attempts to create a znode whose parents other clients delete again. So many are lost to no race, but a
server with an injected fault may refuse forever."""


class Writes(Caller):
    """The operations that change something."""

    async def create(
        self, path: str, data: Data = b"", *, make_parents: bool = False, **options: Unpack[CreateOptions]
    ) -> str:
        """Create a znode and return its path. The path of a sequential znode ends in the server's number.

        :param data: None for data that is null, which reads as None and not as ``b""``.
        :param make_parents: create missing parents, persistent and with the same ACL.
        :param options: ``acl``, ``ephemeral``, ``sequential``, ``container``, ``ttl`` (seconds):
            see :class:`Create`.
        :raises NodeExistsError: there is such a znode.
        :raises NoNodeError: there is no parent; with ``make_parents``, after 100 rounds in which it was gone
            again.
        :raises NoChildrenForEphemeralsError: the parent is ephemeral.
        :raises NoAuthError: the ACL of the parent does not allow it.
        :raises InvalidACLError: the server does not accept the ACL.
        :raises ValueError: the options exclude each other.
        """
        path, _ = await self.create_with_stat(path, data, make_parents=make_parents, **options)
        return path

    async def create_with_stat(
        self, path: str, data: Data = b"", *, make_parents: bool = False, **options: Unpack[CreateOptions]
    ) -> tuple[str, Stat]:
        """Create a znode as :meth:`create` does, and return its path and its Stat."""
        operation = Create(path, data, **options)
        rounds = _PARENT_ROUNDS if make_parents and path != "/" else 0
        while True:
            try:
                return await self._call(operation)
            except NoNodeError:
                if not rounds:
                    raise
                rounds -= 1
                await self.ensure_path(paths.parent(path), acl=operation.acl)

    async def ensure_path(
        self, path: str, *, acl: Sequence[ACL] | None = None, container: bool = False
    ) -> None:
        """Create a znode and its parents, as far as they are missing. ``/`` stands for the chroot, which is
        created as well.

        :param acl: of the znodes that are created; everything for everyone if None.
        :param container: create containers.
        :raises NoNodeError: the server refuses a znode below ``/``, as an injected fault may do.
        :raises NoChildrenForEphemeralsError: one of the parents is ephemeral.
        :raises NoAuthError: the ACL of a parent does not allow it.
        :raises InvalidACLError: the server does not accept the ACL.
        """
        missing = [server_path(self.chroot, path)]
        while missing and missing[-1] != "/":
            try:
                with suppress(NodeExistsError):
                    await self._call(Create(missing[-1], acl=acl, container=container), prefix="")
                missing.pop()
            except NoNodeError:
                if (parent := paths.parent(missing[-1])) == "/":
                    raise
                missing.append(parent)

    async def set(self, path: str, data: Data, *, version: int = -1) -> Stat:
        """Replace the data and return the new Stat.

        :param data: None for data that is null, which reads as None and not as ``b""``.
        :param version: the version that the data must have; -1 for any.
        :raises NoNodeError: there is no such znode.
        :raises BadVersionError: the data has another version.
        :raises NoAuthError: the ACL does not allow it.
        """
        return await self._call(SetData(path, data, version))

    async def delete(self, path: str, *, version: int = -1, recursive: bool = False) -> None:
        """Delete a znode.

        :param version: the version that its data must have; -1 for any.
        :param recursive: first delete all znodes below. This is no transaction: other clients see it happen.
        :raises NoNodeError: there is no such znode.
        :raises NotEmptyError: it has children.
        :raises BadVersionError: its data has another version.
        :raises NoAuthError: the ACL of the parent does not allow it.
        """
        while True:
            if recursive:
                await self._delete_descendants(path)
            try:
                await self._call(Delete(path, version))
            except NotEmptyError:
                if not recursive:
                    raise
            else:
                return

    async def _delete_descendants(self, path: str) -> None:
        level = [path]
        found: list[str] = []
        while level:
            listings = [(parent, self.submit(GetChildren(parent))) for parent in level]
            level = []
            for parent, pending in listings:
                try:
                    level += [paths.join(parent, name) for name in await pending.wait()]
                except NoNodeError:
                    if parent == path:
                        raise
            found += level
        # Children before parents: the server keeps the order, so there is no need to wait in between.
        for pending_delete in [self.submit(Delete(child)) for child in reversed(found)]:
            # Other clients may create and delete here too; the delete of the path itself will tell.
            with suppress(NoNodeError, NotEmptyError):
                await pending_delete.wait()

    async def set_acls(self, path: str, acl: Sequence[ACL], *, version: int = -1) -> Stat:
        """Replace the ACL and return the new Stat.

        :param version: the ``aversion`` that the ACL must have; -1 for any.
        :raises NoNodeError: there is no such znode.
        :raises BadVersionError: the ACL has another version.
        :raises InvalidACLError: the server does not accept the ACL.
        :raises NoAuthError: the present ACL does not allow it.
        """
        return await self._call(SetACL(path, acl, version))

    async def multi(self, operations: Iterable[Operation[Any]]) -> list[Any]:
        """Carry out :class:`Create`, :class:`Delete`, :class:`SetData` and :class:`Check` as one transaction:
        all or nothing, under one zxid.

        :returns: the results in order: a path, None, a Stat, None.
        :raises ZooKeeperError: the error of the operation that failed; ``index`` is its position.
        """
        return await self._call(Multi(operations))

    def transaction(self) -> Transaction:
        """Collect operations for :meth:`multi` by method calls."""
        return Transaction(self.multi)

    async def reconfig(
        self,
        joining: str | None = None,
        leaving: str | None = None,
        new_members: str | None = None,
        *,
        from_config: int = -1,
    ) -> tuple[Data, Stat]:
        """Change the members of the ensemble and return its new configuration with its Stat.

        :param joining: servers to add or change, as in ``server.4=host:2888:3888;2181``, comma separated.
        :param leaving: ids of servers to remove, comma separated.
        :param new_members: all servers, instead of ``joining`` and ``leaving``.
        :param from_config: the version that the present configuration must have; -1 for any.
        :raises ReconfigDisabledError: the servers do not allow it.
        :raises NewConfigNoQuorumError: too few of the new members are connected and up to date.
        :raises ReconfigInProgressError: another change is under way.
        :raises BadVersionError: the present configuration has another version.
        :raises NoAuthError: this client is not allowed to.
        """
        return await self._call(Reconfig(joining, leaving, new_members, from_config))
