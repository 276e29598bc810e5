"""Text of others, shown to people."""

from __future__ import annotations


def printable(text: str) -> str:
    """Escape what a terminal would obey or hide: control characters, marks of direction, odd blanks."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
