"""Who waits for whom in a directory of contenders.

The rules, for contenders in the order of their numbers:

1. A contender waits for those before it that *its own library* looks at (recipe-rules.md B.2.3), and for the
   nearest of them last: that one is what :attr:`Contender.waits_for` names.
2. Readers do not wait for readers; latches wait for latches alone, leases for nobody.
3. A contender that waits for nobody holds. Libraries that do not look at each other hold at the same time,
   as Curator and kazoo do.
4. What cannot be told from a name is decided so: ``__lock__`` waits for kazoo's readers too, as ``WriteLock``
   does and ``Lock`` does not; ``_c_<UUID>`` is Curator's, though ours is called so as well and looks at all.
5. A reader whose session holds as the writer before it is that writer, on its way down (recipe-rules.md B.4).
6. Curator compares texts and filters nothing: an unknown child whose name is less than the digits of a
   number blocks Curator's contenders for ever (recipe-rules.md B.2.3, last column).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

import attrs

from ..records import Stat
from .names import Kind, Library, Place, queue

LAST_SEQUENCE = 2**31 - 1
"""From here on the server gives every contender the same number (recipe-rules.md 0.4)."""


@attrs.frozen
class Child:
    """A child, as far as it was read.

    :ivar stat: None if it was not read.
    :ivar data: None if it was not read, or is null.
    """

    stat: Stat | None = None
    data: bytes | None = None


@attrs.frozen
class Contender:
    """One who holds, waits, or is a member of something.

    :ivar names: of its znodes; two where it has a name for Curator and a name for kazoo.
    :ivar role: ``lock``, ``read``, ``write``, ``latch``, ``lease``, ``candidate``, ``member`` or ``claim``.
    :ivar library: None if no library is known by such a name.
    :ivar sequence: its number in the queue; None where there are no numbers.
    :ivar child: what was read of its (first) znode.
    :ivar waits_for: the name of the znode that has to go before this one can be granted; None for who holds.
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
        """The session that it belongs to, 0 for none; None if that is not known."""
        return self.child.stat.ephemeralOwner if self.child.stat else None


_ALL = frozenset(Kind) - {Kind.CURATOR_LATCH, Kind.CURATOR_LEASE}
_GO = frozenset({Kind.CURATOR_LOCK, Kind.CURATOR_READ, Kind.CURATOR_WRITE, Kind.KAZOO_LOCK, Kind.KAZOO_READ})
_LOOKS_AT: Mapping[Kind, frozenset[Kind]] = {
    Kind.CURATOR_LOCK: frozenset({Kind.CURATOR_LOCK}),
    Kind.CURATOR_READ: frozenset({Kind.CURATOR_WRITE}),
    Kind.CURATOR_WRITE: frozenset({Kind.CURATOR_READ, Kind.CURATOR_WRITE}),
    Kind.CURATOR_LATCH: frozenset({Kind.CURATOR_LATCH}),
    Kind.CURATOR_LEASE: frozenset(),
    Kind.KAZOO_LOCK: frozenset({Kind.KAZOO_LOCK, Kind.KAZOO_READ}),
    Kind.KAZOO_READ: frozenset({Kind.KAZOO_LOCK}),
    Kind.AIOZK_LOCK: frozenset(Kind),
    Kind.AIOZK_READ: frozenset({Kind.AIOZK_WRITE}),
    Kind.AIOZK_WRITE: frozenset(Kind),
    Kind.AIOZK_CANDIDATE: frozenset(Kind),
    Kind.ZOOKEEPER_LOCK: frozenset(
        {Kind.CURATOR_LOCK, Kind.CURATOR_LATCH, Kind.ZOOKEEPER_LOCK, Kind.ZOOKEEPER_CANDIDATE}
        | {kind for kind in Kind if kind.name.startswith("AIOZK")}
    ),
    Kind.ZOOKEEPER_CANDIDATE: frozenset({Kind.ZOOKEEPER_CANDIDATE}),
}
_COMPARES_TEXT = frozenset({Kind.CURATOR_LOCK, Kind.CURATOR_WRITE, Kind.CURATOR_LATCH})


def looks_at(place: Place) -> frozenset[Kind]:
    """The kinds that a contender waits for when their number is lower (recipe-rules.md B.2.3)."""
    match place.library:
        case Library.PYZK:
            return frozenset(kind for kind in _ALL if not (kind.shared and place.kind.shared))
        case Library.GO:
            return _GO
        case _:
            return _LOOKS_AT[place.kind]


def contenders(children: Mapping[str, Child]) -> tuple[list[Contender], list[str]]:
    """The contenders among the children, first come first, and the names that are nobody's known."""
    places, unknown = queue(children)
    found: list[Contender] = []
    nearest: dict[Kind, tuple[Place, Contender]] = {}
    """By kind: the last place before the present number."""
    for group in _by_sequence(_by_contender(places)):
        arrived = [_contender(own, children, unknown, nearest) for own in group]
        found += arrived
        for own, contender in zip(group, arrived, strict=True):
            for place in own:
                nearest[place.kind] = place, contender
    return found, unknown


def _by_contender(places: Iterable[Place]) -> list[list[Place]]:
    """The places of each contender, in the order of their first; ours may have two."""
    places = list(places)
    ours = {place.attempt for place in places if place.library is Library.PYZK}
    grouped: dict[str, list[Place]] = {}
    for place in places:
        grouped.setdefault(place.attempt if place.attempt in ours else place.name, []).append(place)
    return list(grouped.values())


def _by_sequence(grouped: Iterable[list[Place]]) -> Iterable[list[list[Place]]]:
    for _, group in groupby(grouped, key=lambda own: own[0].sequence):
        yield list(group)


def _contender(
    own: Sequence[Place],
    children: Mapping[str, Child],
    unknown: Sequence[str],
    nearest: Mapping[Kind, tuple[Place, Contender]],
) -> Contender:
    seen = looks_at(next((place for place in own if place.library is Library.PYZK), own[0]))
    before = [
        found for kind, found in nearest.items() if kind in seen and found[0].sequence < own[0].sequence
    ]
    contender = Contender(
        names=tuple(place.name for place in own),
        role=own[0].kind.role,
        library=Library.PYZK if any(place.library is Library.PYZK for place in own) else own[0].library,
        sequence=own[0].sequence,
        child=children[own[0].name],
    )
    if before:
        place, other = max(before, key=lambda found: (found[0].sequence, found[0].name))
        is_downgrade = contender.shared and not other.waits_for and other.session == contender.session
        if not (is_downgrade and other.session):
            return attrs.evolve(contender, waits_for=place.name)
    if own[0].kind in _COMPARES_TEXT and contender.library is Library.CURATOR:
        digits = f"{own[0].sequence:010d}"
        return attrs.evolve(contender, waits_for=next((name for name in unknown if name < digits), None))
    return contender
