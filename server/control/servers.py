"""Fresh servers inside one process: each with its own port, tree, clock and faults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs
import trio

from ..config import zoocfg
from ..testing.clock import ClockMode
from ..testing.controls import Controls
from ..testing.host import HISTORY_LIMIT, Launch
from .routes import ApiError

_MOST: Final = 1000
"""Servers at a time: each needs some file descriptors, and a history of its own."""


@attrs.frozen
class Started:
    """One server that was started here."""

    controls: Controls
    stop: trio.Event
    stopped: trio.Event


class Servers:
    """:param nursery: in which they run."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._last = 0
        self.running: dict[int, Started] = {}

    async def start(
        self, config: Mapping[str, Any], clock: ClockMode = "running", record: bool = True
    ) -> tuple[int, Controls]:
        """Start a server on a port of the kernel's choosing.

        :param config: keys of zoo.cfg with their values.
        :raises ApiError: 400 for a key or value that is refused, 409 if there are too many servers.
        """
        if len(self.running) >= _MOST:
            raise ApiError(409, f"there are {_MOST} servers already; delete some")
        try:
            launch = Launch(clock, record, HISTORY_LIMIT, _settings(config))
        except ValueError as error:
            raise ApiError(400, str(error)) from None
        started: Started = await self._nursery.start(self._run, launch)
        self._last += 1
        self.running[self._last] = started
        return self._last, started.controls

    async def _run(self, launch: Launch, *, task_status: trio.TaskStatus[Started]) -> None:
        stop, stopped = trio.Event(), trio.Event()
        try:
            async with launch.open() as controls:
                task_status.started(Started(controls, stop, stopped))
                await stop.wait()
        finally:
            stopped.set()

    async def stop(self, number: int) -> None:
        """End one of them; returns when its sockets are closed."""
        started = self.running.pop(number)
        started.stop.set()
        await started.stopped.wait()


def _settings(config: Mapping[str, Any]) -> dict[str, Any]:
    text = "\n".join(f"{key}={_value(value)}" for key, value in config.items())
    given = zoocfg.interpret(text, "config", port_given=True).given
    return {field: each.value for field, each in given.items()}


def _value(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value).replace("\\", "\\\\")
