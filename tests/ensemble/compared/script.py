"""What scripts have in common. Each says the rules that it shows, by their numbers in ensemble.md."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pyzk.protocol.constants import CreateMode

from .sides import SYNC_LIMIT, TICK, Side

Script = Callable[[Side], None]
S = TypeVar("S", bound=Script)
QUICK: list[Script] = []
SLOW: list[Script] = []
MEMBERS: list[Script] = []
SLOW_MEMBERS: list[Script] = []
LOCAL: list[Script] = []
READ_ONLY: list[Script] = []
LOCAL_READ_ONLY: list[Script] = []

SILENCE = SYNC_LIMIT * TICK / 1000
"""Seconds until a silent link is given up."""
EPHEMERAL, SEQUENTIAL = CreateMode.EPHEMERAL, CreateMode.PERSISTENT_SEQUENTIAL


def quick(script: S) -> S:
    """It takes a second or two on a real ensemble."""
    QUICK.append(script)
    return script


def members(script: S) -> S:
    """It changes the members, and runs on an ensemble where that is allowed."""
    MEMBERS.append(script)
    return script


def slow_members(script: S) -> S:
    """The same for the nightly run."""
    SLOW_MEMBERS.append(script)
    return script


def local(script: S) -> S:
    """It runs on an ensemble whose sessions are local first."""
    LOCAL.append(script)
    return script


def slow(script: S) -> S:
    """It is for the nightly run."""
    SLOW.append(script)
    return script


def without_quorum(script: S) -> S:
    """It runs on servers that are read-only without a quorum."""
    READ_ONLY.append(script)
    return script


def without_quorum_with_local_sessions(script: S) -> S:
    """Likewise, and their sessions are local first."""
    LOCAL_READ_ONLY.append(script)
    return script
