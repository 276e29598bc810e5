"""A value that many share (recipe-rules.md B.8, D.9)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Generic, Literal, Self, TypeVar, overload

import attrs
import trio

from ..client import (
    ACL,
    OPEN_ACL,
    UNANSWERED,
    BadVersionError,
    ConnectionLossError,
    Create,
    Multi,
    NodeExistsError,
    NoNodeError,
    Operation,
    SetData,
    Stat,
    ZooKeeper,
)
from ..protocol.paths import split, validate_path
from .base.bound import Bound
from .base.creating import Parents
from .base.following import Latest, watch_node
from .base.running import steady
from .codecs import RAW, Codec
from .errors import AmbiguousResult
from .markers import Markers

T = TypeVar("T")


@attrs.frozen
class Versioned(Generic[T]):
    """A value and when it was written.

    :ivar version: of the data of the znode: how many times it was set since the znode was created.
    :ivar mzxid: of the transaction that wrote it; of two values, the one with the higher is the later.
    """

    value: T
    version: int
    mzxid: int


class Updates(Generic[T]):
    """The successive values of a :class:`SharedValue`, as an async iterator; made by
    :meth:`SharedValue.updates`."""

    def __init__(self, path: str, codec: Codec[T], latest: Latest[tuple[bytes | None, Stat | None]]) -> None:
        self._path = path
        self._codec = codec
        self._latest = latest

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Versioned[T] | None:
        """The next value; None for no value. Raises :class:`.MalformedValue`, and what a read may raise; it
        may be called again after that."""
        data, stat = await anext(self._latest)
        return None if stat is None else _versioned(self._path, self._codec, data, stat)


class SharedValue(Generic[T]):
    """A value at a path, which anybody may read, follow and replace.

        value = SharedValue(zk, "/config/limit", INT32)
        async with value.updates() as stream:
            async for item in stream:
                if item is not None: use(item.value)

    The layout is that of Curator's SharedValue (with the default codec) and SharedCount (with
    :data:`.INT32`). The znode is persistent.

    :param codec: how the value is written, see :mod:`pyzk.recipes.codecs`; raw bytes by default.
    :param exactly_once: have :meth:`compare_and_set` find out what has become of it. Each one then also
        creates a znode ``<path>.ops/<uuid>`` in the same transaction, by which it is recognised when the
        reply was lost, and which is deleted afterwards. What a process that dies in between leaves behind is
        deleted by others who write so, an hour later or more: whoever is without a connection for longer than
        that may get :class:`.AmbiguousResult` all the same.
    :param parents: how missing parents are created: as containers, which the server removes again some time
        after their last child has gone, or persistent.
    :param acl: of what is created; everything for everyone if None.
    """

    @overload
    def __init__(
        self: SharedValue[bytes],
        zk: ZooKeeper,
        path: str,
        *,
        exactly_once: bool = ...,
        parents: Literal["container", "persistent"] = ...,
        acl: Sequence[ACL] | None = ...,
    ) -> None: ...
    @overload
    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        codec: Codec[T],
        *,
        exactly_once: bool = ...,
        parents: Literal["container", "persistent"] = ...,
        acl: Sequence[ACL] | None = ...,
    ) -> None: ...
    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        codec: Codec[Any] = RAW,
        *,
        exactly_once: bool = False,
        parents: Literal["container", "persistent"] = "container",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        validate_path(path)
        self.zk = zk
        self.path = path
        self._codec: Codec[T] = codec
        self._parents = Parents.of(parents, acl)
        self._acl = OPEN_ACL if acl is None else acl
        self._markers = Markers(zk, path, self._acl) if exactly_once else None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path}>"

    async def get(self) -> Versioned[T] | None:
        """The present value; None if there is none.

        Raises :class:`.MalformedValue`.
        """
        try:
            data, stat = await steady(self.zk, lambda: self.zk.get(self.path))
        except NoNodeError:
            return None
        return _versioned(self.path, self._codec, data, stat)

    @asynccontextmanager
    async def updates(self) -> AsyncIterator[Updates[T]]:
        """Follow the value: the present one at once, then each later one, None while there is none. Who is
        slow gets the latest only. Goes on after the connection or the session was lost."""
        yield Updates(self.path, self._codec, watch_node(self.zk, self.path))

    async def set(self, value: T) -> None:
        """Replace the value, whatever it is. A request whose reply is lost is repeated, which may undo what
        another has written in between.

        Raises what the codec raises for a value that it cannot write; :class:`SessionExpiredError`.
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
                await bound.repeat(lambda: zk.create(self.path, data, acl=self._acl))
                return
            except NodeExistsError:
                pass
            except NoNodeError:
                await self._parents.create(bound, split(self.path)[0])

    async def compare_and_set(self, expected: Versioned[T] | None, value: T) -> bool:
        """Replace the value if it has not been written to since ``expected`` was read; None stands for there
        being none. Returns whether it was replaced.

        Raises what the codec raises for a value that it cannot write; :class:`.AmbiguousResult` if the reply
        was lost and the value has been written since, with ``exactly_once`` only if it took more than an hour
        to reconnect; :class:`SessionExpiredError` if the session has expired and nothing was replaced.
        """
        zk, data = self.zk, self._codec.encode(value)
        write: Create | SetData
        if expected is None:
            write = Create(self.path, data, self._acl)
        else:
            write = SetData(self.path, data, expected.version)
        marker = None if self._markers is None else self._markers.new()
        operation: Operation[Any] = write if marker is None else Multi([write, marker])
        bound = Bound(zk)
        while True:
            seen = zk.session.last_zxid  # what this write creates is younger
            try:
                await self._submit(bound, operation, marker)
                return True
            except (BadVersionError, NodeExistsError):
                return False
            except NoNodeError as error:
                if error.index == 1:
                    assert self._markers is not None
                    await self._parents.create(bound, self._markers.path)
                elif expected is None:
                    await self._parents.create(bound, split(self.path)[0])
                else:
                    return False
            except UNANSWERED as error:
                lost = not isinstance(error, ConnectionLossError) or error.sent
                if lost and await self._was_applied(expected, marker, seen):
                    return True

    async def _submit(self, bound: Bound, operation: Operation[Any], marker: Create | None) -> None:
        """Submit a write and wait for it. Its marker is deleted unless it is known not to be there."""
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
        """What has become of a write whose reply was lost. It cannot arrive later: a request of a session
        that goes on elsewhere, or is over, is refused (recipe-rules.md 0.11)."""
        zk, markers = self.zk, self._markers

        async def look() -> tuple[Stat | None, bool]:
            # The server that we are connected to now may be behind the one that has lost the reply.
            await zk.sync(self.path)
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
