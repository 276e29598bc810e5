"""The verbs that need a pyzk-server, because the verbs call the control API of the server (docs/http.md)."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

from ...protocol.text import printable
from ..api import api
from ..arguments import wrong
from ..context import Context
from ..parser import PROG
from ..show import brief, table
from ..status import Failure, Status, say
from .servers import endpoint_state

_WIDTH = 120
"""The width of the timeline in characters, if the output is not a terminal."""
_LOOKED_AT = 1000
"""The number of last entries among which the command looks for an entry that is not a ping or a note."""
_COLUMNS = ("fault", "seen", "fired", "when", "action", "requests")


# --- what happens, and has happened ------------------------------------------------------------------------


async def trace(context: Context) -> int:
    """Follow the requests of the server until interrupted."""
    options = context.options
    left = options.count
    query = {"op": ",".join(options.op) or None, "path": options.glob, "session": options.session}
    query |= {"server": options.server, "format": "json" if options.json else "text"}
    async with (
        api(context, of_all=True) as server,
        aclosing(server.follow(*server.of_all, "trace", **query)) as lines,
    ):
        async for line in lines:
            await context.out(printable(line), json.loads(line) if options.json else {})
            await context.flush()
            if left is not None and (left := left - 1) == 0:
                return 0
    return 0


async def timeline(context: Context) -> int:
    """Show the history, with a column for each session."""
    options = context.options
    async with api(context, of_all=True) as server:
        if options.json:
            given = {"session": options.session, "since": options.since}
            entries = (await server.ask("GET", *server.of_all, "history", **given))["entries"]
            shown = [entry for entry in entries if options.pings or entry["op"] != "ping"]
            for entry in shown[-options.limit :] if options.limit else shown:
                await context.out("", entry)
            return 0
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else _WIDTH
        given = {"sessions": options.session, "since": options.since, "limit": options.limit}
        given |= {"format": "json", "width": width, "pings": "true" if options.pings else None}
        found = await server.ask("GET", *server.of_all, "timeline", **given)
    for line in found["timeline"].splitlines():
        await context.out(printable(line), {})
    return 0


async def advise(context: Context) -> int:
    """Show what clients do wrong, and what to do instead."""
    async with api(context, of_all=True, from_one=True) as server:
        past = await server.ask("GET", *server.of_all, "history", limit=_LOOKED_AT)
        if all(entry["op"] == "ping" or entry["kind"] == "note" for entry in past["entries"]):
            raise Failure(
                Status.REFUSED,
                "nothing is recorded yet, so there is no advice; the pyzk-server records from now on: "
                "let the clients work, and run pyzk advise again",
            )
        findings = (await server.ask("GET", *server.of_all, "advice"))["findings"]
    shown = [found for found in findings if found["rule"] not in context.options.ignore]
    for found in shown:
        await context.out(_advice(found), found)
    if not shown:
        say(PROG, "no problems found in the recorded history; pyzk timeline shows the history")
    return Status.NO if shown else 0


def _advice(found: Any) -> str:
    who = ", ".join(each["name"] or each["id"] for each in found["sessions"])
    where = f"seen from {found['first']:.3f} to {found['last']:.3f} s; sessions: {who}"
    lines = [f"{found['rule']}: {found['evidence']}", where, *_wrapped(found["explanation"], found["remedy"])]
    return "\n    ".join(map(printable, lines))


def _wrapped(*texts: str) -> list[str]:
    return [line for text in texts for line in textwrap.wrap(text, _WIDTH - 4)]


# --- sessions ----------------------------------------------------------------------------------------------


async def expire(context: Context) -> int:
    """End a session as if its timeout had passed."""
    async with api(context) as server:
        found = await server.ask("POST", "sessions", context.options.session, "expire")
    gone = brief(", ".join(found["ephemerals"]).encode()) or "no ephemerals"
    await context.out(f"{found['id']} has expired; deleted with it: {gone}", found)
    return 0


async def pause(context: Context) -> int:
    """Cut off a client, or pause the whole server."""
    return await _cut(context, "pause", "neither reads nor answers until pyzk resume")


async def resume(context: Context) -> int:
    """End every pause, or the pause of one client."""
    return await _cut(context, "resume", "continues")


async def _cut(context: Context, what: str, text: str) -> int:
    session = context.options.session
    async with api(context) as server:
        if session is None:
            found = await server.ask("POST", "server", what)
            await context.out(f"the server {text}", found)
        else:
            found = await server.ask("POST", "sessions", session, what)
            await context.out(f"{found['id']} {text}", found)
    return 0


async def endpoint(context: Context) -> int:
    """Create an endpoint, cut off the clients of an endpoint, accept these clients again, or list all
    endpoints."""
    options = context.options
    if (options.what == "delay") != (options.time is not None):
        raise wrong(f"{PROG} endpoint", "delay needs a time, such as 0.2; cut, pause and resume have no time")
    async with api(context) as server:
        if options.name is None:
            found = (await server.ask("GET", "endpoints"))["endpoints"]
        else:
            found = [await server.ask("POST", "endpoints", name=options.name)]
        if options.what is not None:
            given = {} if options.time is None else {"seconds": options.time}
            found = [await server.ask("POST", "endpoints", options.name, options.what, **given)]
    rows = [
        (each["endpoint"], each["hosts"], str(each["connections"]), endpoint_state(each) or "open")
        for each in found
    ]
    await _show(context, found, ("ENDPOINT", "HOSTS", "CLIENTS", "STATE"), rows)
    return 0


# --- the server --------------------------------------------------------------------------------------------


async def advance(context: Context) -> int:
    """Advance the server's clock."""
    options = context.options
    given = {"seconds": options.time, "keep_alive": options.keep_alive}
    async with api(context) as server:
        found = await server.ask("POST", "clock", "advance", **given)
    state = "is frozen" if found["frozen"] else "continues"
    await context.out(f"{found['seconds']:.3f} s since the start of the server; its time {state}", found)
    return 0


async def reset(context: Context) -> int:
    """Reset the server: afterwards the server is empty and has the same port."""
    async with api(context) as server:
        await context.out("the server is empty", await server.ask("POST", "reset"))
    return 0


# --- faults ------------------------------------------------------------------------------------------------


async def fault(context: Context) -> int:
    """Plan, list or end faults."""
    options = context.options
    if options.numbers and options.what != "rm":
        raise wrong(f"{PROG} fault", f"{options.what} takes no number")
    if not options.numbers and options.what == "rm":
        raise wrong(f"{PROG} fault", "rm needs the numbers of faults, or all")
    async with api(context) as server:
        if options.what == "set":
            found = [await server.ask("POST", "faults", **_fault(context))]
        else:
            found = (await server.ask("GET", "faults"))["faults"]
        if options.what == "rm":
            numbers = [str(each["fault"]) for each in found] if "all" in options.numbers else options.numbers
            found = [await server.ask("DELETE", "faults", number) for number in numbers]
    rows = [[str(each[name]) for name in _COLUMNS] for each in found]
    await _show(context, found, [name.upper() for name in _COLUMNS], rows)
    return 0


async def _show(
    context: Context, found: Sequence[Any], heads: Sequence[str], rows: Sequence[Sequence[str]]
) -> None:
    """Show rows as a table; with --json, print one line for each row."""
    if not context.options.json:
        await context.out(table([heads, *rows]), {})
        return
    for each in found:
        await context.out("", each)


def _fault(context: Context) -> dict[str, Any]:
    """Return the fields of a fault that the user has given."""
    options = context.options
    given = {
        "op": options.op or None,
        "path": options.glob,
        "session": options.session,
        "nth": options.nth,
        "when": options.when,
        "action": options.action,
        "error": options.error,
        "seconds": options.seconds,
    }
    return {name: value for name, value in given.items() if value is not None} | {"times": options.times}
