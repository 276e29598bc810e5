"""Wrappers and their objects for trio: values that go to the loop are unwrapped, and values from the loop are
wrapped.

The rules:

* A wrapper has an object for trio (``_trio``), and the loop in which that object is used (``_loop``). An
  object has one wrapper at a time. If two calls return the same grant, the user gets the same object.
* The classes of the wrappers are source (:mod:`.generate`). Each wrapper names its class for trio. If a class
  for trio has no wrapper, its objects get the wrapper of its nearest base.
* The bodies of generated methods call the methods of :class:`Wrapper`, and the methods of
  :class:`pyzk.blocking.wrapper.ThreadWrapper` and :class:`pyzk.aio.wrapper.TaskWrapper`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import GeneratorType, MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, ParamSpec, Self
from weakref import WeakValueDictionary

import trio

from .. import recipes
from ..client import ClosingError, Stat
from .exits import guard
from .loop import Loop

P = ParamSpec("P")

_NOTICES = {"on_lost", "on_revoke"}
"""Options that take a function of the user, and call it without waiting for it."""

_SCALARS = {str, bytes, int, float, bool, type(None), Stat}
"""The types of most arguments and results, which are passed on unchanged."""


class Wrapper:
    """The base of all wrappers."""

    _trio: Any
    _loop: Loop
    _wrappers: ClassVar[Objects]
    _of: ClassVar[type]
    _open: dict[object, list[Any]]

    def __init_subclass__(cls, of: type | None = None) -> None:
        """
        :param of: the class for trio.
        """
        super().__init_subclass__()
        if of is not None:
            cls._of = of
            cls._wrappers.types[of] = cls

    def __init__(self) -> None:
        raise TypeError(f"{type(self).__name__} objects are made by the client and its recipes, not by users")

    def __repr__(self) -> str:
        return repr(self._trio)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            package = f"pyzk.{self._wrappers.package}"
            raise AttributeError(
                f"{type(self).__name__} of {package} has no {name!r}. Import both recipes and connect from "
                f"{package}, not from another package of pyzk"
            )

    # --- for the bodies of methods -----------------------------------------------------------------------

    def _make(self, *args: Any, **kwargs: Any) -> None:
        """Make the object for trio."""
        loop, args, kwargs = self._wrappers.unwrap(type(self).__name__, args, kwargs)
        self._wrappers.adopt(self, self._of(*args, **kwargs), loop)

    def _wrap(self, value: Any) -> Any:
        """Return the value that the user gets for a value from trio."""
        return self._wrappers.wrap(value, self._loop)

    def _notice(self, function: Callable[..., object]) -> Callable[..., None]:
        """Return the function with which trio calls a function of the user."""
        return self._wrappers.notice_of(function, [self._loop])

    def _look(self, function: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> Any:
        """Call a function in the loop. The function does not wait."""
        return self._loop.look(lambda: self._wrap(function(*args, **kwargs)))

    def _look_if_open(self, function: Callable[[], object]) -> Any:
        """Call a function as :meth:`_look` does, or in this thread if the loop has ended."""
        try:
            return self._look(function)
        except ClosingError:
            return self._wrap(function())

    def _look_until_limit(self, function: Callable[[], object]) -> Any:
        """Call a function as :meth:`_look` does. Call the function again if the limit of the ownership has
        passed meanwhile."""
        value = self._look(function)
        return self._look(function) if self._trio.ownership.limit <= time.monotonic() else value

    def _begin(self) -> Self:
        """Enter the block of a watch. The end of the block cancels the watch."""
        guard(self, partial(_cancelling, self), partial(_abandoning, self))
        return self

    # --- the blocks of this object -----------------------------------------------------------------------

    def _opened(self, block: Any) -> None:
        """Note that the caller has entered a block of this object."""
        self._open.setdefault(self._wrappers.holder(), []).append(block)

    def _innermost(self) -> Any:
        """Return the innermost block of the caller. If the caller has no block, and only one other caller has
        blocks, return that caller's innermost block."""
        return self._open[self._user()][-1]

    def _user(self) -> object:
        holder = self._wrappers.holder()
        if holder not in self._open and len(self._open) == 1:
            (holder,) = self._open  # entered by one thread or task, left by another, as fixtures do
        if holder not in self._open:
            raise RuntimeError(f"{self!r} was not entered here")
        return holder

    def _left(self) -> Any:
        """Remove and return the innermost block."""
        block = self._innermost()
        self._closed(block)
        return block

    def _closed(self, block: Any) -> None:
        """Forget a block. A second call does nothing."""
        for holder, blocks in list(self._open.items()):
            if block in blocks:
                blocks.remove(block)
                if not blocks:
                    del self._open[holder]


def _cancelling(wrapper: Any, kind: Any, error: Any, tb: Any) -> None:
    wrapper.cancel()  # of a watch


def _abandoning(wrapper: Any) -> None:
    with suppress(Exception):  # the client is closed
        wrapper.cancel()


class Objects:
    """The objects of one wrapper.

    :ivar package: the name of its package, below ``pyzk``.
    :ivar types: the wrapper of each class, or None for a class without a wrapper.
    """

    def __init__(self, package: str) -> None:
        self.package = package
        self.types: dict[type, type[Wrapper] | None] = dict.fromkeys(_SCALARS)
        self._alive: WeakValueDictionary[int, Wrapper] = WeakValueDictionary()

    def holder(self) -> object:
        """Return the caller: this thread, or this task of asyncio."""
        raise NotImplementedError

    def event(self, loop: Loop, event: trio.Event) -> Any:
        """Return the event for an event of trio."""
        raise NotImplementedError

    def notice(self, function: Callable[..., object]) -> Callable[..., None]:
        """Return a function for the loop that makes the user's thread or event loop call ``function``. If
        ``function`` raises an error, the keyword argument ``failed`` is called in the loop with the error."""
        raise NotImplementedError

    def adopt(self, wrapper: Wrapper, value: Any, loop: Loop) -> None:
        """Make the wrapper of an object for trio."""
        wrapper._trio = value
        wrapper._loop = loop
        wrapper._open = {}
        self._alive[id(value)] = wrapper

    def wrap(self, value: Any, loop: Loop) -> Any:
        """Return the value that the user gets for a value from trio."""
        kind = type(value)
        wrapper = self._type(kind)
        if wrapper is not None:
            known = self._alive.get(id(value))
            if known is None:
                known = object.__new__(wrapper)
                self.adopt(known, value, loop)
            return known
        if kind in _SCALARS:
            return value
        if kind is trio.Event:
            return self.event(loop, value)
        if kind is tuple:
            return tuple([self.wrap(item, loop) for item in value])
        if kind is dict or kind is MappingProxyType:
            return {key: self.wrap(item, loop) for key, item in value.items()}
        if isinstance(value, trio.CancelScope):
            return None
        return value

    def unwrap(self, name: str, args: Any, kwargs: dict[str, Any]) -> tuple[Loop, Any, dict[str, Any]]:
        """Return the loop of the arguments, and the arguments for trio.

        :param name: the function, for the message.
        :raises TypeError: no argument is a client of this wrapper, or an object with such a client.
        """
        loops: list[Loop] = []
        bare = [self._bare(value, loops) for value in args]
        kwargs = {
            key: self.notice_of(value, loops)
            if key in _NOTICES and callable(value)
            else self._bare(value, loops)
            for key, value in kwargs.items()
        }
        if not loops:
            package = f"pyzk.{self.package}"
            raise TypeError(
                f"{name} of {package} needs a client of {package}, not {args[0] if args else None!r:.100}. "
                f"Import connect from {package}, too"
            )
        return loops[0], bare, kwargs

    def use(self, function: Callable[..., object], *args: Any, **kwargs: Any) -> Any:
        """Call a function for trio that does not wait."""
        loop, args, kwargs = self.unwrap(function.__name__, args, kwargs)
        return self.wrap(function(*args, **kwargs), loop)

    def notice_of(self, function: Callable[..., object], loops: list[Loop]) -> Callable[..., None]:
        """Return a function that calls ``function`` with the objects for trio."""
        notice = self.notice(function)

        def call(*args: Any) -> None:
            grants = [arg for arg in args if isinstance(arg, recipes.Grant)]
            failed = grants[0].ownership.lose if grants else None
            notice(*[self.wrap(arg, loops[0]) for arg in args], failed=failed)

        return call

    def _bare(self, value: Any, loops: list[Loop]) -> Any:
        if type(value) in _SCALARS:
            return value
        if isinstance(value, Wrapper) and value._wrappers is self:
            loops.append(value._loop)
            return value._trio
        if isinstance(value, list | tuple | GeneratorType):
            return [self._bare(item, loops) for item in value]
        return value

    def _type(self, kind: type) -> type[Wrapper] | None:
        try:
            return self.types[kind]
        except KeyError:
            wrapper = next((self.types[base] for base in kind.__mro__ if base in self.types), None)
            self.types[kind] = wrapper
            return wrapper
