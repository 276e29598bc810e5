"""A pretend ensemble: what a test does to its servers. Any of its servers answers for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from ..routes import ApiError, Ask, Field, Route
from ..views.common import zxid_form

if TYPE_CHECKING:
    from ...ensemble.member import Member
    from ...ensemble.serving import MemberService
    from ...testing.ensemble import EnsembleControls
    from ..api import Control

_SERVER = Field("integer", "the number of the server", required=True)
_SERVERS = Field("array", "the numbers of the servers; all if it is left out", items="integer")
_SILENT = Field("boolean", "whether the links are silent instead of reset; true if it is left out")


def _ensemble(control: Control) -> EnsembleControls:
    ensemble = control.controls.ensemble
    if ensemble is None:
        raise ApiError(409, "this is a single server; use --ensemble, or POST /servers with ensemble")
    return ensemble


def _show(control: Control, ask: Ask) -> Any:
    controls = _ensemble(control)
    own = cast("MemberService", control.controls.running.service).member
    leader = controls.leader()  # comes after what clients have sent already
    ensemble = own.ensemble
    return {
        "hosts": controls.hosts,
        "server": own.number,
        "leader": leader,
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
        "votes": member.votes,
        "epoch": zxid_form(member.epoch),
        "zxid": zxid_form(member.engine.zxid),
        "behind": log.committed - member.position,
        "connections": len(service.connections),
        "outstanding": service.outstanding(),
        "troubles": controls.troubles(number),
        "lags_at": None if member.stands_at is None else zxid_form(member.stands_at),
        "cuts": [{"server": other, "silent": silent} for other, silent in links.cuts_of(member)],
    }


def _verb(name: str) -> Any:
    """Make the handler of a verb: its fields are the arguments of the method with that name."""

    def handle(control: Control, ask: Ask) -> Any:
        ensemble = _ensemble(control)
        values = dict(ask.values)
        several = values.pop("servers", None) or values.pop("groups", None) or ()
        getattr(ensemble, name)(*several, **values)
        return _show(control, ask)

    return handle


def _timeline(control: Control, ask: Ask) -> Any:
    return {"timeline": _ensemble(control).format_timeline(**ask.values)}


VERBS: Final[Mapping[str, tuple[str, Mapping[str, Field]]]] = {
    "lag": (
        "Let a server stand still in the log: it answers reads with old data, and nothing else.",
        {"server": _SERVER, "upto": Field("integer", "the zxid at which it stands; by default its own")},
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
    "start": ("Start a process that was killed.", {"server": _SERVER}),
    "elect": (
        "Let the leader resign, and the next epoch begin at once.",
        {"to": Field("integer", "the number of the next leader")},
    ),
    "roll": ("Restart each server, the leader last.", {}),
    "hold_proposals": ("Let writes stay in the leader alone.", {}),
    "hold_acks": ("Let writes stay proposals that all servers have logged.", {}),
    "release_acks": ("End hold_proposals and hold_acks.", {}),
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
    Route(
        "GET",
        "/ensemble/timeline",
        _timeline,
        "The history of all servers as text, with the number of the server in each line.",
        {
            "limit": Field("integer", "at most so many lines, the last ones"),
            "width": Field("integer", "in characters"),
            "since": Field("number", "seconds since the start"),
        },
        answer="The timeline.",
    ),
)
