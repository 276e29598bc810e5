"""Conversions of sizes, time spans and points in time into text for people, and back."""

from __future__ import annotations

import time

_SIZES = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}
_TIMES = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def age(seconds: float) -> str:
    """Return a time span in at most two units. A negative span is shown as 0, because the clocks of two
    machines may differ."""
    whole = max(0, round(seconds))
    for size, unit, smaller, name in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // smaller} {name}"
    return f"{whole} s"


def size_text(count: int) -> str:
    """Return a number of bytes as text with about three digits."""
    if count < 1024:
        return f"{count} B"
    size, unit = count / 1024, "KiB"
    for bigger in ("MiB", "GiB"):
        if size >= 1024:
            size, unit = size / 1024, bigger
    return f"{size:.1f} {unit}"


def moment(milliseconds: int) -> str:
    """Return a time in ms since the epoch as text, in local time."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(milliseconds / 1000))


def utc(milliseconds: int) -> str:
    """Return a time in ms since the epoch as text for programs, such as ``2026-11-22T03:15:00.123Z``."""
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(milliseconds // 1000))
    return f"{whole}.{milliseconds % 1000:03d}Z"


def size(text: str) -> int:
    """Parse a number of bytes: ``300``, ``10k``, ``1M``."""
    number = text.lower().rstrip("kmg")
    return int(number) * _SIZES[text.lower()[len(number) :]]


def duration(text: str) -> float:
    """Parse a time span, and return it in seconds: ``90``, ``30s``, ``5m``, ``2h``, ``1d``, ``1w``."""
    number = text.lower().rstrip("smhdw")
    value = float(number) * _TIMES[text.lower()[len(number) :] or "s"]
    if not 0 <= value < float("inf"):
        raise ValueError
    return value
