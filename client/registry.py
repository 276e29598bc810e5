"""Who watches what: the client's half of the watches, without I/O.

The server keeps one watch per connection, path and kind, whatever the number of local users. This registry
shares it between them, hands out the events, re-arms after a reconnect, and knows when nobody is left.

Three facts shape it:

* A registration exists from the moment the read is *submitted* (``reserve``), not only from its reply: a
  removal sent in between would take the fresh watch along.
* Servers 3.6 to 3.8 keep a single mode per connection and path, the last one registered winning (semantics.md
  section 17): a one-shot watch would end a persistent one at the same path, and a persistent one a recursive
  one. So whoever comes second does not ask for the lesser mode; it rides on the greater. A recursive watch
  has no CHILD events: those of its own path are made here, of what it reports of the children.
* They cannot remove a persistent watch alone either (watcher types 4 and 5 are unknown before 3.9). So a
  persistent watch is removed together with everything else at its path, once nobody uses the path any more.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import attrs

from ..protocol.constants import EventType, WatcherType
from ..protocol.jute import Record, encode_text
from ..protocol.operations import OpCode
from ..protocol.paths import parent_of
from ..protocol.records import SetWatches, SetWatches2
from .events import Missed, MissedReason, WatchEvent


class WatchKind(enum.Enum):
    """The lists of setWatches2, in its order. EXIST is a data watch on a znode that was not there."""

    DATA = enum.auto()
    EXIST = enum.auto()
    CHILD = enum.auto()
    PERSISTENT = enum.auto()
    RECURSIVE = enum.auto()


_ONE_SHOT = (WatchKind.DATA, WatchKind.EXIST, WatchKind.CHILD)
_LASTING = (WatchKind.PERSISTENT, WatchKind.RECURSIVE)
_DATA_SIDE = (WatchKind.DATA, WatchKind.EXIST)

# Which one-shot watches an event ends (semantics.md section 10.2).
_ENDS = {
    EventType.CREATED: _DATA_SIDE,
    EventType.CHANGED: _DATA_SIDE,
    EventType.DELETED: _ONE_SHOT,
    EventType.CHILD: (WatchKind.CHILD,),
}


class Watcher(Protocol):
    """A local user of a watch."""

    def deliver(self, event: WatchEvent | Missed) -> None: ...

    def end(self, error: Exception) -> None: ...


@attrs.define
class _Path:
    """The users of one path."""

    users: dict[WatchKind, list[Watcher]] = attrs.Factory(dict)
    reserved: list[WatchKind] = attrs.Factory(list)
    superfluous: bool = False
    """The server may watch more here than the users need."""
    deep: bool = False
    """The server has a recursive watch here."""

    def uses(self, kinds: Iterable[WatchKind]) -> bool:
        return any(kind in self.users or kind in self.reserved for kind in kinds)

    def add(self, kind: WatchKind, watcher: Watcher) -> None:
        self.users.setdefault(kind, []).append(watcher)

    def discard(self, kind: WatchKind, watcher: Watcher) -> bool:
        watchers = self.users.get(kind, [])
        if watcher not in watchers:
            return False
        watchers.remove(watcher)
        if not watchers:
            del self.users[kind]
        return True


@attrs.frozen
class Rearm:
    """One frame that arms watches again, and whom to tell that they may have missed something."""

    opcode: OpCode
    record: Record
    watchers: list[tuple[str, Watcher]]


class WatchRegistry:
    """All watches of a client, by the server's paths.

    :ivar remove: called with a path and a watcher type when the server's watch is no longer needed.
    :ivar events: how many notifications have arrived.
    """

    def __init__(self) -> None:
        self._paths: dict[str, _Path] = {}
        self._recursive: Counter[int] = Counter()  # of the paths with recursive users: their lengths
        self.remove: Callable[[str, WatcherType], object] = lambda path, type: None
        self.events = 0

    def __len__(self) -> int:
        """How many local watches are armed."""
        return sum(len(watchers) for entry in self._paths.values() for watchers in entry.users.values())

    # --- users come and go -------------------------------------------------------------------------------

    def reserve(self, path: str, kind: WatchKind) -> bool:
        """A request that will arm a watch is about to be submitted.

        :returns: whether it has to ask the server for this kind. False where it rides on a greater one.
        """
        entry = self._paths.setdefault(path, _Path())
        greater = {WatchKind.PERSISTENT: (WatchKind.RECURSIVE,), WatchKind.RECURSIVE: ()}.get(kind, _LASTING)
        rides = entry.deep if kind is WatchKind.PERSISTENT else entry.superfluous and kind in _ONE_SHOT
        rides = rides or entry.uses(greater)
        entry.reserved.append(kind)
        return not rides

    def settle(self, path: str, reserved: WatchKind, armed: WatchKind | None, watcher: Watcher) -> None:
        """The request has its answer: the watch is armed, or (None) it is not."""
        entry = self._paths.get(path)
        if entry is None:  # after the end
            return
        entry.reserved.remove(reserved)
        if armed is None:
            self._released(path, entry, reserved, asked=False)
            return
        entry.add(armed, watcher)
        if armed is WatchKind.RECURSIVE:
            entry.deep = True
            self._recursive[len(path)] += 1

    def leave(self, path: str, watcher: Watcher) -> None:
        """A user has gone. Harmless if its watch has fired or was never armed."""
        entry = self._paths.get(path)
        if entry is None:
            return
        for kind in WatchKind:
            if entry.discard(kind, watcher):
                if kind is WatchKind.RECURSIVE:
                    self._recursive -= Counter({len(path): 1})
                self._released(path, entry, kind, asked=True)
                return

    def _released(self, path: str, entry: _Path, kind: WatchKind, *, asked: bool) -> None:
        """One user less; ``asked`` unless the server never armed anything for it."""
        if not entry.uses(WatchKind):
            del self._paths[path]
            if entry.superfluous or (asked and kind in _LASTING):
                self.remove(path, WatcherType.ANY)
                return
        elif kind in _LASTING:
            entry.superfluous = True
            return
        side = (WatchKind.CHILD,) if kind is WatchKind.CHILD else _DATA_SIDE
        if asked and not entry.uses(side) and not entry.uses(_LASTING) and not entry.superfluous:
            self.remove(path, WatcherType.CHILDREN if kind is WatchKind.CHILD else WatcherType.DATA)

    # --- events ------------------------------------------------------------------------------------------

    def notify(self, type: EventType, path: str, zxid: int | None, *, catch_up: bool = False) -> None:
        """Hand a notification to those it concerns. ``path`` begins with a slash.

        :param catch_up: it came before the answer to :meth:`rearm`, so it may be about a change of before:
            of that a recursive watch tells nothing.
        """
        self.events += 1
        event = WatchEvent(type, path, zxid)
        entry = self._paths.get(path)
        if type is EventType.CHILD:
            if entry is not None and (catch_up or not entry.deep):
                self._deliver(entry, event)
            return
        if entry is not None:
            self._deliver(entry, event)
        for length in sorted(self._recursive, reverse=True) if self._recursive else ():
            # One step for each length that a path with recursive users has, however deep the event's path.
            if length == len(path) or length == 1 or path[length : length + 1] == "/":
                above = self._paths.get(path[:length])
                for watcher in list(above.users.get(WatchKind.RECURSIVE, ())) if above else ():
                    watcher.deliver(event)
        if type is not EventType.CHANGED and path != "/":
            parent = parent_of(path) or "/"
            above = self._paths.get(parent)
            if above is not None and above.deep:
                self._deliver(above, WatchEvent(EventType.CHILD, parent, zxid))

    def _deliver(self, entry: _Path, event: WatchEvent) -> None:
        """To the users of the event's own path, but the recursive ones."""
        ended = [watcher for kind in _ENDS[event.type] for watcher in entry.users.pop(kind, ())]
        lasting = list(entry.users.get(WatchKind.PERSISTENT, ()))
        if ended and not entry.uses(WatchKind):
            self._released(event.path, entry, WatchKind.DATA, asked=False)
        for watcher in ended + lasting:
            watcher.deliver(event)

    # --- the life of the session -------------------------------------------------------------------------

    def disconnected(self) -> None:
        """The server has forgotten all watches of the connection."""
        for path, entry in list(self._paths.items()):
            entry.superfluous = entry.deep = False
            if not entry.uses(WatchKind):
                del self._paths[path]

    def rearm(self, relative_zxid: int, limit: int) -> Iterator[Rearm]:
        """The frames that arm everything again, none with more than ``limit`` bytes of paths (but a path
        alone may have more)."""
        flat = [
            (kind, path) for path, entry in self._paths.items() for kind in WatchKind if kind in entry.users
        ]
        lasting = any(kind in _LASTING for kind, _ in flat)
        chunk: dict[WatchKind, list[str]] = {kind: [] for kind in WatchKind}
        size = 0
        for kind, path in flat:
            cost = len(encode_text(path)) + 4
            if size and size + cost > limit:
                yield self._rearm(chunk, relative_zxid, lasting)
                chunk = {kind: [] for kind in WatchKind}
                size = 0
            chunk[kind].append(path)
            self._paths[path].deep |= kind is WatchKind.RECURSIVE
            size += cost
        if size:
            yield self._rearm(chunk, relative_zxid, lasting)

    def _rearm(self, chunk: dict[WatchKind, list[str]], relative_zxid: int, lasting: bool) -> Rearm:
        watchers = [
            (path, watcher)
            for kind in _LASTING
            for path in chunk[kind]
            for watcher in self._paths[path].users[kind]
        ]
        data, exist, child, persistent, recursive = (chunk[kind] for kind in WatchKind)
        if not lasting:  # understood by servers before 3.6 too
            return Rearm(OpCode.SET_WATCHES, SetWatches(relative_zxid, data, exist, child), watchers)
        record = SetWatches2(relative_zxid, data, exist, child, persistent, recursive)
        return Rearm(OpCode.SET_WATCHES2, record, watchers)

    def expired(self) -> None:
        """The session is gone: one-shot watches end, lasting ones wait for the next session."""
        for path, entry in list(self._paths.items()):
            ended = [watcher for kind in _ONE_SHOT for watcher in entry.users.pop(kind, ())]
            for watcher in ended:
                watcher.deliver(Missed(path, MissedReason.EXPIRED))
        self.disconnected()

    def end(self, error: Exception) -> None:
        """Nothing will be reported any more."""
        paths, self._paths = self._paths, {}
        self._recursive.clear()
        for entry in paths.values():
            for watchers in entry.users.values():
                for watcher in list(watchers):
                    watcher.end(error)
