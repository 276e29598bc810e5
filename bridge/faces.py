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
  loop (:data:`IN_LOOP`); the others are called where they are.
* :data:`FACED` names the classes that have faces, and which of their members are for recipes only. Everything
  else that the two packages export (errors, operations, records, options) is the same in all faces.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from functools import partial, update_wrapper
from types import FunctionType, GeneratorType, GenericAlias, MappingProxyType
from typing import Any, Generic, Protocol
from weakref import WeakValueDictionary

import trio

from .. import client, recipes
from ..client.caller import Caller
from ..client.reads import Reads
from ..client.request import Request
from ..client.session import Session
from ..client.writes import Writes
from ..recipes.base.following import Latest
from ..recipes.base.running import Running
from ..recipes.caches.events import CacheEvents
from ..recipes.locks.acquiring import Acquirable
from ..recipes.locks.rwlock import WriteLock
from ..recipes.membership.party import Changes
from ..recipes.membership.persistent_node import KeptNode
from ..recipes.queues.base import ItemQueue
from ..recipes.shared_value import Updates
from .agent import calls_back
from .loop import Loop

FACED: dict[type, set[str]] = {
    Caller: {"on_submit", "withdraw"},
    Writes: set(),
    Reads: set(),
    client.ZooKeeper: {"janitor", "keep_lease", "start_soon"},
    Session: {"note", "wake"},
    client.StateChanges: {"deliver", "end"},
    client.Watch: {"deliver", "end", "prefix", "server_path"},
    client.WatchStream: {"deliver", "end", "leave", "prefix", "server_path"},
    Request: {
        "body",
        "fail",
        "forget",
        "give_up_at",
        "on_settled",
        "opcode",
        "parse",
        "refusal",
        "refuse",
        "retry",
        "sent_at",
        "succeed",
        "xid",
    },
    client.Pending: set(),
    client.Transaction: set(),
    Acquirable: set(),
    Running: set(),
    recipes.Grant: {
        "data_changed",
        "end",
        "enter_again",
        "hold",
        "on_release",
        "passed_on",
        "surrender",
    },
    recipes.Grants: {"end"},
    recipes.WriteGrant: set(),
    recipes.Lock: set(),
    WriteLock: set(),
    recipes.LockRegistry: set(),
    recipes.RWLock: set(),
    recipes.MultiLock: set(),
    recipes.Semaphore: set(),
    recipes.SingleNodeLock: set(),
    recipes.TimeLease: set(),
    recipes.MultiTimeLease: set(),
    recipes.Term: set(),
    recipes.LeaderElection: set(),
    recipes.LeaderLatch: set(),
    recipes.Partitioner: set(),
    recipes.Barrier: set(),
    recipes.DoubleBarrier: set(),
    recipes.Counter: set(),
    recipes.SharedValue: set(),
    Updates: set(),
    ItemQueue: set(),
    recipes.Queue: set(),
    recipes.ClaimQueue: set(),
    recipes.PriorityQueue: set(),
    recipes.DelayQueue: set(),
    recipes.IdQueue: set(),
    recipes.Party: {"describe"},
    Changes: set(),
    KeptNode: set(),
    recipes.PersistentNode: set(),
    recipes.TtlNode: set(),
    recipes.Cache: {"moved"},
    recipes.NodeCache: set(),
    recipes.ChildrenCache: set(),
    recipes.TreeCache: set(),
    CacheEvents: {"note"},
    Latest: set(),
}
"""The classes that have faces, and the members of each that are for recipes only."""

FUNCTIONS: tuple[Any, ...] = (
    client.repeat,
    client.retry,
    recipes.contenders,
    recipes.revoke,
    recipes.watch_children,
    recipes.watch_node,
)
"""The functions that have faces; ``connect`` is made by each package."""

IN_LOOP = {
    "Cache.children",
    "Cache.events",
    "Cache.nodes",
    "Grant.check",
    "Grant.on_lost",
    "LeaderLatch.is_leader",
    "LockRegistry.__getitem__",
    "Watch.cancel",
    "Caller.submit",
    "Session.changes",
}
"""Members that do not wait, but are used in the loop only."""

CALLS_BACK = {"LeaderElection.run", "repeat", "retry"}
"""Functions that call a function of their caller, and wait for it."""

WAIT_FOR_REQUESTS = {"Pending", "Reads", "Writes"}
"""Classes whose methods wait for requests alone: they need no task (:class:`.Taskless`)."""

NOTICES = {"on_lost", "on_revoke"}
"""Methods and options that take a function of the user, call it, and do not wait for it."""

_SCALARS = {str, bytes, int, float, bool, type(None), client.Stat}
"""Types of most arguments and results, which are passed on as they are."""


class Side(Protocol):
    """What the two faces do differently.

    :ivar name: of the package; ``head``: its docstring.
    :ivar extras: what the package exports besides.
    :ivar waits: whether methods that wait are ``async def``.
    :ivar words: pairs of a pattern and its replacement, for docstrings.
    """

    name: str
    head: str
    waits: bool
    words: Sequence[tuple[str, str]]
    extras: dict[str, Any]
    faces: Faces

    def holder(self) -> object:
        """Return the caller: this thread, or this task of asyncio."""

    def call(
        self,
        loop: Loop,
        function: Callable[..., Any],
        args: Any,
        kwargs: Any,
        waits_for_requests: bool = False,
    ) -> Any:
        """Have ``function(*args, **kwargs)`` awaited in the loop, and return (or await) its result."""

    def call_back(self, loop: Loop, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Do what :meth:`call` does, for a function that calls a function of the caller."""

    def block(self, loop: Loop | None, block: Any) -> Any:
        """Return the context manager for a block of trio's. Without a loop, it uses that of the process."""

    def event(self, loop: Loop, event: trio.Event) -> Any:
        """Return the event for one of trio's."""

    def notice(self, function: Callable[..., object]) -> Callable[..., None]:
        """Return a function to be called in the loop, which has ``function`` called where the user expects
        it. Its keyword argument ``failed`` is called in the loop with the error, if there is one."""


class Face:
    """The base of all faces."""

    _trio: Any
    _loop: Loop
    _faces: Faces  # of the class
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

    def _left(self) -> Any:
        """Return the innermost block of the caller; if it has none, of the only one who has."""
        holder = self._faces.side.holder()
        if holder not in self._open and len(self._open) == 1:
            (holder,) = self._open  # entered by one thread or task, left by another, as fixtures do
        if holder not in self._open:
            raise RuntimeError(f"{self!r} was not entered here")
        blocks = self._open[holder]
        block = blocks.pop()
        if not blocks:
            del self._open[holder]
        return block


class Faces:
    """All classes of one kind of face."""

    def __init__(self, side: Side) -> None:
        self.side = side
        self._types: dict[type, type[Face] | None] = dict.fromkeys(_SCALARS)
        self._alive: WeakValueDictionary[int, Face] = WeakValueDictionary()
        for cls in FACED:
            self._types[cls] = self._make(cls)

    def export(self, thing: Any) -> Any:
        """Return the face of a class or a function, or the thing itself if it is the same in all faces."""
        if isinstance(thing, type):
            return self._types.get(thing) or thing
        return self._function(thing) if thing in FUNCTIONS else thing

    # --- objects -----------------------------------------------------------------------------------------

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
        if kind in _SCALARS:
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
            key: self._notice(value, loops)
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
        if type(value) in _SCALARS:
            return value
        if isinstance(value, Face) and value._faces is self:
            loops.append(value._loop)
            return value._trio
        if isinstance(value, list | tuple | GeneratorType):
            return [self._bare(item, loops) for item in value]
        return value

    def _notice(self, function: Callable[..., object], loops: list[Loop]) -> Callable[..., None]:
        """Return ``function`` as trio calls it: with the objects of trio's."""
        notice = self.side.notice(function)

        def call(*args: Any) -> None:
            grants = [arg for arg in args if isinstance(arg, recipes.Grant)]
            failed = grants[0].hold.lose if grants else None
            notice(*[self.wrap(arg, loops[0]) for arg in args], failed=failed)

        return call

    def _type(self, kind: type) -> type[Face] | None:
        try:
            return self._types[kind]
        except KeyError:
            face = next((self._types[base] for base in kind.__mro__ if base in FACED), None)
            self._types[kind] = face
            return face

    # --- classes -----------------------------------------------------------------------------------------

    def _make(self, cls: type) -> type[Face]:
        faces = [face for base in cls.__bases__ if (face := self._types.get(base))] or [Face]
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
            return self._property(name, member, where in IN_LOOP)
        if not isinstance(member, FunctionType):
            return None  # a field: __getattr__ finds it
        made: Callable[..., Any]
        if name in _BLOCKS:
            made = getattr(self, name)()
        elif name == "__exit__":
            made = _cancelling
        elif inspect.iscoroutinefunction(member):
            made = self._waiting(name, where)
        elif opens_block(member):
            made = self._opening(name)
        else:
            made = self._plain(name, where in IN_LOOP)
        return self.signed(made, member)

    def signed(self, made: Callable[..., Any], member: Callable[..., Any]) -> Callable[..., Any]:
        """Give a function the name, the signature and the docstring of one of trio's."""
        update_wrapper(made, member)
        made.__doc__ = reworded(member.__doc__, self.side)
        made.__module__ = f"pyzk.{self.side.name}"
        return made

    def _property(self, name: str, member: property, in_loop: bool) -> property:
        def get(face: Face) -> Any:
            if in_loop:
                return face._loop.look(lambda: self.wrap(getattr(face._trio, name), face._loop))
            return self.wrap(getattr(face._trio, name), face._loop)

        return property(get, doc=reworded(member.__doc__, self.side))

    def _plain(self, name: str, in_loop: bool) -> Callable[..., Any]:
        def method(face: Face, *args: Any, **kwargs: Any) -> Any:
            loop = face._loop
            if name in NOTICES:
                args = tuple([self._notice(function, [loop]) for function in args])
            _, bare, kwargs = self.unwrap(name, (face, *args), kwargs)
            function = partial(getattr(face._trio, name), *bare[1:], **kwargs)
            if in_loop:
                return loop.look(lambda: self.wrap(function(), loop))
            return self.wrap(function(), loop)

        return method

    def _opening(self, name: str) -> Callable[..., Any]:
        def method(face: Face, *args: Any, **kwargs: Any) -> Any:
            _, bare, kwargs = self.unwrap(name, (face, *args), kwargs)
            return self.side.block(face._loop, getattr(face._trio, name)(*bare[1:], **kwargs))

        return method

    def _waiting(self, name: str, where: str) -> Callable[..., Any]:
        calls_back = where in CALLS_BACK
        call: Callable[..., Any] = self.side.call_back if calls_back else self.side.call
        if where.partition(".")[0] in WAIT_FOR_REQUESTS:
            call = partial(call, waits_for_requests=True)

        def method(face: Face, *args: Any, **kwargs: Any) -> Any:
            if calls_back:
                args = tuple(map(_calling_back, args))
            return call(face._loop, getattr(face._trio, name), args, kwargs)

        async def async_method(face: Face, *args: Any, **kwargs: Any) -> Any:
            if calls_back:
                args = tuple(map(_calling_back, args))
            return await call(face._loop, getattr(face._trio, name), args, kwargs)

        return async_method if self.side.waits else method

    def _function(self, function: FunctionType) -> Callable[..., Any]:
        calls_back = function.__name__ in CALLS_BACK

        def made(*args: Any, **kwargs: Any) -> Any:
            loop, args, kwargs = self.unwrap(function.__name__, args, kwargs)
            if not inspect.iscoroutinefunction(function):
                return self.wrap(function(*args, **kwargs), loop)
            if calls_back:
                return self.side.call_back(loop, function, tuple(map(_calling_back, args)), kwargs)
            return self.side.call(loop, function, args, kwargs)

        async def async_made(*args: Any, **kwargs: Any) -> Any:
            return await made(*args, **kwargs)

        waits = self.side.waits and inspect.iscoroutinefunction(function)
        return self.signed(async_made if waits else made, function)

    # --- the methods of Python's own protocols -------------------------------------------------------------

    def __aenter__(self) -> Callable[..., Any]:
        block = self.side.block

        def enter(face: Face) -> Any:
            entered = block(face._loop, face._trio)
            value = entered.__enter__()
            face._opened(entered)
            return value

        async def async_enter(face: Face) -> Any:
            entered = block(face._loop, face._trio)
            value = await entered.__aenter__()
            face._opened(entered)
            return value

        return async_enter if self.side.waits else enter

    def __aexit__(self) -> Callable[..., Any]:
        def leave(face: Face, kind: Any, error: Any, tb: Any) -> Any:
            return face._left().__exit__(kind, error, tb)

        async def async_leave(face: Face, kind: Any, error: Any, tb: Any) -> Any:
            return await face._left().__aexit__(kind, error, tb)

        return async_leave if self.side.waits else leave

    def __aiter__(self) -> Callable[..., Any]:
        return lambda face: face

    def __anext__(self) -> Callable[..., Any]:
        call = self.side.call

        def following(face: Face) -> Any:
            try:
                return call(face._loop, face._trio.__anext__, (), {})
            except StopAsyncIteration:
                raise StopIteration from None

        async def async_following(face: Face) -> Any:
            return await call(face._loop, face._trio.__anext__, (), {})

        return async_following if self.side.waits else following

    def __enter__(self) -> Callable[..., Any]:
        return lambda face: face


_BLOCKS = {"__aenter__", "__aexit__", "__aiter__", "__anext__", "__enter__"}
_DUNDERS = _BLOCKS | {"__exit__", "__getitem__", "__contains__"}


def _renamed(name: str, waits: bool) -> str:
    return name.replace("__a", "__", 1) if name in _BLOCKS and not waits else name


def _cancelling(face: Any, kind: Any, error: Any, tb: Any) -> None:
    face.cancel()  # of a watch


def _calling_back(argument: Any) -> Any:
    return calls_back(argument) if callable(argument) else argument


def opens_block(function: Callable[..., Any]) -> bool:
    """Return whether a method returns a context manager."""
    inner = inspect.unwrap(function)
    returned = str(inspect.signature(function).return_annotation)
    generates = inspect.isasyncgenfunction(inner) or inspect.isgeneratorfunction(inner)
    return generates or "ContextManager[" in returned


def reworded(text: str | None, side: Side) -> str | None:
    """Return a docstring in the words of a face."""
    for pattern, words in side.words if text else ():
        text = re.sub(pattern, words, text or "")
    return text
