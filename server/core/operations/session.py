"""Operations that concern the session or the ensemble, and no znode (semantics.md sections 4.7, 5 and 12)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....protocol.errors import ReconfigDisabledError, UnimplementedError
from ....protocol.records import (
    ClientInfo,
    ReconfigFields,
    SyncFields,
    SyncResponse,
    WhoAmIResponse,
)
from ...logger import logger
from ..acl import user_of

if TYPE_CHECKING:
    from ..engine import Client, Engine


def close_session(engine: Engine, client: Client, frame: bytes) -> bytes:
    session = engine.sessions.get(client.session_id)
    if session is not None:
        logger.debug("session 0x%x is closed by its client", session.id)
        engine.end_session(session, expired=False)
    return b""


def ping(engine: Engine, client: Client, frame: bytes) -> bytes:
    return b""


def sync(engine: Engine, client: Client, request: SyncFields) -> bytes:
    return SyncResponse(*request).encode()


def who_am_i(engine: Engine, client: Client, frame: bytes) -> bytes:
    infos = [ClientInfo(identity.scheme, user_of(identity)) for identity in client.identities]
    return WhoAmIResponse(tuple(infos)).encode()


def reconfig(engine: Engine, client: Client, request: ReconfigFields) -> bytes:
    """Refuse it, without a look at the request: a standalone server has no configuration to change
    (semantics.md section 4.7)."""
    if engine.settings.reconfig_enabled:
        raise UnimplementedError(message="a single server has nothing to reconfigure")
    raise ReconfigDisabledError(message="reconfigEnabled is false")
