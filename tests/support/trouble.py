"""Random schedules: their steps, the faults in them, and the end of these (recipe-rules.md D.14)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import Any, Generic, TypeVar

import attrs
import trio
from hypothesis import strategies as st

from pyzk.client import ZooKeeper
from pyzk.recipes.base.running import steady

from .lab import SESSION_TIMEOUT, TICK, Lab
from .oracle import Oracle

PAUSES = [0.0, 0.01, 0.05, 0.3, 1.0, 5.0, SESSION_TIMEOUT * 0.8, SESSION_TIMEOUT * 1.3]
"""Seconds between two steps: within a moment, within a heartbeat, across the end of a session."""

FAULTS: dict[str, dict[str, Any]] = {
    "drop before": {"when": "before", "action": "disconnect"},
    "drop after": {"when": "after", "action": "disconnect"},
    "delay": {"when": "before", "action": "delay", "seconds": 0.5},
    "slow": {"when": "before", "action": "delay", "seconds": 0.1, "times": 20},
}


T = TypeVar("T")


@attrs.frozen
class Step(Generic[T]):
    """
    :ivar who: number of the client, or of the znode that an operator deletes.
    :ivar what: what an action needs to know besides, such as how many leases to acquire.
    :ivar pause: seconds until the next step.
    """

    action: str
    who: int
    what: T
    pause: float


def schedules(
    actions: Sequence[str], clients: int, whats: st.SearchStrategy[T], *, longest: int = 30
) -> st.SearchStrategy[list[Step[T]]]:
    """Schedules for one client or more.

    :param longest: the most steps.
    """
    step = st.builds(
        Step, st.sampled_from(actions), st.integers(0, clients - 1), whats, st.sampled_from(PAUSES)
    )
    return st.lists(step, min_size=3, max_size=longest)


@attrs.define(eq=False)
class Trouble:
    """Injects faults, and ends them.

    :ivar oracle: is told of restarts.
    """

    lab: Lab
    oracle: Oracle
    _faults: ExitStack = attrs.Factory(ExitStack)

    def inject(self, zk: ZooKeeper, what: str) -> bool:
        """Carry out one step: ``restart``, ``let through``, ``expire``, ``cut off`` or one of :data:`FAULTS`.

        Returns False if the client has no session on the server."""
        match what:
            case "restart":
                self.lab.server.restart(keep_data=True)
                self.oracle.attach()
                return True
            case "let through":
                self.lab.let_through(zk)
                return True
        session = zk.session.id
        if all(known.id != session for known in self.lab.server.sessions()):
            return False
        match what:
            case "expire":
                self.lab.server.expire(session)
            case "cut off":
                self.lab.cut_off(zk)
            case _:
                fault = self.lab.server.fault(session=session, required=False, **FAULTS[what])
                self._faults.enter_context(fault)
        return True

    def end(self, clients: Iterable[ZooKeeper]) -> None:
        """Everything works again, though a client that was cut off may not have noticed yet that it was."""
        self._faults.close()
        for zk in clients:
            self.lab.let_through(zk)

    async def calm(self, clients: Iterable[ZooKeeper]) -> None:
        """Wait until the clients have noticed, and have cleaned up. Then neither side holds a watch (I-4)."""
        clients = list(clients)
        for zk in clients:
            await steady(zk, zk.sync)
            await zk.cleanup.idle()
        await trio.sleep(2 * TICK)
        assert [zk.watch_count for zk in clients] == [0] * len(clients)
        assert self.lab.watch_count == 0
