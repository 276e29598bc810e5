"""Repeating calls that may be carried out twice."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import trio

from ..protocol.errors import (
    ConnectionLossError,
    NotReadOnlyError,
    OperationTimeoutError,
    SessionExpiredError,
    SessionMovedError,
)

if TYPE_CHECKING:
    from .zookeeper import ZooKeeper

T = TypeVar("T")

UNANSWERED = (ConnectionLossError, OperationTimeoutError, SessionMovedError)
"""The errors that leave open whether a request was applied."""

_FIRST_PAUSE = 0.05
"""Seconds. The first pause is a random part of this: a single lost reply is no reason to wait longer."""
_LONGEST_PAUSE = 1.0
"""Seconds. Pauses double up to this, so that a server in trouble gets about 2 calls a second from a task."""


async def repeat(zk: ZooKeeper, call: Callable[[], Awaitable[T]], generation: int | None = None) -> T:
    """Make a call, again and again until it is answered. Only for calls that may be carried out twice. What a
    read-only server refuses waits for a full one.

    :param generation: the session to which the call belongs, by ``session.generation``; the present one if
        None. In another session nothing is repeated.
    :raises SessionExpiredError: that session has ended.
    :raises ClosingError: the client was closed.
    :raises ZooKeeperError: what the call raises, except :data:`UNANSWERED`.
    """
    if generation is None:
        generation = zk.session.generation
    pause = _FIRST_PAUSE
    while zk.session.generation == generation:
        try:
            return await call()
        except (*UNANSWERED, NotReadOnlyError):
            await trio.sleep(random.uniform(0, pause))
            pause = min(2 * pause, _LONGEST_PAUSE)
            await zk.session.wait_connected()
    raise SessionExpiredError
