"""One entry of the log, from its proposal on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol, TypeAlias

import attrs

from ..core.txn import Change, Txn

if TYPE_CHECKING:
    from .member import Member

Result: TypeAlias = tuple[int, int, bytes]
"""A reply: zxid, error code, body."""


class Asker(Protocol):
    """Who is answered when an entry is applied at its server: a request, or a client that wants a session."""

    @property
    def member(self) -> Member: ...

    def applied(self, proposal: Proposal) -> None:
        """The entry has been applied at :attr:`member`."""


@attrs.define(eq=False)
class Proposal:
    """A transaction that the leader has prepared, and that all servers apply once it is committed.

    :ivar result: the reply. It was made from the tree in which the transaction was prepared, right behind it.
        Each server's tree is equal to that one right behind the same transaction, so the reply is what its
        own tree would give, Stat included.
    :ivar asker: None once it is answered, or if there is none.
    :ivar changes: what it has changed in the tree of the leader's own server, if it was prepared in that
        tree.
    :ivar is_swallowed: it comes from a connection whose session has moved: no answer, and the connection
        closes (ensemble.md section 2.2).
    :ivar holders: the numbers of the servers whose log has it, or will have it once they read what was sent.
    :ivar then: what the leader does when it is committed.
    """

    txn: Txn
    result: Result
    asker: Asker | None = None
    changes: Iterable[Change] | None = None
    is_swallowed: bool = False
    holders: set[int] = attrs.field(factory=set)
    then: list[Callable[[], object]] = attrs.field(factory=list)

    @property
    def zxid(self) -> int:
        return self.txn.zxid
