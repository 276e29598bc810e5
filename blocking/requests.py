"""Made by ``python -m pyzk.bridge.generate`` from the client and the recipes: change those."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from types import TracebackType
from typing import Any, Generic, Self, TypeVar, Unpack

from ..bridge.exits import leaves
from ..client import CreateOptions, Operation
from ..client.batch import Transaction as TrioTransaction
from ..client.pending import Pending as TrioPending
from ..client.request import Request as TrioRequest
from .wrapper import ThreadWrapper

T = TypeVar("T")


class Request(ThreadWrapper, Generic[T], of=TrioRequest):
    """A request and its outcome, which is set once: a result or an error.

    The caller can drop the request at any time. The session keeps the request until it is settled.

    :ivar body: the encoded record that follows the request header.
    :ivar path: the path that errors name.
    :ivar parse: makes the result from a whole reply frame. It raises ZooKeeperError for an error of the
        operation. Any other exception means that the reply is malformed, and ends the connection.
    :ivar refusal: a function that makes the error for a code of the server; None for the plain error of the
        code.
    :ivar retry: whether the request can be sent again after its reply was lost (reads).
    :ivar sent: whether a connection has sent the request. If so, the request may have been applied.
    :ivar settled: whether the request has an outcome.
    :ivar error: the error of the request; None if there is none.
    :ivar xid: the number of the request on the present connection; 0 until this connection has sent the
        request.
    :ivar sent_at: the time at which the request was sent last, in seconds by the session's clock.
    :ivar give_up_at: the time at which the request fails if there is still no connection, in seconds by the
        session's clock; None if there was a connection all the time.
    """

    _trio: TrioRequest[Any]

    @property
    def path(self) -> str | None:
        return self._trio.path

    @property
    def sent(self) -> bool:
        return self._trio.sent

    @property
    def settled(self) -> bool:
        return self._trio.settled

    @property
    def error(self) -> Exception | None:
        return self._wrap(self._trio.error)

    def result(self) -> T:
        """Return the result.

        :raises Exception: the error, if there is one.
        :raises RuntimeError: the request is not settled.
        """
        return self._wrap(self._trio.result())


class Pending(Request[T], of=TrioPending):
    """An operation that was submitted."""

    _trio: TrioPending[Any]

    def wait(self) -> T:
        """Wait for the result. Cancellation stops the wait, not the operation. Any thread can wait again.

        :raises ZooKeeperError: the operation has failed.
        """
        return self._request(self._trio.wait)


class Transaction(ThreadWrapper, of=TrioTransaction):
    """Operations that the server executes together: all or none of them.

        with zk.transaction() as t:
            t.check("/config", version=3)
            t.create("/jobs/job-", b"...", sequential=True)
        _, path = t.results

    The end of the block commits the operations, unless the block ends with an exception. Without a block,
    call :meth:`commit`.

    :ivar operations: the operations so far, in order.
    :ivar results: after the commit, the results in order.
    """

    _trio: TrioTransaction

    @property
    def operations(self) -> list[Operation[Any]]:
        return self._wrap(self._trio.operations)

    @property
    def results(self) -> list[Any]:
        return self._wrap(self._trio.results)

    def create(self, path: str, data: bytes | None = b"", **options: Unpack[CreateOptions]) -> None:
        """Create a znode. The result is the path of the znode.

        :param options: see :class:`Create`.
        :raises ValueError: the options exclude each other.
        :raises BadArgumentsError: ``ttl`` is not a number above 0.
        """
        self._trio.create(path, data, **options)

    def delete(self, path: str, *, version: int = -1) -> None:
        """Delete a znode if its data has this version; -1 means any version. The result is None."""
        self._trio.delete(path, version=version)

    def set(self, path: str, data: bytes | None, *, version: int = -1) -> None:
        """Replace the data of a znode if the data has this version; -1 means any version. The result is the
        Stat."""
        self._trio.set(path, data, version=version)

    def check(self, path: str, *, version: int = -1) -> None:
        """Require that the znode exists and that its data has this version; -1 means any version. The result
        is None."""
        self._trio.check(path, version=version)

    def commit(self) -> list[Any]:
        """Execute the operations and return their results in order.

        :raises ZooKeeperError: the error of the operation that failed; ``index`` is its position.
        """
        return self._call(self._trio.commit)

    def __enter__(self) -> Self:
        return self._enter()

    @leaves
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        return self._leave(kind, error, tb)
