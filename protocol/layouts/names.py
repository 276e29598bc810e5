"""The names of znodes in the directories of known libraries (recipe-rules.md B.2.1, B.5 to B.10).

The name of a contender ends in a marker and the number of ten digits that the server appends. The marker that
comes last in the name decides (recipe-rules.md B.2.2). A name without an exact marker is not the name of a
contender.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable

import attrs


class Library(enum.StrEnum):
    """The libraries and programs whose names are known."""

    CURATOR = "Curator"
    """Curator. pyzk's contenders use the names of Curator by default, so this value includes pyzk's
    contenders."""
    KAZOO = "kazoo"
    GO = "go-zookeeper"
    AIOZK = "aiozk"
    ZOOKEEPER = "ZooKeeper"
    """The recipes in ZooKeeper's own distribution."""
    PYZK = "pyzk"
    """pyzk's contenders, if a contender has both a name for Curator and a name for kazoo."""
    PATRONI = "Patroni"
    HADOOP = "Hadoop"
    KAFKA = "Kafka"
    HBASE = "HBase"


class ContenderKind(enum.Enum):
    """The kind of a contender, by the marker in its name."""

    CURATOR_LOCK = "-lock-"  # go-zookeeper uses it too
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
        """True for a reader. Writers wait for readers; readers do not wait for other readers."""
        return self in (ContenderKind.CURATOR_READ, ContenderKind.KAZOO_READ, ContenderKind.AIOZK_READ)

    @property
    def role(self) -> str:
        """The purpose of the contender: ``lock``, ``read``, ``write``, ``latch``, ``lease`` or
        ``candidate``."""
        return self.name.partition("_")[2].lower()


_MARKED = [
    ContenderKind.CURATOR_LOCK,
    ContenderKind.CURATOR_READ,
    ContenderKind.CURATOR_WRITE,
    ContenderKind.CURATOR_LATCH,
    ContenderKind.CURATOR_LEASE,
    ContenderKind.KAZOO_LOCK,
    ContenderKind.KAZOO_READ,
]
_AIOZK = {kind.value: kind for kind in ContenderKind if kind.name.startswith("AIOZK")}
# A number has 10 characters with its sign; the lowest negative numbers have 11 characters (recipe-rules.md
# 0.5).
NUMBER = r"(?P<number>\d{10}|-\d{9,10})"
_NUMBER = re.compile(NUMBER, re.ASCII)
_MARKER = re.compile(f".*({'|'.join(kind.value for kind in _MARKED)})(.*)", re.DOTALL)
_BY_MARKER = {kind.value: kind for kind in _MARKED}
_OTHERS = [
    (re.compile(r"(?P<label>[^-]+)-[0-9a-f]{32}-(?P<number>.*)"), None),
    (re.compile(r"x-\d+-(?P<number>.*)"), ContenderKind.ZOOKEEPER_LOCK),
    (re.compile(r"n_(?P<number>.*)"), ContenderKind.ZOOKEEPER_CANDIDATE),
]
_ATTEMPT = re.compile(
    r"_c_(?P<u36>[0-9a-f-]{36})-|_c_(?P<go>[0-9a-f]{32})-|(?P<ours>z)?(?P<h32>[0-9a-f]{32})__"
)


@attrs.frozen
class ContenderName:
    """The parts of the name of a contender's znode.

    :ivar sequence: the number at the end of the name. The contender with the lowest number is first.
    """

    name: str
    kind: ContenderKind
    sequence: int

    @property
    def library(self) -> Library:
        """The library that uses names with this marker."""
        match = _ATTEMPT.match(self.name)
        if match and match["go"] and self.kind is ContenderKind.CURATOR_LOCK:
            return Library.GO
        if match and match["ours"]:
            return Library.PYZK
        return Library[self.kind.name.partition("_")[0]]

    @property
    def attempt(self) -> str:
        """The 32 hex digits of the UUID in the name; the whole name if the name has no UUID.

        The two names of one pyzk contender have the same UUID (recipe-rules.md B.2.5).
        """
        match = _ATTEMPT.match(self.name)
        return (match["u36"] or match["h32"] or self.name).replace("-", "") if match else self.name


def parse(name: str) -> ContenderName | None:
    """Read the name of a child. Returns None if the name is not the name of a contender."""
    if match := _MARKER.fullmatch(name):
        return _contender(name, _BY_MARKER[match[1]], match[2])
    for pattern, other in _OTHERS:
        if match := pattern.fullmatch(name):
            found = other or _AIOZK.get(match["label"])
            return _contender(name, found, match["number"]) if found else None
    return None


def _contender(name: str, kind: ContenderKind, number: str) -> ContenderName | None:
    return ContenderName(name, kind, int(number)) if _NUMBER.fullmatch(number) else None


def number_after(prefix: str, name: str) -> int | None:
    """Read the number that the server has added to a prefix. After the highest number the server adds
    negative numbers. Returns None if the name is not the prefix and a number."""
    number = name[len(prefix) :]
    return int(number) if name.startswith(prefix) and _NUMBER.fullmatch(number) else None


def in_order(names: Iterable[str]) -> tuple[list[ContenderName], list[str]]:
    """Return the names of contenders in their order, and separately the names that no known library uses."""
    contenders, unknown = [], []
    for name in names:
        contender = parse(name)
        if contender is None:
            unknown.append(name)
        else:
            contenders.append(contender)
    # A reader that was a writer has the same number as the writer (recipe-rules.md B.4). The order of such a
    # pair does not matter.
    contenders.sort(key=lambda contender: (contender.sequence, contender.name))
    return contenders, sorted(unknown)


# --- names that are not those of contenders ----------------------------------------------------------------

_U36 = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_H32 = r"[0-9a-f]{32}"


def _compiled(text: str) -> re.Pattern[str]:
    return re.compile(text, re.ASCII)


@attrs.frozen
class Pattern:
    """A pattern for names of children that are not contenders. Its group ``number`` matches the digits that
    the server appends."""

    library: Library
    expression: re.Pattern[str] = attrs.field(converter=_compiled)

    def matches(self, name: str) -> bool:
        return self.expression.fullmatch(name) is not None


QUEUE_ITEMS = (
    Pattern(Library.ZOOKEEPER, rf"qn-{NUMBER}"),  # Curator's SimpleDistributedQueue uses them too
    Pattern(Library.CURATOR, rf"queue-{NUMBER}"),
    Pattern(Library.CURATOR, rf"queue-[01][0-9A-F]{{8}}{NUMBER}"),  # DistributedPriorityQueue
    Pattern(Library.CURATOR, rf"queue-\|.*\|{NUMBER}"),  # DistributedDelayQueue, DistributedIdQueue
    Pattern(Library.CURATOR, rf"queue-{_U36}"),  # QueueSharder: each child is a queue
    Pattern(Library.KAZOO, rf"entry-\d{{3}}-{NUMBER}"),
)
"""The names of items in queues (recipe-rules.md B.9)."""

PARTY_MEMBERS = (
    Pattern(Library.KAZOO, rf"{_H32}__party__"),
    Pattern(Library.KAZOO, rf"{_H32}-.+"),  # ShallowParty
    Pattern(Library.AIOZK, rf"(?!worker|lease|lock|read|write|candidate)[^-]+-{_H32}-{NUMBER}"),
)
"""The names of members of parties (recipe-rules.md B.10)."""

BARRIER_MEMBERS = (
    Pattern(Library.CURATOR, _U36),
    Pattern(Library.KAZOO, _H32),
    Pattern(Library.AIOZK, rf"worker-{_H32}-{NUMBER}"),
)
"""The names of members of a double barrier, including members that enter or leave the barrier
(recipe-rules.md B.7)."""

KAZOO_LEASE = Pattern(Library.KAZOO, _H32)
"""The name of a lease of kazoo's semaphore (recipe-rules.md B.5)."""


def owner(patterns: Iterable[Pattern], names: Iterable[str]) -> Library | None:
    """Return the library of the first pattern that matches all names. Returns None without such a pattern, or
    without names."""
    names = list(names)
    for pattern in patterns:
        if names and all(map(pattern.matches, names)):
            return pattern.library
    return None
