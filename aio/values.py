"""Made by ``python -m pyzk.bridge.generate`` from the client and the recipes: change those."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, Self, TypeVar, Unpack, overload

from ..client import ACL
from ..recipes import INT64, RAW, Codec, Parents, Versioned
from ..recipes.counter import Counter as TrioCounter
from ..recipes.counter import CounterOptions, Missing
from ..recipes.shared_value import SharedValue as TrioSharedValue
from ..recipes.shared_value import Updates as TrioUpdates
from ..recipes.shared_value import ValueOptions
from .client import ZooKeeper
from .wrapper import TaskWrapper

N = TypeVar("N", int, float)

T = TypeVar("T")


class Counter(TaskWrapper, Generic[N], of=TrioCounter):
    """A number at a path. Any client can add to the number.

        counter = Counter(zk, "/counters/orders")
        before, after = await counter.add(1)

    :param codec: the form of the number in the znode. :data:`.INT32` is the form of Curator's SharedCount and
        DistributedAtomicInteger, and of kazoo's Counter with ``support_curator=True``. :data:`.INT64` is the
        form of Curator's DistributedAtomicLong. :data:`.ASCII_INT` is the form of kazoo's Counter; the number
        can have any size. :data:`.ASCII_FLOAT` is the form of kazoo's Counter with a float as its default.
    :param default: the number before the first change.
    :param missing: the reaction to a znode that is gone: see :class:`CounterOptions`.
    :param exactly_once, parents, acl: see :class:`.ValueOptions`.
    :raises ValueError: an option has a wrong value.
    :raises TypeError: ``codec`` is not a codec, or it cannot write ``default``.
    :raises OverflowError: ``default`` is outside the range of the codec.

    All methods raise:

    * OverflowError: the result is outside the range of the codec. No change was sent.
    * :class:`.MalformedValue`: the codec cannot read the data of the znode.
    * :class:`.AmbiguousResult`: a reply was lost, and it is unknown whether the change was made. With
      ``exactly_once`` this happens only after one hour without a connection.
    * :class:`SessionExpiredError`: the session has ended. The number was not changed.
    * :class:`NoNodeError`: the znode is gone, and ``missing`` is ``"raise"``.
    """

    _trio: TrioCounter[Any]

    @property
    def zk(self) -> ZooKeeper:
        return self._wrap(self._trio.zk)

    @property
    def path(self) -> str:
        return self._trio.path

    @overload
    def __init__(
        self: Counter[int], zk: ZooKeeper, path: str, *, default: int = ..., **options: Unpack[CounterOptions]
    ) -> None: ...

    @overload
    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        *,
        codec: Codec[N],
        default: N = ...,
        **options: Unpack[CounterOptions],
    ) -> None: ...

    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        *,
        codec: Codec[Any] = INT64,
        default: Any = 0,
        missing: Missing = "raise",
        **options: Unpack[ValueOptions],
    ) -> None:
        self._make(zk, path, codec=codec, default=default, missing=missing, **options)

    async def get(self) -> N:
        """Read the number."""
        return await self._call(self._trio.get)

    async def set(self, value: N) -> None:
        """Replace the number, and create the znode if it is gone. After a lost reply the write is repeated,
        even with ``exactly_once``."""
        return await self._call(self._trio.set, value)

    async def add(self, amount: N) -> tuple[N, N]:
        """Add a number, which can be negative. Returns the values before and after the addition."""
        return await self._call(self._trio.add, amount)

    async def compare_and_set(self, expected: N, value: N) -> bool:
        """Replace the number if it is ``expected``. Returns whether it was replaced."""
        return await self._call(self._trio.compare_and_set, expected, value)

    async def reserve(self: Counter[int], count: int) -> range:
        """Reserve the next ``count`` numbers. No two callers get the same number. If a lost reply leaves open
        whether the numbers were reserved, the call reserves the next numbers. So some numbers may be unused.

        :raises ValueError: ``count`` is less than 1.
        :raises TypeError: the numbers are floats.
        """
        return await self._call(self._trio.reserve, count)


class SharedValue(TaskWrapper, Generic[T], of=TrioSharedValue):
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

    _trio: TrioSharedValue[Any]

    @property
    def zk(self) -> ZooKeeper:
        return self._wrap(self._trio.zk)

    @property
    def path(self) -> str:
        return self._trio.path

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
        self._make(zk, path, codec=codec, exactly_once=exactly_once, parents=parents, acl=acl)

    async def get(self) -> Versioned[T] | None:
        """Read the value. Returns None if the znode does not exist.

        :raises MalformedValue: the codec cannot read the data.
        """
        return await self._call(self._trio.get)

    def updates(self) -> AbstractAsyncContextManager[Updates[T]]:
        """Follow the value: the stream returns the present value at once, and then each later value. It
        returns None while the znode does not exist. A slow reader skips to the latest value. The stream
        survives lost connections and expired sessions."""
        return self._block(self._trio.updates())

    async def set(self, value: T) -> None:
        """Replace the value. After a lost reply the write is repeated. This may undo a write of another
        client in between.

        :raises TypeError: the codec cannot write the value.
        :raises OverflowError: the value is outside the range of the codec.
        :raises SessionExpiredError: the session has ended. The value may have been replaced.
        """
        return await self._call(self._trio.set, value)

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
        return await self._call(self._trio.compare_and_set, expected, value)


class Updates(TaskWrapper, Generic[T], of=TrioUpdates):
    """The successive values of a :class:`SharedValue`, as an async iterator. :meth:`SharedValue.updates`
    makes it."""

    _trio: TrioUpdates[Any]

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Versioned[T] | None:
        """Wait for the next value. It is None while the znode does not exist. The iterator can still be used
        after an error.

        :raises MalformedValue: the codec cannot read the data.
        :raises ZooKeeperError: the error of a read, for example :class:`NoAuthError`.
        :raises ClosingError: the client was closed.
        """
        return await self._call(self._trio.__anext__)
