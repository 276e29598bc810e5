"""The class of ``pyzk``'s verbs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import attrs

Add: TypeAlias = Callable[..., Any]
"""``add_argument`` of a parser."""


@attrs.frozen
class Verb:
    """A verb of ``pyzk``.

    :ivar run: the module of :mod:`.verbs`, and the function in the module.
    :ivar add: declares the arguments.
    :ivar verbs: further verbs; one of them can follow this verb.
    """

    help: str
    run: str
    add: Callable[[Add], None]
    verbs: Mapping[str, Verb] = attrs.field(factory=dict)
