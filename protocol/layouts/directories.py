"""Recognising directories: a lock, a semaphore, an election, a queue ... with its holders and waiters.

:func:`recognise` looks at the names of the children. If several recipes use the same names, this function
    also looks at the data and Stats of the znodes. The first rule that matches decides:

1. ``locks`` and ``leases``: Curator's semaphore. The children of ``leases`` are the holders, and the children
   of ``locks`` wait (recipe-rules.md B.5). The first child of ``locks`` creates its lease, and then waits
   until the number of leases is not above the limit. So a lease counts as not held yet if the first waiter's
   session created the lease after the first waiter's znode in ``locks``.
2. ``entries`` or ``taken``: kazoo's locking queue. The children of ``taken`` are claims of the queue's items
   (recipe-rules.md B.9).
3. ``lease_holder``: kazoo's lease by the clock (recipe-rules.md B.10).
4. Any contender: a lock, a read-write lock or an election, by the markers (recipe-rules.md B.2).
5. Members of a double barrier. The members wait until ``ready`` or ``sentinel`` exists.
6. Names of 32 hex digits. These children are leases of kazoo's semaphore if the gate of the semaphore exists,
   or if the directory's data is a limit. Otherwise they are members of kazoo's double barrier.
7. Items of queues; members of parties.
8. An ephemeral child with the name that a known program uses for its leader: an election.
9. Only ephemeral children: a group.

All other directories are not recognised. A barrier cannot be recognised, because it is one znode without
children. The elections of kazoo (``Election``) and of Curator's ``LeaderSelector`` have the znodes of locks,
so they are recognised as locks.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Iterable, Mapping, Sequence

import attrs

from ..paths import join
from .names import (
    BARRIER_MEMBERS,
    KAZOO_LEASE,
    PARTY_MEMBERS,
    QUEUE_ITEMS,
    Library,
    owner,
    parse,
)
from .waiting import LAST_SEQUENCE, Child, Participant, contenders


class Shape(enum.StrEnum):
    """The kinds of directories."""

    LOCK = "lock"
    READ_WRITE_LOCK = "read-write lock"
    SEMAPHORE = "semaphore"
    ELECTION = "election"
    LEASE = "lease"
    DOUBLE_BARRIER = "double barrier"
    QUEUE = "queue"
    GROUP = "group"


@attrs.frozen
class Directory:
    """A directory: a znode and its children, with the data and Stats that were read."""

    children: Mapping[str, Child]
    data: bytes | None = None


@attrs.frozen
class Layout:
    """A directory that was recognised.

    :ivar holders: the contenders that hold the directory now, in order. For a group, its members. For a
        double barrier, the members that have passed.
    :ivar waiters: the contenders that wait, in the order of their turns.
    :ivar limit: the number of contenders that may hold a semaphore at the same time; None if it is not
        stored.
    :ivar items: the number of items in a queue; None for other shapes.
    :ivar parts: other directories that belong to this directory.
    :ivar unknown: names of children that no known library uses.
    :ivar remarks: one sentence for each fault.
    :ivar library: the library, if it cannot be found out from the contenders of the directory.
    """

    shape: Shape
    holders: tuple[Participant, ...] = ()
    waiters: tuple[Participant, ...] = ()
    limit: int | None = None
    items: int | None = None
    parts: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    library: Library | None = None

    @property
    def libraries(self) -> tuple[Library, ...]:
        """The libraries of the contenders, in the order in which they came."""
        found = dict.fromkeys(entry.library for entry in (*self.holders, *self.waiters) if entry.library)
        return tuple(found) or ((self.library,) if self.library else ())


Directories = Mapping[str, Directory]
_GATE = "-__lock__"
_LONGEST_LIMIT = 10
"""The largest number of digits in the limit of a semaphore: an int32 has no more digits."""
_READY = {"ready", "sentinel"}
"""The names of the znode that lets the members of a double barrier pass. Curator and kazoo use ``ready``, and
aiozk uses ``sentinel``."""


def parts(path: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return the paths of other directories that must be read to recognise this directory. Some of these
    directories may not exist."""
    present = set(names)
    if {"locks", "leases"} <= present:
        return join(path, "locks"), join(path, "leases")
    if present and present <= {"entries", "taken"}:
        return join(path, "entries"), join(path, "taken")
    if path != "/" and all(map(KAZOO_LEASE.matches, present)):  # also if there is no lease at the moment
        return (path + _GATE,)
    return ()


def may_be_lock(names: Iterable[str]) -> bool:
    """Return whether a directory may be a lock, an election or a semaphore. Only the names of its children
    are needed.

    So a caller need not read the znodes of other directories, such as groups and queues.
    """
    present = set(names)
    return (
        {"locks", "leases"} <= present
        or "lease_holder" in present
        or not present.isdisjoint(_LEADERS)
        or owner(BARRIER_MEMBERS, present - _READY) is not None
        or any(map(parse, present))
    )


def recognise(path: str, directories: Directories) -> Layout | None:
    """Recognise a directory. Returns None for an unknown layout.

    :param directories: the directory itself and its existing :func:`parts`, by their paths.
    """
    for rule in _RULES:
        if (found := rule(path, directories)) is not None:
            return found
    return None


# --- the rules, in their order -----------------------------------------------------------------------------


def _curator_semaphore(path: str, directories: Directories) -> Layout | None:
    if not {"locks", "leases"} <= directories[path].children.keys():
        return None
    gate, leases = (directories.get(part, Directory({})) for part in parts(path, ("locks", "leases")))
    holders, foreign = contenders(leases.children)
    if any(holder.role != "lease" for holder in holders):
        return None
    remarks = [f"Curator counts {name}, which is no lease, as a lease." for name in foreign]
    waiters = _at_gate(gate)
    return Layout(
        Shape.SEMAPHORE,
        tuple(holder for holder in holders if not (waiters and _is_created_by(waiters[0], holder))),
        waiters,
        parts=parts(path, ("locks", "leases")),
        unknown=tuple(foreign),
        remarks=(*_complaints(holders), *remarks),
        library=Library.CURATOR,
    )


def _is_created_by(waiter: Participant, lease: Participant) -> bool:
    """Return whether the first contender at the gate created the lease after its own znode at the gate."""
    gate, own = waiter.child.stat, lease.child.stat
    return bool(gate and own and gate.ephemeralOwner == own.ephemeralOwner and gate.czxid < own.czxid)


def _at_gate(gate: Directory | None) -> tuple[Participant, ...]:
    """Return the contenders for a lease. The first contender waits for the lease, and each other contender
    waits for the contender before it."""
    return tuple(contenders(gate.children)[0]) if gate else ()


def _locking_queue(path: str, directories: Directories) -> Layout | None:
    if not (names := directories[path].children.keys()) or not names <= {"entries", "taken"}:
        return None
    entries, taken = (directories.get(part, Directory({})) for part in parts(path, names))
    if entries.children and owner(QUEUE_ITEMS, entries.children) is not Library.KAZOO:
        return None
    return Layout(
        Shape.QUEUE,
        _members(taken, Library.KAZOO, "claim"),
        items=len(entries.children),
        parts=parts(path, names),
        library=Library.KAZOO,
    )


def _time_lease(path: str, directories: Directories) -> Layout | None:
    child = directories[path].children.get("lease_holder")
    if child is None:
        return None
    try:
        terms = json.loads(child.data or b"{}")
        remarks = [f"{terms['holder']} holds it until {terms['end']}, in UTC, by the clock of its machine."]
    except (ValueError, KeyError, TypeError, RecursionError):
        remarks = []
    holder = Participant(("lease_holder",), "lease", Library.KAZOO, child=child)
    return Layout(Shape.LEASE, (holder,), remarks=tuple(remarks))


def _lock(path: str, directories: Directories) -> Layout | None:
    found, unknown = contenders(directories[path].children)
    if not found:
        return None
    holders = tuple(entry for entry in found if not entry.waits_for)
    waiters = tuple(entry for entry in found if entry.waits_for)
    roles = {entry.role for entry in found}
    shape = Shape.LOCK
    if roles == {"lease"}:
        shape = Shape.SEMAPHORE
    elif roles & {"read", "write"}:
        shape = Shape.READ_WRITE_LOCK
    elif roles <= {"latch", "candidate"}:
        shape = Shape.ELECTION
    remarks = _complaints(found)
    if shape is not Shape.SEMAPHORE and _is_shared_by_strangers(holders):
        remarks.append(
            _STRANGERS.format(len(holders), " and ".join(sorted({str(e.library) for e in holders})))
        )
    remarks += [
        f"{entry.name} waits for {entry.waits_for}, which is no contender: delete {entry.waits_for}."
        for entry in waiters
        if entry.waits_for in unknown
    ]
    return Layout(shape, holders, waiters, unknown=tuple(unknown), remarks=tuple(remarks))


_STRANGERS = (
    "{} hold it at the same time: the contenders of {} do not look at each other."
    ' Use one library for all, or pyzk with layout="both".'
)
"""The remark is wrong if some of the contenders with Curator's names are pyzk's contenders, because pyzk's
contenders wait for all other contenders."""


def _is_shared_by_strangers(holders: Sequence[Participant]) -> bool:
    """Return whether several contenders hold a lock that only one contender may hold at a time. A writer that
    became a reader is one contender with two znodes."""
    if all(entry.shared for entry in holders):
        return False
    return len({entry.session or entry.sequence for entry in holders}) > 1


def _complaints(found: Iterable[Participant]) -> list[str]:
    """Return a sentence for each fault of a single contender."""
    remarks = []
    for entry in found:
        if entry.session == 0:
            remarks.append(
                f"{entry.name} is persistent: it stays after its client has ended. Delete it by hand."
            )
        if entry.sequence is not None and not 0 <= entry.sequence < LAST_SEQUENCE:
            remarks.append(
                f"{entry.name} has a number after the last possible one: several contenders may hold the "
                f"lock. Use another path."
            )
    return remarks


def _double_barrier(path: str, directories: Directories) -> Layout | None:
    names = directories[path].children.keys()
    members = names - _READY
    library = owner(BARRIER_MEMBERS, members)
    if library is None or (library is Library.KAZOO and members == names):
        return None  # only names of 32 hex digits: see the next rule
    inside = _members(directories[path], library, "member", but=names - members)
    return _barrier(inside, passed=members != names)


def _barrier(inside: tuple[Participant, ...], *, passed: bool) -> Layout:
    return Layout(Shape.DOUBLE_BARRIER, inside if passed else (), () if passed else inside)


def _kazoo_semaphore(path: str, directories: Directories) -> Layout | None:
    here = directories[path]
    gate = directories.get(path + _GATE)
    if not all(map(KAZOO_LEASE.matches, here.children)):
        return None
    text = here.data or b""
    limit = int(text) if text.isdigit() and len(text) <= _LONGEST_LIMIT else None
    if gate is None and limit is None:
        return _barrier(_members(here, Library.KAZOO, "member"), passed=False) if here.children else None
    if gate is None and not here.children:
        return None  # any znode may hold a number
    return Layout(
        Shape.SEMAPHORE,
        _members(here, Library.KAZOO, "lease"),
        _at_gate(gate),
        limit=limit,
        parts=(path + _GATE,) if gate else (),
        library=Library.KAZOO,
    )


def _queue(path: str, directories: Directories) -> Layout | None:
    children = directories[path].children
    library = owner(QUEUE_ITEMS, children)
    if library is None:
        return None
    if any(child.stat and child.stat.ephemeralOwner for child in children.values()):
        return Layout(Shape.QUEUE, _members(directories[path], library, "claim"))
    return Layout(Shape.QUEUE, items=len(children), library=library)


def _party(path: str, directories: Directories) -> Layout | None:
    library = owner(PARTY_MEMBERS, directories[path].children)
    if library is None:
        return None
    return Layout(Shape.GROUP, _members(directories[path], library, "member"))


_LEADERS: Mapping[str, tuple[Library | None, frozenset[str]]] = {
    "leader": (
        Library.PATRONI,
        frozenset({"config", "initialize", "members", "status", "optime", "history"}),
    ),
    "ActiveStandbyElectorLock": (Library.HADOOP, frozenset()),
    "controller": (Library.KAFKA, frozenset({"brokers", "controller_epoch"})),
    "master": (Library.HBASE, frozenset({"hbaseid", "backup-masters"})),
    "lock": (None, frozenset()),
}
"""The programs that are known by the name of their leader's znode. Each program has the names of other znodes
in the same directory. If a program has such names, the program is recognised only if at least one of these
znodes exists."""


def _single(path: str, directories: Directories) -> Layout | None:
    children = directories[path].children
    for name, (library, beside) in _LEADERS.items():
        child = children.get(name)
        if child is not None and child.stat is not None and child.stat.ephemeralOwner:
            whose = library if not beside or beside & children.keys() else None
            role = "lock" if name == "lock" else "candidate"
            shape = Shape.LOCK if name == "lock" else Shape.ELECTION
            return Layout(shape, (Participant((name,), role, whose, child=child),))
    return None


def _group(path: str, directories: Directories) -> Layout | None:
    children = directories[path].children
    if not children or not all(child.stat and child.stat.ephemeralOwner for child in children.values()):
        return None
    return Layout(Shape.GROUP, _members(directories[path], None, "member"))


def _members(
    directory: Directory, library: Library | None, role: str, *, but: Iterable[str] = ()
) -> tuple[Participant, ...]:
    """Return all children, in the order of their creation if this order is known."""
    left_out = frozenset(but)
    found = sorted(
        (child.stat.czxid if child.stat else 0, name, child)
        for name, child in directory.children.items()
        if name not in left_out
    )
    return tuple(Participant((name,), role, library, child=child) for _, name, child in found)


_RULES: tuple[Callable[[str, Directories], Layout | None], ...] = (
    _curator_semaphore,
    _locking_queue,
    _time_lease,
    _lock,
    _double_barrier,
    _kazoo_semaphore,
    _queue,
    _party,
    _single,
    _group,
)
