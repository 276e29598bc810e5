"""Collecting the operations of a transaction by method calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Any, Self

from ..protocol.records import ACL
from .operations import Check, Delete, Operation, SetData, new_create


class Transaction:
    """Operations that the server carries out all or not at all.

        async with zk.transaction() as t:
            t.check("/config", version=3)
            t.create("/jobs/job-", b"...", sequential=True)
        _, path = t.results

    The block commits when it ends without an exception; or call :meth:`commit` yourself.

    :ivar results: after the commit, the results in order.
    """

    def __init__(self, commit: Callable[[Sequence[Operation[Any]]], Awaitable[list[Any]]]) -> None:
        self.operations: list[Operation[Any]] = []
        self.results: list[Any] = []
        self._commit = commit

    def create(
        self,
        path: str,
        data: bytes | None = b"",
        *,
        acl: Sequence[ACL] | None = None,
        ephemeral: bool = False,
        sequential: bool = False,
        container: bool = False,
        ttl: float | None = None,
    ) -> None:
        """Its result is the path. The parameters are those of :meth:`.ZooKeeper.create`."""
        create = new_create(
            path, data, acl, ephemeral=ephemeral, sequential=sequential, container=container, ttl=ttl
        )
        self.operations.append(create)

    def delete(self, path: str, *, version: int = -1) -> None:
        """Its result is None."""
        self.operations.append(Delete(path, version))

    def set(self, path: str, data: bytes | None, *, version: int = -1) -> None:
        """Its result is the Stat."""
        self.operations.append(SetData(path, data, version))

    def check(self, path: str, *, version: int = -1) -> None:
        """The znode exists, with this version of its data (-1: any). Its result is None."""
        self.operations.append(Check(path, version))

    async def commit(self) -> list[Any]:
        """Carry it out and return the results in order. Raises the error of the operation that failed, whose
        ``index`` says which it was."""
        self.results = await self._commit(self.operations)
        return self.results

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        if kind is None:
            await self.commit()
