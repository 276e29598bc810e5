"""The checks of the names of options, and of options whose value is one of a few words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, get_args


def check_choice(option: str, word: object, words: Any) -> None:
    """Check that a word is one of the words of a ``Literal``.

    :param option: the name of the option, for the message.
    :raises ValueError: the word is not in the ``Literal``.
    """
    allowed = get_args(words)
    if word not in allowed:
        raise ValueError(f"{option} is one of {', '.join(map(repr, allowed))}, not {word!r}")


def one_of(words: Any) -> Callable[[object, Any, object], None]:
    """Return :func:`check_choice` as a validator for attrs."""
    allowed = get_args(words)

    def check(_: object, attribute: Any, word: object) -> None:
        if word not in allowed:
            check_choice(attribute.name, word, words)

    return check


def check_options(recipe: str, options: Mapping[str, object], known: type) -> None:
    """Check that options are keys of a ``TypedDict``.

    :param recipe: the name of the recipe with its article, for the message.
    :raises TypeError: the recipe has no such option.
    """
    if excess := options.keys() - known.__annotations__.keys():
        raise TypeError(f"{recipe} has no option {', '.join(sorted(excess))}")
