"""History, timeline and advice."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from ...net.http import Response
from ...net.importing import load
from ...testing.controls.history import timeline_of
from ...testing.controls.sessions import leak_of
from ...testing.history import selector
from ...testing.programs import find_programs
from .. import forms
from ..routes import ApiError, Ask, Field, Route, answer_text
from ..views.turns import Turns

if TYPE_CHECKING:
    from ..control import Control


_MOST_NOTED: Final = 10_000  # characters
_MOST_ENTRIES: Final = 2**63
_LARGEST: Final = 16 * 2**20
"""The largest number of bytes of entries in one answer. Older entries are left out."""


async def _history(control: Control, ask: Ask, *, whole: bool = False) -> Response:
    """Describe the last entries, in turns (:mod:`..views.turns`). Begin with the last entry, and end when the
    answer has enough entries."""
    given, running, turns = dict(ask.values), control.scope(whole).running, Turns()
    if "session" in given:
        given["session"] = control.find_any(given["session"], whole)
    if "kind" in given:
        given["kind"] = given["kind"].split(",")
    limit = max(0, given.pop("limit", _MOST_ENTRIES))
    wanted = selector(**given)
    running.receive()
    found: list[bytes] = []  # the last one first
    size = 0
    for entry in () if running.told is None else running.told.latest():
        if len(found) >= limit or size > _LARGEST:
            break
        if wanted(entry):
            form = forms.entry_form(entry, control.controls.running.names[entry.session])
            found.append(json.dumps(form, ensure_ascii=False).encode())
            size += len(found[-1])
        await turns.pause()
    headers = {"content-type": "application/json"}
    return Response(200, b'{"entries": [' + b", ".join(reversed(found)) + b"]}\n", headers)


async def _timeline(control: Control, ask: Ask, *, whole: bool = False) -> Any:
    given = dict(ask.values)
    kind = given.pop("format", "text")
    if "sessions" in given:
        given["sessions"] = [control.find_any(each, whole) for each in given["sessions"].split(",")]
    scope = control.scope(whole)
    scope.running.receive()
    await find_programs(scope.running.each())
    timeline = await Turns().finish(timeline_of(scope, **given))
    return answer_text(timeline) if kind == "text" else {"timeline": timeline}


def _note(control: Control, ask: Ask, *, whole: bool = False) -> Any:
    text = ask.values["text"]
    if len(text) > _MOST_NOTED:
        raise ApiError(400, f"a note has at most {_MOST_NOTED:,} characters, not {len(text):,}")
    control.scope(whole).note(text)
    return {}


async def _leaks(control: Control, ask: Ask, *, whole: bool = False) -> Any:
    running, turns, size = control.scope(whole).running, Turns(), 0
    running.receive()
    leading, *others = running.leader_first()
    leaks: list[str] = []
    sessions = [session for session in leading.engine.sessions if not session.closed]
    for number, session in enumerate(sessions, 1):
        if session.closed:
            continue
        leaks.append(leak_of(leading, session, others))
        size += len(leaks[-1])
        if size > _LARGEST:
            leaks.append(f"and {len(sessions) - number:,} more sessions")
            break
        await turns.pause()
    return {"leaks": leaks}


async def _advice(control: Control, ask: Ask, *, whole: bool = False) -> Any:
    await load("pyzk.server.testing.advisor.engine")
    running, turns = control.scope(whole).running, Turns()
    running.receive()
    for _ in running.advising():
        await turns.pause()
    findings = []
    for found in running.findings():  # at most 100 of each rule
        findings.append(forms.finding_form(found, running.names.all))
        await turns.pause()
    return {"findings": findings}


_SINCE: Final = Field("number", "seconds on the server's clock since its start")

ROUTES: Final = (
    Route(
        "GET",
        "/history",
        _history,
        "The history, the oldest entry first. If it is longer than 16 MiB, only its last entries are "
        "returned.",
        {
            "session": Field("string", "the id or the name of a session; the session can be over"),
            "kind": Field(
                "string", "kinds such as request, reply, event, session or fault, separated by commas"
            ),
            "op": Field("string", "such as create"),
            "path": Field("string", "a glob"),
            "since": _SINCE,
            "limit": Field("integer", "the largest number of entries; the last entries are returned"),
        },
        serves=("history",),
    ),
    Route(
        "GET",
        "/timeline",
        _timeline,
        "The history as text, with a column for each session. If it is longer than 1 MiB, only its last "
        "lines are returned.",
        {
            "format": Field("string", "the form of the answer (default: text)", choices=("text", "json")),
            "sessions": Field(
                "string", "the ids or names of the sessions to show, separated by commas (default: all)"
            ),
            "pings": Field("boolean", "whether pings are shown"),
            "width": Field(
                "integer",
                "the width in characters, at least 60 (default: 120, or the width of up to 12 columns)",
            ),
            "limit": Field("integer", "the largest number of lines; the last lines are returned"),
            "since": _SINCE,
        },
        serves=("format_timeline",),
    ),
    Route(
        "POST",
        "/notes",
        _note,
        "Write a line into the timeline.",
        {"text": Field("string", "the line", required=True)},
        serves=("note",),
    ),
    Route(
        "GET", "/leaks", _leaks, "The znodes and sessions that clients have left behind.", serves=("leaks",)
    ),
    Route(
        "GET",
        "/advice",
        _advice,
        "The mistakes of clients, and what the clients should do instead.",
        {
            "begin": Field(
                "boolean",
                "false: return the entries that are recorded already, but do not start the recording",
            )
        },
        serves=("advice",),
    ),
)
