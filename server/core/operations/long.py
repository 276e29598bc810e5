"""Operations that may take long, and so are done in steps.

All clients wait while one request is processed. So an operation that reads or registers very many things is
a generator: it yields after each bounded piece of work, and returns the body of the reply. The engine
continues it until the turn of its client is over. The rest follows in the client's next turns, before any
further request of that client. Requests of other clients are processed in between. So each part of such a
reply was true when it was read, but the whole may not have been true at any one moment. Apache ZooKeeper
promises no more, because it does not lock the tree for these operations either. A write is never done in
steps.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import wraps
from typing import Any, NoReturn, TypeAlias

Steps: TypeAlias = Generator[float, None, bytes]
"""An operation in progress. It yields the seconds that the next step will take, 0.0 for a usual step (below
1 ms)."""


class Unfinished(Exception):
    """Raised for an operation that is not done: :meth:`.engine.Engine.resume` continues its ``steps``."""

    def __init__(self, steps: Steps) -> None:
        super().__init__()
        self.steps = steps


IN_STEPS: set[Callable[..., Any]] = set()
"""The operations that :func:`in_steps` has made."""


def in_steps(operation: Callable[[Any, Any, Any], Steps]) -> Callable[[Any, Any, Any], NoReturn]:
    """Make an operation of a generator function."""

    @wraps(operation)
    def begin(engine: Any, client: Any, request: Any) -> NoReturn:
        raise Unfinished(operation(engine, client, request))

    IN_STEPS.add(begin)
    return begin
