"""Rules about messages that are nearly too large (``jute.maxbuffer``)."""

from __future__ import annotations

from typing import ClassVar, Final

from .finding import Rule
from .world import Client, Exchange

_SHARE: Final = 0.8
"""This part of ``jute.maxbuffer``. A thing that grows by itself will exceed the limit soon."""


class _NearLimit(Rule):
    what: ClassVar[str]

    def size(self, exchange: Exchange) -> int:
        """The bytes that count."""
        raise NotImplementedError

    def exchange(self, client: Client, exchange: Exchange) -> None:
        size, limit = self.size(exchange), self.world.max_buffer
        if size < _SHARE * limit:
            return
        paths = [asked.path for asked in exchange.asked]
        what = f"{self.what} ({exchange.op} of {paths[0] if paths else 'no znode'})"
        self.report(
            (exchange.op, *paths[:1]),
            f"{what} was nearly too large {{count}} times: {size:,} of {limit:,} bytes",
            time=exchange.time,
            sessions=[client.id],
            paths=paths,
        )


class RequestNearLimit(_NearLimit):
    name = "request-near-limit"
    threshold = "the first time; 80 % of jute.maxbuffer"
    what = "a request"
    explanation = (
        "A request is nearly as large as the server takes (jute.maxbuffer). A larger request ends the "
        "connection without an error that says why, and many clients then repeat it."
    )
    remedy = (
        "Keep znodes small, at some KB. Store large data elsewhere, and its address in the znode. "
        "Split large multis."
    )

    def size(self, exchange: Exchange) -> int:
        return exchange.size


class ChildrenNearLimit(_NearLimit):
    name = "children-near-limit"
    threshold = "the first time; 80 % of jute.maxbuffer"
    what = "a list of children"
    explanation = (
        "A list of children is nearly as large as clients take (jute.maxbuffer). Beyond that nobody can "
        "list the znode, and so nobody can find out what to delete."
    )
    remedy = (
        "Delete children that are done with; spread children over several parents, by a hash or by the day; "
        "use short names."
    )

    def size(self, exchange: Exchange) -> int:
        return exchange.reply_size if exchange.op == "get_children" else 0


RULES: Final = (RequestNearLimit, ChildrenNearLimit)
