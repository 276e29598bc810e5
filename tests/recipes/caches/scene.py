"""What a cache holds and tells."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import trio

from pyzk.client import ACL, Id, Perms, UnimplementedError
from pyzk.recipes.caches.cache import Cache
from pyzk.recipes.caches.events import CacheEvents, CacheEventType

from ...support.lab import Lab

ADDED, CHANGED, REMOVED, SYNCED, SUSPENDED = CacheEventType
UNREADABLE = [ACL(Perms.ALL & ~Perms.READ, Id("world", "anyone"))]
Told = list[tuple[CacheEventType, str]]


@contextmanager
def one_shots(lab: Lab) -> Iterator[None]:
    with lab.server.fault(
        op="add_watch", action="error", error=UnimplementedError, times=None, required=False
    ):
        yield


def contents(cache: Cache) -> dict[str, bytes | None]:
    return {path: node.data for path, node in cache.nodes.items()}


async def told(events: CacheEvents, seconds: float = 5) -> Told:
    """What comes within a time."""
    found: Told = []
    with trio.move_on_after(seconds):
        while True:
            event = await anext(events)
            found.append((event.type, event.path))
    return found
