"""The watches of the clients, and the watches that can never fire.

A watch ends with its connection, so no watch waits for a client that has left. The following watches can
never fire, unless the described state changes:

1. The znode exists, and its watcher has no permission to read the znode. The server sends events only to
   clients that have this permission (semantics.md section 10.4). In this case a one-shot watch ends without
   an event. Recursive watches are never reported, because each znode below the path has its own ACL.
2. The znode does not exist, and the nearest znode above it is an ephemeral, which cannot have children.
3. The znode does not exist and its name ends with a number, but the counter of its parent is already higher.
   So no sequential create makes this name again (section 6). The same is reported if a missing znode above
   the path has such a name. For example, a contender of a lock sets such a watch if it calls exists for its
   predecessor after the predecessor was deleted.

No other watch is reported, because all other missing znodes can still be created.
"""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from ....protocol.constants import Perms
from ...core.engine import Engine
from ...core.watches import PERSISTENT, RECURSIVE, STANDARD
from ..routes import Ask, Field, Route
from .common import AFTER, LIMIT, TEXT, connected_at, limit_of, session_label, text_filter
from .turns import Turns, first_names

if TYPE_CHECKING:
    from ..control import Control

_WATCHERS: Final = 50
"""The largest number of watchers of one path in the answer."""
_NUMBER: Final = re.compile("[0-9]{10}$")


def why_never(engine: Engine, path: str, watcher: Any, data: int) -> str | None:
    """Explain why a watch can never fire. None if the watch can fire.

    :param data: the modes of the watcher in the registry of data watches.
    """
    tree, node = engine.tree, engine.tree.find(path)
    if node is not None:
        if data & RECURSIVE or engine.access.allows(node.acl, Perms.READ, watcher.identities):
            return None
        return "its client may not read the znode, so it gets no events"
    above = path
    while node is None:
        above, _, name = above.rpartition("/")
        node = tree.find(above or "/")
    if node.ephemeral_owner:
        return f"{above} is ephemeral, and so has no children"
    number, following = _NUMBER.search(name), node.children.created if node.children is not None else 0
    if number is not None and int(number[0]) < following:
        return f"no sequential create makes {name} again: the next number is {following}"
    return None


def watch_form(engine: Engine, path: str, watcher: Any, data: int, child: int) -> dict[str, Any]:
    """Return the kinds of a watcher's watches at a path. The arguments are the modes of the watcher in the
    two registries."""
    kinds = []
    if data & STANDARD:
        # of a znode that is not there, it waits for the creation
        kinds.append("data" if engine.tree.find(path) is not None else "exists")
    if child & STANDARD:
        kinds.append("children")
    if data & PERSISTENT:
        kinds.append("persistent")
    if data & RECURSIVE:
        kinds.append("recursive")
    return {"kinds": kinds, "never": why_never(engine, path, watcher, data)}


async def _watches(control: Control, ask: Ask) -> Any:
    engine, limit = control.controls.running.engine, limit_of(ask.values)
    watches, turns, connection = engine.watches, Turns(), None
    if "session" in ask.values:
        session = engine.sessions.get(control.find_any(ask.values["session"]))
        connection = None if session is None else connected_at(control, session)[1]
        lists = [list(watches.watchers.get(connection, ()))] if connection is not None else []
    else:
        lists = watches.paths()
    if ask.values.get("never"):
        never = []
        for path in chain(*lists):
            watchers = watches.modes_at(path, _WATCHERS)
            if connection is not None:
                watchers = [(connection, *watches.modes_of(path, connection))]
            if any(why_never(engine, path, watcher, data) for watcher, data, _ in watchers):
                never.append(path)
            await turns.pause()
        lists = [never]
    found, more = await first_names(
        lists, text_filter(ask.values), limit, turns, after=ask.values.get("after", "")
    )
    rows = []
    for path in found:
        counts = watches.count_at(path)
        rows.append(
            {
                "path": path,
                "exists": engine.tree.find(path) is not None,
                "count": max(counts.values()),
                "watchers": [
                    {"session": session_label(control, getattr(watcher, "session_id", 0))}
                    | watch_form(engine, path, watcher, *modes)
                    for watcher, *modes in watches.modes_at(path, _WATCHERS)
                ],
            }
        )
        await turns.pause()
    return {"count": watches.count(), "watches": rows, "more": more}


ROUTES: Final = (
    Route(
        "GET",
        "/watches",
        _watches,
        "The watched paths in their order, each with its watchers and the kinds of their watches.",
        {
            "session": Field("string", "only paths that this session watches"),
            "never": Field("boolean", "only paths with a watch that can never fire now"),
            "after": AFTER,
            "text": TEXT,
            "limit": LIMIT,
        },
        answer=f"The paths, each with its first {_WATCHERS} watchers, and whether there are more paths.",
        needs_history=False,
    ),
)
