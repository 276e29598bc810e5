"""What the two packages export: all that the client and the recipes export, with faces where there are."""

from __future__ import annotations

from typing import Any

from .. import client, recipes
from .faced import FACED
from .side import Side

LEFT_OUT = {"Connector", "Job"}
"""For recipes and for tests with streams of trio's."""


def exported() -> list[str]:
    """Return the names that the client and the recipes export to users of a face."""
    return sorted({*client.__all__, *recipes.__all__} - LEFT_OUT)


def fill(namespace: dict[str, Any], side: Side) -> None:
    """Fill the namespace of a package."""
    faces = side.faces

    def connect(*args: Any, **kwargs: Any) -> Any:
        return side.block(None, client.connect(*args, **kwargs))

    namespace["__doc__"] = side.head
    for cls in FACED:
        namespace[cls.__name__] = faces.export(cls)
    for name in exported():
        home = client if name in client.__all__ else recipes
        namespace[name] = faces.export(getattr(home, name))
    namespace["connect"] = faces.signed(connect, client.connect)
    namespace.update(side.extras)
    namespace["__all__"] = sorted({*exported(), *side.extras, *[cls.__name__ for cls in FACED]})
