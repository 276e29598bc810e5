"""The settings as arguments in Python: ``EmbeddedServer(tick_time=100)``.

A name that does not exist, and a value of another type, are refused at once and by name. (Values of files and
flags are parsed, so they have their types.)
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Mapping, Set
from typing import Any, Final

import attrs

from .settings import Settings

_TYPES: Final[Mapping[str, tuple[str, Callable[[object], bool]]]] = {
    "None": ("None", lambda value: value is None),
    "bool": ("True or False", lambda value: isinstance(value, bool)),
    "int": ("a whole number", lambda value: isinstance(value, int) and not isinstance(value, bool)),
    "str": ("a string", lambda value: isinstance(value, str)),
    "frozenset[str]": ("a set of strings", lambda value: isinstance(value, Set)),
    "Mapping[str, str]": ("a mapping", lambda value: isinstance(value, Mapping)),
    "os.PathLike[str]": ("a path", lambda value: isinstance(value, os.PathLike)),
    "ssl.SSLContext": ("an ssl.SSLContext", lambda value: isinstance(value, ssl.SSLContext)),
}
"""What messages call a type, and whether a value is of it, by the annotation of a field."""


def check_type(instance: object, field: attrs.Attribute[Any], value: object) -> None:
    """Check the type of an argument; a validator of attrs.

    :raises TypeError: it has another one. A value that is a secret is not shown.
    """
    types = [_TYPES[each] for each in str(field.type).split(" | ")]
    if not any(is_one(value) for _, is_one in types):
        shown = repr(value) if field.repr else f"of type {type(value).__name__}"
        raise TypeError(f"{field.name} must be {' or '.join(text for text, _ in types)}, not {shown}")


def settings_of(given: Mapping[str, Any]) -> Settings:
    """Make the settings that a program has named; the port is the kernel's choice, unless it is named.

    :raises TypeError: there is no such setting, or its value has another type.
    :raises ValueError: a value is out of range, or two contradict each other.
    """
    fields = attrs.fields_dict(Settings)
    for name, value in given.items():
        if name not in fields:
            from .elsewhere import close_to

            raise TypeError(f"there is no setting {name!r}{close_to(name, fields)}")
        check_type(None, fields[name], value)
    return Settings(**{"port": 0, **given})
