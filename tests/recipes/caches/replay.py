"""A reader of a cache's events, who must end with what the cache holds."""

from __future__ import annotations

import attrs

from pyzk.recipes.caches.events import CachedNode, CacheEvents, CacheEventType


@attrs.define
class Replay:
    """What somebody knows who hears the events only."""

    emptied: bool
    nodes: dict[str, CachedNode] = attrs.Factory(dict)
    highest: dict[str, int] = attrs.Factory(dict)
    state: CacheEventType | None = None

    async def follow(self, events: CacheEvents) -> None:
        async for event in events:
            if event.type in (CacheEventType.SYNCED, CacheEventType.SUSPENDED):
                self.state = event.type
                continue
            assert self.nodes.pop(event.path, None) is event.old
            if event.new is None:
                assert event.type is CacheEventType.REMOVED
                continue
            assert (event.type is CacheEventType.ADDED) == (event.old is None)
            self.nodes[event.path] = event.new
            zxid = event.new.stat.mzxid
            assert self.emptied or zxid > self.highest.get(event.path, 0)
            self.highest[event.path] = zxid
