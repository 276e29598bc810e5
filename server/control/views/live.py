"""The figures of the server for the page. They are sent after each change.

As long as a client follows the figures, the server compares them four times a second. Requests have no
additional cost. After 5 s without a change the figures are sent again. So a reader that gets nothing for a
longer time can tell that the server hangs.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import trio

from ....protocol.version import __version__
from ...net.http import Response, Send
from .. import forms
from ..calls.endpoints import with_clients
from ..routes import ApiError, Ask, Route
from .common import zxid_form

if TYPE_CHECKING:
    from ..control import Control

_EVERY: Final = 0.25
"""Seconds between two checks."""
_LONGEST: Final = 20
"""The number of checks without a change after which the figures are sent again. So many checks take 5 s."""
_MOST: Final = 16
"""The largest number of readers at the same time."""
_SHOWN: Final = 200
"""The largest number of faults in one answer, and the largest number of held messages."""


def _figures(control: Control) -> dict[str, Any]:
    running = control.controls.running
    engine = running.engine
    return {
        "zxid": zxid_form(engine.zxid),
        "znodes": len(engine.tree) - 1,
        "bytes": engine.tree.data_size,
        "sessions": len(engine.sessions),
        "connections": len(running.service.connections),
        "expired": engine.stats.sessions_expired,
        "watches": engine.watches.count(),
        "requests": engine.stats.packets_received,
        "faults": len(running.gate.injectors),
        "fired": sum(fault.fired for fault in control.faults.values()),
        "holds": len(running.gate.holds()),
        "held": len(running.gate.held()),
        "paused": bool(running.gate.paused),
        "cut_off": len(running.gate.cut_off),
        "cut_endpoints": len(running.gate.cut_endpoints | running.gate.paused_endpoints),
        "refusing": running.service.refusing,
        "frozen": running.clock.frozen,
        "records": running.told is not None,
        "whole": running.records,
        "role": running.service.mode,
    }


def _time(control: Control) -> dict[str, Any]:
    running = control.controls.running
    now = running.clock.now()
    return {
        "seconds": round(now - running.started, 3),
        "wall_ms": round(running.service.wall_clock(now) * 1000),
    }


def _live(control: Control, ask: Ask) -> Response:
    if control.watchers >= _MOST:
        raise ApiError(409, f"{_MOST} clients follow the figures already; close some pages first")
    headers = {"content-type": "text/event-stream", "cache-control": "no-store"}
    return Response(200, headers=headers, stream=partial(_tell, control))


async def _tell(control: Control, send: Send) -> None:
    control.watchers += 1
    number = control.controls.running.service.server_id  # 0 for a single server
    emulates = control.controls.running.service.settings.emulate
    fixed = {"version": __version__, "hosts": control.controls.hosts, "server": number, "emulates": emulates}
    told: tuple[Any, ...] = ()
    looks = 0
    try:
        while True:
            figures = _figures(control)
            now = _time(control)
            state = (figures, control.controls.running.started, now["seconds"] if figures["frozen"] else 0)
            if state != told:
                told, looks = state, 0
            if looks % _LONGEST == 0:
                await send(b"data: %s\n\n" % json.dumps(figures | now | fixed).encode())
            looks += 1
            await trio.sleep(_EVERY)
    finally:
        control.watchers -= 1


def _armed(control: Control, ask: Ask) -> Any:
    gate, running = control.controls.running.gate, control.controls.running
    faults = list(control.faults.items())[:_SHOWN]
    chaos = list(control.chaos.items())[:_SHOWN]
    own = *control.faults.values(), *control.chaos.values()
    others = [each for each in gate.injectors if each not in own]
    holds = list(gate.holds_in_words().items())
    return {
        "faults": [forms.fault_form(number, fault) for number, fault in faults],
        "chaos": [{"chaos": number, "text": repr(each), "by": each.origin} for number, each in chaos],
        "others": [{"text": repr(each), "by": each.origin} for each in others[:_SHOWN]],
        "holds": [{"hold": number, "text": text, "by": by} for number, (text, by) in holds[:_SHOWN]],
        "held": [forms.message_form(message) for message in gate.held()[:_SHOWN]],
        "endpoints": [with_clients(running, name) for name in list(running.endpoints)[:_SHOWN]],
        "counts": {
            "faults": len(gate.injectors),
            "holds": len(holds),
            "held": len(gate.held()),
        },
        "frozen": running.clock.frozen,
        **_time(control),
    }


ROUTES: Final = (
    Route(
        "GET",
        "/live",
        _live,
        "Follow the figures of the server as events, with one event after each change.",
        answer="Events with a JSON object, until the client disconnects.",
        needs_history=False,
    ),
    Route(
        "GET",
        "/armed",
        _armed,
        f"The faults, chaos, holds, held messages and endpoints of the server: the first {_SHOWN} of each "
        "kind.",
        answer="The objects, the numbers of all faults, holds and held messages, and the server's time.",
        needs_history=False,
    ),
)
