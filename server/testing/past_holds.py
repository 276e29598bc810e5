"""The earlier holders of a lock, and how long each held the lock. They are computed from the history of the
contenders of one directory.

* The first contender in order holds the lock. The hold begins when the contender becomes the first, and ends
  when its znode is deleted.
* If the history has no create of a contender, the contender existed before the history began. Then its znode
  is in the tree, or the history has the delete of its znode.
* The module works for locks with one holder at a time. The module does not see deletes inside a multi.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs

from ...protocol.layouts import in_order, parse
from ...protocol.paths import split
from .history import Entry

_ENDS = ("closed", "expired")
"""The events of a session that delete its ephemerals."""


@attrs.frozen
class Hold:
    """One hold that is over.

    :ivar name: the name of the holder's znode.
    :ivar session: the holder's session; 0 if it is not known.
    :ivar begun: the time at which the hold began, in seconds on the server's clock since its start.
    :ivar ended: the time at which the hold ended, in seconds on the server's clock since its start.
    """

    name: str
    session: int
    begun: float
    ended: float


@attrs.define
class _Line:
    """The present contenders with their sessions, the first contender, and the time at which it became the
    first."""

    sessions: dict[str, int]
    first: str | None = None
    owner: int = 0
    since: float = 0.0

    def moved(self, now: float) -> Iterator[Hold]:
        """Find the present first contender. If another contender was the first before, yield the hold that
        has ended."""
        names = in_order(self.sessions)[0]
        first = names[0].name if names else None
        if first != self.first:
            if self.first is not None and self.first not in self.sessions:
                yield Hold(self.first, self.owner, self.since, now)
            self.first, self.owner, self.since = first, self.sessions.get(first or "", 0), now


def past_holds(entries: Iterable[Entry], directory: str, present: Iterable[str]) -> Iterator[Hold]:
    """Yield the holds of a lock that are over, the oldest first.

    :param entries: the history.
    :param directory: the path of the lock.
    :param present: the names that are in the directory now.
    """
    changes = [change for entry in entries if (change := _change(entry, directory)) is not None]
    created = {name for _, name, _, comes in changes if comes}
    gone = {name for _, name, _, comes in changes if name and not comes}
    line = _Line({name: 0 for name in {*present, *gone} - created if parse(name) is not None})
    yield from line.moved(0.0)
    for now, name, session, comes in changes:
        if comes:
            line.sessions[name] = session
        elif name:
            line.sessions.pop(name, None)
        else:
            line.sessions = {each: own for each, own in line.sessions.items() if own != session}
        yield from line.moved(now)


def _change(entry: Entry, directory: str) -> tuple[float, str, int, bool] | None:
    """Return the time, the name, the session, and whether the znode was created. An empty name means all
    znodes of the session."""
    if entry.kind == "session" and entry.facts.step in _ENDS:
        return entry.time, "", entry.session, False
    if entry.kind != "reply" or entry.err:
        return None
    path = entry.facts.created or (entry.path if entry.op == "delete" else None)
    if path is None or path == "/":
        return None
    parent, name = split(path)
    if parent != directory or parse(name) is None:
        return None
    return entry.time, name, entry.session, entry.facts.created is not None
