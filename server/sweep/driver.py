"""The interface between a run and the clients whose requests the run orders, for each kind of clients."""

from __future__ import annotations

import math
import traceback
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, ClassVar

import trio
import trio.testing

from .judging import place
from .lab import BaseLab, Lab
from .servers import Servers

if TYPE_CHECKING:
    from .stage import Stage


class Driver(ABC):
    """The clients of one run. A run uses its driver to find out when all clients wait.

    :cvar longest: the seconds of virtual time after which a run counts as hung.
    """

    longest: ClassVar[float]

    def __init__(self, servers: Servers) -> None:
        self.servers = servers

    @abstractmethod
    def make_lab(self, stage: Stage, nursery: trio.Nursery, excused: str | None) -> BaseLab:
        """Return the argument of the scenario.

        :param nursery: the nursery for tasks that live as long as the clients.
        :param excused: the client whose session the fault of this run ends.
        """

    @abstractmethod
    async def act(self, scenario: Any) -> None:
        """Run the scenario to its end, and raise the error of the scenario."""

    def replaced(self) -> AbstractContextManager[object]:
        """Replace the waiting functions that the clients use, during the run."""
        return nullcontext()

    async def settle(self) -> None:
        """Wait until each client waits for the server, or for a point in time."""
        await trio.testing.wait_all_tasks_blocked()

    @property
    def deadline(self) -> float:
        """The next time at which a client acts again by itself, except the times of trio's own timers."""
        return math.inf

    @abstractmethod
    def places(self) -> dict[str, str]:
        """Say where each client waits."""

    async def leave(self) -> None:
        """Have the clients close their sessions, unless the end of their nursery closes the sessions."""
        await trio.lowlevel.checkpoint()

    def end(self) -> list[BaseException]:
        """End the remaining clients. Return the errors that ended clients outside the scenario."""
        return []


class TrioDriver(Driver):
    """Clients of :mod:`pyzk.client`, which are tasks of the run itself."""

    longest = 600.0
    _lab: Lab

    def make_lab(self, stage: Stage, nursery: trio.Nursery, excused: str | None) -> Lab:
        self._lab = Lab(self.servers, stage, nursery, excused)
        return self._lab

    async def act(self, scenario: Any) -> None:
        await scenario(self._lab)

    def places(self) -> dict[str, str]:
        return {name: place(_frames(task)) for name, task in sorted(self._lab.tasks.items())}


def _frames(task: trio.lowlevel.Task) -> list[traceback.FrameSummary]:
    return [
        traceback.FrameSummary(frame.f_code.co_filename, line, frame.f_code.co_name)
        for frame, line in task.iter_await_frames()
    ]
