"""Tokens: a token describes one run in a short word, which a person can read and paste.

``f1-a5-reply-lost``: the fault ``reply-lost`` at the fifth request of client a, while each client acts in
turn. ``o1-3b,2a,a^,b``: three steps of b, two steps of a, an event for a, one step of b; then each client
acts in turn. ``r1-a,b,b=``: an order in a run in which replies are steps of their own; ``b=`` is a reply to
b. The 1 in ``f1``, ``o1`` and ``r1`` is the version of this notation. Steps are requests, so a token is valid
as long as the clients make the same requests.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from typing import Final

from . import faults
from .model import Cell

_FAULT: Final = re.compile(r"f1-([a-z]+)([0-9]+)-([a-z-]+)")
_ORDER: Final = re.compile(r"[or]1-(.*)")
_RUN: Final = re.compile(r"([0-9]*)([a-z]+[0-9]*[\^=.]?)")


def of_cell(cell: Cell) -> str:
    return f"f1-{cell}"


def of_actors(actors: Sequence[str], *, replies: bool = False) -> str:
    """Return the token of an order.

    :param replies: whether replies are steps of their own in the run.
    """
    runs = [(actor, len(list(same))) for actor, same in groupby(actors)]
    words = ",".join(f"{count if count > 1 else ''}{actor}" for actor, count in runs)
    return f"{'r' if replies else 'o'}1-{words}"


def read(token: str) -> Cell | list[str]:
    """Return the cell or the actors of a token.

    :raises ValueError: the text is not a token.
    """
    if (match := _FAULT.fullmatch(token)) and match[3] in faults.FAULTS:
        return Cell(match[1], int(match[2]), match[3])
    if match := _ORDER.fullmatch(token):
        runs = [_RUN.fullmatch(part) for part in match[1].split(",") if part]
        if all(runs):
            return [run[2] for run in runs if run for _ in range(int(run[1] or 1))]
    raise ValueError(f"{token!r} is no token of a sweep. Examples of tokens: f1-a5-reply-lost, o1-3b,2a,a^,b")


def has_replies(token: str | None) -> bool:
    """Return whether each reply is a step of its own in the run of a token."""
    return token is not None and token.startswith("r1-")


def check(token: str, *, in_ensemble: bool = False) -> None:
    """Check that a token can be replayed.

    :param in_ensemble: whether there is more than one server.
    :raises ValueError: the text is not a token, or its fault needs an ensemble, or is only for a single
        server.
    """
    found = read(token)
    if isinstance(found, Cell):
        faults.check(found.fault, in_ensemble=in_ensemble)
