"""``locks``: the holders of locks and other recipes, and who waits for whom.

:mod:`pyzk.protocol.layouts` recognises a directory; this module reads the znodes for it, and prints the
result.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

from ...client import GetData, NoAuthError, NoNodeError, ZooKeeper
from ...protocol.dump import data_fields, session_text
from ...protocol.layouts import (
    Child,
    Directory,
    Layout,
    Participant,
    Shape,
    Wait,
    find_cycles,
    in_order,
    may_be_lock,
    parts,
    recognise,
    waits,
)
from ...protocol.paths import join
from ...protocol.text import printable
from ..context import Context
from ..show import brief, ending, table
from ..status import Failure, Status
from ..units import age, utc
from ..walking import RESERVED, Walker, sound
from .servers import Session, connected_sessions

_READ_AT_MOST = 1000
"""The number of children of one directory whose data and Stat are read. These are the first children."""
_MOST_WAITS = 500
"""The largest number of waits in which cycles are searched. The control API uses the same number."""
_GATE = "-__lock__"


async def locks(context: Context) -> int:
    """Show who holds locks and other recipes, and who waits for whom."""
    options = context.options
    if options.breaks:
        return await _break(context)
    count = 0
    is_wrong = False
    waiting: list[Wait] = []
    clients = await connected_sessions(context)
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
                is_wrong = is_wrong or bool(layout.remarks)
                waiting += islice(waits(path, layout), _MOST_WAITS - len(waiting))
                if options.all or _somebody_waits_or_holds(layout):
                    count += 1
                    await context.out(_text(path, layout, clients), _fields(path, layout, clients))
        for cycle in find_cycles(waiting):
            is_wrong = True
            await context.out(*_deadlock(cycle))
        if not count and not options.json:
            await context.out(f"nobody holds or waits for anything at or below {options.path}", {})
        return context.tell_left_out(walker) or (Status.NO if options.check and is_wrong else 0)


async def _break(context: Context) -> int:
    """Break a lock: delete the znodes of its holders."""
    path = context.options.path
    async with context.connect() as zk:
        directories = await _read(zk, path, list(await zk.get_children(path)), [])
        layout = recognise(path, directories)
        if layout is None or layout.shape in (Shape.GROUP, Shape.QUEUE):
            raise Failure(Status.REFUSED, f"{path} is not a known lock; pyzk locks lists the known ones")
        if not layout.holders:
            raise Failure(Status.NO, f"nobody holds {path}")
        found = [
            (entry, join(at, name))
            for entry in layout.holders
            for name in entry.names
            for at, directory in directories.items()
            if name in directory.children
        ]
        await context.ask(zk, f"delete {' '.join(znode for _, znode in found)}")
        for entry, znode in found:
            with suppress(NoNodeError):  # it has let go meanwhile
                await zk.delete(znode)
            owner = f" of session {session_text(entry.session)}" if entry.session else ""
            await context.out(f"deleted {printable(znode)}{owner}", {"deleted": znode, **_entry(entry, {})})
    return 0


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
    """Return the children: the first children with Stat and data, the other children with their names
    only."""
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


def _text(path: str, layout: Layout, clients: Mapping[str, Session]) -> str:
    """For people."""
    everybody = [*layout.holders, *layout.waiters]
    libraries = f" ({', '.join(layout.libraries)})" if layout.libraries else ""
    words = [f"{len(layout.holders)} holding", f"{len(layout.waiters)} waiting"]
    if layout.shape is Shape.GROUP:
        words = [f"{len(everybody)} members"]
    if layout.items is not None:
        words = [f"{layout.items} items", f"{len(layout.holders)} claimed"]
    if layout.limit is not None:
        words.append(f"at most {layout.limit} holders at a time")
    lines = [f"{printable(path)}: {layout.shape}{libraries}: {', '.join(words)}"]
    if everybody:
        lines += [f"  {line}" for line in table(_rows(layout, everybody, clients)).splitlines()]
    lines += [f"  ! {printable(remark)}" for remark in layout.remarks]
    if layout.unknown:
        lines.append(f"  not recognised: {printable(', '.join(layout.unknown))}")
    return "\n".join([*lines, ""])


def _deadlock(cycle: Sequence[tuple[int, str]]) -> tuple[str, dict[str, Any]]:
    """Return a cycle for people and for programs: each session, and the lock at which this session waits for
    the next session."""
    entries = [{"session": session_text(session), "path": path} for session, path in cycle]
    words = [f"{entry['session']} waits at {printable(entry['path'])}" for entry in entries]
    text = f"deadlock: {' for '.join([*words, entries[0]['session']])}\n"
    return text, {"deadlock": entries}


def _rows(
    layout: Layout, everybody: list[Participant], clients: Mapping[str, Session]
) -> Iterable[tuple[str, ...]]:
    now = time.time()
    numbers = {name: str(i) for i, entry in enumerate(everybody, 1) for name in entry.names}
    yield "", "STATE", "AS", "LIBRARY", "SESSION", "CLIENT", "PROGRAM", "AGE", "ZNODE", "DATA"
    for i, entry in enumerate(everybody, 1):
        stat = entry.child.stat
        session = session_text(stat.ephemeralOwner) if stat and stat.ephemeralOwner else "-"
        yield (
            str(i),
            _state(layout, entry, numbers),
            entry.role,
            entry.library or "-",
            session,
            client.address if (client := clients.get(session)) else "-",
            client.program if client else "",
            age(now - stat.ctime / 1000) if stat else "-",
            ending(entry.names[0]),
            brief(entry.child.data) if entry.child.data else "",
        )


def _state(layout: Layout, entry: Participant, numbers: dict[str, str]) -> str:
    if layout.shape is Shape.GROUP:
        return "member"
    if entry in layout.holders:
        return "holds"
    return f"waits for {numbers.get(entry.waits_for, entry.waits_for)}" if entry.waits_for else "waits"


def _fields(path: str, layout: Layout, clients: Mapping[str, Session]) -> dict[str, Any]:
    """For programs."""
    return {
        "path": path,
        "shape": layout.shape,
        "libraries": layout.libraries,
        "limit": layout.limit,
        "items": layout.items,
        "contenders": [
            {"holds": holds, **_entry(entry, clients)}
            for holds, entries in ((True, layout.holders), (False, layout.waiters))
            for entry in entries
        ],
        "remarks": layout.remarks,
        "unknown": layout.unknown,
    }


def _entry(entry: Participant, clients: Mapping[str, Session]) -> dict[str, Any]:
    stat = entry.child.stat
    session = session_text(stat.ephemeralOwner) if stat and stat.ephemeralOwner else None
    return {
        "nodes": entry.names,
        "role": entry.role,
        "library": entry.library,
        "waits_for": entry.waits_for,
        "session": session,
        "client": (client := clients.get(session or "")) and client.client,
        "program": client and client.program,
        "token": str(stat.czxid) if stat else None,
        "created": utc(stat.ctime) if stat else None,
        **data_fields(entry.child.data),
    }
