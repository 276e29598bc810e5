"""Where releases of the real server differ: the table of those that ours can emulate.

The tests ask ``differs(name, server)``, of ours and of the real one alike, and expect the old behaviour where
the answer is yes. Nothing else is ever expected to differ. (Inputs where ours differs on purpose are in
``test_deliberate_differences.py``.)
"""

from __future__ import annotations

from pyzk.server.config.releases import CHANGES

from .servers import Server

_PATCHED = {(3, 8, 0): "notification-read-check"}
"""A release of Debian's, and the change that it has earlier than that of the Apache Software Foundation."""


def differs(name: str, server: Server) -> bool:
    """Whether the server has the old behaviour; an unknown name fails."""
    major, minor, patch = server.version
    if server.kind == "real" and _PATCHED.get((major, minor, patch)) == name:
        return False
    return not CHANGES[name].is_new((major, minor, patch))
