"""A block is left even if a KeyboardInterrupt comes at any instruction.

Python checks for signals at the first instruction of each function. Therefore KeyboardInterrupt may come when
a ``with`` statement calls ``__exit__``, before the first statement of this method. Then nothing has left the
block, and nobody calls ``__exit__`` again.

The rules:

* A ``with`` statement reads ``__exit__`` before it calls ``__enter__``, keeps this object until the block has
  ended, and then drops the object, also after an error. :class:`Exit` makes a separate object for each
  statement.
* :func:`guard`, called within ``__enter__``, ties a generator to the object. ``__exit__`` sends its arguments
  to the generator, and the generator leaves the block. The generator waits inside a ``try``, so it leaves the
  block even if an exception comes there.
* If an exception interrupts ``__exit__`` earlier, Python drops the object and so closes the generator. The
  closed generator leaves the block before the exception reaches the next ``except``.
* If the caller of ``__enter__`` keeps no such object, there is no generator, and ``__exit__`` leaves the
  block itself. An example is ``ExitStack``, which calls ``type(block).__exit__``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from functools import partial, update_wrapper
from typing import Any, TypeAlias, TypeVar, cast
from weakref import ref

from ..recipes.base.tracebacks import SHORT, shorten
from .workers import Interrupted

F = TypeVar("F", bound=Callable[..., Any])
Leave: TypeAlias = Callable[..., Any]
"""Leaves a block, with the arguments of ``__exit__``. Returns whether the block swallows the error."""


class _Taken(threading.local):
    """:ivar last: the ``__exit__`` that this thread has read last."""

    last: Callable[[], Any] = staticmethod(lambda: None)


_taken = _Taken()


class Exit:
    """The ``__exit__`` of a class.

    :param leave: called with an object of the class and the arguments of ``__exit__``, if there is no guard.
    """

    def __init__(self, leave: Leave) -> None:
        self._leave = leave
        update_wrapper(cast("Any", self), leave)

    def __get__(self, block: Any, owner: type | None = None) -> Callable[..., Any]:
        if block is None:
            return self._leave
        exit = partial(_leave, self._leave, block, [])
        _taken.last = ref(exit)
        return exit


def leaves(function: F) -> F:
    """Decorate the ``__exit__`` of a class. For type checkers this changes nothing."""
    return cast("F", Exit(function))


def guard(block: Any, leave: Leave, abandon: Callable[[], object]) -> None:
    """Make sure that a block is left when its ``with`` statement has ended; called within ``__enter__``.

    :param block: the object that is entered.
    :param leave: called with the arguments of ``__exit__``.
    :param abandon: leaves the block, unless the block was left before. It must not raise.
    """
    exit = _taken.last()
    if exit is not None and exit.args[1] is block and not exit.args[2]:
        generator = _guard(leave, abandon)
        next(generator)
        exit.args[2].append(ref(generator))
        exit.guard = generator


def _guard(leave: Leave, abandon: Callable[[], object]) -> Generator[Any, Any, None]:
    try:
        swallowed = leave(*(yield))
    except BaseException:  # GeneratorExit, too
        abandon()
        raise
    yield swallowed


def _leave(
    leave: Leave, block: Any, guards: list[ref[Generator[Any, Any, None]]], kind: Any, error: Any, tb: Any
) -> Any:
    """No name here may refer to the generator: a traceback would keep it."""
    try:
        if not guards:
            return leave(block, kind, error, tb)
        return guards.pop()().send((kind, error, tb))  # type: ignore[union-attr]
    except (*SHORT, Interrupted) as failure:
        shorten(failure)
        raise
