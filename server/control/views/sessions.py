"""Sessions and their clients."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final, cast

from ....protocol.text import session_text
from ...core.sessions import Session
from ...testing.finding import live_sessions
from ...testing.operations import name_of
from ...testing.programs import find_programs
from ...testing.sessions import UnknownSessionError
from ..calls.endpoints import endpoint_form
from ..routes import Ask, Route
from .common import (
    AFTER,
    LIMIT,
    TEXT,
    client_forms,
    connected_at,
    identity_forms,
    limit_of,
    servers_of,
    text_filter,
)
from .turns import Turns, first_names
from .watches import watch_form

if TYPE_CHECKING:
    from ...ensemble.serving import MemberService
    from ..control import Control

_SHOWN: Final = 200
"""The largest number of ephemerals in the answer about one session, and the largest number of watches."""


async def _clients(control: Control, ask: Ask) -> Any:
    engine, limit = control.controls.running.engine, limit_of(ask.values)
    wanted, turns = text_filter(ask.values), Turns()
    known: dict[str, Session] = {}

    def is_wanted(form: str) -> bool:
        words = [
            form,
            control.controls.running.names[known[form].id] or "",
            client_forms(control, known[form])["peer"] or "",
        ]
        return any(map(wanted, words))

    for session in list(engine.sessions):
        known[session_text(session.id)] = session
        await turns.pause()
    found, more = await first_names([list(known)], is_wanted, limit, turns, after=ask.values.get("after", ""))
    await find_programs(servers_of(control))
    return {
        "count": len(engine.sessions),
        "clients": [_client_form(control, known[form]) for form in found],
        "more": more,
    }


def _left(control: Control, session: Session) -> int | None:
    """Return the remaining time of a session in ms. None if this server does not have this time: in an
    ensemble only the leader has it, except for local sessions."""
    running = control.controls.running
    counting: Session | None = session
    if control.controls.ensemble is not None:
        member = cast("MemberService", running.service).member
        if session.id not in member.engine.tracker.local:
            counting = None if member.own_leader is None else member.own_leader.sessions.get(session.id)
    return None if counting is None else max(0, counting.deadline - running.service.at(running.clock.now()))


def _client_form(control: Control, session: Session) -> dict[str, Any]:
    running, (at, connection) = control.controls.running, connected_at(control, session)
    engine, now = running.engine, running.clock.now()
    endpoint = running.names[session.id] if connection is None else connection.endpoint
    form: dict[str, Any] = {
        "id": session_text(session.id),
        "name": running.names[session.id],
        **client_forms(control, session),
        "server": 0 if connection is None else at.service.server_id,
        "endpoint": endpoint_form(at, endpoint) if endpoint in at.endpoints else None,
        "timeout_ms": session.timeout,
        "left_ms": _left(control, session),
        "ephemerals": len(engine.tree.ephemerals.get(session.id, ())),
        "paused": session.id in at.gate.cut_off,
    }
    if connection is None:
        return form | {"watches": 0, "auth": []}
    own = connection.stats
    last = own.last[0]
    return form | {
        "watches": len(at.engine.watches.watchers.get(connection, ())),
        "auth": identity_forms(connection.identities),
        "requests": own.received,
        "outstanding": connection.outstanding,
        "last_op": None if last is None else name_of(last),
        "last_ms": max(0, round((now - own.last_response) * 1000)),
        "latency_ms": own.last_latency,
        "established": round(own.established * 1000),
    }


async def _client(control: Control, ask: Ask) -> Any:
    engine, given = control.controls.running.engine, ask.values["session"]
    for number in live_sessions(control.controls.running, given):
        session = engine.sessions.get(number)
        if session is not None:
            break
    else:
        raise UnknownSessionError(f"there is no session {given}; GET /clients lists the live sessions")
    await find_programs(servers_of(control))
    at, connection = connected_at(control, session)
    watched, engine = [], at.engine
    if connection is not None:
        paths = islice(engine.watches.watchers.get(connection, ()), _SHOWN)
        modes = ((path, engine.watches.modes_of(path, connection)) for path in paths)
        watched = [{"path": path} | watch_form(engine, path, connection, *each) for path, each in modes]
    return _client_form(control, session) | {
        "ephemeral_paths": list(islice(engine.tree.ephemerals.get(session.id, ()), _SHOWN)),
        "watched": watched,
    }


ROUTES: Final = (
    Route(
        "GET",
        "/clients",
        _clients,
        "The live sessions with their clients, in the order of the ids.",
        {"after": AFTER, "text": TEXT, "limit": LIMIT},
        answer="The sessions, the number of all sessions, and whether there are more sessions after these.",
        needs_history=False,
    ),
    Route(
        "GET",
        "/clients/{session}",
        _client,
        f"One session, with its first {_SHOWN} ephemerals and watches.",
        answer="The session.",
        needs_history=False,
    ),
)
