"""The rule about herds: one change wakes many clients, all these clients send a request, and one client
succeeds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from ....protocol.errors import NodeExistsError
from ..history import Entry
from .finding import Rule
from .table import Table
from .world import Client, Exchange, World

HERD: Final = 5
"""A change counts if it wakes at least this number of sessions in vain. A good recipe sometimes wakes 2
sessions in vain, when a waiter leaves."""
ROUNDS: Final = 2
"""The number of counted changes after which the rule reports. A single one may be chance."""


@attrs.define
class _Wake:
    """The last change of a znode that has woken a session.

    :ivar vain: the sessions that have sent a request in vain.
    :ivar counted: whether the change counts as a round.
    """

    zxid: int = 0
    woken: dict[int, None] = attrs.field(factory=dict)
    vain: dict[int, None] = attrs.field(factory=dict)
    counted: bool = False
    rounds: int = 0


class Herd(Rule):
    name = "herd"
    threshold = f"{ROUNDS} changes that each wake {HERD} or more sessions in vain"
    explanation = (
        "One change wakes every waiter. All waiters ask again, and at most one gets the lock. With n "
        "waiters, each turn costs n events and at least n requests; n turns cost n times as much."
    )
    remedy = (
        "Make a queue of ephemeral sequential znodes, and let each waiter watch only the znode before its "
        "own, like the lock recipes of kazoo, Curator and pyzk."
    )

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._wakes: Table[str, _Wake] = Table(_Wake, 1000)

    def event(self, client: Client, entry: Entry) -> None:
        path = entry.path or "/"
        wake = self._wakes[path]
        if wake.zxid != entry.zxid:
            wake.zxid, wake.counted = entry.zxid, False
            wake.woken.clear()
            wake.vain.clear()
        if len(wake.woken) < 1000:
            wake.woken[client.id] = None

    def exchange(self, client: Client, exchange: Exchange) -> None:
        for asked in exchange.asked:
            refused = asked.op == "create" and exchange.err == NodeExistsError.code
            listed = asked.op == "get_children" and exchange.err == 0
            if refused or (listed and _waits(client, asked.path)):
                self._in_vain(asked.path, client, exchange)

    def _in_vain(self, path: str, client: Client, exchange: Exchange) -> None:
        """Note that a change of a znode has made a client send a request in vain."""
        wake = self._wakes.get(path)
        if wake is None or client.id not in wake.woken:
            return
        wake.vain[client.id] = None
        if len(wake.vain) < HERD - 1 or len(wake.woken) < HERD or wake.counted:
            return
        wake.counted = True
        wake.rounds += 1
        if wake.rounds >= ROUNDS:
            self.report(
                path,
                f"{{count}} changes of {path} have each woken {HERD} or more sessions, the last one "
                f"{len(wake.woken):,}, which asked again in vain",
                time=exchange.time,
                sessions=wake.vain,
                paths=[path],
                count=wake.rounds,
            )


def _waits(client: Client, directory: str) -> bool:
    """Return whether a client waits in a queue below a znode."""
    kinds: Mapping[str, int] = client.below.get(directory, {})
    return any(count and "sequential" in kind for kind, count in kinds.items())


RULES: Final = (Herd,)
