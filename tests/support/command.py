"""``pyzk locks``, asked beside other libraries."""

from __future__ import annotations

import contextlib
import io
import json
from typing import Any

from pyzk.cli.context import Context
from pyzk.cli.parser import parse
from pyzk.cli.verbs.locks import locks


async def locks_of(hosts: str, path: str = "/") -> dict[str, Any]:
    """What ``pyzk locks --all --json`` says, by path."""
    context = Context(parse(["--hosts", hosts, "--json", "locks", "--all", path]))
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        assert await locks(context) == 0
        await context.flush()
    return {line["path"]: line for line in map(json.loads, output.getvalue().splitlines())}


def brief(found: dict[str, Any]) -> str:
    """One directory in a line: shape, libraries, everybody's data in order, ``>`` before who waits."""
    people = [
        ("" if entry["holds"] else ">") + (entry["data"] or "").partition(" ")[0]
        for entry in found["contenders"]
    ]
    items = [f"{found['items']} items"] if found["items"] is not None else []
    return " ".join([found["shape"], "+".join(found["libraries"]), *items, *people])
