"""Objects of trio's behind faces: what goes to the loop is unwrapped, and what comes from it is wrapped."""

from __future__ import annotations

from collections.abc import Callable
from types import GeneratorType, MappingProxyType
from typing import Any
from weakref import WeakValueDictionary

import trio

from .. import recipes
from .faced import FACED, NOTICES, SCALARS
from .loop import Loop
from .side import Side


class Face:
    """The base of all faces."""

    _trio: Any
    _loop: Loop
    _faces: Objects  # of the class
    _of: type  # of the class: the class of trio's
    _hidden: frozenset[str] = frozenset()  # of the class
    _open: dict[object, list[Any]]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        loop, args, kwargs = self._faces.unwrap(type(self).__name__, args, kwargs)
        self._faces.adopt(self, self._of(*args, **kwargs), loop)

    def __repr__(self) -> str:
        return repr(self._trio)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name in self._hidden:
            package = f"pyzk.{self._faces.side.name}"
            raise AttributeError(
                f"{type(self).__name__} of {package} has no {name!r}. Import both recipes and connect from "
                f"{package}, not from another package of pyzk"
            )
        return self._faces.wrap(getattr(self._trio, name), self._loop)

    def _opened(self, block: Any) -> None:
        """Note that the caller has entered a block of this object."""
        self._open.setdefault(self._faces.side.holder(), []).append(block)

    def _innermost(self) -> Any:
        """Return the innermost block of the caller; if it has none, of the only one who has."""
        return self._open[self._user()][-1]

    def _user(self) -> object:
        holder = self._faces.side.holder()
        if holder not in self._open and len(self._open) == 1:
            (holder,) = self._open  # entered by one thread or task, left by another, as fixtures do
        if holder not in self._open:
            raise RuntimeError(f"{self!r} was not entered here")
        return holder

    def _left(self) -> Any:
        """Return the innermost block, and forget it."""
        block = self._innermost()
        self._closed(block)
        return block

    def _closed(self, block: Any) -> None:
        """Forget a block. To call it again does nothing."""
        for holder, blocks in list(self._open.items()):
            if block in blocks:
                blocks.remove(block)
                if not blocks:
                    del self._open[holder]


class Objects:
    """The objects of one face.

    :ivar types: the face of each class that has one; None for those that have none.
    """

    def __init__(self, side: Side) -> None:
        self.side = side
        self.types: dict[type, type[Face] | None] = dict.fromkeys(SCALARS)
        self._alive: WeakValueDictionary[int, Face] = WeakValueDictionary()

    def adopt(self, face: Face, value: Any, loop: Loop) -> None:
        """Make a face of an object of trio's."""
        face._trio = value
        face._loop = loop
        face._open = {}
        self._alive[id(value)] = face

    def wrap(self, value: Any, loop: Loop) -> Any:
        """Return what the user sees of a value of trio's."""
        kind = type(value)
        face = self._type(kind)
        if face is not None:
            known = self._alive.get(id(value))
            if known is None:
                known = object.__new__(face)
                self.adopt(known, value, loop)
            return known
        if kind in SCALARS:
            return value
        if kind is trio.Event:
            return self.side.event(loop, value)
        if kind is tuple:
            return tuple([self.wrap(item, loop) for item in value])
        if kind is dict or kind is MappingProxyType:
            return {key: self.wrap(item, loop) for key, item in value.items()}
        if isinstance(value, trio.CancelScope):
            return None
        return value

    def unwrap(self, name: str, args: Any, kwargs: dict[str, Any]) -> tuple[Loop, Any, dict[str, Any]]:
        """Return the loop of the arguments, and what trio sees of them.

        :param name: the function, for the message.
        :raises TypeError: there is no client of this face, and no object that has one.
        """
        loops: list[Loop] = []
        args = [self._bare(value, loops) for value in args]
        kwargs = {
            key: self.notice_of(value, loops)
            if key in NOTICES and callable(value)
            else self._bare(value, loops)
            for key, value in kwargs.items()
        }
        if not loops:
            package = f"pyzk.{self.side.name}"
            raise TypeError(
                f"{name} of {package} needs a client of {package}, not {args[0] if args else None!r:.100}. "
                f"Import connect from {package}, too"
            )
        return loops[0], args, kwargs

    def _bare(self, value: Any, loops: list[Loop]) -> Any:
        if type(value) in SCALARS:
            return value
        if isinstance(value, Face) and value._faces is self:
            loops.append(value._loop)
            return value._trio
        if isinstance(value, list | tuple | GeneratorType):
            return [self._bare(item, loops) for item in value]
        return value

    def notice_of(self, function: Callable[..., object], loops: list[Loop]) -> Callable[..., None]:
        """Return ``function`` as trio calls it: with the objects of trio's."""
        notice = self.side.notice(function)

        def call(*args: Any) -> None:
            grants = [arg for arg in args if isinstance(arg, recipes.Grant)]
            failed = grants[0].hold.lose if grants else None
            notice(*[self.wrap(arg, loops[0]) for arg in args], failed=failed)

        return call

    def _type(self, kind: type) -> type[Face] | None:
        try:
            return self.types[kind]
        except KeyError:
            face = next((self.types[base] for base in kind.__mro__ if base in FACED), None)
            self.types[kind] = face
            return face
