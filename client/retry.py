"""Asking again what may be asked twice."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import trio

from ..protocol.errors import (
    ConnectionLossError,
    OperationTimeoutError,
    SessionExpiredError,
    SessionMovedError,
)

if TYPE_CHECKING:
    from .zookeeper import ZooKeeper

T = TypeVar("T")

UNANSWERED = (ConnectionLossError, OperationTimeoutError, SessionMovedError)
"""The errors that tell nothing about a request but that its answer will not come."""

_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 1.0


async def repeat(zk: ZooKeeper, call: Callable[[], Awaitable[T]], generation: int | None = None) -> T:
    """Make a call, again and again until it is answered: for what may be carried out twice.

    :param generation: of the session to which the call belongs; by default the present one. In another
        session nothing is repeated.

    Raises what the call raises, but :data:`UNANSWERED`; :class:`SessionExpiredError`, :class:`ClosingError`.
    """
    if generation is None:
        generation = zk.session.generation
    pause = _FIRST_PAUSE
    while zk.session.generation == generation:
        try:
            return await call()
        except UNANSWERED:
            await trio.sleep(random.uniform(0, pause))
            pause = min(2 * pause, _LONGEST_PAUSE)
            await zk.session.wait_connected()
    raise SessionExpiredError
