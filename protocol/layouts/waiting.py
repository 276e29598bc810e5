"""The order of the contenders in a directory, and which contender waits for which other contender.

The rules, for contenders in the order of their numbers:

1. A contender waits for those earlier contenders that *its own library* looks at (recipe-rules.md B.2.3).
   :attr:`Participant.waits_for` names the last of these earlier contenders.
2. Readers do not wait for readers. Latches wait only for latches. Leases wait for no contender.
3. A contender that waits for no other contender is a holder. Contenders of two libraries that do not look at
   each other, such as Curator and kazoo, can hold the same lock at the same time.
4. Some names have two meanings. A name with ``__lock__`` may belong to kazoo's ``Lock`` or ``WriteLock``. It
   is treated as a ``WriteLock``: only a ``WriteLock`` also waits for kazoo's readers. A name with
   ``_c_<UUID>`` may belong to Curator or to pyzk. It is treated as Curator's, although pyzk's contenders look
   at all contenders.
5. If the writer directly before a reader holds the lock and has the reader's session, the reader does not
   wait: the writer is becoming a reader (recipe-rules.md B.4).
6. Curator sorts all children as texts, also unknown children. An unknown child whose name sorts before the
   digits of a contender blocks this contender of Curator for ever (recipe-rules.md B.2.3, last column).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

import attrs

from ..records import Stat
from .names import ContenderKind, ContenderName, Library, in_order

LAST_SEQUENCE = 2**31 - 1
"""The largest number in a name. After this number, the server gives every contender the same number
(recipe-rules.md 0.4)."""


@attrs.frozen
class Child:
    """A child of a directory, with its Stat and data if they were read.

    :ivar stat: the Stat; None if it was not read.
    :ivar data: the data; None if it was not read, or is null.
    """

    stat: Stat | None = None
    data: bytes | None = None


@attrs.frozen
class Participant:
    """A holder, a waiter, or a member of a group or barrier.

    :ivar names: the names of the contender's znodes. A contender with a name for Curator and a name for kazoo
        has two znodes.
    :ivar role: ``lock``, ``read``, ``write``, ``latch``, ``lease``, ``candidate``, ``member`` or ``claim``.
    :ivar library: the library that uses names of this form; None if the library is not known.
    :ivar sequence: the number in the contender's name; None if the name has no number.
    :ivar child: the first znode of the contender, with the data and Stat if they were read.
    :ivar waits_for: the name of the znode that must be deleted before this contender gets the lock; None for
        holders.
    """

    names: tuple[str, ...]
    role: str
    library: Library | None
    sequence: int | None = None
    child: Child = Child()
    waits_for: str | None = None

    @property
    def name(self) -> str:
        return self.names[0]

    @property
    def shared(self) -> bool:
        return self.role == "read"

    @property
    def session(self) -> int | None:
        """The id of the session that owns the contender's znode: 0 for a persistent znode, None if the owner
        is not known."""
        return self.child.stat.ephemeralOwner if self.child.stat else None


_ALL = frozenset(ContenderKind) - {ContenderKind.CURATOR_LATCH, ContenderKind.CURATOR_LEASE}
_GO = frozenset(
    {
        ContenderKind.CURATOR_LOCK,
        ContenderKind.CURATOR_READ,
        ContenderKind.CURATOR_WRITE,
        ContenderKind.KAZOO_LOCK,
        ContenderKind.KAZOO_READ,
    }
)
_LOOKS_AT: Mapping[ContenderKind, frozenset[ContenderKind]] = {
    ContenderKind.CURATOR_LOCK: frozenset({ContenderKind.CURATOR_LOCK}),
    ContenderKind.CURATOR_READ: frozenset({ContenderKind.CURATOR_WRITE}),
    ContenderKind.CURATOR_WRITE: frozenset({ContenderKind.CURATOR_READ, ContenderKind.CURATOR_WRITE}),
    ContenderKind.CURATOR_LATCH: frozenset({ContenderKind.CURATOR_LATCH}),
    ContenderKind.CURATOR_LEASE: frozenset(),
    ContenderKind.KAZOO_LOCK: frozenset({ContenderKind.KAZOO_LOCK, ContenderKind.KAZOO_READ}),
    ContenderKind.KAZOO_READ: frozenset({ContenderKind.KAZOO_LOCK}),
    ContenderKind.AIOZK_LOCK: frozenset(ContenderKind),
    ContenderKind.AIOZK_READ: frozenset({ContenderKind.AIOZK_WRITE}),
    ContenderKind.AIOZK_WRITE: frozenset(ContenderKind),
    ContenderKind.AIOZK_CANDIDATE: frozenset(ContenderKind),
    ContenderKind.ZOOKEEPER_LOCK: frozenset(
        {
            ContenderKind.CURATOR_LOCK,
            ContenderKind.CURATOR_LATCH,
            ContenderKind.ZOOKEEPER_LOCK,
            ContenderKind.ZOOKEEPER_CANDIDATE,
        }
        | {kind for kind in ContenderKind if kind.name.startswith("AIOZK")}
    ),
    ContenderKind.ZOOKEEPER_CANDIDATE: frozenset({ContenderKind.ZOOKEEPER_CANDIDATE}),
}
_COMPARES_TEXT = frozenset(
    {ContenderKind.CURATOR_LOCK, ContenderKind.CURATOR_WRITE, ContenderKind.CURATOR_LATCH}
)


def looks_at(name: ContenderName) -> frozenset[ContenderKind]:
    """Return the kinds of contenders for which a contender waits. It waits only for contenders with a lower
    number (recipe-rules.md B.2.3)."""
    match name.library:
        case Library.PYZK:
            return frozenset(kind for kind in _ALL if not (kind.shared and name.kind.shared))
        case Library.GO:
            return _GO
        case _:
            return _LOOKS_AT[name.kind]


def contenders(children: Mapping[str, Child]) -> tuple[list[Participant], list[str]]:
    """Return the contenders among the children in their order, and separately the names that no known library
    uses."""
    names, unknown = in_order(children)
    found: list[Participant] = []
    nearest: dict[ContenderKind, tuple[ContenderName, Participant]] = {}  # the last one of each kind
    for group in _by_sequence(_by_contender(names)):
        arrived = [_contender(own, children, unknown, nearest) for own in group]
        found += arrived
        for own, contender in zip(group, arrived, strict=True):
            for name in own:
                nearest[name.kind] = name, contender
    return found, unknown


def _by_contender(names: Iterable[ContenderName]) -> list[list[ContenderName]]:
    """Return a list of names for each contender. The lists are in the order of the contenders' first names. A
    contender of pyzk may have two names."""
    names = list(names)
    ours = {name.attempt for name in names if name.library is Library.PYZK}
    grouped: dict[str, list[ContenderName]] = {}
    for name in names:
        grouped.setdefault(name.attempt if name.attempt in ours else name.name, []).append(name)
    return list(grouped.values())


def _by_sequence(grouped: Iterable[list[ContenderName]]) -> Iterable[list[list[ContenderName]]]:
    for _, group in groupby(grouped, key=lambda own: own[0].sequence):
        yield list(group)


def _contender(
    own: Sequence[ContenderName],
    children: Mapping[str, Child],
    unknown: Sequence[str],
    nearest: Mapping[ContenderKind, tuple[ContenderName, Participant]],
) -> Participant:
    seen = looks_at(next((name for name in own if name.library is Library.PYZK), own[0]))
    before = [
        found for kind, found in nearest.items() if kind in seen and found[0].sequence < own[0].sequence
    ]
    contender = Participant(
        names=tuple(name.name for name in own),
        role=own[0].kind.role,
        library=Library.PYZK if any(name.library is Library.PYZK for name in own) else own[0].library,
        sequence=own[0].sequence,
        child=children[own[0].name],
    )
    if before:
        nearest_name, other = max(before, key=lambda found: (found[0].sequence, found[0].name))
        is_downgrade = contender.shared and not other.waits_for and other.session == contender.session
        if not (is_downgrade and other.session):
            return attrs.evolve(contender, waits_for=nearest_name.name)
    if own[0].kind in _COMPARES_TEXT and contender.library is Library.CURATOR:
        digits = f"{own[0].sequence:010d}"
        return attrs.evolve(contender, waits_for=next((name for name in unknown if name < digits), None))
    return contender
