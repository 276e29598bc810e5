"""Globs of paths: ``*`` matches any text within one name, ``**`` matches any text, ``?`` matches one
character of a name.

Paths come from clients and globs come from operators, so no pair of a path and a glob must take long. A
regular expression with several wildcards tries one possibility after the other, so its time grows with a
power of the path's length. This module therefore follows all possibilities at once. The bits of one integer
are the positions in the path that a match can reach. Bit ``i`` is the position before the character ``i``.
Each character of the glob costs a few operations on this integer.
"""

from __future__ import annotations

import re
from typing import Final

LONGEST: Final = 1000
"""The largest number of characters of a glob with wildcards. A glob of this length takes 50 ms with a path of
1 MiB."""
_WILDCARDS: Final = re.compile(r"(\*\*|\*|\?)")


class Glob:
    """
    :param pattern: the glob.
    :raises ValueError: it is too long.
    """

    def __init__(self, pattern: str) -> None:
        self._parts = parts = _WILDCARDS.split(pattern)  # text and wildcards in turns
        if len(parts) > 1 and len(pattern) > LONGEST:
            raise ValueError(f"a glob can have at most {LONGEST:,} characters, not {len(pattern):,}")
        self._first, self._last = parts[0], parts[-1] if len(parts) > 1 else ""
        self._between = parts[1:-1]

    def matches(self, path: str) -> bool:
        """Return whether a whole path matches."""
        first, last, between = self._first, self._last, self._between
        if not between:
            return path == first
        end = len(path) - len(last)
        if end < len(first) or not (path.startswith(first) and path.endswith(last)):
            return False
        text = path[len(first) : end]
        if between == ["**"]:
            return True
        if between == ["*"]:
            return "/" not in text
        return _matches(between, text)


def _matches(parts: list[str], text: str) -> bool:
    """:param parts: wildcards and pieces of text, alternately."""
    all_places = (1 << len(text) + 1) - 1
    in_names = all_places >> 1 & ~_places_of("/", text)
    known: dict[str, int] = {}
    reached = 1
    for part in parts:
        if part == "**":
            reached = all_places & -(reached & -reached)  # the first place, and all behind it
        elif part == "*":
            # the carry of this sum runs from each place to the end of its name
            reached |= (reached & in_names) + in_names ^ in_names
        elif part == "?":
            reached = (reached & in_names) << 1
        else:
            for character in part:
                if character not in known:
                    known[character] = _places_of(character, text)
                reached = (reached & known[character]) << 1
        if not reached:
            return False
    return bool(reached >> len(text))


def _places_of(character: str, text: str) -> int:
    pieces = text[::-1].split(character)
    return int("0" + "1".join(["0" * len(piece) for piece in pieces]), 2)
