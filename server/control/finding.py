"""Sessions, as requests name them: by id, by name, by ``owner-of:/path``, or by the address of the client."""

from __future__ import annotations

from typing import Final

from ...protocol.text import session_number
from ..testing.observers import Address
from ..testing.running import Running

_OWNER_OF: Final = "owner-of:"


def live_sessions(running: Running, given: str | None) -> list[int]:
    """List the ids of the live sessions that are meant; None is any."""
    engine = running.engine
    if given is None:
        return [session.id for session in engine.sessions]
    named = running.names.session(given)
    if named is not None:
        found = named
    elif given.startswith(_OWNER_OF):
        node = engine.tree.nodes.get(given.removeprefix(_OWNER_OF))
        found = node.owner if node is not None else 0
    else:
        try:
            found = session_number(given)
        except ValueError:
            return _sessions_from(running, given)
    return [found] if engine.sessions.get(found) is not None else []


def address_of(given: str | None) -> Address | None:
    """Return the address by which a request names sessions; None if it names them otherwise."""
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
