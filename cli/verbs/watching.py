"""``watch``: prints changes of znodes when the changes happen."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

from ...client import BadArgumentsError, EventType, Missed, NoNodeError, ZooKeeper
from ...client.registry import Event
from ...protocol.dump import data_fields
from ...protocol.text import printable
from ..context import Context
from ..show import brief


async def watch(context: Context) -> int:
    """Follow changes until interrupted."""
    options = context.options
    left = options.count
    async with context.connect() as zk, zk.watch(options.path, recursive=options.recursive) as events:
        async for event in events:
            await context.out(*await _described(zk, event))
            await context.flush()
            if left is not None and (left := left - 1) == 0:
                return 0
    return 0


async def _described(zk: ZooKeeper, event: Event) -> tuple[str, dict[str, Any]]:
    """Return an event in the forms for people and for programs."""
    now = time.time()
    clock = f"{time.strftime('%H:%M:%S', time.localtime(now))}.{int(now * 1000) % 1000:03d}"
    if isinstance(event, Missed):
        words = f"{clock}  missed   {event.path}  look again: {event.reason.value}"
        return words, {"event": "missed", "path": event.path, "reason": event.reason.value}
    name = "children" if event.type is EventType.CHILD else event.type.name.lower()
    text = f"{clock}  {name:<8} {printable(event.path)}"
    fields: dict[str, Any] = {"event": name, "path": event.path}
    if event.zxid is not None:
        fields["zxid"] = f"0x{event.zxid:x}"
    if event.type in (EventType.CREATED, EventType.CHANGED):
        with suppress(NoNodeError, BadArgumentsError):  # it may be gone again
            data, stat = await zk.get(event.path)
            text += f"  v{stat.version}  {brief(data)}".rstrip()
            fields |= {"version": stat.version, **data_fields(data)}
    return text.rstrip(), fields
