"""A dict with a limit for the number of its keys. It makes missing values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

MOST: Final = 10_000
"""The largest number of keys, which are sessions or paths. A server in a test rarely has more sessions or
paths."""


def _nothing() -> Any:
    raise KeyError("this table makes nothing")


class Table(dict[K, V], Generic[K, V]):
    """A dict with a limit for the number of its keys. The dict makes and keeps the value of a missing key.

    :param make: makes the value of a missing key. Without ``make``, a missing key raises a KeyError.
    :param most: the largest number of keys, by default 10,000. Above this number, the oldest keys are
        dropped.
    """

    def __init__(self, make: Callable[[], V] = _nothing, most: int | None = None) -> None:
        super().__init__()
        self._make, self._most = make, MOST if most is None else most

    def __missing__(self, key: K) -> V:
        value = self._make()
        self[key] = value
        return value

    def __setitem__(self, key: K, value: V) -> None:
        if key not in self and len(self) >= self._most:
            del self[next(iter(self))]
        super().__setitem__(key, value)
