"""Rules about watches that are set."""

from __future__ import annotations

from typing import Final

from ....protocol.errors import NodeExistsError
from ..history import Entry
from .finding import Rule
from .table import Table
from .world import Client, Exchange, World, fired_by, parent_of, watch_key

GROWN: Final = 500
"""The rule reports when one session has this number of waiting one-shot watches. A cache of a small tree has
fewer."""
_RARELY: Final = 20
"""If fewer than 1 in this number of watches has fired, the watches are not useful."""
REARMED: Final = 5
"""The rule reports when a waiting watch was set this number of times. A client that reconnects may set a
watch twice."""
SIBLINGS: Final = 5
"""The rule reports when this number of sessions watch each other. With fewer sessions, a watch on the list of
children costs more."""


class WatchesOnlyGrow(Rule):
    name = "watches-only-grow"
    threshold = f"{GROWN} waiting watches of a session, if fewer than 1 in {_RARELY} have fired"
    explanation = (
        "A one-shot watch lives until it fires or its connection ends. Watches on znodes that never change "
        "accumulate in the server and in the client, and after a reconnect the client sends all of them "
        "again."
    )
    remedy = (
        "Set a watch only where you wait for something, and remove it with removeWatches when you stop "
        "waiting. For a whole subtree, set one persistent recursive watch (addWatch)."
    )

    def exchange(self, client: Client, exchange: Exchange) -> None:
        waiting = len(client.armed)
        if waiting >= GROWN and any(watch_key(asked, exchange.err) for asked in exchange.asked):
            if client.fired * _RARELY > waiting:
                return
            self.report(
                client.id,
                f"a session has {{count}} watches that wait, and {client.fired:,} have fired",
                time=exchange.time,
                sessions=[client.id],
                paths=[asked.path for asked in exchange.asked],
                count=waiting + 1,
            )


class WatchSetAgain(Rule):
    name = "watch-set-again"
    threshold = (
        f"{REARMED} times without an event of the znode or the end of the connection. Each reason of the "
        "session to wait allows one time more. The reasons are the session's ephemerals beside or below the "
        "znode, and its attempts to create the znode"
    )
    explanation = (
        "A client has set a watch again before the watch fired. The server keeps one watch for each path "
        "and connection, so the second call has no use. In many clients each call adds a callback, and one "
        "event then runs all callbacks."
    )
    remedy = "Set the watch once. Set the watch again only when its event has come."

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._refused: Table[tuple[int, str], int] = Table(int)
        """The number of attempts to create an existing znode, by session and path. The count begins again
        with each event of the znode."""

    def exchange(self, client: Client, exchange: Exchange) -> None:
        for asked in exchange.asked:
            if asked.op == "create" and exchange.err == NodeExistsError.code:
                self._refused[client.id, asked.path] += 1
            key = watch_key(asked, exchange.err)
            if key is None:
                continue
            times = client.armed.get(key, 0) + 1
            if times >= REARMED + self._waiters(client, asked.path):
                self.report(
                    (client.id, key),
                    f"the {key[0]} watch on {asked.path} was set {{count}} times before it fired",
                    time=exchange.time,
                    sessions=[client.id],
                    paths=[asked.path],
                    count=times,
                )

    def _waiters(self, client: Client, path: str) -> int:
        """Return how many parts of a client may wait for a znode at the same time, each with a watch of its
        own."""
        places = (client.below.get(at) for at in (parent_of(path), path))
        return sum(each.total() for each in places if each) + self._refused.get((client.id, path), 0)

    def event(self, client: Client, entry: Entry) -> None:
        self._refused.pop((client.id, entry.path or ""), None)


class EverybodyWatchesEverybody(Rule):
    name = "everybody-watches-everybody"
    threshold = (
        f"{SIBLINGS} sessions with ephemerals below a znode; each session watches {SIBLINGS - 1} or "
        "more others"
    )
    explanation = (
        "Each of n members watches the znodes of all other members, which needs about n times n watches. "
        "When one member leaves, the server sends n events, and all n clients send requests again."
    )
    remedy = (
        "Watch the list of children once (getChildren): it shows who came and who left. To wait for a turn, "
        "watch only the znode before yours."
    )

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._watched: Table[str, Table[int, dict[str, None]]] = Table(lambda: Table(dict, 100), 1000)
        """The znodes of other members that a session watches, by directory and session."""

    def exchange(self, client: Client, exchange: Exchange) -> None:
        for asked in exchange.asked:
            key = watch_key(asked, exchange.err)
            owner = self.world.owners.get(asked.path)
            if key is None or key[0] != "data" or owner in (None, client.id):
                continue
            parent = parent_of(asked.path)
            if parent not in client.below:
                continue  # the session is no member: it looks after all members
            watched = self._watched[parent]
            if len(watched[client.id]) < 2 * SIBLINGS:
                watched[client.id][asked.path] = None
            mutual = [session for session, paths in watched.items() if len(paths) >= SIBLINGS - 1]
            if len(mutual) >= SIBLINGS:
                self.report(
                    parent,
                    f"{{count}} sessions with znodes below {parent} each watch {SIBLINGS - 1} or more others",
                    time=exchange.time,
                    sessions=mutual,
                    paths=[parent],
                    count=len(mutual),
                )

    def event(self, client: Client, entry: Entry) -> None:
        for kind, path in fired_by(entry):
            watched = self._watched.get(parent_of(path))
            if kind == "data" and watched and client.id in watched:
                watched[client.id].pop(path, None)

    def ended(self, client: Client, entry: Entry, expired: bool) -> None:
        for parent in client.below:
            if parent in self._watched:
                self._watched[parent].pop(client.id, None)


RULES: Final = (WatchesOnlyGrow, WatchSetAgain, EverybodyWatchesEverybody)
