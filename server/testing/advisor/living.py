"""Rules about sessions and their ephemerals."""

from __future__ import annotations

from typing import Final

import attrs

from ....protocol.errors import NodeExistsError
from ..history import Entry
from .finding import Rule
from .table import Table
from .world import Client, Exchange, World

LEFT: Final = 3
"""The rule reports when this number of sessions of one host were left to expire. A single expiry may be a
crash."""
SHORT: Final = 3
"""A session with at most this number of requests is short. An example is a session with a create of a parent,
a write and a read."""
IN_TURN: Final = 10
"""The rule reports when this number of short sessions came from one host, one after the other."""
MANY: Final = 500
"""The rule reports when one session has this number of ephemerals. One transaction deletes all of them, and
the size of a transaction is limited."""


class LeftToExpire(Rule):
    name = "left-to-expire"
    threshold = f"{LEFT} sessions from one address, without sessions that the test has cut off or expired"
    explanation = (
        "A client has ended without closing its session. Until the session expires, its ephemerals stay. "
        "So a lock stays held although nobody uses it, and a member stays listed although it does not "
        "answer."
    )
    remedy = "Close the client when your program ends (close, stop), also on SIGTERM and after an error."

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._left: Table[str, int] = Table(int, 1000)

    def ended(self, client: Client, entry: Entry, expired: bool) -> None:
        if not expired or client.steered or client.left is None:
            return
        self._left[client.host] += 1
        if self._left[client.host] >= LEFT:
            self.report(
                client.host,
                f"{{count}} sessions from {client.host} were left to expire",
                time=entry.time,
                sessions=[client.id],
                paths=client.owned,
                count=self._left[client.host],
            )


@attrs.define
class _Turns:
    """Short sessions from one host, one after the other.

    :ivar ended: the time at which the last session ended.
    :ivar sessions: the latest short sessions, without a longer session in between.
    """

    ended: float = 0.0
    count: int = 0
    sessions: list[int] = attrs.field(factory=list)


class SessionPerRequest(Rule):
    name = "session-per-request"
    threshold = (
        f"{IN_TURN} sessions from one address, one after the other, each with at most {SHORT} requests"
    )
    explanation = (
        "A session is opened for a few requests and then closed. The ensemble must write the beginning and "
        "the end of each session, so the two cost more than the requests. Watches and ephemerals end with "
        "the session."
    )
    remedy = "Keep one session for as long as your program runs, and share it: clients are safe for that."

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._turns: Table[str, _Turns] = Table(_Turns, 1000)

    def exchange(self, client: Client, exchange: Exchange) -> None:
        if client.requests == SHORT and exchange.op != "close_session":
            self._turns.pop(client.host, None)  # a longer session ends the row of short sessions

    def ended(self, client: Client, entry: Entry, expired: bool) -> None:
        if not client.requests or client.requests > SHORT or expired:
            return
        turns = self._turns[client.host]
        if client.began < turns.ended:
            turns.count, turns.sessions = 0, []
        turns.ended = entry.time
        turns.count += 1
        turns.sessions = [*turns.sessions[-IN_TURN:], client.id]
        if turns.count >= IN_TURN:
            self.report(
                client.host,
                f"{{count}} sessions in turn from {client.host} made {SHORT} requests at most",
                time=entry.time,
                sessions=turns.sessions,
                count=turns.count,
            )


class EphemeralOfOldSession(Rule):
    name = "ephemeral-of-old-session"
    threshold = (
        "the first time, when the old session ends, if the new session has neither watched nor deleted the "
        "znode"
    )
    explanation = (
        "A client came back with a new session while its old session was still alive. The client found its "
        "own old ephemeral, and believed that it was registered. The end of the old session deleted the "
        "ephemeral. So the client lives, but is not listed any more."
    )
    remedy = (
        "On NodeExists compare Stat.ephemeralOwner with your session id. If the two differ and "
        "you know that the znode is yours, delete it. Otherwise watch this znode, and create yours when "
        "this znode is deleted."
    )

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._taken: Table[str, tuple[int, int]] = Table(most=1000)
        """The old session and the new session, by the path of the ephemeral. The old session owns the
        ephemeral, and the new session has found it."""

    def exchange(self, client: Client, exchange: Exchange) -> None:
        for asked in exchange.asked:
            if asked.op == "create" and exchange.err == NodeExistsError.code and "ephemeral" in asked.kind:
                old = self.world.clients.get(self.world.owners.get(asked.path, 0))
                if old is not None and _is_former(old, client):
                    self._taken[asked.path] = old.id, client.id
            careful = asked.watch or asked.op in ("delete", "add_watch")
            if careful and self._taken.get(asked.path, (0, 0))[1] == client.id:
                del self._taken[asked.path]

    def ended(self, client: Client, entry: Entry, expired: bool) -> None:
        for path in client.owned:
            old, new = self._taken.pop(path, (0, 0))
            if old == client.id and new in self.world.clients:
                self.report(
                    path,
                    f"{path} was deleted {{count}} times with the old session of a client that took the "
                    "znode for the ephemeral of its new session",
                    time=entry.time,
                    sessions=[old, new],
                    paths=[path],
                )


def _is_former(old: Client, new: Client) -> bool:
    """Return whether ``old`` may be the former session of the client that now has the session ``new``."""
    return old.id != new.id and old.left is not None and old.left <= new.began and old.host == new.host


class ManyEphemerals(Rule):
    name = "many-ephemerals"
    threshold = f"{MANY} ephemerals of a session"
    explanation = (
        "One session has very many ephemerals. When the session ends, one transaction deletes all of them. "
        "This transaction delays all other clients, and may be larger than the server accepts."
    )
    remedy = (
        "Delete an ephemeral when its work is done. Or make one ephemeral for each client, and put the rest "
        "into its data."
    )

    def exchange(self, client: Client, exchange: Exchange) -> None:
        made = [asked for asked in exchange.done if asked.op == "create" and "ephemeral" in asked.kind]
        if made and len(client.owned) + len(made) >= MANY:
            self.report(
                client.id,
                "a session has {count} ephemerals",
                time=exchange.time,
                sessions=[client.id],
                paths=[asked.path for asked in made],
                count=len(client.owned) + len(made),
            )


RULES: Final = (LeftToExpire, SessionPerRequest, EphemeralOfOldSession, ManyEphemerals)
