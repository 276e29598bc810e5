"""The names of contenders: what ours are called, and how those of every known library are read.

A name ends in a marker and the server's ten digits (recipe-rules.md B.2.1). Each library looks for its own
markers only, so that contenders of two of them on one path may not see each other at all. Ours see them all
(B.2.2), and can be seen by all (``naming="both"``, B.2.5).
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable
from typing import Literal

import attrs

Naming = Literal["curator", "kazoo", "both"]
"""Who sees our contenders: Curator, the Go client and aiozk; kazoo, the Go client and aiozk; all of them,
for which two znodes are created in one transaction."""


OURS = "z"
"""What the kazoo half of a bridge begins with. Curator sorts a name without its marker by its first
characters: beside one of Curator's the other must begin with something above 9 (B.2.4)."""


class Kind(enum.Enum):
    """What a contender is, by the marker in its name."""

    CURATOR_LOCK = "-lock-"  # and the Go client's
    CURATOR_READ = "__READ__"
    CURATOR_WRITE = "__WRIT__"
    CURATOR_LATCH = "-latch-"
    CURATOR_LEASE = "-lease-"
    KAZOO_LOCK = "__lock__"
    KAZOO_READ = "__rlock__"
    AIOZK_LOCK = "lock"
    AIOZK_READ = "read"
    AIOZK_WRITE = "write"
    AIOZK_CANDIDATE = "candidate"
    ZOOKEEPER_LOCK = "x-"
    ZOOKEEPER_CANDIDATE = "n_"

    @property
    def shared(self) -> bool:
        """Whether it is a reader, which only writers have to wait for."""
        return self in (Kind.CURATOR_READ, Kind.KAZOO_READ, Kind.AIOZK_READ)


DEFAULT_KINDS = frozenset(Kind) - {Kind.CURATOR_LATCH, Kind.CURATOR_LEASE}
"""Whom a lock waits for."""

_MARKED = [
    Kind.CURATOR_LOCK,
    Kind.CURATOR_READ,
    Kind.CURATOR_WRITE,
    Kind.CURATOR_LATCH,
    Kind.CURATOR_LEASE,
    Kind.KAZOO_LOCK,
    Kind.KAZOO_READ,
]
_AIOZK = {kind.value: kind for kind in Kind if kind.name.startswith("AIOZK")}
# Ten characters with the sign, but the lowest numbers have eleven (recipe-rules.md 0.5).
_NUMBER = re.compile(r"\d{10}|-\d{9,10}", re.ASCII)
_OTHERS = [
    (re.compile(r"(?P<label>[^-]+)-[0-9a-f]{32}-(?P<number>.*)"), None),
    (re.compile(r"x-\d+-(?P<number>.*)"), Kind.ZOOKEEPER_LOCK),
    (re.compile(r"n_(?P<number>.*)"), Kind.ZOOKEEPER_CANDIDATE),
]


@attrs.frozen
class Place:
    """A contender's place in the queue."""

    name: str
    kind: Kind
    sequence: int


def parse(name: str) -> Place | None:
    """Read the name of a child; None if it is not that of a contender."""
    at, kind = max(((name.rfind(kind.value), kind) for kind in _MARKED), key=lambda found: found[0])
    if at >= 0:
        return _place(name, kind, name[at + len(kind.value) :])
    for pattern, other in _OTHERS:
        if match := pattern.fullmatch(name):
            found = other or _AIOZK.get(match["label"])
            return _place(name, found, match["number"]) if found else None
    return None


def _place(name: str, kind: Kind, number: str) -> Place | None:
    return Place(name, kind, int(number)) if _NUMBER.fullmatch(number) else None


def queue(names: Iterable[str]) -> tuple[list[Place], list[str]]:
    """The contenders among some names, first come first, and the names that belong to nobody known."""
    places, unknown = [], []
    for name in names:
        place = parse(name)
        if place is None:
            unknown.append(name)
        else:
            places.append(place)
    # A reader that was a writer has its number (B.4): the order of the two does not matter.
    places.sort(key=lambda place: (place.sequence, place.name))
    return places, sorted(unknown)


class Purpose(enum.Enum):
    """What one of ours contends for; the value is its marker for Curator, and for kazoo."""

    LOCK = (Kind.CURATOR_LOCK, Kind.KAZOO_LOCK)
    READ = (Kind.CURATOR_READ, Kind.KAZOO_READ)
    WRITE = (Kind.CURATOR_WRITE, Kind.KAZOO_LOCK)
    LATCH = (Kind.CURATOR_LATCH, Kind.KAZOO_LOCK)

    @property
    def shared(self) -> bool:
        return self is Purpose.READ

    def prefixes(self, naming: Naming, attempt: str) -> list[str]:
        """What our names begin with.

        :param attempt: a UUID in its usual form, for this one contender alone.
        """
        curator, kazoo = self.value
        dash = "-" if curator in (Kind.CURATOR_READ, Kind.CURATOR_WRITE) else ""
        names = []
        if naming != "kazoo":
            names.append(f"_c_{attempt}{dash}{curator.value}")
        if naming != "curator":
            names.append(f"{OURS if naming == 'both' else ''}{attempt.replace('-', '')}{kazoo.value}")
        return names
