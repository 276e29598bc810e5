"""The coordination server: an engine without I/O, and the shells that put it on a network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .app.embedded import open_server

__all__ = ["open_server"]


def __getattr__(name: str) -> Any:
    # Imported when it is used, so that the command starts without it.
    if name != "open_server":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .app.embedded import open_server

    return open_server
