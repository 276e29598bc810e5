"""Watches of every kind, and their events in words."""

from __future__ import annotations

from ..support.wire import Event, WireClient

CREATED, DELETED, CHANGED, CHILD = 1, 2, 3, 4
NAMES = {CREATED: "created", DELETED: "deleted", CHANGED: "changed", CHILD: "children"}


def register(client: WireClient, kind: str, path: str) -> None:
    match kind:
        case "data":
            client.get(path, watch=True)
        case "exist":
            client.exists(path, watch=True)
        case "child":
            client.children(path, watch=True)
        case "child2":
            client.children2(path, watch=True)
        case "persistent":
            client.add_watch(path, 0)
        case "recursive":
            client.add_watch(path, 1)
        case _:
            raise AssertionError(kind)


def tell(events: list[Event], top: str) -> str:
    """Events as text, the way the tables below write them."""
    return ", ".join(f"{NAMES[event.type]} {(event.path or '').removeprefix(top) or '/'}" for event in events)
