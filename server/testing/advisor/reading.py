"""Rules about reads."""

from __future__ import annotations

from typing import Final, TypeAlias

import attrs

from .finding import Rule
from .table import Table
from .world import READS, Client, Exchange, World, is_claim, parent_of

EACH: Final = 3
"""A round counts if the client reads at least this number of children one by one."""
ROUNDS: Final = 3
"""The number of rounds after which the rule reports. A cache makes one round, and one more after a
reconnect."""
_MOST_READ: Final = 1000
"""For each list, at most this number of read children is remembered."""
POLLS: Final = 20
"""The number of equal answers after which the rule reports. For example, a client that reads a value before
each of 5 other requests does not poll."""


@attrs.define
class _Listing:
    """The reads of the children of one znode, by one session.

    :ivar read: the children that were read one by one since the last read of the list.
    :ivar before: the children that were read in the round before.
    :ivar again: the number of children that were read both in this round and in the round before.
    :ivar rounds: the number of rounds that count.
    """

    read: set[str] = attrs.field(factory=set)
    before: set[str] = attrs.field(factory=set)
    again: int = 0
    rounds: int = 1


class ChildrenOneByOne(Rule):
    name = "children-one-by-one"
    threshold = f"{ROUNDS} rounds of {EACH} or more children, by one session"
    explanation = (
        "Again and again the client reads the list of children and then each child with a request of its "
        "own. Each round costs one request for each child, and the answers come from different moments."
    )
    remedy = (
        "Read all children with one multiRead, or keep them up to date with a persistent recursive watch "
        "(addWatch), as the cache of Curator does."
    )

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._listings: Table[tuple[int, str], _Listing] = Table(_Listing)

    def exchange(self, client: Client, exchange: Exchange) -> None:
        if exchange.err or exchange.op not in ("get_children", "get_data"):
            return
        (asked,) = exchange.asked
        if exchange.op == "get_children":
            listing = self._listings[client.id, asked.path]
            listing.before, listing.read, listing.again = listing.read, set(), 0
            return
        parent = parent_of(asked.path)
        found = self._listings.get((client.id, parent))
        if found is None or asked.path in found.read or len(found.read) >= _MOST_READ:
            return
        found.read.add(asked.path)
        found.again += asked.path in found.before
        if found.again == EACH and asked.path in found.before:
            self._round(client, exchange, parent, found)

    def _round(self, client: Client, exchange: Exchange, parent: str, listing: _Listing) -> None:
        listing.rounds += 1
        if listing.rounds >= ROUNDS:
            self.report(
                (client.id, parent),
                f"the same children of {parent} were read one by one {{count}} times",
                time=exchange.time,
                sessions=[client.id],
                paths=[parent],
                count=listing.rounds,
            )


@attrs.define
class _Poll:
    answer: tuple[int, int, int] = (0, 0, 0)
    times: int = 0


_Polled: TypeAlias = tuple[int, str, str]
"""The key of a poll: its session, operation and path."""


class Polling(Rule):
    name = "polling"
    threshold = (
        f"{POLLS} equal answers in turn to one session, without an event or a write of this session between "
        "the answers"
    )
    explanation = (
        "The client polls: it sends the same request again and again, and gets the same answer. Each "
        "request costs time of the server and the network. The client learns of a change only with its next "
        "request."
    )
    remedy = (
        "Read with a watch, and read again when its event comes; for a znode that does not exist yet, "
        "exists with a watch."
    )

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._polls: Table[_Polled, _Poll] = Table(_Poll)

    def exchange(self, client: Client, exchange: Exchange) -> None:
        if exchange.err is None or len(exchange.asked) != 1 or exchange.op in ("multi", "multi_read"):
            return
        (asked,) = exchange.asked
        if asked.op in READS and not asked.watch:
            pass
        elif not (is_claim(asked) and exchange.err):
            for op in READS:  # a client may read again what it has changed itself
                self._polls.pop((client.id, op, asked.path), None)
            return
        poll = self._polls[client.id, asked.op, asked.path]
        answer = exchange.err, exchange.answer, client.events  # a read after an event is no poll
        poll.times = poll.times + 1 if poll.answer == answer else 1
        poll.answer = answer
        if poll.times >= POLLS:
            self.report(
                (client.id, asked.op, asked.path),
                f"{asked.op} of {asked.path} had the same answer {{count}} times in turn",
                time=exchange.time,
                sessions=[client.id],
                paths=[asked.path],
                count=poll.times,
            )


RULES: Final = (ChildrenOneByOne, Polling)
