"""Endpoints: further addresses of the server, each for some of its clients."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ...testing.controls.endpoints import Endpoint, delay_of
from .. import forms
from ..routes import ApiError, Ask, Field, Route

if TYPE_CHECKING:
    from ...testing.running import Running
    from ..control import Control


def endpoint_form(running: Running, name: str) -> dict[str, Any]:
    """Return the description of one endpoint, without its clients."""
    delay = delay_of(running, name)
    return {
        "endpoint": name,
        "hosts": forms.address_form(running.endpoints[name]),
        "cut": name in running.gate.cut_endpoints,
        "paused": name in running.gate.paused_endpoints,
        "delay": 0 if delay is None else delay.seconds,
    }


def with_clients(running: Running, name: str) -> dict[str, Any]:
    """Return the description of one endpoint."""
    clients = sum(each.endpoint == name for each in running.service.connections)
    return endpoint_form(running, name) | {"connections": clients}


def _all(control: Control, ask: Ask) -> Any:
    running = control.controls.running
    running.receive()
    return {"endpoints": [with_clients(running, name) for name in running.endpoints]}


def _new(control: Control, ask: Ask) -> Any:
    return with_clients(control.controls.running, control.controls.endpoint(ask.values["name"]).name)


def _find(control: Control, ask: Ask) -> Endpoint:
    name = ask.values["endpoint"]
    known = control.controls.running.endpoints
    if name not in known:
        raise ApiError(404, f"there is no endpoint {name}; there are: {', '.join(known) or 'none'}")
    return control.controls.endpoint(name)


def _one(control: Control, ask: Ask) -> Any:
    return with_clients(control.controls.running, _find(control, ask).name)


def _doing(act: Callable[[Endpoint], None]) -> Any:
    def handle(control: Control, ask: Ask) -> Any:
        act(_find(control, ask))
        return _one(control, ask)

    return handle


def _delay(control: Control, ask: Ask) -> Any:
    _find(control, ask).delay(ask.values["seconds"])
    return _one(control, ask)


ROUTES: Final = (
    Route("GET", "/endpoints", _all, "Every endpoint."),
    Route(
        "POST",
        "/endpoints",
        _new,
        "Return the endpoint with this name, which is created if it does not exist. A cut, a pause and a "
        "delay of the endpoint affect no other address.",
        {"name": Field("string", "letters, digits, dots, dashes and underscores", required=True)},
        serves=("endpoint",),
    ),
    Route("GET", "/endpoints/{endpoint}", _one, "One endpoint."),
    Route(
        "POST",
        "/endpoints/{endpoint}/cut",
        _doing(Endpoint.cut),
        "Close the connections of the endpoint, and each new connection to it.",
    ),
    Route(
        "POST",
        "/endpoints/{endpoint}/pause",
        _doing(Endpoint.pause),
        "Stop all traffic on the connections of the endpoint.",
    ),
    Route(
        "POST",
        "/endpoints/{endpoint}/delay",
        _delay,
        "Delay each request and each event.",
        {"seconds": Field("number", "the delay, in seconds on the server's clock", required=True)},
    ),
    Route(
        "POST",
        "/endpoints/{endpoint}/resume",
        _doing(Endpoint.resume),
        "End the cut, the pause and the delay of the endpoint.",
    ),
)
