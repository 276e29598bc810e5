"""Rules about sessions that hold a lock for which other sessions wait.

The lock recipes make a queue: ephemeral sequential znodes below one znode. The znode with the lowest number
holds the lock. A session that waits has a znode too, and watches a znode with a lower number.
"""

from __future__ import annotations

from typing import Final

import attrs

from ..history import Entry
from .finding import Rule
from .table import Table
from .world import Client, Exchange, World, fired_by, parent_of, watch_key

IN_VAIN: Final = 3
"""The number of waits without success after which the rule reports. One session waits behind the same holder
and gives up. A single wait without success may be a user who gave up."""
_DIGITS: Final = 10
"""The number of digits at the end of a sequential name."""


@attrs.define
class _Place:
    """A znode in a queue.

    :ivar watched: the path of the znode whose deletion the session waits for; None if the session does not
        wait now.
    """

    session: int
    watched: str | None = None


@attrs.define
class _Queue:
    """A queue of znodes below one znode.

    :ivar places: the znodes in the queue, by path.
    :ivar holder: the path of the znode that holds the lock.
    :ivar since: when the holder got the lock, in seconds on the server's clock since its start.
    :ivar vain: for each session, the number of waits behind this holder that have ended without the lock.
    """

    places: Table[str, _Place] = attrs.field(factory=lambda: Table[str, _Place](most=1000))
    holder: str = ""
    since: float = 0.0
    vain: Table[int, int] = attrs.field(factory=lambda: Table(int, 1000))

    def settle(self, time: float) -> None:
        """Find the znode that holds the lock now."""
        first = min(self.places, key=lambda path: path[-_DIGITS:], default="")
        if first != self.holder:
            self.holder, self.since = first, time
            self.vain.clear()


class HeldTooLong(Rule):
    name = "held-too-long"
    threshold = (
        f"a session has given up {IN_VAIN} waits for the same holder, which holds for longer than the "
        "timeout of the session"
    )
    explanation = (
        "A session waits for a lock, gives up, and tries again, while another session holds it all the "
        "time, for longer than a session timeout. The holder hangs, has forgotten to release, or does its "
        "whole work inside the lock."
    )
    remedy = (
        "Hold a lock for the few requests that need it, and release it in a finally; for work that takes "
        "long, elect a leader, and let the others wait without a time limit."
    )

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._queues: Table[str, _Queue] = Table(_Queue, 1000)
        self._last: Table[tuple[int, str], _Place] = Table()
        """The last place of each session in each queue."""
        self._waits: Table[tuple[int, str], _Place] = Table()
        """The place of a waiting session, by the session and the znode that the session watches."""

    def exchange(self, client: Client, exchange: Exchange) -> None:
        for asked in exchange.asked:
            key = watch_key(asked, exchange.err)
            if key is not None and key[0] == "data" and parent_of(asked.path) in client.below:
                self._wait(client, asked.path)
        for asked in exchange.done:
            if asked.op == "create" and "ephemeral" in asked.kind and "sequential" in asked.kind:
                path = exchange.created or asked.path
                queue = self._queues[parent_of(path)]
                queue.places[path] = self._last[client.id, parent_of(path)] = _Place(client.id)
                if not queue.holder:  # a new znode has the highest number
                    queue.settle(exchange.time)
            elif asked.op == "delete":
                self._leave(client, asked.path, exchange.time)

    def _wait(self, client: Client, watched: str) -> None:
        place = self._last.get((client.id, parent_of(watched)))
        if place is not None:
            place.watched = watched
            self._waits[client.id, watched] = place

    def _leave(self, client: Client, path: str, time: float) -> None:
        parent = parent_of(path)
        queue = self._queues.get(parent)
        if queue is None or path not in queue.places:
            return
        place = queue.places.pop(path)
        held = time - queue.since
        if place.session == client.id and place.watched is not None and queue.holder in queue.places:
            queue.vain[client.id] += 1
            if queue.vain[client.id] >= IN_VAIN and held > client.timeout > 0:
                holder = queue.places[queue.holder].session
                self.report(
                    (parent, queue.holder),
                    f"{parent} has been held for {held:.0f} s, while a session has given up {{count}} times",
                    time=time,
                    sessions=[holder, client.id],
                    paths=[queue.holder],
                    count=queue.vain[client.id],
                )
        if path == queue.holder:
            queue.settle(time)
        if not queue.places:
            del self._queues[parent]

    def event(self, client: Client, entry: Entry) -> None:
        for _, path in fired_by(entry):
            place = self._waits.pop((client.id, path), None)
            if place is not None and place.watched == path:
                place.watched = None

    def ended(self, client: Client, entry: Entry, expired: bool) -> None:
        for path in client.owned:
            queue = self._queues.get(parent_of(path))
            if queue is not None and queue.places.pop(path, None) is not None and path == queue.holder:
                queue.settle(entry.time)


RULES: Final = (HeldTooLong,)
