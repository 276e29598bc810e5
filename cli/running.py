"""The execution of a verb, until the verb ends by itself or a signal ends it. In both cases the session is
closed."""

from __future__ import annotations

import argparse
import signal
from collections.abc import AsyncIterator, Awaitable, Callable

import trio

from .context import Context
from .status import Status

_SIGNALS = [
    getattr(signal, name) for name in ("SIGHUP", "SIGINT", "SIGTERM") if hasattr(signal, name)
]  # Windows has two of them


async def run(verb: Callable[[Context], Awaitable[int]], options: argparse.Namespace) -> int:
    """Run a verb; returns its exit status, or the status of the signal that has ended it."""
    context = Context(options)
    status, failure, ended_by = 0, None, 0

    async def listen(signals: AsyncIterator[int], scope: trio.CancelScope) -> None:
        nonlocal ended_by
        async for number in signals:
            ended_by = number
            scope.cancel()

    # A signal that is ignored from the beginning, as SIGHUP under nohup, stays ignored.
    heeded = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    with trio.open_signal_receiver(*heeded) as signals:
        async with trio.open_nursery() as nursery:
            with trio.CancelScope() as scope:
                nursery.start_soon(listen, signals, scope)
                try:
                    try:
                        status = await verb(context)
                    finally:
                        await context.flush()
                except Exception as error:
                    failure = error  # raised out of here it would come in a group
            nursery.cancel_scope.cancel()
    if ended_by:
        return Status.SIGNAL + ended_by
    if failure is not None:
        raise failure
    return status
