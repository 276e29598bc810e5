"""The log: the proposed entries, and which of them are committed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Protocol, TypeAlias

import attrs

from ..config.members import Configuration
from ..core.txn import AnyEffect, Change, Create, Multi, SetData, Txn

_KEPT, _BYTES = 1000, 16 * 2**20
"""The number of entries, and the bytes of their data, that are kept for servers that return. A server that
has missed more gets a copy of a tree."""

Result: TypeAlias = tuple[int, int, bytes]
"""A reply: zxid, error code, body."""


class Asker(Protocol):
    """The receiver of the answer when an entry is applied at its server: a request, or a client that wants a
    session."""

    @property
    def member(self) -> object: ...

    def applied(self, proposal: Proposal) -> None:
        """The entry has been applied at :attr:`member`."""


@attrs.define(eq=False)
class Proposal:
    """A transaction that the leader has prepared, and that all servers apply once it is committed.

    :ivar result: the reply. It was made from the tree in which the transaction was prepared, directly after
        it. Each server's tree is equal to that tree after the same transaction, so its own tree would give
        the same reply, with the same Stat.
    :ivar asker: the receiver of the answer; None once it is answered, or if there is none.
    :ivar changes: its changes in the tree of the leader's own server, if it was prepared in that tree.
    :ivar is_swallowed: whether it comes from a connection whose session has moved: it gets no answer, and
        the connection closes (ensemble.md section 2.2).
    :ivar holders: the numbers of the servers whose log has it, or will have it once they read their messages.
    :ivar then: called by the leader when it is committed.
    :ivar config: the new configuration, if it changes the members.
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
        return self.txn.zxid


class Log:
    """
    :ivar committed: how many entries are committed.
    :ivar proposed: the other entries, in the order of their proposal.
    :ivar on_commit: called with each committed transaction, if set.
    """

    def __init__(self) -> None:
        self.committed = 0
        self.proposed: list[Proposal] = []
        self.on_commit: Callable[[Txn], object] | None = None
        self._kept: deque[Proposal] = deque()
        self._size = 0  # bytes of their data

    @property
    def last_zxid(self) -> int:
        """The zxid of the last committed entry; 0 before the first."""
        return self._kept[-1].zxid if self._kept else 0

    @property
    def first_kept(self) -> int:
        """The number of entries before the first kept one."""
        return self.committed - len(self._kept)

    def commit(self, proposal: Proposal, applied: Iterable[int]) -> None:
        """Add committed entries.

        :param applied: the number of entries that each server has applied. Entries that no server has
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
        """Drop the oldest entry, and more if all together are too large.

        :param most: how many may go, as some server has applied them.
        """
        for _ in range(most):
            self._size -= _size_of(self._kept.popleft().txn.effect)
            if self._size <= _BYTES:
                break

    def since(self, position: int) -> Sequence[Proposal]:
        """List the entries after the first ``position``; all of them must be kept."""
        return list(islice(self._kept, position - self.first_kept, None))


def _size_of(effect: AnyEffect) -> int:
    """Return the bytes of what clients have sent in an effect, roughly."""
    if isinstance(effect, Multi):
        return sum(map(_size_of, effect.effects))
    return len(effect.path) + len(effect.data or b"") if isinstance(effect, Create | SetData) else 0
