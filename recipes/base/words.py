"""Options that take one of a few words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args


def check_word(option: str, word: object, words: Any) -> None:
    """Raise ValueError unless a word is one of a ``Literal``.

    :param option: what the caller calls it.
    """
    allowed = get_args(words)
    if word not in allowed:
        raise ValueError(f"{option} is one of {', '.join(map(repr, allowed))}, not {word!r}")


def one_of(words: Any) -> Callable[[object, Any, object], None]:
    """:func:`check_word` as a validator of attrs."""
    return lambda _, attribute, word: check_word(attribute.name, word, words)
