"""Faces: classes for threads and for asyncio, made from the classes of the client and of the recipes.

The rules:

* A face holds an object of trio's, and the loop in which that lives. What goes to the loop is unwrapped, and
  what comes from it is wrapped: the grant of a lock becomes a ``Grant`` of the same face.
* Each public member of a class becomes a member of its face, by its kind:

  =============================================  ========================  ===========================
  in trio                                        for threads               for asyncio
  =============================================  ========================  ===========================
  ``async def``                                  a method that waits       ``async def``
  ``async with``, ``with`` on a scope            ``with``                  ``async with``
  ``async for``                                  ``for``                   ``async for``
  other methods, properties and attributes       the same                  the same
  :class:`trio.Event`                            ``threading.Event``       ``Event``
  =============================================  ========================  ===========================

* A method that does not wait, and that uses the clock or changes what belongs to the loop, is called in the
  loop (:data:`IN_LOOP`), and so is what tells of all calls (:data:`UP_TO_DATE`); the others are called where
  they are.
* Each function that users call is an edge: errors that say what has happened show no frames inside of it
  (:mod:`pyzk.recipes.base.tracebacks`).
* :mod:`.faced` names the classes that have faces, and how their members are used.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial, update_wrapper
from types import FunctionType, GenericAlias
from typing import Any, Generic

from ..client import ClosingError
from ..recipes.base.tracebacks import shorten
from .agent import calls_back
from .exits import Exit, guard
from .faced import (
    BORROW,
    CALLS_BACK,
    FACED,
    FUNCTIONS,
    IN_LOOP,
    NOTICES,
    UNTIL_LIMIT,
    UP_TO_DATE,
    WAIT_FOR_MORE,
    WAIT_FOR_REQUESTS,
)
from .loop import Loop
from .objects import Face, Objects
from .side import Side, reworded


class Faces(Objects):
    """All classes of one face."""

    def __init__(self, side: Side) -> None:
        super().__init__(side)
        for cls in FACED:
            self.types[cls] = self._make(cls)

    def export(self, thing: Any) -> Any:
        """Return the face of a class or a function, or the thing itself if it is the same in all faces."""
        if isinstance(thing, type):
            return self.types.get(thing) or thing
        return self._function(thing) if thing in FUNCTIONS else thing

    # --- classes -----------------------------------------------------------------------------------------

    def _make(self, cls: type) -> type[Face]:
        faces = [face for base in cls.__bases__ if (face := self.types.get(base))] or [Face]
        bases: list[type] = [*faces]
        hidden = frozenset(FACED[cls]).union(*[face._hidden for face in faces])
        namespace: dict[str, Any] = {
            "__doc__": reworded(cls.__doc__, self.side),
            "__module__": f"pyzk.{self.side.name}",
            "_faces": self,
            "_of": cls,
            "_hidden": hidden,
        }
        for name, member in vars(cls).items():
            if name not in hidden and (not name.startswith("_") or name in _DUNDERS):
                made = self._member(f"{cls.__name__}.{name}", name, member)
                if made is not None:
                    namespace[_renamed(name, self.side.waits)] = made
        if issubclass(cls, tuple):
            bases.append(Sequence)
            namespace["__getitem__"] = lambda face, at: face._faces.wrap(face._trio[at], face._loop)
            namespace["__len__"] = lambda face: len(face._trio)
        if Generic in cls.__mro__:
            namespace["__class_getitem__"] = classmethod(GenericAlias)
        made_class = type(cls.__name__, tuple(bases), namespace)
        made_class.__signature__ = inspect.signature(cls)  # type: ignore[attr-defined]
        return made_class

    def _member(self, where: str, name: str, member: Any) -> Any:
        if isinstance(member, property):
            return self._property(name, member, where)
        if not isinstance(member, FunctionType):
            return None  # a field: __getattr__ finds it
        made: Callable[..., Any]
        if name in _BLOCKS:
            made = getattr(self, name)()
        elif name == "__exit__":
            return Exit(self.signed(_cancelling, member))
        elif inspect.iscoroutinefunction(member):
            made = self._waiting(name, where)
        elif opens_block(member):
            made = self._opening(name)
        else:
            made = self._plain(name, where)
        return self.signed(made, member)

    def signed(self, made: Callable[..., Any], member: Callable[..., Any]) -> Callable[..., Any]:
        """Give a function the name, the signature and the docstring of one of trio's."""
        update_wrapper(made, member)
        made.__doc__ = reworded(member.__doc__, self.side)
        made.__module__ = f"pyzk.{self.side.name}"
        return made

    def _property(self, name: str, member: property, where: str) -> property:
        look = _look(where)

        def get(face: Face) -> Any:
            return look(face._loop, lambda: self.wrap(getattr(face._trio, name), face._loop))

        return property(get, doc=reworded(member.__doc__, self.side))

    def _plain(self, name: str, where: str) -> Callable[..., Any]:
        look = _look(where)

        def method(face: Face, *args: Any, **kwargs: Any) -> Any:
            loop = face._loop
            if name in NOTICES:
                args = tuple([self.notice_of(function, [loop]) for function in args])
            _, bare, kwargs = self.unwrap(name, (face, *args), kwargs)
            function = partial(getattr(face._trio, name), *bare[1:], **kwargs)
            return look(loop, lambda: self.wrap(function(), loop))

        def until_limit(face: Face) -> Any:
            value = method(face)
            return method(face) if face._trio.hold.limit <= time.monotonic() else value

        return until_limit if where in UNTIL_LIMIT else method

    def _opening(self, name: str) -> Callable[..., Any]:
        def method(face: Face, *args: Any, **kwargs: Any) -> Any:
            _, bare, kwargs = self.unwrap(name, (face, *args), kwargs)
            return self.side.block(face._loop, getattr(face._trio, name)(*bare[1:], **kwargs))

        return method

    def _waiting(self, name: str, where: str) -> Callable[..., Any]:
        calls_back, short = where in CALLS_BACK, self.side.short
        call_back, call = self.side.call_back, self.side.call
        simple = where.partition(".")[0] in WAIT_FOR_REQUESTS and where not in WAIT_FOR_MORE
        borrows = where in BORROW

        def calling(face: Face, *args: Any, **kwargs: Any) -> Any:
            return call_back(face._loop, getattr(face._trio, name), tuple(map(_calling_back, args)), kwargs)

        def method(face: Face, *args: Any, **kwargs: Any) -> Any:
            try:
                return call(face._loop, getattr(face._trio, name), args, kwargs, simple, borrows)
            except short as error:
                shorten(error)
                raise

        async def async_calling(face: Face, *args: Any, **kwargs: Any) -> Any:
            return await calling(face, *args, **kwargs)

        async def async_method(face: Face, *args: Any, **kwargs: Any) -> Any:
            try:
                return await call(face._loop, getattr(face._trio, name), args, kwargs, simple, borrows)
            except short as error:
                shorten(error)
                raise

        if calls_back:
            return async_calling if self.side.waits else calling
        return async_method if self.side.waits else method

    def _function(self, function: FunctionType) -> Callable[..., Any]:
        calls_back = function.__name__ in CALLS_BACK

        short = self.side.short

        def made(*args: Any, **kwargs: Any) -> Any:
            loop, args, kwargs = self.unwrap(function.__name__, args, kwargs)
            if not inspect.iscoroutinefunction(function):
                return self.wrap(function(*args, **kwargs), loop)
            if calls_back:
                return self.side.call_back(loop, function, tuple(map(_calling_back, args)), kwargs)
            try:
                return self.side.call(loop, function, args, kwargs)
            except short as error:
                shorten(error)
                raise

        async def async_made(*args: Any, **kwargs: Any) -> Any:
            try:
                return await made(*args, **kwargs)
            except short as error:
                shorten(error)
                raise

        waits = self.side.waits and inspect.iscoroutinefunction(function)
        return self.signed(async_made if waits else made, function)

    # --- the methods of Python's own protocols -------------------------------------------------------------

    def __aenter__(self) -> Callable[..., Any]:
        block, short = self.side.block, self.side.short

        def enter(face: Face) -> Any:
            entered = block(face._loop, face._trio)
            entered.face = face
            try:
                return entered.__enter__()
            except short as error:
                shorten(error)
                raise

        async def async_enter(face: Face) -> Any:
            entered = block(face._loop, face._trio)
            try:
                value = await entered.__aenter__()
            except short as error:
                shorten(error)
                raise
            face._opened(entered)
            return value

        return async_enter if self.side.waits else enter

    def __aexit__(self) -> Any:
        short = self.side.short

        def leave(face: Face, kind: Any, error: Any, tb: Any) -> Any:
            return face._innermost().leave(kind, error, tb)

        async def async_leave(face: Face, kind: Any, error: Any, tb: Any) -> Any:
            try:
                return await face._left().__aexit__(kind, error, tb)
            except short as failure:
                shorten(failure)
                raise

        return async_leave if self.side.waits else Exit(leave)

    def __aiter__(self) -> Callable[..., Any]:
        return lambda face: face

    def __anext__(self) -> Callable[..., Any]:
        call, short = self.side.call, self.side.short

        def following(face: Face) -> Any:
            try:
                return call(face._loop, face._trio.__anext__, (), {})
            except StopAsyncIteration:
                raise StopIteration from None
            except short as error:
                shorten(error)
                raise

        async def async_following(face: Face) -> Any:
            try:
                return await call(face._loop, face._trio.__anext__, (), {})
            except short as error:
                shorten(error)
                raise

        return async_following if self.side.waits else following

    def __enter__(self) -> Callable[..., Any]:
        def enter(face: Any) -> Any:
            guard(face, partial(_cancelling, face), partial(_abandoning, face))
            return face

        return enter


_BLOCKS = {"__aenter__", "__aexit__", "__aiter__", "__anext__", "__enter__"}
_DUNDERS = _BLOCKS | {"__exit__", "__getitem__", "__contains__"}


def _here(loop: Loop, function: Callable[[], Any]) -> Any:
    return function()


def _in_loop(loop: Loop, function: Callable[[], Any]) -> Any:
    return loop.look(function)


def _in_loop_while_it_runs(loop: Loop, function: Callable[[], Any]) -> Any:
    try:
        return loop.look(function)
    except ClosingError:
        return function()


def _look(where: str) -> Callable[[Loop, Callable[[], Any]], Any]:
    """Return what calls a function where the member of a class is to be used."""
    if where in UP_TO_DATE:
        return _in_loop_while_it_runs
    return _in_loop if where in IN_LOOP else _here


def _renamed(name: str, waits: bool) -> str:
    return name.replace("__a", "__", 1) if name in _BLOCKS and not waits else name


def _cancelling(face: Any, kind: Any, error: Any, tb: Any) -> None:
    face.cancel()  # of a watch


def _abandoning(face: Any) -> None:
    with suppress(Exception):  # the client is closed
        face.cancel()


def _calling_back(argument: Any) -> Any:
    return calls_back(argument) if callable(argument) else argument


def opens_block(function: Callable[..., Any]) -> bool:
    """Return whether a method returns a context manager."""
    inner = inspect.unwrap(function)
    returned = str(inspect.signature(function).return_annotation)
    generates = inspect.isasyncgenfunction(inner) or inspect.isgeneratorfunction(inner)
    return generates or "ContextManager[" in returned
