"""Blocks that are left whatever happens.

Python looks for signals at the first instruction of each function. So KeyboardInterrupt may come when a
``with`` statement calls ``__exit__``, before anything that is written there: then nothing has left the
block, and nobody calls ``__exit__`` again.

The rules:

* A ``with`` statement takes ``__exit__`` before it calls ``__enter__``, keeps it until the block has ended,
  and drops it then, also after a failure. :class:`Exit` gives each statement an object of its own to keep.
* :func:`guard`, called within ``__enter__``, hangs a generator on that object. The call of ``__exit__``
  sends the generator what it is given, and the generator leaves the block. It is within ``try`` when it
  goes on, so it catches an exception there, too.
* If the call has not come so far, Python closes the generator with the object that was dropped: the block
  is left before the exception reaches the next ``except``.
* Where nobody keeps the object (``ExitStack``, which calls ``type(block).__exit__``), there is no
  generator, and the call leaves the block itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from functools import partial, update_wrapper
from typing import Any, TypeAlias, TypeVar, cast
from weakref import ref

from ..recipes.base.tracebacks import SHORT, shorten
from .agent import Interrupted

F = TypeVar("F", bound=Callable[..., Any])
Leave: TypeAlias = Callable[..., Any]
"""Leaves a block, given what ``__exit__`` is given. Returns whether the block swallows the error."""


class _Taken(threading.local):
    """:ivar last: the ``__exit__`` that was taken last in this thread."""

    last: Callable[[], Any] = staticmethod(lambda: None)


_taken = _Taken()


class Exit:
    """The ``__exit__`` of a class.

    :param leave: called with an object of the class and what ``__exit__`` is given, if there is no guard.
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
    """Decorate the ``__exit__`` of a class: as type checkers see it, that changes nothing."""
    return cast("F", Exit(function))


def guard(block: Any, leave: Leave, abandon: Callable[[], object]) -> None:
    """Have a block left when its ``with`` statement has ended; called within ``__enter__``.

    :param block: whose ``__enter__`` it is.
    :param leave: called with what ``__exit__`` is given.
    :param abandon: leaves the block if it was not left; else it does nothing. It must not raise.
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
