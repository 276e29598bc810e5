"""Waiting until something is the case.

The server looks when something happens, not now and then: a znode that is there for a moment
only is seen too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ...testing.controls.history import timeline_of
from ...testing.controls.sessions import MOST_PATHS, info_of
from ...testing.history import Entry, selector
from ...testing.observers import AddressWait, RequestWait, Wait
from ...testing.operations import Selection
from .. import forms
from ..finding import address_of, live_sessions
from ..routes import ApiError, Ask, Field, Route
from ..views.turns import Turns

if TYPE_CHECKING:
    from ..control import Control

_MOST: Final = 64
"""Requests that may wait at once."""
_PATIENCE: Final = 10.0
"""Seconds that a request waits, if it does not say."""
_MOST_PATIENCE: Final = 3600.0  # seconds
_SESSIONS: Final = 1000
"""Sessions in one answer, the oldest."""
_LINES: Final = 100
"""Lines of the timeline in the answer to a request that has waited in vain."""

_Kind: TypeAlias = tuple[Wait, Callable[[], dict[str, Any]]]
"""What waits, and what makes the answer afterwards."""


class _Requests(RequestWait):
    """
    :param past: what has happened before: it is counted while new requests come.
    :param wanted: which of it counts.
    """

    def __init__(
        self, selection: Selection, count: int, past: Iterable[Entry], wanted: Callable[[Entry], bool]
    ) -> None:
        super().__init__(selection, count)
        self._past, self._wanted = past, wanted

    async def count_past(self) -> None:
        turns = Turns()
        for entry in self._past:  # listed before the first pause
            self.seen += self._wanted(entry)
            await turns.pause()


async def _wait(control: Control, ask: Ask) -> Any:
    values = dict(ask.values)
    until, timeout = values.pop("until"), values.pop("timeout", _PATIENCE)
    if not 0 <= timeout <= _MOST_PATIENCE:
        raise ApiError(400, f"timeout is a number of seconds from 0 to {_MOST_PATIENCE:g}, not {timeout}")
    begin, needed, taken = _KINDS[until]
    if not needed <= values.keys() <= needed | taken:
        fields = [*sorted(needed), *(f"{name} if you like" for name in sorted(taken))]
        raise ApiError(400, f"until {until} takes {', '.join(fields)}; and timeout")
    if values.setdefault("count", 1) < 1:
        raise ApiError(400, f"count counts from 1, not {values['count']}")
    if control.waiting >= _MOST:
        raise ApiError(409, f"{_MOST} requests wait already; let some of them end first")
    controls = control.controls
    controls.running.receive()
    wait, answer = begin(control, values)
    control.waiting += 1
    observed = list(control.scope(whole=until == "outstanding").running.each())
    for running in observed:
        running.observe(wait)
    try:
        if isinstance(wait, _Requests):
            await wait.count_past()
        wait.happened()
        met = await wait.until_met(timeout)
    finally:
        for running in observed:
            running.unobserve(wait)
        control.waiting -= 1
    if not met:
        timeline = await Turns().finish(timeline_of(controls, limit=_LINES))
        raise ApiError(408, f"it was not so within {timeout:g} s; see the timeline", timeline=timeline)
    return answer() | {"seconds": controls.clock.now()}


def _exists(control: Control, values: dict[str, Any]) -> _Kind:
    running, path = control.controls.running, values["path"]
    return Wait(lambda: path in running.engine.tree.nodes), dict


def _gone(control: Control, values: dict[str, Any]) -> _Kind:
    running, path = control.controls.running, values["path"]
    return Wait(lambda: path not in running.engine.tree.nodes), dict


def _data(control: Control, values: dict[str, Any]) -> _Kind:
    running, path = control.controls.running, values["path"]
    data = forms.read_data(values["data"])

    def look() -> bool:
        node = running.engine.tree.nodes.get(path)
        return node is not None and node.data == data

    return Wait(look), dict


def _session(control: Control, values: dict[str, Any]) -> _Kind:
    running, given, count = control.controls.running, values.get("session"), values["count"]
    address = address_of(given)

    def answer() -> dict[str, Any]:
        live = map(running.engine.sessions.get, islice(live_sessions(running, given), _SESSIONS))
        found = [info_of(running, session, MOST_PATHS) for session in live if session is not None]
        return {"sessions": [control.session_form(info) for info in found]}

    def live() -> int:
        return len(running.engine.sessions if given is None else live_sessions(running, given))

    if address is not None:
        return AddressWait(address, running.service.connections, count), answer
    return Wait(lambda: live() >= count), answer


def _request(control: Control, values: dict[str, Any]) -> _Kind:
    op, path = values.get("op"), values.get("path")
    session = control.find_any(values["session"]) if "session" in values else None
    chosen = selector(kind="request", op=op, path=path, session=session, since=values.get("since", 0.0))
    told = control.controls.running.told
    wait = _Requests(
        Selection.of(op, path, session),
        values["count"],
        () if told is None else told.entries(),
        lambda entry: chosen(entry) and (op is not None or entry.op != "ping"),
    )
    return wait, lambda: {"seen": wait.seen}


def _held(control: Control, values: dict[str, Any]) -> _Kind:
    controls, count = control.controls, values["count"]
    wait = Wait(lambda: len(controls.running.gate.held()) >= count)
    return wait, lambda: {"messages": [forms.message_form(message) for message in controls.held()]}


def _outstanding(control: Control, values: dict[str, Any]) -> _Kind:
    parts, count = list(control.scope(whole=True).running.each()), values["count"]

    def waiting() -> int:
        return sum(part.service.outstanding() for part in parts)

    return Wait(lambda: waiting() >= count), lambda: {"outstanding": waiting()}


_KINDS: Final[dict[str, tuple[Callable[[Control, dict[str, Any]], _Kind], set[str], set[str]]]] = {
    "exists": (_exists, {"path"}, set()),
    "gone": (_gone, {"path"}, set()),
    "data": (_data, {"path", "data"}, set()),
    "session": (_session, set(), {"session", "count"}),
    "request": (_request, set(), {"op", "path", "session", "count", "since"}),
    "held": (_held, set(), {"count"}),
    "outstanding": (_outstanding, set(), {"count"}),
}
"""What can be waited for: the function that begins it, the fields that it needs, and those it may have."""

ROUTES: Final = (
    Route(
        "POST",
        "/wait",
        _wait,
        "Answer as soon as something is the case; 408 with the timeline if it is not in time.",
        {
            "until": Field(
                "string",
                "a znode is there, is gone, has this data; a session is there, a request came, some are "
                "held; some wait for the log of an ensemble, at any of its servers",
                required=True,
                choices=tuple(_KINDS),
            ),
            "path": Field("string", "a path; for a request a glob"),
            "data": Field("any", "text, base64 or null, as in /tree"),
            "session": Field("string", "an id, a name, or the address of a client; any if it is not given"),
            "op": Field("string", "such as create; any but ping if it is not given"),
            "count": Field("integer", "how many sessions, requests or messages, at least; 1"),
            "since": Field("number", "count requests from here on, in seconds on the server's clock; 0"),
            "timeout": Field("number", f"real seconds to wait; {_PATIENCE:g}, at most {_MOST_PATIENCE:g}"),
        },
    ),
)
