"""The route that waits for one of the conditions of :mod:`...testing.conditions`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from ....protocol.control_verbs import SESSION
from ....protocol.text import session_text
from ...testing import conditions
from ...testing.conditions import KINDS, QUIET, Condition, PastRequests
from ...testing.controls.history import timeline_of
from ...testing.controls.sessions import MOST_PATHS, info_of
from ...testing.controls.waits import in_vain
from ...testing.finding import live_sessions
from ...testing.observers import Wait
from .. import forms
from ..routes import ApiError, Ask, Field, Route
from ..views.turns import Turns

if TYPE_CHECKING:
    from ..control import Control

_MOST: Final = 64
"""The largest number of requests that wait at the same time."""
_PATIENCE: Final = 10.0
"""The number of seconds that a request waits if it has no timeout."""
_MOST_PATIENCE: Final = 3600.0  # seconds
_SESSIONS: Final = 1000
"""The largest number of sessions in one answer, the oldest first."""
_LINES: Final = 100
"""The number of lines of the timeline in the answer to a wait that timed out."""
_OF_ALL: Final = {"outstanding"}
"""The conditions that a wait checks at all servers of an ensemble. Other conditions are checked only at the
server that gets the request."""


async def _wait(control: Control, ask: Ask) -> Any:
    values = dict(ask.values)
    timeout = values.pop("timeout", _PATIENCE + max(0, values.get("quiet", 0)))
    if not 0 <= timeout <= _MOST_PATIENCE:
        raise ApiError(400, f"timeout is a number of seconds from 0 to {_MOST_PATIENCE:g}, not {timeout}")
    if values.get("gone") is False:
        del values["gone"]
    if "data" in values:
        values["data"] = forms.read_data(values["data"])
    until = values.pop("until", None) or conditions.kind_of(values)
    if until == "request" and "session" in values:
        values["session"] = session_text(control.find_any(values["session"]))
    if control.waiting >= _MOST:
        raise ApiError(409, f"{_MOST} requests wait already; try again when some of them have ended")
    controls = control.controls
    controls.running.receive()
    condition = conditions.begin(control.scope(whole=until in _OF_ALL).running, until, values)
    control.waiting += 1
    try:
        met = await condition.is_met(timeout, _count_past)
    finally:
        control.waiting -= 1
    if not met:
        timeline = await Turns().finish(timeline_of(controls, limit=_LINES))
        raise ApiError(408, f"{in_vain(condition, timeout)}; see the timeline", timeline=timeline)
    answer = _ANSWERS.get(until)
    return (answer(control, condition, values) if answer else {}) | {"seconds": controls.clock.now()}


async def _count_past(wait: Wait) -> None:
    if isinstance(wait, PastRequests):
        await Turns().finish(wait.count_past())


def _sessions(control: Control, condition: Condition, values: Mapping[str, Any]) -> dict[str, Any]:
    running = control.controls.running
    ids = islice(live_sessions(running, values.get("session")), _SESSIONS)
    live = map(running.engine.sessions.get, ids)
    found = [info_of(running, session, MOST_PATHS) for session in live if session is not None]
    return {"sessions": [control.session_form(info) for info in found]}


def _seen(control: Control, condition: Condition, values: Mapping[str, Any]) -> dict[str, Any]:
    assert isinstance(condition.wait, PastRequests)
    return {"seen": condition.wait.seen}


def _held(control: Control, condition: Condition, values: Mapping[str, Any]) -> dict[str, Any]:
    return {"messages": [forms.message_form(message) for message in control.controls.held()]}


def _outstanding(control: Control, condition: Condition, values: Mapping[str, Any]) -> dict[str, Any]:
    return {"outstanding": conditions.outstanding(condition.parts)}


_ANSWERS: Final[Mapping[str, Callable[[Control, Condition, Mapping[str, Any]], dict[str, Any]]]] = {
    "session": _sessions,
    "request": _seen,
    "held": _held,
    "outstanding": _outstanding,
}
"""The functions that make the fields of an answer. The field for the time is made elsewhere."""

ROUTES: Final = (
    Route(
        "POST",
        "/wait",
        _wait,
        "Answer as soon as a condition holds. If the condition does not hold in time, the answer is 408 with "
        "the timeline.",
        {
            "until": Field(
                "string",
                "the condition: a znode exists, does not exist, has this data, has these children, or is an "
                "ephemeral of this session; a session exists; a request has come; messages are held; "
                "requests wait for the log, at any server of an ensemble; all clients are idle. The default "
                "follows from the other fields",
                choices=tuple(KINDS),
            ),
            "path": Field("string", "a path; for a request, a glob"),
            "data": Field("any", "text, base64 or null, as in /tree"),
            "children": Field("array|integer", "the names of all children, or their number", items="string"),
            "gone": Field("boolean", "true: wait until the znode does not exist"),
            "session": Field("string", f"{SESSION} (default: every session)"),
            "op": Field("string", "an operation, such as create (default: all except ping)"),
            "count": Field("integer", "the smallest number of sessions, requests or messages (default: 1)"),
            "since": Field(
                "number",
                "count requests from this time on, in seconds on the server's clock (default: 0)",
            ),
            "quiet": Field(
                "number",
                f"the number of seconds without a request after which clients are idle (default: {QUIET:g})",
            ),
            "timeout": Field(
                "number",
                f"the number of real seconds to wait, at most {_MOST_PATIENCE:g} (default: {_PATIENCE:g})",
            ),
        },
        serves=("wait_for", "wait_idle"),
    ),
)
