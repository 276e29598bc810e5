"""The events that watches report, and the registry of the client's watches. No I/O.

The server keeps one watch for each connection, path and kind, for any number of local users. This registry
shares the watch between its users, delivers the events, and arms the watches again after a reconnect. When
the last user of a watch has left, the registry makes the server remove the watch.

The reasons for the rules of the registry:

* A user is counted from the moment at which the read is *submitted* (``reserve``), not from the reply.
  Otherwise a removal that is sent before the reply would also remove the new watch.
* Servers 3.6 to 3.8 keep one mode for each connection and path: the mode of the last request (semantics.md
  section 17). A one-shot watch would end a persistent watch at the same path, and a persistent watch would
  end a recursive one. Therefore a request for the lesser mode is not sent to the server. The user of the
  lesser mode gets the events of the greater watch. A recursive watch has no CHILD events. The registry makes
  the CHILD events of the path from the events of the children.
* Servers 3.6 to 3.8 do not support the watcher types 4 and 5, and so cannot remove a persistent watch alone.
  Therefore the client removes a persistent watch together with all other watches of its path, when the path
  has no more users.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import attrs

from ..protocol import paths
from ..protocol.constants import EventType, WatcherType
from ..protocol.jute import Record, encode_text
from ..protocol.operations import OpCode
from ..protocol.records import SetWatches, SetWatches2


@attrs.frozen
class WatchEvent:
    """A change at a znode.

    :ivar type: CREATED, DELETED, CHANGED (the data) or CHILD (a child was created or deleted).
    :ivar path: the znode.
    :ivar zxid: the zxid of the change. None if the server does not send the zxid. Servers before 3.9 never
        send the zxid. No server sends the zxid of a change that was made while the client was disconnected.
    """

    type: EventType
    path: str
    zxid: int | None = None


class MissedReason(enum.Enum):
    """Why events may be missing."""

    RECONNECTED = "the connection was lost, and there is another"
    EXPIRED = "the session expired"
    OVERFLOW = "too many events were unread"


@attrs.frozen
class Missed:
    """Some changes may not be reported: read again what you follow.

    The watch is still armed, with one exception: a one-shot watch that fires with EXPIRED is gone, like the
    ephemeral znodes of the session.

    :ivar path: the watched path.
    """

    path: str
    reason: MissedReason


Event = WatchEvent | Missed


class WatchKind(enum.Enum):
    """The kinds of watches, in the order of their lists in setWatches2. EXIST is a data watch on a znode that
    does not exist."""

    DATA = enum.auto()
    EXIST = enum.auto()
    CHILD = enum.auto()
    PERSISTENT = enum.auto()
    RECURSIVE = enum.auto()


_ONE_SHOT = (WatchKind.DATA, WatchKind.EXIST, WatchKind.CHILD)
_LASTING = (WatchKind.PERSISTENT, WatchKind.RECURSIVE)
_DATA_SIDE = (WatchKind.DATA, WatchKind.EXIST)

_ENDS = {  # which one-shot watches an event ends (semantics.md section 10.2)
    EventType.CREATED: _DATA_SIDE,
    EventType.CHANGED: _DATA_SIDE,
    EventType.DELETED: _ONE_SHOT,
    EventType.CHILD: (WatchKind.CHILD,),
}


class Watcher(Protocol):
    """A local user of a watch."""

    def deliver(self, event: WatchEvent | Missed) -> None:
        """Take an event. The path of the event is the path at the server."""

    def end(self, error: Exception) -> None:
        """Called when no more events will come."""


@attrs.define
class _Path:
    """The users of one path.

    :ivar users: the users whose watches are armed.
    :ivar reserved: the kinds of the watches with requests in flight.
    :ivar superfluous: whether the server may have more watches at this path than the users need.
    :ivar recursive: whether the server has a recursive watch at this path.
    """

    users: dict[WatchKind, list[Watcher]] = attrs.Factory(dict)
    reserved: list[WatchKind] = attrs.Factory(list)
    superfluous: bool = False
    recursive: bool = False

    @property
    def is_used(self) -> bool:
        return bool(self.users or self.reserved)

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
    """A request that arms watches again.

    :ivar watchers: the users of persistent watches, with their paths: they may have missed events.
    """

    opcode: OpCode
    record: Record
    watchers: list[tuple[str, Watcher]]


class WatchRegistry:
    """All watches of a client. Paths are the server's.

    :ivar remove: called with a path and a watcher type when the server is to remove its watch.
    :ivar events: how many events have come from servers.
    """

    def __init__(self) -> None:
        self._paths: dict[str, _Path] = {}
        self._recursive: Counter[int] = Counter()  # lengths of the paths with recursive users
        self.remove: Callable[[str, WatcherType], object] = lambda path, type: None
        self.events = 0

    def __len__(self) -> int:
        """Count the local watches that are armed."""
        return sum(len(watchers) for entry in self._paths.values() for watchers in entry.users.values())

    # --- users come and go -------------------------------------------------------------------------------

    def reserve(self, path: str, kind: WatchKind) -> bool:
        """Register a request that is about to be submitted and arms a watch.

        :returns: whether the request has to ask the server for this kind of watch; False where a greater
            watch serves it.
        """
        entry = self._paths.setdefault(path, _Path())
        greater = {WatchKind.PERSISTENT: (WatchKind.RECURSIVE,), WatchKind.RECURSIVE: ()}.get(kind, _LASTING)
        rides = entry.recursive if kind is WatchKind.PERSISTENT else entry.superfluous and kind in _ONE_SHOT
        rides = rides or entry.uses(greater)
        entry.reserved.append(kind)
        return not rides

    def settle(self, path: str, reserved: WatchKind, armed: WatchKind | None, watcher: Watcher) -> None:
        """Register the answer to the request.

        :param armed: the kind of watch that is armed now; None for none.
        """
        entry = self._paths.get(path)
        if entry is None:  # the client was closed meanwhile
            return
        entry.reserved.remove(reserved)
        if armed is None:
            self._released(path, entry, reserved, asked=False)
            return
        entry.add(armed, watcher)
        if armed is WatchKind.RECURSIVE:
            entry.recursive = True
            self._recursive[len(path)] += 1

    def leave(self, path: str, watcher: Watcher) -> None:
        """Remove a user. This does nothing if the watch has fired or was never armed."""
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
        """Make the server remove the watches that no user needs after a user has left.

        :param asked: whether the server may have armed a watch for this user.
        """
        if not entry.is_used:
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
        """Deliver an event of the server to the users of its watches.

        :param path: begins with a slash.
        :param zxid: None where the server does not say.
        :param catch_up: whether the event came before the answer to :meth:`rearm`. Then the change may be
            older than the connection, and a recursive watch will not report it.
        """
        self.events += 1
        event = WatchEvent(type, path, zxid)
        entry = self._paths.get(path)
        if type is EventType.CHILD:
            if entry is not None and (catch_up or not entry.recursive):
                self._deliver(entry, event)
            return
        if entry is not None:
            self._deliver(entry, event)
        for length in sorted(self._recursive, reverse=True) if self._recursive else ():
            # One step for each length that paths with recursive users have, not one for each parent.
            if length == len(path) or length == 1 or path[length : length + 1] == "/":
                above = self._paths.get(path[:length])
                for watcher in list(above.users.get(WatchKind.RECURSIVE, ())) if above else ():
                    watcher.deliver(event)
        if type is not EventType.CHANGED and path != "/":
            parent = paths.parent(path)
            above = self._paths.get(parent)
            if above is not None and above.recursive:
                self._deliver(above, WatchEvent(EventType.CHILD, parent, zxid))

    def _deliver(self, entry: _Path, event: WatchEvent) -> None:
        """Deliver an event to the users of the event's own path, except users of recursive watches."""
        ended = [watcher for kind in _ENDS[event.type] for watcher in entry.users.pop(kind, ())]
        lasting = list(entry.users.get(WatchKind.PERSISTENT, ()))
        if ended and not entry.is_used:
            self._released(event.path, entry, WatchKind.DATA, asked=False)
        for watcher in ended + lasting:
            watcher.deliver(event)

    # --- the life of the session -------------------------------------------------------------------------

    def disconnected(self) -> None:
        """Note that the connection is lost, and the server has forgotten all its watches."""
        for path, entry in list(self._paths.items()):
            entry.superfluous = entry.recursive = False
            if not entry.is_used:
                del self._paths[path]

    def rearm(self, relative_zxid: int, limit: int) -> Iterator[Rearm]:
        """Yield the requests that arm all watches again.

        :param relative_zxid: the server reports changes of one-shot watches since this zxid.
        :param limit: the largest number of bytes of paths in one request; a longer path has its own request.
        """
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
            self._paths[path].recursive |= kind is WatchKind.RECURSIVE
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
        if not lasting:  # servers before 3.6 know only this one
            return Rearm(OpCode.SET_WATCHES, SetWatches(relative_zxid, data, exist, child), watchers)
        record = SetWatches2(relative_zxid, data, exist, child, persistent, recursive)
        return Rearm(OpCode.SET_WATCHES2, record, watchers)

    def expired(self) -> None:
        """Note that the session has expired. One-shot watches end, and persistent watches wait for the next
        session."""
        for path, entry in list(self._paths.items()):
            ended = [watcher for kind in _ONE_SHOT for watcher in entry.users.pop(kind, ())]
            for watcher in ended:
                watcher.deliver(Missed(path, MissedReason.EXPIRED))
        self.disconnected()

    def end(self, error: Exception) -> None:
        """Inform all users that no more events will come."""
        paths, self._paths = self._paths, {}
        self._recursive.clear()
        for entry in paths.values():
            for watchers in entry.users.values():
                for watcher in list(watchers):
                    watcher.end(error)
