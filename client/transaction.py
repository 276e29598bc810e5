"""Transactions whose operations are collected by method calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Any, Self, Unpack

from .creating import Create, CreateOptions
from .operations import Check, Delete, Operation, SetData


class Transaction:
    """Operations of which the server carries out all or none.

        async with zk.transaction() as t:
            t.check("/config", version=3)
            t.create("/jobs/job-", b"...", sequential=True)
        _, path = t.results

    Leaving the block commits, unless an exception leaves it. Without a block, call :meth:`commit`.

    :ivar operations: the operations so far, in order.
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
        **options: Unpack[CreateOptions],
    ) -> None:
        """Create a znode. The result is its path.

        :param options: see :class:`Create`.
        :raises ValueError: the options exclude each other.
        :raises BadArgumentsError: ``ttl`` is not a number above 0.
        """
        self.operations.append(Create(path, data, **options))

    def delete(self, path: str, *, version: int = -1) -> None:
        """Delete a znode whose data has this version (-1: any). The result is None."""
        self.operations.append(Delete(path, version))

    def set(self, path: str, data: bytes | None, *, version: int = -1) -> None:
        """Replace data that has this version (-1: any). The result is the Stat."""
        self.operations.append(SetData(path, data, version))

    def check(self, path: str, *, version: int = -1) -> None:
        """Demand that the znode exists and that its data has this version (-1: any). The result is None."""
        self.operations.append(Check(path, version))

    async def commit(self) -> list[Any]:
        """Carry out the operations and return their results in order.

        :raises ZooKeeperError: the error of the operation that failed; ``index`` is its position.
        """
        self.results = await self._commit(self.operations)
        return self.results

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        if kind is None:
            await self.commit()
