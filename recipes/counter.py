"""A number that many clients add to (recipe-rules.md B.8, D.9).

The rules:

* A counter is a :class:`.SharedValue`. Each change reads the number, and writes the new number if the version
  is still the same. If another client was faster, the change is repeated after a random pause, which becomes
  longer each time.
* No addition is lost or made twice. If a lost reply leaves open whether the change was made,
  :class:`.AmbiguousResult` is raised.
* A znode that is missing or empty means ``default``. kazoo creates an empty znode before it writes the
  number, and Curator reads an empty znode as 0. This recipe creates the znode with its first value.
* If the object has seen a value and the znode is missing later, another client has deleted the znode. Then
  the call raises an error, unless ``missing="create"`` is set.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Generic, Literal, TypeVar, Unpack, overload

import trio

from ..client import NoNodeError, ZooKeeper
from .base.choices import check_choice
from .codecs import INT64, Codec, check_codec
from .errors import AmbiguousResult
from .shared_value import SharedValue, ValueOptions, Versioned

N = TypeVar("N", int, float)
Missing = Literal["create", "raise"]

_FIRST_PAUSE = 0.01
"""The longest first pause in seconds after another client was faster. Two requests take about this time. The
longest pause doubles each time."""
_LONGEST_PAUSE = 1.0
"""The longest pause in seconds. With so much contention, longer waits cost less than more failed writes."""


class CounterOptions(ValueOptions, total=False):
    """The options of :class:`Counter`, in addition to the options of :class:`.ValueOptions`.

    ``missing``: the reaction if the znode is gone after this object has seen a value. ``"raise"``, the
    default, raises :class:`NoNodeError`. ``"create"`` begins again with the default number.
    """

    missing: Missing


class Counter(Generic[N]):
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
        check_choice("missing", missing, Missing)
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
        """Replace the number, and create the znode if it is gone. After a lost reply the write is repeated,
        even with ``exactly_once``."""
        await self._value.set(value)
        self._seen = True

    async def add(self, amount: N) -> tuple[N, N]:
        """Add a number, which can be negative. Returns the values before and after the addition."""
        change = await self._change(lambda value: value + amount)
        assert change is not None
        return change

    async def compare_and_set(self, expected: N, value: N) -> bool:
        """Replace the number if it is ``expected``. Returns whether it was replaced."""
        return await self._change(lambda present: value if present == expected else None) is not None

    async def reserve(self: Counter[int], count: int) -> range:
        """Reserve the next ``count`` numbers. No two callers get the same number. If a lost reply leaves open
        whether the numbers were reserved, the call reserves the next numbers. So some numbers may be unused.

        :raises ValueError: ``count`` is less than 1.
        :raises TypeError: the numbers are floats.
        """
        if count < 1:
            raise ValueError(f"count must be at least 1, not {count}")
        if not self._whole:
            raise TypeError("a counter of floats cannot reserve numbers; use an int as its default")
        while True:
            try:
                before, after = await self.add(count)
            except AmbiguousResult:
                continue
            return range(before, after)

    async def _change(self, change: Callable[[N], N | None]) -> tuple[N, N] | None:
        """Replace the present value by the result of ``change(value)``. Returns both values. If the result is
        None, the value is kept, and None is returned."""
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
        """Read the number. Returns the number, and the stored value; None if the number is the default."""
        seen = self._seen  # before the read, because another task may create the znode during the read
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
