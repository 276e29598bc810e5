"""The arguments of ``pyzk ensemble``, made from the table :mod:`pyzk.protocol.control_verbs`. A verb has the
same name as in the control API, but with a dash for each underscore."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from ..protocol.control_verbs import LEADER, SESSION, Argument, ControlVerb, Kind
from ..protocol.control_verbs import VERBS as CONTROL_VERBS
from .arguments import number
from .units import duration
from .verb import Add, Verb

__all__ = ["SESSION", "VERBS", "fields"]


def _server(text: str) -> int | str:
    return LEADER if text == LEADER else number(text)


def _group(text: str) -> list[int | str]:
    return [_server(part) for part in text.split(",")]


def _zxid(text: str) -> int:
    return int(text, 0)


_TYPES: Final[Mapping[Kind, Callable[[str], Any]]] = {
    "server": _server,
    "servers": _server,
    "groups": _group,
    "session": str,
    "seconds": duration,
    "number": float,
    "integer": int,
    "zxid": _zxid,
    "text": str,
}
"""The function that parses an argument, by the kind of the argument; a boolean argument has no function."""


def _add(verb: ControlVerb, add: Add) -> None:
    for name, argument in verb.arguments.items():
        _declare(add, name, argument)


def _declare(add: Add, name: str, argument: Argument) -> None:
    options: dict[str, Any] = {"help": argument.whole_help, "default": None}
    if argument.kind == "boolean":
        add(argument.flag, dest=name, action="store_const", const=argument.sets, **options)
        return
    options["type"] = _TYPES[argument.kind]
    if argument.choices:
        options["choices"] = argument.choices
    else:
        options["metavar"] = argument.metavar
    if argument.flag is not None:
        add(argument.flag, dest=name, **options)
    elif argument.kind in ("servers", "groups"):
        add(name, nargs="+" if argument.required else "*", **options)
    else:
        add(name, nargs=None if argument.required else "?", **options)


VERBS: Final[dict[str, Verb]] = {
    name.replace("_", "-"): Verb(verb.summary.replace("_", "-"), "ensemble:act", partial(_add, verb))
    for name, verb in CONTROL_VERBS.items()
}


def fields(verb: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments that the user has given to a verb. The names are the names of the fields in a
    request."""
    names = CONTROL_VERBS[verb.replace("-", "_")].arguments
    return {name: value for name in names if (value := getattr(options, name)) not in (None, [])}
