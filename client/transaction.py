"""Collecting the operations of a transaction by method calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Any, Self, Unpack

from .operations import Check, Create, CreateOptions, Delete, Operation, SetData


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
        **options: Unpack[CreateOptions],
    ) -> None:
        """Its result is the path. The parameters are those of :class:`Create`."""
        self.operations.append(Create(path, data, **options))

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
