"""Operations that change the tree, one znode at a time (semantics.md section 4)."""

from __future__ import annotations

import logging
import struct
from typing import TYPE_CHECKING

from ...protocol import records
from ...protocol.constants import OpCode
from ...protocol.errors import ReconfigDisabledError, UnimplementedError

if TYPE_CHECKING:
    from ..engine import Client, Engine

logger = logging.getLogger("pyzk.server")

_INT = struct.Struct(">i")
_CREATE, _CREATE2 = OpCode.CREATE.value, OpCode.CREATE2.value
_CREATE_CONTAINER, _CREATE_TTL = OpCode.CREATE_CONTAINER.value, OpCode.CREATE_TTL.value


def create(engine: Engine, client: Client, request: records.CreateRequest) -> bytes:
    """Answers with the final name alone."""
    effect = engine.prepare.create(_CREATE, request, client.session_id, client.identities)
    engine.commit(effect, client.session_id)
    path = effect.path.encode()
    return _INT.pack(len(path)) + path


def create2(engine: Engine, client: Client, request: records.CreateRequest) -> bytes:
    return _create_with_stat(engine, client, request, _CREATE2)


def create_container(engine: Engine, client: Client, request: records.CreateRequest) -> bytes:
    return _create_with_stat(engine, client, request, _CREATE_CONTAINER)


def create_ttl(engine: Engine, client: Client, request: records.CreateTTLRequest) -> bytes:
    return _create_with_stat(engine, client, request, _CREATE_TTL)


def _create_with_stat(
    engine: Engine, client: Client, request: records.CreateRequest | records.CreateTTLRequest, op: int
) -> bytes:
    effect = engine.prepare.create(op, request, client.session_id, client.identities)
    node = engine.commit(effect, client.session_id)
    path = effect.path.encode()
    return _INT.pack(len(path)) + path + node.packed_stat()


def delete(engine: Engine, client: Client, request: records.DeleteRequest) -> bytes:
    engine.commit(engine.prepare.delete(request, client.identities), client.session_id)
    return b""


def set_data(engine: Engine, client: Client, request: records.SetDataRequest) -> bytes:
    effect = engine.prepare.set_data(request, client.identities)
    return engine.commit(effect, client.session_id).packed_stat()


def set_acl(engine: Engine, client: Client, request: records.SetACLRequest) -> bytes:
    effect = engine.prepare.set_acl(request, client.identities)
    return engine.commit(effect, client.session_id).packed_stat()


def reconfig(engine: Engine, client: Client, request: records.ReconfigRequest) -> bytes:
    """A standalone server has no configuration to change (section 4.7); nothing is looked at."""
    if engine.settings.reconfig_enabled:
        raise UnimplementedError
    raise ReconfigDisabledError


def close_session(engine: Engine, client: Client, frame: bytes) -> bytes:
    session = engine.sessions.get(client.session_id)
    if session is not None:
        logger.debug("session 0x%x is closed by its client", session.id)
        engine.end_session(session, expired=False)
    return b""
