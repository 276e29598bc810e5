"""Operations that concern the session or the ensemble, and no znode (semantics.md sections 4.7, 5 and 12).

* ``ping`` and ``sync`` change nothing, because a single server has no leader to catch up with. Every request
  is a sign of life of its session. The connection notes the sign of life before these functions run.
* ``close_session`` takes a zxid, and deletes the session's ephemerals under this zxid. The connection closes
  after the reply.
* ``reconfig`` is for ensembles. A single server refuses it, but the request still takes a zxid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....protocol.errors import ReconfigDisabledError
from ....protocol.records import (
    ClientInfo,
    ReconfigFields,
    SyncFields,
    SyncResponse,
    WhoAmIResponse,
)
from ...logger import logger

if TYPE_CHECKING:
    from ..client import Client
    from ..engine import Engine


def close_session(engine: Engine, client: Client, frame: bytes) -> bytes:
    """End the session of the client."""
    session = engine.sessions.get(client.session_id)
    if session is not None:
        logger.debug("%s was closed by its client", session)
        engine.end_session(session, expired=False, request=frame)
    return b""


def ping(engine: Engine, client: Client, frame: bytes) -> bytes:
    """Answer with an empty body."""
    return b""


def sync(engine: Engine, client: Client, request: SyncFields) -> bytes:
    """Answer with the path of the request."""
    return SyncResponse(*request).encode()


def who_am_i(engine: Engine, client: Client, frame: bytes) -> bytes:
    """Return the identities of the client, without digests."""
    infos = [ClientInfo(identity.scheme, engine.access.user_of(identity)) for identity in client.identities]
    return WhoAmIResponse(tuple(infos)).encode()


def reconfig(engine: Engine, client: Client, request: ReconfigFields) -> bytes:
    """Change the members of an ensemble (ensemble.md section 10).

    :raises ReconfigDisabledError: ``reconfigEnabled`` is not set.
    """
    if not engine.settings.reconfig_enabled:
        raise ReconfigDisabledError(
            message="reconfigEnabled is false; set reconfigEnabled=true (reconfig_enabled=True)"
        )
    return engine.reconfigure(client, request)
