"""``ensemble``: the servers of a pretend ensemble, and their controls (docs/ensemble.md)."""

from __future__ import annotations

from typing import Any, Final

from ..api import api
from ..context import Context
from ..ensembles import fields
from ..show import table

_HEADER: Final = ("SERVER", "ADDRESS", "ROLE", "EPOCH", "ZXID", "BEHIND", "CLIENTS", "WAITING", "TROUBLES")


async def show(context: Context) -> int:
    """Show the servers: their roles, positions in the log, and links."""
    async with api(context, of_all=True) as ensemble:
        await _print(context, await ensemble.ask("GET", "ensemble"))
    return 0


async def act(context: Context) -> int:
    """Call a verb of the ensemble, then show the servers."""
    verb = context.options.what
    async with api(context, of_all=True) as ensemble:
        given = fields(verb, context.options)
        await _print(context, await ensemble.ask("POST", "ensemble", verb.replace("-", "_"), **given))
    return 0


async def _print(context: Context, found: Any) -> None:
    for server in found["servers"] if context.options.json else ():
        await context.out("", server)
    if not context.options.json:
        await context.out(table([_HEADER, *(_row(found, server) for server in found["servers"])]), {})


def _row(found: Any, server: Any) -> tuple[str, ...]:
    return (
        str(server["server"]),
        server["hosts"],
        server["role"],
        server["epoch"],
        server["zxid"],
        str(server["behind"]),
        str(server["connections"]),
        str(server["outstanding"]),
        ", ".join(_troubles(found, server)) or "-",
    )


def _troubles(found: Any, server: Any) -> list[str]:
    others = sorted(cut["server"] for cut in server["cuts"])
    words = {"cut off": f"cut off from {' '.join(map(str, others))}"}
    troubles = [words.get(trouble, trouble) for trouble in server["troubles"]]
    if found["holding"] and server["server"] == found["leader"]:
        troubles.append(f"{found['holding']} held")
    return troubles
