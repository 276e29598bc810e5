"""A number that many count with (recipe-rules.md B.8, D.9)."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Generic, Literal, TypeVar, overload

import trio

from ..client import ACL, NoNodeError, ZooKeeper
from .base.words import check_word
from .codecs import ASCII_FLOAT, ASCII_INT, INT32, INT64, Codec
from .errors import AmbiguousResult
from .shared_value import SharedValue, Versioned

N = TypeVar("N", int, float)
Missing = Literal["create", "raise"]

_FIRST_PAUSE = 0.01
_LONGEST_PAUSE = 1.0


class Counter(Generic[N]):
    """A number at a path, which anybody may add to.

        counter = Counter(zk, "/counters/orders")
        before, after = await counter.add(1)

    No addition is lost or made twice: where a lost reply leaves that open, :class:`.AmbiguousResult` is
    raised; with ``exactly_once`` only after an hour without a connection. A znode that is missing or empty
    stands for ``default``; ours is created with its first value, never empty.

    :param codec: ``"int32"``, as Curator's SharedCount and DistributedAtomicInteger and kazoo's Counter with
        ``support_curator=True`` have it; ``"int64"``, as Curator's DistributedAtomicLong; ``"ascii"``, as
        kazoo's Counter, of any size. See :mod:`pyzk.recipes.codecs`.
    :param default: where to begin. With ``"ascii"`` it may be a float, and then all values are.
    :param missing: what to do when the znode is gone after this object has seen a value there: raise
        :class:`NoNodeError`, or begin again.
    :param exactly_once: costs another znode for each change, see :class:`.SharedValue`.
    :param parents: how missing parents are created, see :class:`.SharedValue`.
    :param acl: of what is created; everything for everyone if None.

    Methods raise OverflowError for a result that the codec cannot hold, before anything is sent;
    :class:`.MalformedValue` if the znode holds something else; :class:`SessionExpiredError` if the session
    has expired and nothing was changed.
    """

    @overload
    def __init__(
        self: Counter[int],
        zk: ZooKeeper,
        path: str,
        *,
        codec: Literal["int32", "int64", "ascii"] = ...,
        default: int = ...,
        missing: Missing = ...,
        exactly_once: bool = ...,
        parents: Literal["container", "persistent"] = ...,
        acl: Sequence[ACL] | None = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: Counter[float],
        zk: ZooKeeper,
        path: str,
        *,
        codec: Literal["ascii"],
        default: float,
        missing: Missing = ...,
        exactly_once: bool = ...,
        parents: Literal["container", "persistent"] = ...,
        acl: Sequence[ACL] | None = ...,
    ) -> None: ...
    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        *,
        codec: Literal["int32", "int64", "ascii"] = "int64",
        default: Any = 0,
        missing: Missing = "raise",
        exactly_once: bool = False,
        parents: Literal["container", "persistent"] = "container",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        check_word("missing", missing, Missing)
        chosen = _codec(codec, default)
        chosen.encode(default)
        self.path = path
        self._default: N = default
        self._whole = chosen is not ASCII_FLOAT
        self._restarts = missing == "create"
        self._seen = False
        self._value: SharedValue[N] = SharedValue(
            zk, path, _empty_is(default, chosen), exactly_once=exactly_once, parents=parents, acl=acl
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path}>"

    async def get(self) -> N:
        """The present value."""
        value, _ = await self._read()
        return value

    async def set(self, value: N) -> None:
        """Replace the value, whatever it is, and create the znode if it is gone. A request whose reply is
        lost is repeated, ``exactly_once`` or not."""
        await self._value.set(value)
        self._seen = True

    async def add(self, amount: N) -> tuple[N, N]:
        """Add, or subtract what is negative. Returns the value before and after."""
        change = await self._change(lambda value: value + amount)
        assert change is not None
        return change

    async def compare_and_set(self, expected: N, value: N) -> bool:
        """Replace the value if it is ``expected``. Returns whether it was."""
        return await self._change(lambda present: value if present == expected else None) is not None

    async def reserve(self: Counter[int], count: int) -> range:
        """Take the next ``count`` numbers for oneself: no two callers ever get the same. They may be given
        out without asking again. Where a lost reply leaves open whether they were taken, the next ones are:
        there may be gaps.

        Raises ValueError for less than one, TypeError if the values are floats.
        """
        if count < 1:
            raise ValueError(f"at least one number, not {count}")
        if not self._whole:
            raise TypeError("only a counter of ints can be reserved from")
        while True:
            try:
                before, after = await self.add(count)
            except AmbiguousResult:
                continue
            return range(before, after)

    async def _change(self, change: Callable[[N], N | None]) -> tuple[N, N] | None:
        """Replace the value by what ``change`` makes of it, and return both; None if it makes None of it."""
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
        """The value, and as what it is stored, if it is."""
        present = await self._value.get()
        if present is not None:
            self._seen = True
            return present.value, present
        if self._seen and not self._restarts:
            raise NoNodeError(self.path)
        return self._default, None


def _codec(name: str, default: int | float) -> Codec[Any]:
    match name:
        case "int32":
            return INT32
        case "int64":
            return INT64
        case "ascii":
            return ASCII_FLOAT if isinstance(default, float) else ASCII_INT
    raise ValueError(f'codec is "int32", "int64" or "ascii", not {name!r}')


def _empty_is(default: N, codec: Codec[N]) -> Codec[N]:
    """kazoo creates a counter empty before it writes to it, and Curator reads an empty one as 0."""
    return Codec(codec.name, codec.encode, lambda data: codec.decode(data) if data else default)
