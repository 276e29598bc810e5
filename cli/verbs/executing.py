"""``exec``: a command beside a fresh pyzk-server, which ends with the command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import trio

from ..child import Child, ends_with_us, find, heeded, runnable
from ..context import Context
from ..status import Failure, Status

_GRACE = 5.0
"""The seconds from SIGTERM to SIGKILL, for the remaining processes of the command and for the server."""


async def execute(context: Context) -> int:
    """Run a command; returns its exit status.

    :raises Failure: the command cannot be run, or the server does not start.
    """
    options = context.options
    with runnable(options.command[0]):
        find(options.command[0])
    flags = ["--config", str(options.config)] if options.config else []
    with _server(flags) as hosts, trio.open_signal_receiver(signal.SIGCHLD, *heeded()) as signals:
        # ZOOKEEPER_HOSTS is what clients are told to look at; PYZK_HOSTS is for pyzk itself.
        environment = os.environ | {"ZOOKEEPER_HOSTS": hosts, "PYZK_HOSTS": hosts}
        with runnable(options.command[0]):
            child = Child(options.command, environment)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_listen, signals, child)
            try:
                await child.ended.wait()
            finally:
                with trio.CancelScope(shield=True):
                    await child.end(_GRACE)
            nursery.cancel_scope.cancel()
    return child.status


async def _listen(signals: AsyncIterator[int], child: Child) -> None:
    child.reap()  # it may have ended before anybody listened
    async for number in signals:
        if number == signal.SIGCHLD:
            child.reap()
        else:
            child.signal(number)


@contextmanager
def _server(flags: list[str]) -> Iterator[str]:
    """Run a server on a free port, in a separate process; yield the connect string of the server.

    :raises Failure: it does not start.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "pyzk.server", "--port", "0", "--log-level", "warning", *flags],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        process_group=0,  # an interrupt at the terminal is for the command, which may want to clean up
        preexec_fn=ends_with_us(),
    )
    with process:
        assert process.stdout is not None
        try:
            words = process.stdout.readline().split()
            if "at" not in words:
                raise Failure(Status.REFUSED, "pyzk-server has not started; its message is above")
            yield words[words.index("at") + 1]
        finally:
            process.terminate()
            try:
                process.wait(_GRACE)
            except subprocess.TimeoutExpired:
                process.kill()
