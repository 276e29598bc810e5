"""Operations that change the tree, one znode at a time (semantics.md section 4)."""

from __future__ import annotations

import logging
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ....protocol.errors import ReconfigDisabledError, UnimplementedError
from ....protocol.operations import OpCode
from ....protocol.paths import parent_of
from ....protocol.records import ACL
from ..txn import Create, Delete, SetData

if TYPE_CHECKING:
    from ..engine import Client, Engine
    from ..znode import Znode

logger = logging.getLogger("pyzk.server")

_INT = struct.Struct(">i")
_CREATE, _CREATE2 = OpCode.CREATE.value, OpCode.CREATE2.value
_CREATE_CONTAINER, _CREATE_TTL = OpCode.CREATE_CONTAINER.value, OpCode.CREATE_TTL.value


def create(engine: Engine, client: Client, request: tuple[Any, ...]) -> bytes:
    """Answers with the final name alone."""
    path, data, acl, flags = request
    path, _ = _create(engine, client, _CREATE, path, data, acl, flags, -1)
    name = path.encode()
    return _INT.pack(len(name)) + name


def create2(engine: Engine, client: Client, request: tuple[Any, ...]) -> bytes:
    return _create_with_stat(engine, client, _CREATE2, *request)


def create_container(engine: Engine, client: Client, request: tuple[Any, ...]) -> bytes:
    return _create_with_stat(engine, client, _CREATE_CONTAINER, *request)


def create_ttl(engine: Engine, client: Client, request: tuple[Any, ...]) -> bytes:
    return _create_with_stat(engine, client, _CREATE_TTL, *request)


def _create_with_stat(
    engine: Engine,
    client: Client,
    op: int,
    path: str | None,
    data: bytes | None,
    acl: Sequence[ACL] | None,
    flags: int,
    ttl: int = -1,
) -> bytes:
    path, node = _create(engine, client, op, path, data, acl, flags, ttl)
    name = path.encode()
    return _INT.pack(len(name)) + name + node.packed_stat()


def _create(
    engine: Engine,
    client: Client,
    op: int,
    path: str | None,
    data: bytes | None,
    acl: Sequence[ACL] | None,
    flags: int,
    ttl: int,
) -> tuple[str, Znode]:
    path, name, parent, acl, owner = engine.prepare.create(
        op, path, data, acl, flags, ttl, client.session_id, client.identities
    )
    node = engine.tree.create(path, name, parent, data, acl, owner, engine.zxid, engine.time)
    if engine.watches.watchers or engine.on_txn is not None:
        effect = Create(path, parent_of(path), data, acl, owner)
        engine.announce(effect, client.session_id, node.acl, parent.acl)
    return path, node


def delete(engine: Engine, client: Client, request: tuple[str | None, int]) -> bytes:
    path, version = request
    path, name, parent = engine.prepare.delete(path, version, client.identities)
    node = engine.tree.delete(path, name, parent, engine.zxid)
    if engine.watches.watchers or engine.on_txn is not None:
        engine.announce(Delete(path, parent_of(path)), client.session_id, node.acl, parent.acl)
    return b""


def set_data(engine: Engine, client: Client, request: tuple[str | None, bytes | None, int]) -> bytes:
    path, data, version = request
    path, node, version = engine.prepare.set_data(path, data, version, client.identities)
    engine.tree.set_data(path, node, data, version, engine.zxid, engine.time)
    if engine.watches.watchers or engine.on_txn is not None:
        engine.announce(SetData(path, data, version), client.session_id, node.acl, node.acl)
    return node.packed_stat()


def set_acl(engine: Engine, client: Client, request: tuple[str | None, Sequence[ACL] | None, int]) -> bytes:
    effect = engine.prepare.set_acl(*request, client.identities)
    return engine.commit(effect, client.session_id).packed_stat()


def reconfig(engine: Engine, client: Client, request: tuple[Any, ...]) -> bytes:
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
