"""Rules about messages whose size is near the limit (``jute.maxbuffer``)."""

from __future__ import annotations

from typing import ClassVar, Final

from .finding import Rule
from .world import Client, Exchange

_SHARE: Final = 0.8
"""The rules report a message that is at least this part of ``jute.maxbuffer``. A message that grows will soon
exceed it."""


class _NearLimit(Rule):
    what: ClassVar[str]

    def size(self, exchange: Exchange) -> int:
        """Return the size that the rule compares with the limit, in bytes."""
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
        "The size of a request is near the limit of the server (jute.maxbuffer). Above the limit, the server "
        "closes the connection without an error, and many clients then repeat the request."
    )
    remedy = (
        "Keep znodes small, at some KB. Store large data elsewhere, and store the address of the data in "
        "the znode. Split large multis."
    )

    def size(self, exchange: Exchange) -> int:
        return exchange.size


class ChildrenNearLimit(_NearLimit):
    name = "children-near-limit"
    threshold = "the first time; 80 % of jute.maxbuffer"
    what = "a list of children"
    explanation = (
        "The size of a list of children is near the limit of clients (jute.maxbuffer). Above the limit, "
        "nobody can list the children, and so nobody can find out what to delete."
    )
    remedy = (
        "Delete children that nobody needs. Spread children over several parents, by a hash or by the day. "
        "Use short names."
    )

    def size(self, exchange: Exchange) -> int:
        return exchange.reply_size if exchange.op == "get_children" else 0


RULES: Final = (RequestNearLimit, ChildrenNearLimit)
