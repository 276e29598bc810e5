"""The trace as a stream.

* The trace costs time for each request, but only as long as somebody follows the trace.
* A reader can limit this cost by a rate. The rate is the largest number of entries that are read in a second.
  Entries that the reader has not selected count too. A burst can have as many entries as the rate allows in 2
  s. After a larger burst, entries are skipped without a cost for at least 0.25 s. Then one line says how many
  entries were left out.
* The server never waits for a slow reader. At most 1 MiB of lines waits for the reader. Further lines are
  left out, and one line says how many.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from ....protocol.control_verbs import SESSION
from ...lines import LineBuffer
from ...net.http import Response, Send
from ...testing.trace import FORMATS, Selection, Traced, Tracer, lost_line, tell_past
from ..routes import ApiError, Ask, Field, Route

if TYPE_CHECKING:
    from ...testing.running import Running
    from ...testing.running_ensemble import RunningEnsemble
    from ..control import Control

_MOST: Final = 16
"""The largest number of readers at the same time. The server keeps waiting lines in memory for each
reader."""
_PIECE: Final = 64 * 1024
"""The largest number of bytes that are sent in one piece."""
_MOST_PAST: Final = 500
"""The largest number of past entries that a reader may request. To describe so many entries takes about 10
ms."""
_AT_ONCE: Final = 2
"""A burst can have as many entries as the rate allows in this number of seconds."""
_PAUSE: Final = 0.25
"""After a reader has used up its rate, entries are skipped for this number of seconds."""
_TOO_MANY: Final = "requests were left out here: there are too many to show"
_EVENTS: Final = "text/event-stream"
_TYPES: Final = {"text": "text/plain; charset=utf-8", "json": "application/x-ndjson"}


def _trace(control: Control, ask: Ask, *, whole: bool = False) -> Response:
    given, controls = ask.values, control.scope(whole)
    if control.followers >= _MOST:
        raise ApiError(409, f"{_MOST} clients follow the trace already; close some of them first")
    ops = given["op"].split(",") if "op" in given else ()
    session = control.find_any(given["session"], whole) if "session" in given else None
    selection = Selection.of(ops, given.get("path"), session, given.get("server"))
    style = given.get("format", "text")
    past = given.get("past", 0)
    if not 0 <= past <= _MOST_PAST:
        raise ApiError(400, f"past is a number from 0 to {_MOST_PAST}, not {past}")
    as_events = _EVENTS in ask.request.headers.get("accept", "")
    headers = {"content-type": _EVENTS if as_events else _TYPES[style], "cache-control": "no-store"}
    form = "data: {}\n" if as_events else "{}"
    ration = _Ration(given.get("rate", math.inf))
    follow = partial(_follow, control, controls.running, selection, ration, past, style, form)
    return Response(200, headers=headers, stream=follow)


class _Ration:
    """Counts how many more entries can be read at the rate.

    :param rate: the number of entries in a second.
    """

    def __init__(self, rate: float) -> None:
        if not rate >= 1:
            raise ApiError(400, f"rate is a number of at least 1, not {rate}")
        self._rate, self._left, self._at = rate, _AT_ONCE * rate, trio.current_time()

    @property
    def is_over(self) -> bool:
        return self._left < 0

    def take(self) -> bool:
        """Return whether one more entry may be read."""
        self._left -= 1
        return self._left >= 0

    async def wait(self) -> None:
        """Wait until entries may be read again. Entries that were read above the rate count too."""
        while self._left < 0:
            await trio.sleep(_PAUSE)
            now = trio.current_time()
            passed, self._at = now - self._at, now
            self._left = min(self._left + self._rate * passed, _AT_ONCE * self._rate)


async def _follow(
    control: Control,
    running: Running | RunningEnsemble,
    selection: Selection,
    ration: _Ration,
    past: int,
    style: str,
    form: str,
    send: Send,
) -> None:
    """Send lines until cancelled.

    :param past: the number of past entries to read first.
    :param style: of :data:`.trace.FORMATS`.
    :param form: converts a line.
    """
    lines = LineBuffer(lambda count: form.format(lost_line(count, style)))
    more = trio.Event()

    def tell(traced: Traced) -> None:
        lines.add(form.format(traced.as_line(style)))
        more.set()

    def may_look() -> bool:
        if ration.take():
            return True
        more.set()
        return False

    def requests() -> int:
        return sum(part.engine.stats.packets_received for part in running.each())

    for traced in tell_past(running, selection, past):
        tell(traced)
    tracer = Tracer(running, selection, tell, may_look)
    control.followers += 1
    try:
        await send(b"")  # from here on the client knows that nothing is missed
        while True:
            while piece := lines.peek(_PIECE):
                await send(piece)
                lines.took(len(piece))
            more = trio.Event()
            if ration.is_over:
                tracer.stop()
                before = requests()
                await ration.wait()
                lines.add(form.format(lost_line(requests() - before, style, _TOO_MANY)))
                tracer = Tracer(running, selection, tell, may_look)
            else:
                await more.wait()
    finally:
        tracer.stop()
        control.followers -= 1


ROUTES: Final[tuple[Route, ...]] = (
    Route(
        "GET",
        "/trace",
        _trace,
        "Follow the trace: a line for each request, reply, event, session and fault.",
        {
            "op": Field(
                "string", "operations such as create, separated by commas (default: all except ping)"
            ),
            "path": Field("string", "a glob; * matches a text without a slash, and ** matches any text"),
            "session": Field("string", SESSION),
            "past": Field(
                "integer",
                f"the number of past entries to send first, at most {_MOST_PAST} (default: 0)",
            ),
            "rate": Field(
                "number",
                "the largest number of entries that are read in a second (default: no limit)",
            ),
            "format": Field("string", "the form of the answer (default: text)", choices=FORMATS),
        },
        answer="Lines until the client disconnects. With `Accept: text/event-stream` the lines are events.",
        needs_history=False,
    ),
)
