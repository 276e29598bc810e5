"""What scripts have in common. Each says the rules that it shows, by their numbers in ensemble.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import attrs

from pyzk.protocol.constants import CreateMode

from ...support import real
from .sides import SYNC_LIMIT, TICK, Side

Script = Callable[[Side], None]
S = TypeVar("S", bound=Script)

SILENCE = SYNC_LIMIT * TICK / 1000
"""Seconds until a silent link is given up."""
EPHEMERAL, SEQUENTIAL = CreateMode.EPHEMERAL, CreateMode.PERSISTENT_SEQUENTIAL


@attrs.frozen(eq=False)
class Kind:
    """How servers are set up.

    :ivar ours: settings of the pretend ensemble.
    :ivar lines: of the real one's zoo.cfg.
    :ivar options: of its Java.
    :ivar quick: the scripts that take a second or two on a real ensemble.
    :ivar slow: those for the nightly run.
    """

    name: str
    ours: Mapping[str, Any] = attrs.Factory(dict)
    lines: Mapping[str, object] = attrs.Factory(dict)
    options: Sequence[str] = ()
    quick: list[Script] = attrs.Factory(list)
    slow: list[Script] = attrs.Factory(list)


PLAIN = Kind("plain")
READ_ONLY = Kind("read-only", {"read_only_mode": True}, options=[real.READ_ONLY_MODE])
KINDS = [PLAIN, READ_ONLY]


def quick(script: S) -> S:
    """It takes a second or two on a real ensemble."""
    PLAIN.quick.append(script)
    return script


def slow(script: S) -> S:
    """It is for the nightly run."""
    PLAIN.slow.append(script)
    return script


def on(kind: Kind) -> Callable[[S], S]:
    """It needs servers that are set up otherwise, and is for the nightly run."""

    def enter(script: S) -> S:
        kind.slow.append(script)
        return script

    return enter
