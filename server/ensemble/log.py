"""The log: the proposed entries and the committed entries."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Protocol, TypeAlias

import attrs

from ..config.members import Configuration
from ..core.txn import AnyEffect, Change, Create, Multi, SetData, Txn

_KEPT, _BYTES = 1000, 16 * 2**20
"""The largest number of entries that are kept for servers that return, and the largest size of their data in
bytes. A server that has missed more gets a copy of a tree."""

Result: TypeAlias = tuple[int, int, bytes]
"""A reply: its zxid, its error code and its body."""


class Asker(Protocol):
    """An object that waits until its server has applied an entry: a request, or a client that asks for a
    session."""

    @property
    def member(self) -> object:
        """The server that must apply the entry."""

    def applied(self, proposal: Proposal) -> None:
        """Note that :attr:`member` has applied the entry."""


@attrs.define(eq=False)
class Proposal:
    """A transaction that the leader has prepared. All servers apply it when it is committed.

    :ivar result: the reply. The reply was made from the tree of the leader directly after the transaction was
        prepared. After the same transaction the tree of each server is equal to the tree of the leader. So
        each server would send the same reply with the same Stat.
    :ivar asker: the object that waits for the entry; None if nobody waits, or after the answer.
    :ivar changes: the changes of the tree, if the transaction was prepared in the tree of the leader's own
        server; otherwise None.
    :ivar is_swallowed: whether the request comes from a connection whose session has moved. Then there is no
        answer, and the connection is closed (ensemble.md section 2.2).
    :ivar holders: the numbers of the servers whose log has the entry. A server whose waiting messages have
        the entry is included.
    :ivar then: the functions that the leader calls when the entry is committed.
    :ivar config: the new configuration, if the entry changes the members; otherwise None.
    """

    txn: Txn
    result: Result
    asker: Asker | None = None
    changes: Iterable[Change] | None = None
    is_swallowed: bool = False
    holders: set[int] = attrs.field(factory=set)
    then: list[Callable[[], object]] = attrs.field(factory=list)
    config: Configuration | None = None

    @property
    def zxid(self) -> int:
        """The zxid of the transaction."""
        return self.txn.zxid


class Log:
    """The log of an ensemble.

    :ivar committed: the number of committed entries.
    :ivar proposed: the proposed, uncommitted entries, in their order.
    :ivar on_commit: the function that is called with each committed transaction; None at first.
    """

    def __init__(self) -> None:
        self.committed = 0
        self.proposed: list[Proposal] = []
        self.on_commit: Callable[[Txn], object] | None = None
        self._kept: deque[Proposal] = deque()
        self._size = 0  # the bytes of the data of the kept entries

    @property
    def last_zxid(self) -> int:
        """The zxid of the last committed entry; 0 before the first entry."""
        return self._kept[-1].zxid if self._kept else 0

    @property
    def first_kept(self) -> int:
        """The number of entries before the first kept entry."""
        return self.committed - len(self._kept)

    def commit(self, proposal: Proposal, applied: Iterable[int]) -> None:
        """Add a committed entry.

        :param applied: for each server the number of entries that it has applied. Entries that no server has
            applied are kept.
        """
        self.committed += 1
        self._kept.append(proposal)
        self._size += _size_of(proposal.txn.effect)
        if self.on_commit is not None:
            self.on_commit(proposal.txn)
        if self.proposed and proposal in self.proposed:
            self.proposed.remove(proposal)
        if len(self._kept) > _KEPT or self._size > _BYTES:
            self._drop(max(applied) - self.first_kept)

    def _drop(self, most: int) -> None:
        """Drop the oldest entry. Drop further entries until all kept entries together are small enough.

        :param most: the largest number of entries to drop, because some server has applied them.
        """
        for _ in range(most):
            self._size -= _size_of(self._kept.popleft().txn.effect)
            if self._size <= _BYTES:
                break

    def since(self, position: int) -> Sequence[Proposal]:
        """Return the entries after the first ``position`` entries. All these entries must still be kept."""
        return list(islice(self._kept, position - self.first_kept, None))


def _size_of(effect: AnyEffect) -> int:
    """Return the approximate size in bytes of the paths and the data in an effect."""
    if isinstance(effect, Multi):
        return sum(map(_size_of, effect.effects))
    return len(effect.path) + len(effect.data or b"") if isinstance(effect, Create | SetData) else 0
