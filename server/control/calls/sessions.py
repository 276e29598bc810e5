"""Live sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from .. import forms
from ..routes import Ask, Route

if TYPE_CHECKING:
    from ..api import Control


def _sessions(control: Control, ask: Ask) -> Any:
    return {"sessions": [forms.info_form(info, None) for info in control.controls.sessions()]}


def _session(control: Control, ask: Ask) -> Any:
    return forms.info_form(control.find(ask.values["session"]), None)


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
    return forms.info_form(info, None)


ROUTES: Final = (
    Route("GET", "/sessions", _sessions, "Every live session, the oldest first.", serves=("sessions",)),
    Route("GET", "/sessions/{session}", _session, "One live session."),
    Route("POST", "/sessions/{session}/expire", _expire, "End it as if by time.", serves=("expire",)),
    Route(
        "POST", "/sessions/{session}/disconnect", _disconnect, "Cut its connection.", serves=("disconnect",)
    ),
    Route("POST", "/sessions/{session}/pause", _pause, "Cut its client off, unnoticed.", serves=("pause",)),
    Route("POST", "/sessions/{session}/resume", _resume, "Let its client through.", serves=("resume",)),
)
