"""The names of znodes in the directories of known libraries (recipe-rules.md B.2.1, B.5 to B.10).

The name of a contender ends in a marker and the number of ten digits that the server appends. The marker that
comes last in the name decides (recipe-rules.md B.2.2). What matches no marker exactly is no contender.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable

import attrs


class Library(enum.StrEnum):
    """Whose names these are."""

    CURATOR = "Curator"
    """And our own contenders in their default naming, whose names are Curator's, byte for byte."""
    KAZOO = "kazoo"
    GO = "go-zookeeper"
    AIOZK = "aiozk"
    ZOOKEEPER = "ZooKeeper"
    """The recipes in ZooKeeper's own distribution."""
    PYZK = "pyzk"
    """A contender of ours with a name for Curator and a name for kazoo."""
    PATRONI = "Patroni"
    HADOOP = "Hadoop"
    KAFKA = "Kafka"
    HBASE = "HBase"


class Kind(enum.Enum):
    """What a contender is, by the marker in its name."""

    CURATOR_LOCK = "-lock-"  # and go-zookeeper's
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

    @property
    def role(self) -> str:
        """What it contends for: ``lock``, ``read``, ``write``, ``latch``, ``lease`` or ``candidate``."""
        return self.name.partition("_")[2].lower()


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
NUMBER = r"(?P<number>\d{10}|-\d{9,10})"
_NUMBER = re.compile(NUMBER, re.ASCII)
_OTHERS = [
    (re.compile(r"(?P<label>[^-]+)-[0-9a-f]{32}-(?P<number>.*)"), None),
    (re.compile(r"x-\d+-(?P<number>.*)"), Kind.ZOOKEEPER_LOCK),
    (re.compile(r"n_(?P<number>.*)"), Kind.ZOOKEEPER_CANDIDATE),
]
_ATTEMPT = re.compile(
    r"_c_(?P<u36>[0-9a-f-]{36})-|_c_(?P<go>[0-9a-f]{32})-|(?P<ours>z)?(?P<h32>[0-9a-f]{32})__"
)


@attrs.frozen
class Place:
    """A contender's place in the queue."""

    name: str
    kind: Kind
    sequence: int

    @property
    def library(self) -> Library:
        """Whose name it is."""
        match = _ATTEMPT.match(self.name)
        if match and match["go"] and self.kind is Kind.CURATOR_LOCK:
            return Library.GO
        if match and match["ours"]:
            return Library.PYZK
        return Library[self.kind.name.partition("_")[0]]

    @property
    def attempt(self) -> str:
        """The 32 hex digits of the UUID in the name; the name itself where there is none.

        The two names of one contender of ours have one UUID (recipe-rules.md B.2.5).
        """
        match = _ATTEMPT.match(self.name)
        return (match["u36"] or match["h32"] or self.name).replace("-", "") if match else self.name


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
    # A reader that was a writer has its number (recipe-rules.md B.4): the order of the two does not matter.
    places.sort(key=lambda place: (place.sequence, place.name))
    return places, sorted(unknown)


# --- names that are not those of contenders ----------------------------------------------------------------

_U36 = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_H32 = r"[0-9a-f]{32}"


def _compiled(text: str) -> re.Pattern[str]:
    return re.compile(text, re.ASCII)


@attrs.frozen
class Pattern:
    """Names of children other than contenders; the group ``number`` is what the server has appended."""

    library: Library
    expression: re.Pattern[str] = attrs.field(converter=_compiled)

    def matches(self, name: str) -> bool:
        return self.expression.fullmatch(name) is not None


QUEUE_ITEMS = (
    Pattern(Library.ZOOKEEPER, rf"qn-{NUMBER}"),  # and Curator's SimpleDistributedQueue
    Pattern(Library.CURATOR, rf"queue-{NUMBER}"),
    Pattern(Library.CURATOR, rf"queue-[01][0-9A-F]{{8}}{NUMBER}"),  # DistributedPriorityQueue
    Pattern(Library.CURATOR, rf"queue-\|.*\|{NUMBER}"),  # DistributedDelayQueue, DistributedIdQueue
    Pattern(Library.CURATOR, rf"queue-{_U36}"),  # QueueSharder: each is a queue
    Pattern(Library.KAZOO, rf"entry-\d{{3}}-{NUMBER}"),
)
"""Items of queues (recipe-rules.md B.9)."""

PARTY_MEMBERS = (
    Pattern(Library.KAZOO, rf"{_H32}__party__"),
    Pattern(Library.KAZOO, rf"{_H32}-.+"),  # ShallowParty
    Pattern(Library.AIOZK, rf"(?!worker|lease|lock|read|write|candidate)[^-]+-{_H32}-{NUMBER}"),
)
"""Members of parties (recipe-rules.md B.10)."""

BARRIER_MEMBERS = (
    Pattern(Library.CURATOR, _U36),
    Pattern(Library.KAZOO, _H32),
    Pattern(Library.AIOZK, rf"worker-{_H32}-{NUMBER}"),
)
"""Those inside a double barrier, or on their way into it or out of it (recipe-rules.md B.7)."""

KAZOO_LEASE = Pattern(Library.KAZOO, _H32)
"""A lease of kazoo's semaphore (recipe-rules.md B.5)."""


def owner(patterns: Iterable[Pattern], names: Iterable[str]) -> Library | None:
    """The library one of whose patterns matches every one of some names, of which there is one at least."""
    names = list(names)
    for pattern in patterns:
        if names and all(map(pattern.matches, names)):
            return pattern.library
    return None
