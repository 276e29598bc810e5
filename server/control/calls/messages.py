"""Planned faults, and messages that are held."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, get_args

from ....protocol import errors
from ...testing.faults import Action
from ...testing.holding import MESSAGE_KINDS
from .. import forms
from ..routes import ApiError, Ask, Field, Route, look_up

if TYPE_CHECKING:
    from ..control import Control


_MAX_FAULTS: Final = 1000
_MAX_HOLDS: Final = 1000


def _faults(control: Control, ask: Ask) -> Any:
    return {"faults": [forms.fault_form(number, fault) for number, fault in control.faults.items()]}


def _new_fault(control: Control, ask: Ask) -> Any:
    if len(control.faults) >= _MAX_FAULTS:
        raise ApiError(409, f"there are {_MAX_FAULTS} faults already; delete some")
    given = with_session(control, ask)
    if "error" in given:
        given["error"] = _error(given["error"])
    fault = control.controls.fault(**given, required=False)
    fault.__enter__()
    number = control.number()
    control.faults[number] = fault
    return forms.fault_form(number, fault)


def _error(given: str | int) -> int:
    if isinstance(given, int):
        return given
    found = getattr(errors, given, None) or getattr(errors, f"{given}Error", None)
    code = getattr(found, "code", None)
    if not isinstance(code, int):
        raise ApiError(400, f"error is a code such as -101, or a name such as NoNode, not {given!r}")
    return code


def _fault(control: Control, ask: Ask) -> Any:
    return forms.fault_form(*look_up(control.faults, ask.values["fault"], "fault"))


def _delete_fault(control: Control, ask: Ask) -> Any:
    number, fault = look_up(control.faults, ask.values["fault"], "fault")
    fault.__exit__(None, None, None)
    del control.faults[number]
    return forms.fault_form(number, fault)


def _held(control: Control, ask: Ask) -> Any:
    return {"messages": [forms.message_form(message) for message in control.controls.held()]}


def _hold(control: Control, ask: Ask) -> Any:
    if len(control.controls.holds()) >= _MAX_HOLDS:
        raise ApiError(409, f"there are {_MAX_HOLDS} holds already; delete some")
    return {"hold": control.controls.hold(**with_session(control, ask))}


def _holds(control: Control, ask: Ask) -> Any:
    return {"holds": control.controls.holds()}


def _stop_holding(control: Control, ask: Ask) -> Any:
    hold, _ = look_up(dict.fromkeys(control.controls.holds()), ask.values["hold"], "hold")
    control.controls.stop_holding(hold)
    return {}


def _stop_all(control: Control, ask: Ask) -> Any:
    control.controls.stop_holding()
    return {}


def _release(control: Control, ask: Ask) -> Any:
    numbers = ask.values.get("messages")
    if numbers != []:  # without numbers it would release everything
        control.controls.release(*numbers or ())
    return _held(control, ask)


def _lose(control: Control, ask: Ask) -> Any:
    control.controls.lose(*ask.values["messages"])
    return _held(control, ask)


def with_session(control: Control, ask: Ask) -> dict[str, Any]:
    """The values of a request, with the id of its session."""
    given = dict(ask.values)
    if "session" in given:
        given["session"] = control.find(given["session"]).id
    return given


OP: Final = Field(
    "string|array", "an operation such as create, get_data or multi, or several operations", items="string"
)
GLOB: Final = Field("string", "a glob; * matches a text without a slash, and ** matches any text")
_SESSION: Final = Field("string", "only requests of this session")

ROUTES: Final = (
    Route("GET", "/faults", _faults, "The planned faults."),
    Route(
        "POST",
        "/faults",
        _new_fault,
        "Plan a fault for certain requests.",
        {
            "op": OP,
            "path": GLOB,
            "session": _SESSION,
            "nth": Field("integer", "the first matching request to affect, from 1"),
            "times": Field(
                "integer|null", "the number of requests to affect, from the nth on; null means all"
            ),
            "when": Field(
                "string",
                "whether the fault comes before or after the request is applied",
                choices=("before", "after"),
            ),
            "action": Field("string", "what goes wrong", choices=get_args(Action)),
            "error": Field(
                "string|integer", "for the action error: a name such as NoNode, or a code such as -101"
            ),
            "seconds": Field("number", "for the action delay: the number of seconds on the server's clock"),
        },
        serves=("fault",),
    ),
    Route(
        "GET",
        "/faults/{fault}",
        _fault,
        "One fault, with the numbers of matching and of affected requests.",
    ),
    Route("DELETE", "/faults/{fault}", _delete_fault, "End it."),
    Route(
        "POST",
        "/holds",
        _hold,
        "Hold messages back from now on, as a slow network does.",
        {
            "kind": Field(
                "string", "the kind of the messages to hold (default: request)", choices=MESSAGE_KINDS
            ),
            "op": OP,
            "path": GLOB,
            "session": Field("string", "only messages of this session"),
            "times": Field("integer|null", "the largest number of messages to hold; null means all"),
            "seconds": Field(
                "number|null",
                "the seconds for which each message is held, on the server's clock; null: until it is "
                "released",
            ),
        },
        serves=("hold",),
    ),
    Route("GET", "/holds", _holds, "The numbers of the holds in force.", serves=("holds",)),
    Route(
        "DELETE", "/holds", _stop_all, "End every hold, and release its messages.", serves=("stop_holding",)
    ),
    Route("DELETE", "/holds/{hold}", _stop_holding, "End one hold.", serves=("stop_holding",)),
    Route("GET", "/held", _held, "The messages that are held, the oldest first.", serves=("held",)),
    Route(
        "POST",
        "/held/release",
        _release,
        "Release held messages.",
        {
            "messages": Field(
                "array",
                "the numbers of the messages, in the order of their release (default: all)",
                items="integer",
            )
        },
        serves=("release",),
    ),
    Route(
        "POST",
        "/held/lose",
        _lose,
        "Throw held messages away.",
        {"messages": Field("array", "their numbers", required=True, items="integer")},
        serves=("lose",),
    ),
)
