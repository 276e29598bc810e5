"""``locks``: who holds what, and who waits for whom.

:mod:`pyzk.protocol.layouts` recognises a directory; this module reads what is needed for that, and prints the
answer.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from ...client import GetData, NoAuthError, NoNodeError, ZooKeeper
from ...protocol.dump import data_fields, session_text
from ...protocol.layouts import (
    Child,
    Directory,
    Layout,
    Participant,
    Shape,
    in_order,
    may_be_lock,
    parts,
    recognise,
)
from ...protocol.paths import join
from ...protocol.text import printable
from ..context import Context
from ..show import brief, table
from ..units import age, utc
from ..walking import RESERVED, Walker, sound

_READ_AT_MOST = 1000
"""Children of one directory whose data and Stat are read: the first in the line."""
_GATE = "-__lock__"


async def locks(context: Context) -> int:
    """Show who holds what and who waits for whom."""
    options = context.options
    count = 0
    async with context.connect() as zk:
        claimed: set[str] = {RESERVED} if not zk.chroot else set()
        walker = Walker(zk, leave_out=claimed)
        gated: set[str] = set()
        async with walker.walk(options.path) as znodes:
            async for found in znodes:
                path = found.path
                gated |= {
                    join(path, name.removesuffix(_GATE)) for name in found.names if name.endswith(_GATE)
                }
                wanted = may_be_lock(found.names) or path in gated or (options.all and found.names)
                if path in claimed or not wanted:
                    continue
                directories = await _read(zk, path, found.names, walker.forbidden)
                layout = recognise(path, directories)
                if layout is None:
                    continue
                claimed.update(layout.parts)
                if options.all or _somebody_waits_or_holds(layout):
                    count += 1
                    await context.out(_text(path, layout), _fields(path, layout))
        if not count and not options.json:
            await context.out(f"nobody holds or waits for anything at or below {options.path}", {})
        return context.tell_left_out(walker)


def _somebody_waits_or_holds(layout: Layout) -> bool:
    if layout.shape in (Shape.GROUP, Shape.QUEUE):
        return False
    return bool(layout.holders or layout.waiters)


# --- reading -----------------------------------------------------------------------------------------------


async def _read(zk: ZooKeeper, path: str, names: list[str], forbidden: list[str]) -> dict[str, Directory]:
    """A directory and its parts."""
    data, _ = await zk.get(path)
    directories = {path: Directory(await _children(zk, path, names), data)}
    for part in parts(path, names):
        with suppress(NoNodeError, NoAuthError):
            directories[part] = Directory(
                await _children(zk, part, list(sound(await zk.get_children(part), part, forbidden)))
            )
    return directories


async def _children(zk: ZooKeeper, path: str, names: list[str]) -> dict[str, Child]:
    """The children with their Stats and data; only their names behind the first in the line."""
    places, others = in_order(names)
    line = [*(place.name for place in places), *others]
    found = dict.fromkeys(line, Child())
    for name, pending in [(name, zk.submit(GetData(join(path, name)))) for name in line[:_READ_AT_MOST]]:
        try:
            data, stat = await pending.wait()
        except NoNodeError:
            del found[name]
        except NoAuthError:
            pass
        else:
            found[name] = Child(stat, data)
    return found


# --- showing -----------------------------------------------------------------------------------------------


def _text(path: str, layout: Layout) -> str:
    """For people."""
    everybody = [*layout.holders, *layout.waiters]
    libraries = f" ({', '.join(layout.libraries)})" if layout.libraries else ""
    words = [f"{len(layout.holders)} holding", f"{len(layout.waiters)} waiting"]
    if layout.shape is Shape.GROUP:
        words = [f"{len(everybody)} members"]
    if layout.items is not None:
        words = [f"{layout.items} items", f"{len(layout.holders)} claimed"]
    if layout.limit is not None:
        words.append(f"{layout.limit} may hold it at a time")
    lines = [f"{printable(path)}: {layout.shape}{libraries}: {', '.join(words)}"]
    if everybody:
        lines += [f"  {line}" for line in table(_rows(layout, everybody)).splitlines()]
    lines += [f"  ! {printable(remark)}" for remark in layout.remarks]
    if layout.unknown:
        lines.append(f"  not recognised: {printable(', '.join(layout.unknown))}")
    return "\n".join([*lines, ""])


def _rows(layout: Layout, everybody: list[Participant]) -> Iterable[tuple[str, ...]]:
    now = time.time()
    numbers = {name: str(i) for i, entry in enumerate(everybody, 1) for name in entry.names}
    yield "", "STATE", "AS", "LIBRARY", "SESSION", "AGE", "DATA"
    for i, entry in enumerate(everybody, 1):
        stat = entry.child.stat
        session = session_text(stat.ephemeralOwner) if stat and stat.ephemeralOwner else "-"
        yield (
            str(i),
            _state(layout, entry, numbers),
            entry.role,
            entry.library or "-",
            session,
            age(now - stat.ctime / 1000) if stat else "-",
            brief(entry.child.data) if entry.child.data else "",
        )


def _state(layout: Layout, entry: Participant, numbers: dict[str, str]) -> str:
    if layout.shape is Shape.GROUP:
        return "member"
    if entry in layout.holders:
        return "holds"
    return f"waits for {numbers.get(entry.waits_for, entry.waits_for)}" if entry.waits_for else "waits"


def _fields(path: str, layout: Layout) -> dict[str, Any]:
    """For programs."""
    return {
        "path": path,
        "shape": layout.shape,
        "libraries": layout.libraries,
        "limit": layout.limit,
        "items": layout.items,
        "contenders": [
            {"holds": holds, **_entry(entry)}
            for holds, entries in ((True, layout.holders), (False, layout.waiters))
            for entry in entries
        ],
        "remarks": layout.remarks,
        "unknown": layout.unknown,
    }


def _entry(entry: Participant) -> dict[str, Any]:
    stat = entry.child.stat
    return {
        "nodes": entry.names,
        "role": entry.role,
        "library": entry.library,
        "waits_for": entry.waits_for,
        "session": session_text(stat.ephemeralOwner) if stat and stat.ephemeralOwner else None,
        "token": str(stat.czxid) if stat else None,
        "created": utc(stat.ctime) if stat else None,
        **data_fields(entry.child.data),
    }
