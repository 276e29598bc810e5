"""``pyzk locks``, asked beside other libraries."""

from __future__ import annotations

import contextlib
import io
import json
from typing import Any

import trio

from pyzk.cli.main import main


def run(*argv: str) -> tuple[int, str]:
    """Run ``pyzk``, in this process; its exit status and its output."""
    output = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with contextlib.redirect_stdout(output):
        status = main(argv)
    output.seek(0)
    return status, output.read()


async def locks_of(hosts: str, path: str = "/") -> dict[str, Any]:
    """What ``pyzk locks --all --json`` says, by path."""
    status, text = await trio.to_thread.run_sync(run, "--hosts", hosts, "--json", "locks", "--all", path)
    assert status == 0
    return {line["path"]: line for line in map(json.loads, text.splitlines())}


def brief(found: dict[str, Any]) -> str:
    """One directory in a line: shape, libraries, everybody's data in order, ``>`` before who waits."""
    people = [
        ("" if entry["holds"] else ">") + (entry["data"] or "").partition(" ")[0]
        for entry in found["contenders"]
    ]
    items = [f"{found['items']} items"] if found["items"] is not None else []
    return " ".join([found["shape"], "+".join(found["libraries"]), *items, *people])
