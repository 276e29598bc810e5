"""Faults by chance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ...testing.chaos import FAULTS, Chaos
from .. import forms
from ..routes import ApiError, Ask, Field, Route, look_up
from .messages import GLOB, OP, with_session

if TYPE_CHECKING:
    from ..control import Control


_MAX: Final = 100
"""The largest number of chaos objects that are in force at the same time. Each chaos checks every message."""


def _form(number: int, chaos: Chaos) -> Any:
    return {
        "chaos": number,
        "seed": chaos.seed,
        "probabilities": dict(chaos.probabilities),
        "counts": dict(chaos.counts),
    }


def _all(control: Control, ask: Ask) -> Any:
    return {"chaos": [_form(number, chaos) for number, chaos in control.chaos.items()]}


def _new(control: Control, ask: Ask) -> Any:
    if len(control.chaos) >= _MAX:
        raise ApiError(409, f"there are {_MAX} chaos in force already; delete some")
    chaos = control.controls.chaos(**with_session(control, ask))
    number = control.number()
    control.chaos[number] = chaos
    return _form(number, chaos)


def _one(control: Control, ask: Ask) -> Any:
    number, chaos = look_up(control.chaos, ask.values["chaos"], "chaos")
    return _form(number, chaos) | {"injected": [forms.injected_form(each) for each in chaos.injected]}


def _delete(control: Control, ask: Ask) -> Any:
    number, chaos = look_up(control.chaos, ask.values["chaos"], "chaos")
    chaos.end()
    del control.chaos[number]
    return _form(number, chaos)


_PROBABILITY: Final = Field("number", "the probability of this fault, from 0 to 1 (default: 0)")

ROUTES: Final = (
    Route("GET", "/chaos", _all, "Every chaos in force."),
    Route(
        "POST",
        "/chaos",
        _new,
        "Inject random faults into messages from now on; the same seed and requests give the same faults.",
        {
            "seed": Field("integer", "the seed of all random numbers", required=True),
            **dict.fromkeys(FAULTS, _PROBABILITY),
            "longest": Field("number", "the longest delay, in seconds on the server's clock (default: 0.1)"),
            "op": OP,
            "path": GLOB,
            "session": Field("string", "only messages of this session"),
        },
        serves=("chaos",),
    ),
    Route(
        "GET",
        "/chaos/{chaos}",
        _one,
        "One chaos, with the number and the kinds of the faults that it has injected.",
    ),
    Route("DELETE", "/chaos/{chaos}", _delete, "End it."),
)
