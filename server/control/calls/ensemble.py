"""A pretend ensemble: what a test does to its servers. Any of its servers answers for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import attrs

from ..routes import Ask, Field, Route
from ..views.common import zxid_form
from . import following, past, sessions

if TYPE_CHECKING:
    from ...ensemble.member import Member
    from ...ensemble.serving import MemberService
    from ...testing.ensemble import EnsembleControls
    from ..api import Control

_SERVER = Field("integer", "the number of the server", required=True)
_AT = Field("integer", "only what happens at the server of this number")
_SESSION = Field("string", "an id, a name, the address of a client, or owner-of:PATH", required=True)
_SERVERS = Field("array", "the numbers of the servers; all if it is left out", items="integer")
_SILENT = Field("boolean", "whether the links are silent instead of reset; true if it is left out")

_OF_ALL: Final = ("/sessions", "/leaks", "/history", "/timeline", "/notes", "/advice", "/trace")
"""Routes of one server that there are for all together, too."""


def _ensemble(control: Control) -> EnsembleControls:
    return cast("EnsembleControls", control.scope(whole=True))


def _show(control: Control, ask: Ask) -> Any:
    controls = _ensemble(control)
    own = cast("MemberService", control.controls.running.service).member
    leader = controls.leader()  # comes after what clients have sent already
    ensemble = own.ensemble
    return {
        "hosts": controls.hosts,
        "server": own.number,
        "leader": leader,
        "zxid": None if leader is None else zxid_form(controls.zxid()),
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
        "lags_at": None if member.stands_at is None else zxid_form(member.stands_at),
        "cuts": [{"server": other, "silent": silent} for other, silent in links.cuts_of(member)],
    }


def _verb(name: str) -> Any:
    """Make the handler of a verb: its fields are the arguments of the method with that name."""

    def handle(control: Control, ask: Ask) -> Any:
        values = dict(ask.values)
        if "session" in values:
            values["session"] = control.find_any(values["session"], whole=True)
        several = values.pop("servers", None) or values.pop("groups", None) or ()
        getattr(_ensemble(control), name)(*several, **values)
        return _show(control, ask)

    return handle


def _of_all(route: Route) -> Route:
    """Make a route for one server one for all servers of the ensemble together."""
    handler: Any = route.handler
    return attrs.evolve(
        route,
        path=f"/ensemble{route.path}",
        handler=partial(handler, whole=True),
        summary=f"{route.summary.removesuffix('.')}, at all servers of an ensemble.",
        fields={**route.fields, **({"server": _AT} if route.path == "/trace" else {})},
        serves=(),
    )


VERBS: Final[Mapping[str, tuple[str, Mapping[str, Field]]]] = {
    "lag": (
        "Let a server stand still in the log, or apply it late: reads are answered with old data.",
        {
            "server": _SERVER,
            "seconds": Field("number", "it does not stand, but takes what the leader sends so much later"),
            "upto": Field("integer", "the zxid at which it stands; by default, without seconds, its own"),
        },
    ),
    "release": ("End lag.", {"servers": _SERVERS}),
    "isolate": ("Cut a server off from all others.", {"server": _SERVER, "silent": _SILENT}),
    "partition": (
        "Cut all links between groups of servers.",
        {"groups": Field("array", "lists of numbers", required=True, items="array"), "silent": _SILENT},
    ),
    "heal": ("Join what was cut.", {"servers": _SERVERS}),
    "freeze": ("Stop a process: it reads and writes nothing, and its clocks stand.", {"server": _SERVER}),
    "thaw": ("End freeze.", {"server": _SERVER}),
    "kill": (
        "End a process: its connections are closed, and its port refuses.",
        {
            "server": _SERVER,
            "pending": Field(
                "string", "of a leader: what becomes of writes under way", choices=("lost", "applied")
            ),
        },
    ),
    "start": (
        "Start a process that was killed; or a further server, with a new number.",
        {"server": _SERVER, "observer": Field("boolean", "whether a further server is an observer")},
    ),
    "reconfig": (
        "Change the members, as a client that may do everything would.",
        {
            "joining": Field("string", "lines of servers that join or change, separated by commas"),
            "leaving": Field("string", "numbers of servers, separated by commas"),
            "new_members": Field("string", "the lines of all servers, instead of the other two"),
            "from_config": Field("integer", "the version that the configuration must have; any if left out"),
        },
    ),
    "elect": (
        "Let the leader resign, and the next epoch begin at once.",
        {"to": Field("integer", "the number of the next leader")},
    ),
    "roll": ("Restart each server, the leader last.", {}),
    "hold_proposals": ("Let writes stay in the leader alone.", {}),
    "hold_acks": ("Let writes stay proposals that all servers have logged.", {}),
    "release_acks": ("End hold_proposals and hold_acks.", {}),
    "expire": ("End a session at the leader, as if by time; the others follow.", {"session": _SESSION}),
    "disconnect": ("Cut the connection of a session, at whichever server.", {"session": _SESSION}),
    "move": (
        "Have the client of a session go on at another server: until it has come, all others refuse it.",
        {"session": _SESSION, "server": _SERVER},
    ),
    "nemesis": (
        "Let trouble come by chance from now on, until calm.",
        {
            "seed": Field("integer", "the same seed makes the same trouble", required=True),
            "rate": Field("number", "how often, per second of the servers' clock; 1 if it is left out"),
        },
    ),
    "calm": ("End a nemesis and all other trouble.", {}),
    "advance": (
        "Let the time of all servers jump ahead.",
        {
            "seconds": Field("number", "how far", required=True),
            "keep_alive": Field("boolean", "whether connected clients count as having sent their pings"),
        },
    ),
}
"""The verbs of :class:`.ensemble.EnsembleControls`, each with its summary and its fields."""

ROUTES: Final = (
    Route(
        "GET",
        "/ensemble",
        _show,
        "The servers of a pretend ensemble: their roles, positions in the log, links and connections.",
        serves=("ensemble",),
        answer="The servers; `server` is the one that answers, `behind` counts entries of the log.",
        needs_history=False,
    ),
    *(
        Route("POST", f"/ensemble/{name}", _verb(name), summary, fields, answer="The servers, after it.")
        for name, (summary, fields) in VERBS.items()
    ),
    *(
        _of_all(route)
        for route in (*sessions.ROUTES, *past.ROUTES, *following.ROUTES)
        if route.path in _OF_ALL
    ),
)
