"""The sessions as tests see them, and the ways in which tests name sessions."""

from __future__ import annotations

from typing import Any, TypeAlias

import attrs


class UnknownSessionError(LookupError):
    """The session does not exist: it never existed, or it is over."""


@attrs.frozen
class SessionInfo:
    """One session.

    :ivar id: the id of the session.
    :ivar timeout_ms: the negotiated timeout, in milliseconds.
    :ivar peer: address and port of the client; None while it is not connected.
    :ivar ephemerals: the paths of the session's ephemeral znodes.
    :ivar watches: the paths that the session's connection watches.
    :ivar server: in an ensemble, the number of the server to which the client is connected; 0 otherwise.
    """

    id: int
    timeout_ms: int
    peer: tuple[str, int] | None
    ephemerals: tuple[str, ...]
    watches: tuple[str, ...]
    server: int = 0

    @property
    def connected(self) -> bool:
        """Whether the client is connected now."""
        return self.peer is not None


SessionRef: TypeAlias = int | str | SessionInfo | Any
"""A session's id; a text such as ``"holder-of:/locks/x"`` or ``"owner-of:/workers/1"``, a name or an address
(:mod:`.finding`); a :class:`SessionInfo`; or a client: a client of :mod:`pyzk.client`, :mod:`pyzk.blocking`
or :mod:`pyzk.aio`, or its ``session``; or any object with a ``session_id``, or with kazoo's ``client_id``."""


def session_id_of(session: SessionRef) -> int:
    """Return the id of a session.

    :raises TypeError: the object names no session.
    :raises UnknownSessionError: the client has no session.
    """
    if isinstance(session, SessionInfo):
        return session.id
    if isinstance(session, int) and not isinstance(session, bool):
        return session
    own: Any = getattr(session, "session", session)  # of our clients
    if hasattr(own, "generation") and isinstance(own.id, int):
        if not own.id:
            raise UnknownSessionError(f"{session!r} has no session; wait until it is connected")
        return own.id
    if found := getattr(own, "session_id", None):  # of aiozk's clients
        return int(found)
    for name in ("session_id", "client_id", "_session_id"):  # kazoo tells its client_id while connected only
        found = getattr(session, name, None)
        found = found[0] if isinstance(found, tuple) else found
        if isinstance(found, int) and found:
            return found
    if hasattr(session, "session_id") or hasattr(session, "client_id"):
        raise UnknownSessionError(f"{session!r} has no session; wait until it is connected")
    raise TypeError(
        f"a session is named by its id, a text, its SessionInfo or its client; this is {session!r}"
    )
