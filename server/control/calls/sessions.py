"""Live sessions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from ....protocol.text import session_text
from ...net.http import Response
from ...testing.controls.sessions import MOST_PATHS, info_of
from ..routes import ApiError, Ask, Field, Route
from ..views.turns import Turns

if TYPE_CHECKING:
    from ..control import Control


_PATHS: Final = 16 * 2**20
"""When an answer has this number of bytes, further sessions are listed without paths."""
_LARGEST: Final = 64 * 2**20
"""Bytes of an answer."""


async def _sessions(control: Control, ask: Ask, *, whole: bool = False) -> Any:
    running, turns, size = control.scope(whole).running, Turns(), 0
    running.receive()
    leading, *others = running.leader_first()
    pieces: list[bytes] = []
    for session in list(leading.engine.sessions):
        if session.closed:
            continue
        paths = MOST_PATHS if size < _PATHS else 0
        form = control.session_form(info_of(leading, session, paths, others))
        pieces.append(json.dumps(form, ensure_ascii=False).encode())
        size += len(pieces[-1])
        if size > _LARGEST:
            raise ApiError(409, f"the list of sessions is longer than {_LARGEST >> 20} MiB; use GET /clients")
        await turns.pause()
    return Response(
        200, b'{"sessions": [' + b", ".join(pieces) + b"]}\n", {"content-type": "application/json"}
    )


def _session(control: Control, ask: Ask) -> Any:
    return control.session_form(control.find(ask.values["session"]))


def _expire(control: Control, ask: Ask) -> Any:
    return _with_session(control, ask, control.controls.expire)


def _disconnect(control: Control, ask: Ask) -> Any:
    return _with_session(control, ask, control.controls.disconnect)


def _ghost(control: Control, ask: Ask) -> Any:
    swap = ask.values.get("swap", False)
    return _with_session(control, ask, lambda session: control.controls.ghost(session, swap=swap))


def _pause(control: Control, ask: Ask) -> Any:
    return _with_session(control, ask, control.controls.pause)


def _resume(control: Control, ask: Ask) -> Any:
    return _with_session(control, ask, control.controls.resume)


def _with_session(control: Control, ask: Ask, act: Any) -> Any:
    info = control.find(ask.values["session"])
    act(info.id)
    return control.session_form(info)


def _names(control: Control, ask: Ask) -> Any:
    names = control.controls.running.names
    given = {session_text(session): name for session, name in names.all.items()}
    return {"sessions": given, "expected": names.expected}


def _new_name(control: Control, ask: Ask) -> Any:
    given = ask.values
    if "session" in given and "address" in given:
        raise ApiError(
            400,
            "give session (this session gets the name now), or address (the next session from this "
            "address gets the name)",
        )
    session = control.find(given["session"]) if "session" in given else None
    control.controls.name_session(given["name"], session, address=given.get("address"))
    return _names(control, ask)


_LISTED: Final = (
    "All live sessions, the oldest first, with at most 256 KiB of paths for each session and 16 MiB in all."
)

ROUTES: Final = (
    Route(
        "GET",
        "/sessions",
        _sessions,
        _LISTED,
        serves=("sessions",),
    ),
    Route("GET", "/sessions/{session}", _session, "One live session."),
    Route(
        "POST",
        "/sessions/{session}/expire",
        _expire,
        "End the session, as if its timeout had passed.",
        serves=("expire",),
    ),
    Route(
        "POST", "/sessions/{session}/disconnect", _disconnect, "Cut its connection.", serves=("disconnect",)
    ),
    Route(
        "POST",
        "/sessions/{session}/ghost",
        _ghost,
        "Make the session a ghost: its client does not get the session back.",
        {"swap": Field("boolean", "true: a client that tries to resume this session gets a new session")},
        serves=("ghost",),
    ),
    Route(
        "POST",
        "/sessions/{session}/pause",
        _pause,
        "Stop all traffic with the client of the session, without closing the connection.",
        serves=("pause",),
    ),
    Route("POST", "/sessions/{session}/resume", _resume, "End the pause of the session.", serves=("resume",)),
    Route("GET", "/names", _names, "The names of sessions, and the names that wait for a session."),
    Route(
        "POST",
        "/names",
        _new_name,
        "Give a name to the next new session or to a live session. Timelines use the name.",
        {
            "name": Field("string", "letters, digits, dots, dashes and underscores", required=True),
            "address": Field(
                "string", "only a session from this address, such as 127.0.0.1 or 127.0.0.1:40000"
            ),
            "session": Field("string", "a session that lives"),
        },
        serves=("name_session",),
    ),
)
