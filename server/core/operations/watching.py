"""Operations that add, check or remove watches (semantics.md sections 10.1, 10.5 and 10.6). The rules:

* These operations take no zxid, and check neither the znode nor its ACL. The ACL is checked when an event is
  sent.
* A client that has a new connection sends its watches again, with the last zxid that it has seen. A one-shot
  watch that has missed its change fires immediately. Any other watch is armed.
* The server sends no event for a watch that was removed, because the client library makes this event itself.
* Watches are re-armed in steps (:mod:`.long`), because one client may have very many watches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from ....protocol import records
from ....protocol.constants import AddWatchMode, EventType, WatcherType
from ....protocol.errors import MarshallingError, NoWatcherError
from ..watches import NULL_PATH, Notification
from .long import Steps, in_steps

if TYPE_CHECKING:
    from ..client import Client
    from ..transactions import Transactions
    from ..znode import Znode

_Paths: TypeAlias = Sequence[str | None] | None

_STEP = 32
"""The number of watches that one step arms."""

_NO_ERROR = records.ErrorResponse(0).encode()


def add_watch(engine: Transactions, client: Client, request: records.AddWatchFields) -> bytes:
    """Add a persistent watch. The path is not checked.

    :raises MarshallingError: the mode is unknown.
    """
    path, mode = request
    if mode == AddWatchMode.PERSISTENT:
        add = engine.watches.add_persistent
    elif mode == AddWatchMode.PERSISTENT_RECURSIVE:
        add = engine.watches.add_recursive
    else:
        raise MarshallingError(path, f"unknown watch mode {mode}")
    add(_kept(path), client)
    return _NO_ERROR


def check_watches(engine: Transactions, client: Client, request: records.CheckWatchesFields) -> bytes:
    """Check that the connection has a watch.

    :raises NoWatcherError: the connection has no watch of this kind at the path.
    """
    path, number = request
    kind = watcher_type(number)
    if not engine.watches.has(_kept(path), client, kind):
        raise NoWatcherError(path)
    return b""


def remove_watches(engine: Transactions, client: Client, request: records.RemoveWatchesFields) -> bytes:
    """Remove a watch.

    :raises NoWatcherError: the connection has no such watch.
    """
    path, number = request
    kind = watcher_type(number)
    if not engine.watches.remove(_kept(path), client, kind):
        raise NoWatcherError(path)
    return b""


@in_steps
def set_watches(engine: Transactions, client: Client, request: records.SetWatchesFields) -> Steps:
    """Re-arm the one-shot watches of a lost connection. A watch that has missed its event is not armed: the
    client gets a catch-up event.

    A catch-up event has zxid -1, and is sent without a check of the ACL. A change between two steps fires the
    watches that are already armed. For all other watches the change is a missed event.

    :raises MarshallingError: a list or a path is null. The watches before the null are armed, or have fired.
    """
    return _rearm(engine, client, *request)


@in_steps
def set_watches2(engine: Transactions, client: Client, request: records.SetWatches2Fields) -> Steps:
    """Do the same as :func:`set_watches`, and re-arm persistent watches too. They get no catch-up events."""
    return _rearm(engine, client, *request)


def _rearm(
    engine: Transactions,
    client: Client,
    since: int,
    data: _Paths,
    exist: _Paths,
    child: _Paths,
    persistent: _Paths = (),
    recursive: _Paths = (),
) -> Steps:
    find, watches = engine.tree.find, engine.watches
    kinds = [
        (data, _missed_data, watches.add_data),
        (exist, _missed_creation, watches.add_data),
        (child, _missed_child, watches.add_child),
        (persistent, _missed_nothing, watches.add_persistent),
        (recursive, _missed_nothing, watches.add_recursive),
    ]
    for paths, missed, add in kinds:
        if paths is None:
            raise MarshallingError(None, "a null where a list of paths belongs")
        for number, path in enumerate(paths, 1):
            if path is None:
                if missed is not _missed_nothing:
                    raise MarshallingError(None, "a null where a path belongs")
                path = NULL_PATH  # a null path is allowed here, as for addWatch
            event = missed(find(path), since)
            if event is None:
                add(path, client)
            else:
                engine.tell((Notification(-1, event, path),), (client,))
                if client.close_expected:  # too many events have closed the connection
                    return b""
            if number % _STEP == 0:
                yield 0.0
    return b""


def _kept(path: str | None) -> str:
    """Return the key under which the watches on a path are stored. A null path has watches too (wire.md
    section 15)."""
    return NULL_PATH if path is None else path


def _missed_data(node: Znode | None, since: int) -> EventType | None:
    if node is None:
        return EventType.DELETED
    return EventType.CHANGED if node.mzxid > since else None


def _missed_creation(node: Znode | None, since: int) -> EventType | None:
    return None if node is None else EventType.CREATED


def _missed_child(node: Znode | None, since: int) -> EventType | None:
    if node is None:
        return EventType.DELETED
    return EventType.CHILD if node.pzxid > since else None


def _missed_nothing(node: Znode | None, since: int) -> EventType | None:
    return None


def watcher_type(value: int) -> WatcherType:
    """Return the watcher type with the code ``value``.

    :raises MarshallingError: no type has this code.
    """
    try:
        return WatcherType(value)
    except ValueError:
        raise MarshallingError(None, f"unknown watcher type {value}") from None
