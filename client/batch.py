"""Several operations in one request: transactions, and batches of reads (wire.md section 10)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from types import TracebackType
from typing import Any, ClassVar, Self, Unpack

import attrs

from ..protocol.errors import BadArgumentsError
from ..protocol.jute import JuteError
from ..protocol.multi import READ_OPS, TRANSACTION_OPS, MultiOp, MultiResult, decode_results, encode_multi
from ..protocol.operations import OpCode
from ..protocol.records import Create2Response, CreateResponse
from .arguments import check_arguments
from .operations import (
    NOT_ENCODABLE,
    REPLY_HEADER_SIZE,
    Check,
    Create,
    CreateOptions,
    Delete,
    Operation,
    SetData,
    created_path,
)

_CREATED = (CreateResponse, Create2Response)
_NOTHING = type(None)


def _members(operations: Iterable[Operation[Any]]) -> tuple[Operation[Any], ...]:
    try:
        return tuple(operations)
    except TypeError:
        check_arguments(operations=operations)
        raise


@attrs.frozen(repr=False)
class _Batch(Operation[list[Any]]):
    """The base of a transaction and of a batch of reads (wire.md section 10).

    :cvar members: the op codes of the operations that the request can contain.
    :cvar allowed: their names, for errors.
    """

    operations: tuple[Operation[Any], ...] = attrs.field(converter=_members)
    path: str = "/"
    members: ClassVar[Collection[int]]
    allowed: ClassVar[str]

    def _encode(self, prefix: str) -> bytes:
        ops = []
        try:
            for operation in self.operations:
                if operation.opcode not in self.members:
                    raise TypeError
                request = operation._request(prefix)
                assert request is not None
                ops.append(MultiOp(operation.opcode, request))
            return encode_multi(ops)
        except (*NOT_ENCODABLE, BadArgumentsError):
            self._blame(prefix)
            raise

    def _blame(self, prefix: str) -> None:
        """Find the operation that cannot be encoded.

        :raises BadArgumentsError: the error of that operation, with its ``index``.
        """
        for index, operation in enumerate(self.operations):
            try:
                if isinstance(operation, Operation):
                    operation._encode(prefix)
                if not isinstance(operation, Operation) or operation.opcode not in self.members:
                    raise BadArgumentsError(
                        None, f"{operation!r:.100} cannot be part of this request; {self.allowed} can"
                    )
            except BadArgumentsError as error:
                error.message = f"operations[{index}]: {error.message}"
                error.index = index
                raise

    def _decode(self, reply: bytes, prefix: str) -> list[Any]:
        results = decode_results(reply, REPLY_HEADER_SIZE, len(self.operations))
        if len(results) != len(self.operations):
            raise JuteError(f"{len(results)} results for a batch of {len(self.operations)}")
        return self._combine(results, prefix)

    def _combine(self, results: list[MultiResult], prefix: str) -> list[Any]:
        raise NotImplementedError

    def _answer(self, operation: Operation[Any], result: MultiResult, prefix: str) -> Any:
        """Return the result of an operation that succeeded."""
        response: Any = result.response
        kind = type(response)
        if kind in _CREATED and isinstance(operation, Create):
            return created_path(response, prefix)
        if kind is not (operation.opcode.response or _NOTHING):
            raise JuteError(f"a result of type {result.type} for {type(operation).__name__}")
        return operation._result(response, prefix)


@attrs.frozen(repr=False)
class Multi(_Batch):
    """A transaction: the server executes all operations or none of them, under one zxid. If the transaction
    fails, the error is the error of the failed operation, and ``index`` is the position of this operation.

    The result of a :class:`Create` is its path alone: inside a transaction real servers treat create2 as
    create, and send no Stat (observed with 3.8.0).
    """

    members = TRANSACTION_OPS
    allowed = "Create, Delete, SetData and Check"
    opcode = OpCode.MULTI

    def _combine(self, results: list[MultiResult], prefix: str) -> list[Any]:
        for index, result in enumerate(results):
            if result.err:  # the first code that is not 0 is the cause (wire.md section 10)
                error = self.operations[index]._refusal(result.err)
                error.message = f"operations[{index}], {self.operations[index]!r}: {error.words}"
                error.index = index
                raise error
        return [
            self._answer(operation, result, prefix)
            for operation, result in zip(self.operations, results, strict=True)
        ]


@attrs.frozen(repr=False)
class MultiRead(_Batch):
    """Several :class:`GetData` and :class:`GetChildren` in one round trip; a result may be an error."""

    idempotent = True
    members = READ_OPS
    allowed = "GetData and GetChildren"
    opcode = OpCode.MULTI_READ

    def _combine(self, results: list[MultiResult], prefix: str) -> list[Any]:
        return [
            operation._refusal(result.err) if result.err else self._answer(operation, result, prefix)
            for operation, result in zip(self.operations, results, strict=True)
        ]


class Transaction:
    """Operations that the server executes together: all or none of them.

        async with zk.transaction() as t:
            t.check("/config", version=3)
            t.create("/jobs/job-", b"...", sequential=True)
        _, path = t.results

    The end of the block commits the operations, unless the block ends with an exception. Without a block,
    call :meth:`commit`.

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
        """Create a znode. The result is the path of the znode.

        :param options: see :class:`Create`.
        :raises ValueError: the options exclude each other.
        :raises BadArgumentsError: ``ttl`` is not a number above 0.
        """
        self.operations.append(Create(path, data, **options))

    def delete(self, path: str, *, version: int = -1) -> None:
        """Delete a znode if its data has this version; -1 means any version. The result is None."""
        self.operations.append(Delete(path, version))

    def set(self, path: str, data: bytes | None, *, version: int = -1) -> None:
        """Replace the data of a znode if the data has this version; -1 means any version. The result is the
        Stat."""
        self.operations.append(SetData(path, data, version))

    def check(self, path: str, *, version: int = -1) -> None:
        """Require that the znode exists and that its data has this version; -1 means any version. The result
        is None."""
        self.operations.append(Check(path, version))

    async def commit(self) -> list[Any]:
        """Execute the operations and return their results in order.

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
