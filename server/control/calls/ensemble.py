"""The verbs of a pretend ensemble. Each server of the ensemble answers for all servers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import attrs

from ....protocol.control_verbs import VERBS, Argument, ControlVerb, Kind
from ..routes import ApiError, Ask, Field, Route
from ..views.common import zxid_form
from . import following, past, server, sessions

if TYPE_CHECKING:
    from ...ensemble.member import Member
    from ...ensemble.serving import MemberService
    from ...testing.controls.ensemble import EnsembleControls
    from ..control import Control

_SERVER: Final = "integer|string"
_JSON: Final[Mapping[Kind, tuple[str, str]]] = {
    "server": (_SERVER, "any"),
    "servers": ("array", _SERVER),
    "groups": ("array", "array"),
    "session": ("string", "any"),
    "seconds": ("number", "any"),
    "number": ("number", "any"),
    "integer": ("integer", "any"),
    "zxid": ("integer|string", "any"),
    "text": ("string", "any"),
    "boolean": ("boolean", "any"),
}
"""The JSON types by kind of argument: the type of the value, and the type of its items if it is an array."""
_AT = Field("integer", "only entries of the server with this number")

_OF_ALL: Final = ("/sessions", "/leaks", "/history", "/timeline", "/notes", "/advice", "/trace")
"""The routes of one server that also exist for all servers together."""


def _ensemble(control: Control) -> EnsembleControls:
    return cast("EnsembleControls", control.scope(whole=True))


def _show(control: Control, ask: Ask) -> Any:
    controls = _ensemble(control)
    own = cast("MemberService", control.controls.running.service).member
    leader = controls.leader()  # comes after what clients have sent already
    ensemble = controls.running.host.ensemble
    current = ensemble.current_leader()  # or none does, and an old one does not know yet
    return {
        "hosts": controls.hosts,
        "server": own.number,
        "leader": leader,
        "zxid": None if current is None else zxid_form(controls.zxid()),
        "holding": ensemble.holding,
        "servers": [_form(controls, member) for member in ensemble.members.values()],
    }


def _form(controls: EnsembleControls, member: Member) -> Any:
    service, log, links = member.service, member.ensemble.log, member.ensemble.links
    own, number = controls[member.number], member.number
    return {
        "server": number,
        "hosts": own.hosts,
        "port": own.port,
        "secure_port": own.secure_port,
        "role": member.role,
        "votes": member.ensemble.config.may_lead(number),
        "epoch": zxid_form(member.epoch),
        "zxid": zxid_form(member.engine.zxid),
        "behind": log.committed - member.position,
        "connections": len(service.connections),
        "outstanding": service.outstanding(),
        "troubles": controls.troubles(number),
        "lags_by": member.delay / 1000,
        "lags_at": None if member.paused_at_zxid is None else zxid_form(member.paused_at_zxid),
        "cuts": [{"server": other, "silent": silent} for other, silent in links.cuts_of(member)],
    }


def _handler(name: str, verb: ControlVerb) -> Any:
    """Make the handler of a verb. The fields of the request are the arguments of the method with the name of
    the verb."""

    def handle(control: Control, ask: Ask) -> Any:
        values = {
            field: _read(control, verb.arguments[field].kind, ask.values[field]) for field in ask.values
        }
        several = values.pop("servers", None) or values.pop("groups", None) or ()
        getattr(_ensemble(control), name)(*several, **values)
        return _show(control, ask)

    return handle


async def _advance(control: Control, ask: Ask) -> Any:
    controls = _ensemble(control)
    VERBS["advance"].check(ask.values)
    await server.in_turns(controls, ask.values["seconds"], ask.values.get("keep_alive", False))
    return _show(control, ask)


def _read(control: Control, kind: Kind, value: Any) -> Any:
    """Convert the JSON value of a field into the value of an argument. A zxid can be text such as
    0x100000002, as in all answers."""
    if kind == "session":
        return control.find_any(value, whole=True)
    if kind != "zxid" or not isinstance(value, str):
        return value
    try:
        return int(value, 0)
    except ValueError:
        raise ApiError(400, f"a zxid is a number, or text such as 0x100000002, not {value!r}") from None


def _of_all(route: Route) -> Route:
    """Make a route for all servers of the ensemble from a route for one server."""
    handler: Any = route.handler
    return attrs.evolve(
        route,
        path=f"/ensemble{route.path}",
        handler=partial(handler, whole=True),
        summary=f"{route.summary.removesuffix('.')}, at all servers of an ensemble.",
        fields={**route.fields, **({"server": _AT} if route.path == "/trace" else {})},
        serves=(),
    )


def _field(argument: Argument) -> Field:
    kind, items = _JSON[argument.kind]
    return Field(kind, argument.whole_help, argument.required, argument.choices, items)


def _route(name: str, verb: ControlVerb) -> Route:
    summary = f"{verb.summary[0].upper()}{verb.summary[1:]}."
    fields = {field: _field(argument) for field, argument in verb.arguments.items()}
    path = f"/ensemble/{name}"
    handler = _advance if name == "advance" else _handler(name, verb)
    return Route("POST", path, handler, summary, fields, answer="The servers, after it.")


ROUTES: Final = (
    Route(
        "GET",
        "/ensemble",
        _show,
        "The servers of a pretend ensemble: their roles, positions in the log, links and connections.",
        serves=("ensemble",),
        answer="The servers. `server` is the number of the server that answers; `behind` is a number of "
        "entries of the log.",
        needs_history=False,
    ),
    *(_route(name, verb) for name, verb in VERBS.items()),
    *(
        _of_all(route)
        for route in (*sessions.ROUTES, *past.ROUTES, *following.ROUTES)
        if route.path in _OF_ALL
    ),
)
