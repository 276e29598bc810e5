"""Text from other programs, in a form that is safe to show."""

from __future__ import annotations


def printable(text: str) -> str:
    """Escape characters that a terminal would obey or hide: control characters, marks of direction, odd
    blanks."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def session_text(session: int) -> str:
    """Return the id of a session as text: ``0x`` and hex digits without leading zeros, as servers print it.
    If the number of a server is above 127, the ids of its sessions are negative as signed numbers."""
    return f"0x{session % 2**64:x}"


def session_number(text: str) -> int:
    """Return the id of a session from its text, as servers or Python print it.

    :raises ValueError: the text is not a number.
    """
    number = int(text, 0)
    return number - 2**64 if 2**63 <= number < 2**64 else number
