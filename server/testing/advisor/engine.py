"""The engine of the advisor: it takes entries of the history and returns findings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ..history import Entry
from . import behind, holding, living, reading, sizes, waking, watching, writing
from .finding import Finding, Rule
from .table import Table
from .world import Exchange, Place, World, place_of

RULES: Final[tuple[type[Rule], ...]] = (
    *watching.RULES,
    *waking.RULES,
    *reading.RULES,
    *writing.RULES,
    *behind.RULES,
    *living.RULES,
    *holding.RULES,
    *sizes.RULES,
)
_STEERING: Final = ("disconnect", "pause", "refuse", "restart", "expire", "chaos", "hold")
"""The first words of the history's lines about controls that cut clients off. The clients have not caused the
effects of these controls."""
_MOST_OPEN: Final = 1000
"""The largest number of requests of one connection that wait for their replies."""


class Advisor:
    """Reads the history, and finds what clients do wrong.

    :param max_buffer: ``jute.maxbuffer`` of the server, in bytes.
    """

    def __init__(self, max_buffer: int) -> None:
        self._world = World(max_buffer)
        self._rules = [rule(self._world) for rule in RULES]
        self._open: Table[Place, Table[int, tuple[int, Entry]]] = Table(lambda: Table(most=_MOST_OPEN))
        """The requests without a reply, by connection and xid. Each request has the number of its entry."""
        self._entries = 0

    def read(self, entries: Iterable[Entry]) -> None:
        """Read the entries that follow the entry that was read last."""
        for entry in entries:
            self._read(entry)

    def findings(self) -> list[Finding]:
        """List the findings so far, rule by rule."""
        return [finding for rule in self._rules for finding in rule.findings()]

    def _read(self, entry: Entry) -> None:
        world, where = self._world, place_of(entry)
        self._entries += 1
        if entry.kind == "request":
            if entry.op not in ("ping", "set_watches"):
                self._open[where][entry.xid] = self._entries, entry
        elif entry.kind == "reply":
            request = self._open[where].pop(entry.xid, None) if where in self._open else None
            if request is not None:
                self._exchange(*request, entry)
        elif entry.kind == "event":
            client = world.client(entry.session)
            for rule in self._rules:
                rule.event(client, entry)
            world.event(client, entry)
        elif entry.kind == "session":
            self._session(entry)
        elif entry.kind == "connection":
            self._connection(entry)
        elif entry.kind == "fault" or (entry.kind == "control" and entry.text.startswith(_STEERING)):
            world.steer(entry.session)

    def _exchange(self, began: int, request: Entry, end: Entry) -> None:
        """Pass on a request that was answered, or whose connection has ended."""
        client, asked, facts = self._world.client(request.session), request.facts.asked, end.facts
        which, err = facts.refused or (0, end.err)
        exchange = Exchange(
            time=end.time,
            server=end.server,
            began=began,
            ended=self._entries,
            zxid=end.zxid,
            op=request.op or "",
            asked=asked,
            err=err if end.kind == "reply" else None,
            refused=asked[which] if err and which < len(asked) else None,
            size=request.facts.size,
            reply_size=facts.size,
            answer=facts.answer,
            created=facts.created,
        )
        for rule in self._rules:
            rule.exchange(client, exchange)
        self._world.exchange(client, exchange)

    def _session(self, entry: Entry) -> None:
        if entry.facts.step == "begins":
            self._world.begin(entry)
            return
        client = self._world.client(entry.session)
        for rule in self._rules:
            rule.ended(client, entry, entry.facts.step == "expired")
        self._world.end(client)

    def _connection(self, entry: Entry) -> None:
        if entry.facts.step == "attached":
            self._world.attach(entry)
        elif entry.facts.step == "over":
            lost = self._open.pop(place_of(entry), None)
            if lost and entry.session in self._world.clients:
                for request in lost.values():
                    self._exchange(*request, entry)
            self._world.leave(entry)
