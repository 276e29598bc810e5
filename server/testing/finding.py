"""The search for the sessions that tests and HTTP requests name. The first matching rule decides:

1. A name that a test has given.
2. ``owner-of:/path``: the session that has created this ephemeral znode.
3. ``holder-of:/path``: the session that holds this lock, of a library that :mod:`pyzk.protocol.layouts`
   recognises. If several sessions hold the lock, the first one is returned. For an ephemeral znode it is the
   owner of the znode.
4. An id, as in ``0x1a204b7e01b0000``.
5. The address of the client, with or without its port.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

from ...protocol.text import session_number, session_text
from .directories import holders
from .observers import Address
from .running import Running
from .sessions import SessionRef, UnknownSessionError, session_id_of

OWNER_OF: Final = "owner-of:"
HOLDER_OF: Final = "holder-of:"
_SHOWN: Final = 20
"""The number of sessions that the error names if no session is found."""


def live_sessions(running: Running, given: str | None) -> list[int]:
    """List the ids of the live sessions with this name; None means all live sessions."""
    engine = running.engine
    if given is None:
        return [session.id for session in engine.sessions]
    named = running.names.session(given)
    if named is not None:
        found = [named]
    elif given.startswith(OWNER_OF):
        node = engine.tree.nodes.get(given.removeprefix(OWNER_OF))
        found = [node.owner if node is not None else 0]
    elif given.startswith(HOLDER_OF):
        found = list(holders(engine.tree, given.removeprefix(HOLDER_OF)))
    else:
        try:
            found = [session_number(given)]
        except ValueError:
            return _sessions_from(running, given)
    return [each for each in found if engine.sessions.get(each) is not None]


def find(parts: Iterable[Running], session: SessionRef) -> int:
    """Return the id of a session. A session that is given by its id or by its name may be over.

    :param parts: the servers that can have the session.
    :raises UnknownSessionError: if a text names none.
    :raises TypeError: the object names no session.
    """
    if not isinstance(session, str):
        return session_id_of(session)
    parts = list(parts)
    for running in parts:
        for found in live_sessions(running, session):
            return found
    for running in parts:
        if (named := running.names.session(session)) is not None:
            return named
    try:
        return session_number(session)
    except ValueError:
        raise unknown(parts[0], session) from None


def unknown(running: Running, given: str | int) -> UnknownSessionError:
    """Return the error for a session that was not found. The error lists the live sessions."""
    name = session_text(given) if isinstance(given, int) else given
    sessions = running.engine.sessions
    known = ", ".join(_label(running, session.id) for session in islice(sessions, _SHOWN)) or "none"
    if (more := len(sessions) - _SHOWN) > 0:
        known += f", and {more:,} more"
    return UnknownSessionError(f"there is no session {name}{_why(running, name)}; live sessions: {known}")


def _why(running: Running, name: str) -> str:
    for prefix, what in ((OWNER_OF, "no ephemeral znode"), (HOLDER_OF, "held by nobody")):
        path = name.removeprefix(prefix)
        if path != name:
            there = running.engine.tree.find(path) if path.startswith("/") else None
            return f": {path} {f'is {what}' if there is not None else 'does not exist'}"
    return ""


def _label(running: Running, session: int) -> str:
    name = running.names[session]
    return session_text(session) + (f" ({name})" if name else "")


def address_of(given: str | None) -> Address | None:
    """Return the address that a request gives for a session; None if the request gives a session in another
    way."""
    try:
        return None if given is None else Address.of(given)
    except ValueError:
        return None


def _sessions_from(running: Running, given: str) -> list[int]:
    address = address_of(given)
    if address is None:
        return []
    return [
        connection.session_id
        for connection in running.service.connections
        if connection.session is not None and address.matches(connection.peer)
    ]
