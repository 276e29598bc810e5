"""Locks, elections, queues and other directories of known libraries. The answers say who holds them, and who
waits for whom.

:mod:`..testing.directories` recognises a directory; this module searches the tree in turns. The answer says
how many children a directory has, and how many of them were read.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from ....protocol.layouts import Layout, Participant, Wait, find_cycles, waits
from ...core.znode import Znode
from ...net.http import Response, Send
from ...testing.directories import LOOKED_AT, Found, layout_at, recognised
from ...testing.past_holds import past_holds
from ...testing.programs import find_programs
from ..routes import Ask, Field, Route
from .common import PATH, client_forms, servers_of, session_label, znode_at, zxid_form
from .tree import LINES, line
from .turns import Turns

if TYPE_CHECKING:
    from ...testing.history import Entry
    from ..control import Control

_SHOWN: Final = 200
"""For each directory, the largest number of holders in the answer, and the largest number of waiters."""
_PAST: Final = 20
"""The largest number of earlier holds in one answer."""
_DATA: Final = 200
"""The largest number of bytes of a contender's data in the answer."""
_MOST_WAITS: Final = 500
"""The largest number of waits among which cycles are searched. The search takes 60 ms in the worst case. In
this case each session waits for all other sessions."""


def _locks(control: Control, ask: Ask) -> Response:
    path = ask.values.get("path", "/")
    node = znode_at(control, path)
    found: Iterable[Found | None]
    if not ask.values.get("below", True):
        layout = layout_at(control.controls.running.engine.tree, path)
        found = [] if layout is None else [(path, node, layout)]
    else:
        found = recognised(control.controls.running.engine.tree, path)
    return Response(200, headers=LINES, stream=partial(_found, control, found))


async def _found(control: Control, directories: Iterable[Found | None], send: Send) -> None:
    """Send a line for each recognised directory. The last line has the deadlocks."""
    turns = Turns()
    waiting: list[Wait] = []
    count = 0
    await send(b"")
    await find_programs(servers_of(control))
    for found in directories:
        await turns.pause()
        if found is None:
            continue
        at, node, layout = found
        count += 1
        waiting += islice(waits(at, layout), _MOST_WAITS - len(waiting))
        await send(line(_form(control, at, node, layout)))
    cycles = [
        [{"session": session_label(control, session), "path": at} for session, at in cycle]
        for cycle in find_cycles(waiting)
    ]
    await send(line({"done": True, "directories": count, "cycles": cycles}))


def _form(control: Control, path: str, node: Znode, layout: Layout) -> dict[str, Any]:
    children = len(node.children or ())
    return {
        "path": path,
        "shape": layout.shape,
        "libraries": layout.libraries,
        "limit": layout.limit,
        "items": layout.items,
        "children": children,
        "looked_at": min(children, LOOKED_AT),
        "held": len(layout.holders),
        "waiting": len(layout.waiters),
        "holders": _participants(control, layout.holders),
        "waiters": _participants(control, layout.waiters),
        "remarks": layout.remarks,
        "unknown": layout.unknown[:_SHOWN],
    }


def _participants(control: Control, entries: Iterable[Participant]) -> list[dict[str, Any]]:
    return [_participant(control, entry) for entry in islice(entries, _SHOWN)]


def _participant(control: Control, entry: Participant) -> dict[str, Any]:
    stat, data = entry.child.stat, entry.child.data
    session = control.controls.running.engine.sessions.get(entry.session or 0)
    return {
        "names": entry.names,
        "role": entry.role,
        "library": entry.library,
        "waits_for": entry.waits_for,
        "session": session_label(control, entry.session or 0),
        **client_forms(control, session),
        "since": stat.ctime if stat else None,
        "zxid": zxid_form(stat.czxid) if stat else None,
        "version": stat.version if stat else None,
        "data": (data or b"")[:_DATA].decode(errors="replace"),
    }


async def _past(control: Control, ask: Ask) -> Any:
    """Search the history, in turns, for past holds of one lock."""
    path, running, turns = ask.values["path"], control.controls.running, Turns()
    children = list(znode_at(control, path).children or ())
    entries: list[Entry] = []
    for entry in () if running.told is None else running.told.entries():
        entries.append(entry)
        await turns.pause()
    holds = list(past_holds(entries, path, children))
    return {
        "count": len(holds),
        "holds": [
            {
                "name": hold.name,
                "session": session_label(control, hold.session),
                "begun": round(1000 * running.wall_clock(hold.begun)),
                "ended": round(1000 * running.wall_clock(hold.ended)),
            }
            for hold in holds[-_PAST:]
        ],
    }


ROUTES: Final = (
    Route(
        "GET",
        "/locks/past",
        _past,
        f"The last {_PAST} past holds of a lock that are in the history.",
        {"path": Field("string", "of the lock", required=True)},
        answer="The past holds, the oldest first, with begin and end in ms since the epoch, and the "
        "number of past holds.",
        needs_history=False,
    ),
    Route(
        "GET",
        "/locks",
        _locks,
        "Locks, elections, semaphores, barriers, queues and groups at and below a path, one line for each.",
        {
            "path": PATH,
            "below": Field("boolean", "whether to include everything below the path (default: true)"),
        },
        answer="Lines in no order. The last line has `done`, and the cycles of waiting sessions.",
        needs_history=False,
    ),
)
