"""Operations that may take long. They are done in steps.

All clients wait while one request is processed. So an operation that reads very many znodes or adds very many
watches is a generator. The generator yields after each bounded piece of work, and returns the body of the
reply. The engine continues the generator until the turn of its client is over. The rest is done in the
client's next turns, before any later request of the same client. Requests of other clients are processed in
between. So each part of such a reply was true when it was read, but perhaps there was no moment at which all
parts were true. Apache ZooKeeper does not lock the tree for these operations either, so it promises the same.
A write is never done in steps.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import wraps
from typing import Any, NoReturn, TypeAlias

Steps: TypeAlias = Generator[float, None, bytes]
"""An operation in progress. It yields the time in seconds that the next step will take, or 0.0 for a usual
step, which takes less than 1 ms."""


class Unfinished(Exception):
    """An operation is not finished. :meth:`.engine.Engine.resume` continues its ``steps``."""

    def __init__(self, steps: Steps) -> None:
        super().__init__()
        self.steps = steps


IN_STEPS: set[Callable[..., Any]] = set()
"""All operations that :func:`in_steps` has made."""


def in_steps(operation: Callable[[Any, Any, Any], Steps]) -> Callable[[Any, Any, Any], NoReturn]:
    """Make an operation of a generator function."""

    @wraps(operation)
    def begin(engine: Any, client: Any, request: Any) -> NoReturn:
        raise Unfinished(operation(engine, client, request))

    IN_STEPS.add(begin)
    return begin
