"""What scripts have in common. Each says the rules that it shows, by their numbers in ensemble.md."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pyzk.protocol.constants import CreateMode

from .sides import SYNC_LIMIT, TICK, Side

Script = Callable[[Side], None]
S = TypeVar("S", bound=Script)
SILENCE = SYNC_LIMIT * TICK / 1000
"""Seconds until a silent link is given up."""
EPHEMERAL, SEQUENTIAL = CreateMode.EPHEMERAL, CreateMode.PERSISTENT_SEQUENTIAL


class Scripts(list[Script]):
    """Decorates the scripts that it lists."""

    def __call__(self, script: S) -> S:
        self.append(script)
        return script


quick = Scripts()
"""They take a second or two on a real ensemble."""
slow = Scripts()
"""They are for the nightly run."""
members = Scripts()
"""They change the members, and run on an ensemble where that is allowed."""
slow_members = Scripts()
"""The same for the nightly run."""
local = Scripts()
"""They run on an ensemble whose sessions are local first."""
without_quorum = Scripts()
"""They run on servers that are read-only without a quorum."""
without_quorum_with_local_sessions = Scripts()
"""Likewise, and the sessions are local first."""
