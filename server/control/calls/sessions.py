"""Live sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ....protocol.text import session_text
from ..routes import ApiError, Ask, Field, Route

if TYPE_CHECKING:
    from ..control import Control


def _sessions(control: Control, ask: Ask, *, whole: bool = False) -> Any:
    return {"sessions": [control.session_form(info) for info in control.scope(whole).sessions()]}


def _session(control: Control, ask: Ask) -> Any:
    return control.session_form(control.find(ask.values["session"]))


def _expire(control: Control, ask: Ask) -> Any:
    return _with_session(control, ask, control.controls.expire)


def _disconnect(control: Control, ask: Ask) -> Any:
    return _with_session(control, ask, control.controls.disconnect)


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
        raise ApiError(400, "give the session that has the name from now on, or the address of the next one")
    session = control.find(given["session"]) if "session" in given else None
    control.controls.name_session(given["name"], session, address=given.get("address"))
    return _names(control, ask)


ROUTES: Final = (
    Route("GET", "/sessions", _sessions, "Every live session, the oldest first.", serves=("sessions",)),
    Route("GET", "/sessions/{session}", _session, "One live session."),
    Route("POST", "/sessions/{session}/expire", _expire, "End it as if by time.", serves=("expire",)),
    Route(
        "POST", "/sessions/{session}/disconnect", _disconnect, "Cut its connection.", serves=("disconnect",)
    ),
    Route("POST", "/sessions/{session}/pause", _pause, "Cut its client off, unnoticed.", serves=("pause",)),
    Route("POST", "/sessions/{session}/resume", _resume, "Let its client through.", serves=("resume",)),
    Route("GET", "/names", _names, "The names of sessions, and those that wait for theirs."),
    Route(
        "POST",
        "/names",
        _new_name,
        "Name the next new session, or one that lives; timelines use the name.",
        {
            "name": Field("string", "letters, digits, dots, dashes and underscores", required=True),
            "address": Field("string", "only a session from here: 127.0.0.1, or with a port"),
            "session": Field("string", "a session that lives"),
        },
        serves=("name_session",),
    ),
)
