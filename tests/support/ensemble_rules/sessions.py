"""The rules of sessions: when they end, and what clients hear of it."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import attrs

from pyzk.protocol.operations import CREDENTIALS

from .facts import (
    Asked,
    Attached,
    Began,
    Ending,
    Follows,
    Heard,
    Linked,
    Reply,
    Request,
)
from .log import LogRules


@attrs.define
class _Clock:
    """What a leader must count for a session.

    :ivar timeout: the last that was negotiated with it, in ms.
    :ivar since: the session does not end before its timeout has passed since then, in ms.
    """

    timeout: int
    since: int


@attrs.define
class _Answered:
    """The last request of a session that a server has answered.

    :ivar arrived: in ms.
    :ivar reported: at the latest, in ms, if the link is open until then.
    """

    server: int
    arrived: int
    reported: int


class SessionRules:
    def __init__(self, log: LogRules, tick: int) -> None:
        self._log = log
        self._half = max(1, tick // 2)
        self._epoch = 0
        self._clocks: dict[tuple[int, int], _Clock] = {}  # by epoch and session
        self._began: dict[int, int] = {}
        self._links: dict[int, Linked] = {}
        self._answered: defaultdict[int, dict[int, _Answered]] = defaultdict(dict)  # by session and server
        self._follows: dict[int, int | None] = {}
        self._misled: dict[int, float] = {}  # until when a server had an old leader; infinite: it has one
        self._now = 0
        self._ending: defaultdict[int, set[int]] = defaultdict(set)  # by session, in which epochs
        self._asked: dict[int, Asked] = {}
        self._arrived: dict[tuple[int, int], int] = {}
        self._passwords: dict[int, bytes] = {}

    def takers(self) -> dict[type, Callable[[Any], None]]:
        return {
            Began: self.began,
            Follows: self.follows,
            Linked: self.linked,
            Heard: self.heard,
            Ending: self.ends,
            Asked: self.asks,
            Attached: self.attached,
            Request: self.request,
            Reply: self.reply,
        }

    # --- leaders -----------------------------------------------------------------------------------------

    def began(self, fact: Began) -> None:
        self._epoch, self._now = fact.epoch, fact.now
        self._began[fact.epoch] = fact.now
        for session, timeout in fact.timeouts.items():
            self._clocks[fact.epoch, session] = _Clock(timeout, fact.now)
        self._note_misled()

    def follows(self, fact: Follows) -> None:
        self._follows[fact.server] = fact.epoch
        self._note_misled()

    def _note_misled(self) -> None:
        for server, epoch in self._follows.items():
            if epoch is not None and epoch < self._epoch:
                self._misled[server] = math.inf
            elif self._misled.get(server) == math.inf:
                self._misled[server] = self._now

    def linked(self, fact: Linked) -> None:
        self._now = fact.now
        self._links[fact.server] = fact

    # --- when they end -----------------------------------------------------------------------------------

    def heard(self, fact: Heard) -> None:
        self._now = fact.now
        key = fact.epoch, fact.session
        if fact.timeout:
            self._clocks[key] = _Clock(fact.timeout, fact.now)
        elif key in self._clocks:
            self._clocks[key].since = fact.now

    def request(self, fact: Request) -> None:
        self._now = fact.now
        if fact.op not in CREDENTIALS:  # which keep no session alive
            self._arrived[fact.connection, fact.xid] = fact.now

    def reply(self, fact: Reply) -> None:
        self._now = fact.now
        asked = self._asked[fact.connection]
        arrived = self._arrived.pop((fact.connection, fact.xid), None)
        if arrived is not None:
            reported = (fact.now // self._half + 1) * self._half
            self._answered[asked.session][asked.server] = _Answered(asked.server, arrived, reported)

    def ends(self, fact: Ending) -> None:
        self._ending[fact.session].add(fact.epoch)
        if not fact.expired or fact.by_test:
            return
        clock = self._clocks[fact.epoch, fact.session]
        assert fact.now >= clock.since + clock.timeout, (
            "rule 11: a session expires too early after its leader's start, or what it was told"
        )
        for each in self._answered[fact.session].values():
            link = self._links[each.server]
            is_open = link.epoch == fact.epoch and link.now < each.arrived  # in one ms the order is open
            if is_open and each.reported <= fact.now:
                assert fact.now >= each.arrived + clock.timeout, (
                    "rule 11: a session expires too early after a request that was answered and reported"
                )

    # --- what clients hear -------------------------------------------------------------------------------

    def asks(self, fact: Asked) -> None:
        self._now = fact.now
        self._asked[fact.connection] = fact

    def attached(self, fact: Attached) -> None:
        asked = self._asked[fact.connection]
        server, session = asked.server, asked.session
        is_misled = self._misled.get(server, -1) >= asked.now
        if fact.session == 0:
            is_known = session in self._log.opened and self._passwords.get(session) == asked.password
            if is_known and not is_misled:
                is_ending = self._follows[server] in self._ending[session]
                assert session in self._log.over or is_ending, (
                    "rule 12: a client is told that its session is gone, and nothing has ended it"
                )
        elif session == 0:
            assert fact.session >> 56 & 0xFF == server % 256, (
                "rule 16: the top byte of a session is not its server"
            )
            assert fact.session not in self._passwords, "rule 16: two sessions have the same id"
            self._passwords[fact.session] = fact.password
            self._asked[fact.connection] = asked._replace(session=fact.session)
        else:
            assert fact.session == session, "rule 16: a client gets another session than its own"
            is_over = session in self._log.over and self._log.has_applied(server, self._log.over[session])
            assert is_misled or not is_over, "rule 12: a server accepts a session that is over"
