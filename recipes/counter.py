"""A number that many clients add to (recipe-rules.md B.8, D.9).

The rules:

* A counter is a :class:`.SharedValue`: each change reads the number and writes the new one with its
  version. If another client was quicker, the change is tried again after a random pause that grows.
* No addition is lost or made twice. If a lost reply leaves open whether the change was made,
  :class:`.AmbiguousResult` is raised.
* A znode that is missing or empty stands for ``default``. kazoo creates a counter empty before it writes to
  it, and Curator reads an empty one as 0. This recipe creates the znode with its first value, never empty.
* After a value was seen, a missing znode is an error, unless ``missing="create"``: a client has deleted it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Generic, Literal, TypeVar, Unpack, overload

import trio

from ..client import NoNodeError, ZooKeeper
from .base.words import check_word
from .codecs import INT64, Codec, check_codec
from .errors import AmbiguousResult
from .shared_value import SharedValue, ValueOptions, Versioned

N = TypeVar("N", int, float)
Missing = Literal["create", "raise"]

_FIRST_PAUSE = 0.01
"""Seconds: the longest first pause after a lost race, about the time of two requests. It doubles each
time."""
_LONGEST_PAUSE = 1.0
"""Seconds: the longest pause. With so much contention, waiting costs less than more failed writes."""


class CounterOptions(ValueOptions, total=False):
    """Options of :class:`Counter`, beside those of :class:`.ValueOptions`.

    ``missing``: what to do when the znode is gone after this object has seen a value: raise
    :class:`NoNodeError`, or begin again with the default.
    """

    missing: Missing


class Counter(Generic[N]):
    """A number at a path, which any client may add to.

        counter = Counter(zk, "/counters/orders")
        before, after = await counter.add(1)

    :param codec: how the number is written. :data:`.INT32`: as Curator's SharedCount and
        DistributedAtomicInteger, and kazoo's Counter with ``support_curator=True``. :data:`.INT64`: as
        Curator's DistributedAtomicLong. :data:`.ASCII_INT`: as kazoo's Counter, of any size.
        :data:`.ASCII_FLOAT`: as kazoo's Counter with a float for its default.
    :param default: the number to begin with.
    :param missing: see :class:`CounterOptions`.
    :param exactly_once, parents, acl: see :class:`.ValueOptions`.
    :raises ValueError: an option has a wrong value.
    :raises TypeError: ``codec`` is no codec, or cannot write ``default``.
    :raises OverflowError: ``default`` is out of the range of the codec.

    All methods raise:

    * OverflowError: the codec cannot hold the result; nothing was sent.
    * :class:`.MalformedValue`: the data of the znode is no such number.
    * :class:`.AmbiguousResult`: a reply was lost, and the change may have been made or not; with
      ``exactly_once`` only after one hour without a connection.
    * :class:`SessionExpiredError`: the session has ended; nothing was changed.
    * :class:`NoNodeError`: the znode is gone; see ``missing``.
    """

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
        check_word("missing", missing, Missing)
        check_codec(codec)
        self.zk = zk
        self.path = path
        self._default: N = codec.decode(codec.encode(default))
        self._whole = isinstance(self._default, int)
        self._restarts = missing == "create"
        self._seen = False
        self._value: SharedValue[N] = SharedValue(zk, path, codec=_empty_is(default, codec), **options)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path}>"

    async def get(self) -> N:
        """Read the number."""
        value, _ = await self._read()
        return value

    async def set(self, value: N) -> None:
        """Replace the number, whatever it is, and create the znode if it is gone. After a lost reply the
        write is repeated, also with ``exactly_once``."""
        await self._value.set(value)
        self._seen = True

    async def add(self, amount: N) -> tuple[N, N]:
        """Add a number, which may be negative. Returns the value before and after."""
        change = await self._change(lambda value: value + amount)
        assert change is not None
        return change

    async def compare_and_set(self, expected: N, value: N) -> bool:
        """Replace the number if it is ``expected``. Returns whether it was replaced."""
        return await self._change(lambda present: value if present == expected else None) is not None

    async def reserve(self: Counter[int], count: int) -> range:
        """Reserve the next ``count`` numbers, so that no two callers get the same number. If a reply is lost,
        it may be unknown whether the numbers were reserved. Then the call reserves the numbers after them, so
        there may be gaps.

        :raises ValueError: ``count`` is less than 1.
        :raises TypeError: the numbers are floats.
        """
        if count < 1:
            raise ValueError(f"count must be at least 1, not {count}")
        if not self._whole:
            raise TypeError("a counter of floats has no next numbers; use a default that is an int")
        while True:
            try:
                before, after = await self.add(count)
            except AmbiguousResult:
                continue
            return range(before, after)

    async def _change(self, change: Callable[[N], N | None]) -> tuple[N, N] | None:
        """Replace the present value by the result of ``change(value)``. Returns both values. If the result
        is None, nothing is replaced, and None is returned."""
        pause = _FIRST_PAUSE
        while True:
            before, present = await self._read()
            after = change(before)
            if after is None:
                return None
            if await self._value.compare_and_set(present, after):
                self._seen = True
                return before, after
            await trio.sleep(random.uniform(0, pause))
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _read(self) -> tuple[N, Versioned[N] | None]:
        """Read the number, and the value that it comes from; None for the default."""
        seen = self._seen  # before the read: another task may create the znode meanwhile
        present = await self._value.get()
        if present is not None:
            self._seen = True
            return present.value, present
        if seen and not self._restarts:
            raise NoNodeError(self.path)
        return self._default, None


def _empty_is(default: N, codec: Codec[N]) -> Codec[N]:
    """Make a codec that reads empty data as the default."""
    return Codec(codec.name, codec.encode, lambda data: codec.decode(data) if data else default)
