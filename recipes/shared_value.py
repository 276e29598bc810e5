"""A value that many clients share (recipe-rules.md B.8, D.9).

The rules:

* The version and the mzxid of the znode identify a value. :meth:`SharedValue.compare_and_set` writes with the
  version, so the write fails if any client has written since the value was read.
* A request without a reply may have been carried out. But such a request cannot be carried out later: the
  server refuses it after the session continues on another connection or has ended (recipe-rules.md 0.11). So
  one read after a sync shows whether the request was carried out.
* Without markers the mzxid from this read shows whether the value is the value of this write. If the value
  was written in between, the writer is unknown, and :class:`.AmbiguousResult` is raised.
* With ``exactly_once`` each write also creates a marker in the same transaction: see :mod:`.markers`. The
  marker shows whether the write was carried out, even in a later session.
* :meth:`SharedValue.set` repeats a write without a reply. This may undo a write of another client.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Generic, Self, TypedDict, TypeVar, Unpack, overload

import attrs
import trio

from ..client import (
    ACL,
    UNANSWERED,
    BadVersionError,
    Create,
    Multi,
    NodeExistsError,
    NoNodeError,
    Operation,
    SetData,
    Stat,
    ZooKeeper,
    maybe_applied,
    paths,
)
from ..client.repeating import pass_writes
from ..protocol.paths import validate_path
from .base.bound import Bound
from .base.creating import Parents, ZnodeOptions
from .base.following import Latest, watch_node
from .base.running import steady
from .codecs import RAW, Codec, check_codec
from .errors import AmbiguousResult
from .markers import Markers

T = TypeVar("T")


@attrs.frozen
class Versioned(Generic[T]):
    """A value, and the version and the mzxid of the write that has set the value.

    :ivar version: the version of the znode's data, which is the number of writes since the znode was created.
    :ivar mzxid: the zxid of the transaction that wrote the value. A later value has a higher mzxid.
    """

    value: T
    version: int
    mzxid: int


class Updates(Generic[T]):
    """The successive values of a :class:`SharedValue`, as an async iterator. :meth:`SharedValue.updates`
    makes it."""

    def __init__(self, path: str, codec: Codec[T], latest: Latest[tuple[bytes | None, Stat | None]]) -> None:
        self._path = path
        self._codec = codec
        self._latest = latest

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Versioned[T] | None:
        """Wait for the next value. It is None while the znode does not exist. The iterator can still be used
        after an error.

        :raises MalformedValue: the codec cannot read the data.
        :raises ZooKeeperError: the error of a read, for example :class:`NoAuthError`.
        :raises ClosingError: the client was closed.
        """
        data, stat = await anext(self._latest)
        return None if stat is None else _versioned(self._path, self._codec, data, stat)


class ValueOptions(TypedDict, total=False):
    """The options of :class:`SharedValue` and :class:`.Counter`.

    ``exactly_once``: whether a client finds out after a lost reply if the write was carried out, even in the
    next session. Each write then also creates a marker, a znode ``<path>.ops/<uuid>``, in the same
    transaction, and deletes it later. If a process dies, its markers stay. Other clients with this option
    delete such markers after one hour or more when they write the value, and after some hours when they only
    read it. So a client without a connection for more than one hour may still get :class:`.AmbiguousResult`.

    ``parents``: the kind of missing parents: see :data:`.Parents`.

    ``acl``: the ACL of every znode that is created; None gives all permissions to everybody.
    """

    exactly_once: bool
    parents: Parents
    acl: Sequence[ACL] | None


class SharedValue(Generic[T]):
    """A value at a path. Any client can read, follow and replace the value.

        value = SharedValue(zk, "/config/limit", codec=INT32)
        async with value.updates() as stream:
            async for item in stream:
                if item is not None: use(item.value)

    The layout is the layout of Curator's SharedValue with the default codec, and of Curator's SharedCount
    with :data:`.INT32`. The znode is persistent.

    :param codec: the form of the value in the znode: see :mod:`pyzk.recipes.codecs`. The default is raw
        bytes.
    :param exactly_once, parents, acl: see :class:`ValueOptions`.
    :raises BadArgumentsError: ``path`` is not a valid path.
    :raises ValueError: ``parents`` has a value that is not allowed.
    :raises TypeError: ``codec`` is no codec.
    """

    @overload
    def __init__(
        self: SharedValue[bytes], zk: ZooKeeper, path: str, **options: Unpack[ValueOptions]
    ) -> None: ...
    @overload
    def __init__(
        self, zk: ZooKeeper, path: str, *, codec: Codec[T], **options: Unpack[ValueOptions]
    ) -> None: ...
    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        *,
        codec: Codec[Any] = RAW,
        exactly_once: bool = False,
        parents: Parents = "container",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        check_codec(codec)
        validate_path(path)
        self.zk = zk
        self.path = path
        self._codec: Codec[T] = codec
        self._options = ZnodeOptions(parents, acl)
        self._markers = Markers(zk, path, self._options.acl) if exactly_once else None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path}>"

    async def get(self) -> Versioned[T] | None:
        """Read the value. Returns None if the znode does not exist.

        :raises MalformedValue: the codec cannot read the data.
        """
        if self._markers is not None:
            self._markers.sweep_as_reader()
        try:
            data, stat = await steady(self.zk, lambda: self.zk.get(self.path))
        except NoNodeError:
            return None
        return _versioned(self.path, self._codec, data, stat)

    @asynccontextmanager
    async def updates(self) -> AsyncIterator[Updates[T]]:
        """Follow the value: the stream returns the present value at once, and then each later value. It
        returns None while the znode does not exist. A slow reader skips to the latest value. The stream
        survives lost connections and expired sessions."""
        yield Updates(self.path, self._codec, watch_node(self.zk, self.path))

    async def set(self, value: T) -> None:
        """Replace the value. After a lost reply the write is repeated. This may undo a write of another
        client in between.

        :raises TypeError: the codec cannot write the value.
        :raises OverflowError: the value is outside the range of the codec.
        :raises SessionExpiredError: the session has ended. The value may have been replaced.
        """
        zk, data = self.zk, self._codec.encode(value)
        bound = Bound(zk)
        while True:
            try:
                await bound.repeat(lambda: zk.set(self.path, data))
                return
            except NoNodeError:
                pass
            try:
                await bound.repeat(lambda: zk.create(self.path, data, acl=self._options.acl))
                return
            except NodeExistsError:
                pass
            except NoNodeError:
                await self._options.create_parent(bound, paths.parent(self.path))

    async def compare_and_set(self, expected: Versioned[T] | None, value: T) -> bool:
        """Replace the value if it was not written since ``expected`` was read. Returns whether the value was
        replaced.

        :param expected: the value that was read; None if the znode did not exist.
        :raises AmbiguousResult: the reply was lost, and the value was written since then. With
            ``exactly_once`` this happens only after more than one hour without a connection.
        :raises TypeError: the codec cannot write the value.
        :raises OverflowError: the value is outside the range of the codec.
        :raises SessionExpiredError: the session has ended. The value was not replaced.
        """
        zk, data = self.zk, self._codec.encode(value)
        write: Create | SetData
        if expected is None:
            write = Create(self.path, data, acl=self._options.acl)
        else:
            write = SetData(self.path, data, expected.version)
        marker = None if self._markers is None else self._markers.new()
        operation: Operation[Any] = write if marker is None else Multi([write, marker])
        bound = Bound(zk)
        while True:
            seen = zk.session.last_zxid  # the write gets a higher zxid
            try:
                await self._submit(bound, operation, marker)
                return True
            except (BadVersionError, NodeExistsError):
                return False
            except NoNodeError as error:
                if error.index == 1:
                    assert self._markers is not None
                    await self._options.create_parent(bound, self._markers.path)
                elif expected is None:
                    await self._options.create_parent(bound, paths.parent(self.path))
                else:
                    return False
            except UNANSWERED as error:
                if maybe_applied(error) and await self._was_applied(expected, marker, seen):
                    return True

    async def _submit(self, bound: Bound, operation: Operation[Any], marker: Create | None) -> None:
        """Submit a write and wait for its reply. The marker is deleted, unless it is certain that the marker
        was not created."""
        bound.check()
        pending = self.zk.submit(operation)
        try:
            await pending.wait()
        except trio.Cancelled:
            if not self.zk.withdraw(pending):
                self._delete(marker)
            raise
        self._delete(marker)
        if self._markers is not None:
            self._markers.sweep()

    async def _was_applied(self, expected: Versioned[T] | None, marker: Create | None, seen: int) -> bool:
        """Find out whether a write without a reply was carried out.

        :raises AmbiguousResult: it is unknown whether the value was written.
        """
        zk, markers = self.zk, self._markers

        async def look() -> tuple[Stat | None, bool]:
            await pass_writes(zk)  # the server may still carry out the write
            stat = await zk.exists(self.path if marker is None else marker.path)
            if markers is None:
                return stat, (stat and stat.mzxid) != (expected and expected.mzxid)
            return stat, stat is None and await markers.may_be_swept(seen)

        try:
            stat, ambiguous = await steady(zk, look)
        except trio.Cancelled:
            self._delete(marker)
            raise
        if ambiguous:
            raise AmbiguousResult(f"the write to {self.path}")
        if marker is None or stat is None:
            return False
        self._delete(marker)
        return True

    def _delete(self, marker: Create | None) -> None:
        if self._markers is not None and marker is not None:
            self._markers.delete(marker.path)


def _versioned(path: str, codec: Codec[T], data: bytes | None, stat: Stat) -> Versioned[T]:
    return Versioned(codec.read(path, data or b""), stat.version, stat.mzxid)
