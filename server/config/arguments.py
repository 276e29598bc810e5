"""The settings as arguments in Python: ``EmbeddedServer(tick_time=100)``.

An unknown name and a value of a wrong type are refused at once. The error contains the name. (Values from
files and flags are parsed, so they have the right types.)
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping, Set
from functools import cache
from typing import Any, Final

import attrs

from .settings import Settings

_TYPES: Final[Mapping[str, tuple[type, str]]] = {
    "None": (type(None), "None"),
    "bool": (bool, "True or False"),
    "int": (int, "a whole number"),
    "str": (str, "a string"),
    "frozenset[str]": (Set, "a set of strings"),
    "Mapping[str, str]": (Mapping, "a mapping"),
    "os.PathLike[str]": (os.PathLike, "a path"),
    "ssl.SSLContext": (ssl.SSLContext, "an ssl.SSLContext"),
}
"""The type for each annotation of a field, and the name of the type in messages."""


@cache
def _types_of(annotation: str) -> tuple[tuple[type, ...], str]:
    """Return the types of an annotation. None is the first type, because it is the most frequent value, and
    because checking an abstract type takes longer."""
    found = [_TYPES[each] for each in annotation.split(" | ")]
    return tuple(each for each, _ in reversed(found)), " or ".join(text for _, text in found)


def check_type(instance: object, field: attrs.Attribute[Any], value: object) -> None:
    """Check the type of an argument. This is a validator of attrs.

    :raises TypeError: the argument has another type. The error does not show a secret.
    """
    __tracebackhide__ = True
    types, text = _types_of(str(field.type))
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        shown = repr(value) if field.repr else f"of type {type(value).__name__}"
        raise TypeError(f"{field.name} must be {text}, not {shown}")


def settings_of(given: Mapping[str, Any]) -> Settings:
    """Make the settings from the arguments of a program. Without ``port``, a free port is used.

    :raises TypeError: the setting does not exist, or its value has a wrong type.
    :raises ValueError: a value is out of range, or two values contradict each other.
    """
    __tracebackhide__ = True
    fields = attrs.fields_dict(Settings)
    for name, value in given.items():
        if name not in fields:
            from .overrides import close_to

            raise TypeError(f"there is no setting {name!r}{close_to(name, fields)}")
        check_type(None, fields[name], value)
    return Settings(**{"port": 0, **given})
