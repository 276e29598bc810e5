"""One run of a scenario whose clients are threads of this process.

The rules:

1. A step is made when every thread of the clients waits, and the server has nothing to do: twice in turn.
2. When no step is possible either, the time comes for which somebody waits: a sleep, a timed wait, or the end
   of a session that a fault has cut off. If nobody waits for a time, the run hangs.
3. Threads that hang are ended where they wait, so that the next run has none of them.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
from contextlib import suppress
from typing import Any, Final, Literal

from ...app.embedded import EmbeddedServer
from ..faults import FAULTS
from ..judging import judge_error, look_at_what_is_left, place
from ..model import Cell, Outcome
from ..no_log import no_log
from ..orders import Order
from . import quiet
from .lab import ThreadLab
from .stage import ThreadStage
from .virtual import RunOver, VirtualTime

_LONGEST: Final = 10.0
"""Seconds of real time without a step, after which a run hangs."""
_MOMENT: Final = 0.0001
"""Seconds between two looks."""
_PAUSE: Final = 0.002
"""Seconds before a look that decides whether the time moves on, or the run hangs. What the kernel has still
to deliver arrives meanwhile."""
_SURE: Final = 4
"""Looks, one behind the other, at which nobody could act: then the time moves on."""
_QUITE_SURE: Final = 20
"""The same, where no time is waited for: then the run hangs."""

State = Literal["busy", "quiet", "stepped"]


def run_in_threads(scenario: Any, order: Order, cell: Cell | None = None) -> Outcome:
    """Run a scenario once, a plain function that takes a :class:`.lab.ThreadLab`."""
    return _Run(scenario, order, cell).carry_out()


class _Run:
    def __init__(self, scenario: Any, order: Order, cell: Cell | None) -> None:
        self._scenario = scenario
        self._order = order
        self._cell = cell
        self._outcome = Outcome()
        self._time = VirtualTime()
        self._real_sleep, self._real_time = time.sleep, time.monotonic

    def carry_out(self) -> Outcome:
        server = EmbeddedServer(
            clock="frozen",
            tick_time=1000,
            min_session_timeout=200,
            max_session_timeout=100_000,
            extended_types=True,
            record=False,
        )
        with no_log(), server, self._time.applied():
            stage = server.run(self._make_stage, server)
            cell = self._cell
            excused = cell.client if cell is not None and FAULTS[cell.fault].ends_session else None
            lab = ThreadLab(server, stage, excused)
            thread = threading.Thread(target=self._act, args=(lab,), name="scenario", daemon=True)
            thread.start()
            try:
                self._direct(server, stage, lab, thread)
            finally:
                self._end(server, stage, lab, thread)
            server.run(lambda: look_at_what_is_left(stage.server, self._outcome))
        return self._outcome

    def _make_stage(self, server: EmbeddedServer) -> ThreadStage:
        return ThreadStage(server._local, self._order, self._cell, self._outcome, self._time, server.run)

    def _act(self, lab: ThreadLab) -> None:
        try:
            self._scenario(lab)
        except Exception as error:
            judge_error(self._outcome, lab, error)
        except RunOver:
            pass

    # --- the course of a run -----------------------------------------------------------------------------

    def _direct(
        self, server: EmbeddedServer, stage: ThreadStage, lab: ThreadLab, scenario: threading.Thread
    ) -> None:
        """Make steps until the scenario has ended, or hangs."""
        in_turn, since = 0, self._real_time()
        while scenario.is_alive():
            state = server.run(self._look, stage, in_turn > 0)
            in_turn = in_turn + 1 if state == "quiet" else 0
            if state == "stepped" or (in_turn == _SURE and self._time.advance()):
                in_turn, since = 0, self._real_time()
            elif in_turn > _QUITE_SURE:
                self._hangs(lab, "nobody acts any more")
                return
            elif self._real_time() - since > _LONGEST:
                self._hangs(lab, f"no request for {_LONGEST:g} s of real time")
                return
            else:
                self._real_sleep(_MOMENT if in_turn < _SURE - 1 else _PAUSE)

    def _look(self, stage: ThreadStage, sure: bool) -> State:
        """Look whether everybody waits, in the server's thread; make a step if that was so the last time."""
        server = stage.server.running.server
        server.receive()
        if not quiet.are_waiting(self._time.threads) or not server.is_idle:
            return "busy"
        return "stepped" if sure and stage.step() else "quiet"

    def _hangs(self, lab: ThreadLab, why: str) -> None:
        frames = sys._current_frames()
        for name, thread in sorted(lab.acting.items()):
            frame = frames.get(thread.ident or 0)
            if thread.is_alive() and frame is not None:
                self._outcome.waiting[name] = place(list(traceback.extract_stack(frame)))
        self._outcome.judge("hang", why)

    def _end(
        self, server: EmbeddedServer, stage: ThreadStage, lab: ThreadLab, scenario: threading.Thread
    ) -> None:
        server.run(stage.close)
        server.resume()
        self._time.end({scenario, *lab.acting.values()})
        for zk in lab.clients:
            with suppress(Exception):
                zk.stop()
            with suppress(Exception):
                zk.close()
        scenario.join(1)
        for session in server.sessions():
            server.expire(session.id)
