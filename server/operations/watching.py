"""Operations on watches themselves (semantics.md sections 10.1, 10.5 and 10.6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from ...protocol import records
from ...protocol.constants import AddWatchMode, EventType, WatcherType
from ...protocol.errors import MarshallingError, NoWatcherError
from ..watches import Notification

if TYPE_CHECKING:
    from ..engine import Client, Engine

_Paths: TypeAlias = Sequence[str | None] | None

_NO_ERROR = records.ErrorResponse(0).encode()


def add_watch(engine: Engine, client: Client, request: tuple[str | None, int]) -> bytes:
    """No check of the path, its existence or its ACL: a watch on anything is accepted."""
    path, mode = request
    if mode == AddWatchMode.PERSISTENT:
        add = engine.watches.add_persistent
    elif mode == AddWatchMode.PERSISTENT_RECURSIVE:
        add = engine.watches.add_recursive
    else:
        raise MarshallingError(path, f"unknown watch mode {mode}")
    if path is not None:  # null is accepted too, and watches nothing (wire.md section 15)
        add(path, client)
    return _NO_ERROR


def check_watches(engine: Engine, client: Client, request: tuple[str | None, int]) -> bytes:
    path, number = request
    kind = _watcher_type(number)
    if path is None or not engine.watches.has(path, client, kind):
        raise NoWatcherError(path)
    return b""


def remove_watches(engine: Engine, client: Client, request: tuple[str | None, int]) -> bytes:
    """Nobody is notified: the events about removed watches are made by client libraries."""
    path, number = request
    kind = _watcher_type(number)
    if path is None or not engine.watches.remove(path, client, kind):
        raise NoWatcherError(path)
    return b""


def set_watches(engine: Engine, client: Client, request: tuple[int, _Paths, _Paths, _Paths]) -> bytes:
    """Re-arm the one-shot watches of a lost connection, or tell at once what they missed.

    The catch-up events carry zxid -1 and pass no permission filter.
    """
    since, *kinds = request
    data, exist, child = map(_no_nulls, kinds)
    find, watches = engine.tree.find, engine.watches
    for path in data:
        node = find(path)
        if node is None:
            _tell(client, EventType.DELETED, path)
        elif node.mzxid > since:
            _tell(client, EventType.CHANGED, path)
        else:
            watches.add_data(path, client)
    for path in exist:
        if find(path) is not None:
            _tell(client, EventType.CREATED, path)
        else:
            watches.add_data(path, client)
    for path in child:
        node = find(path)
        if node is None:
            _tell(client, EventType.DELETED, path)
        elif node.pzxid > since:
            _tell(client, EventType.CHILD, path)
        else:
            watches.add_child(path, client)
    return b""


def set_watches2(
    engine: Engine, client: Client, request: tuple[int, _Paths, _Paths, _Paths, _Paths, _Paths]
) -> bytes:
    """The same with the persistent kinds, which get no catch-up."""
    since, data, exist, child, *kinds = request
    persistent, recursive = map(_no_nulls, kinds)
    set_watches(engine, client, (since, data, exist, child))
    for path in persistent:
        engine.watches.add_persistent(path, client)
    for path in recursive:
        engine.watches.add_recursive(path, client)
    return b""


def _tell(client: Client, event: EventType, path: str) -> None:
    client.notify(Notification(-1, event, path))


def _watcher_type(value: int) -> WatcherType:
    try:
        return WatcherType(value)
    except ValueError:
        raise MarshallingError(None, f"unknown watcher type {value}") from None


def _no_nulls(paths: _Paths) -> list[str]:
    if paths is None or any(path is None for path in paths):
        raise MarshallingError(None, "a null where paths belong")
    return [path for path in paths if path is not None]
