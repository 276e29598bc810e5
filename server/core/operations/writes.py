"""The writes. Each function is a *resolver*, both for a single request and for a part of a multi.

A resolver validates a request against the present tree, and resolves it to an effect
(:data:`~..txn.Resolved`). A resolver changes nothing. The engine applies the effect, which cannot fail
(:meth:`.tree.DataTree.change`), notifies the watchers, and encodes the reply. The reply has the final path of
a create, and the Stat if the response record has a Stat.

The checks are in the order of semantics.md section 4. The first check that fails decides the error:

============== =============================================================================================
create         flags and TTL; a slash and no null character in the path; ACL; parent; permission on the
               parent; the full rules of paths, for the final name; node; ephemeral parent; quota
delete         a slash and no null character in the path; built-in znode; parent; permission on the parent;
               node; version; children
set_data       node; permission; quota; version
set_acl        the full rules of paths; ACL; node; permission; version, which is compared with aversion
check          node; permission; version
check_reaping  node; children; kind
============== =============================================================================================

For a path that is not in the tree, set_data and check apply the full rules of paths before the check "node".

Each resolver raises the :class:`~pyzk.protocol.errors.ZooKeeperError` of the first check that fails.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from ....protocol.constants import INT_MAX, INT_MIN, CreateMode, Perms
from ....protocol.errors import (
    BadArgumentsError,
    BadVersionError,
    MarshallingError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    UnimplementedError,
    ZooKeeperError,
)
from ....protocol.operations import Flags, OpCode
from ....protocol.paths import validate_name, validate_path
from ....protocol.records import (
    OPEN_ACL,
    CheckVersionFields,
    CreateFields,
    CreateTTLFields,
    DeleteFields,
    SetACLFields,
    SetDataFields,
)
from ...logger import logger
from ..tree import BUILT_IN, DataTree
from ..txn import Check, Create, Delete, Resolved, SetACL, SetData
from ..znode import CONTAINER_OWNER, MAX_TTL, is_session, ttl_owner, wrap32

if TYPE_CHECKING:
    from ..client import Client
    from ..transactions import Transactions


Resolver: TypeAlias = Callable[["Transactions", "Client", Any], Resolved]

# These are plain ints, because an operation on a member of an enum takes longer than the check itself.
_READ, _WRITE, _CREATE, _DELETE, _ADMIN = (
    perm.value for perm in (Perms.READ, Perms.WRITE, Perms.CREATE, Perms.DELETE, Perms.ADMIN)
)
_EPHEMERAL_MODES = frozenset((CreateMode.EPHEMERAL.value, CreateMode.EPHEMERAL_SEQUENTIAL.value))
_SEQUENTIAL_MODES = frozenset(mode.value for mode in CreateMode if mode.is_sequential)
_MODES_WITHOUT_TTL = frozenset(mode.value for mode in CreateMode if not mode.is_ttl)
_TTL_MODES = frozenset(mode.value for mode in CreateMode if mode.is_ttl)
_SPECIAL_NAMES = frozenset(("", ".", ".."))


def create(engine: Transactions, client: Client, request: CreateFields, owner: int | None = None) -> Resolved:
    """Resolve a create: the final name, the stored ACL and the owner (sections 4.1 and 6).

    :param owner: the stored owner of a container or TTL znode; None if the flags alone decide the kind.
    """
    path, data, acl, flags = request
    if owner is None:
        if flags not in _MODES_WITHOUT_TTL:
            owner = _owner_with_ttl(engine, path, flags, -1)
        else:  # flag 4 makes a plain znode here, because only createContainer makes a container
            owner = client.session_id if flags in _EPHEMERAL_MODES else 0
    above, slash, name = path.rpartition("/") if path is not None else ("", "", "")
    if path is None or not slash or "\0" in path:
        raise _bad_path(path)
    if acl is not OPEN_ACL:
        acl = engine.access.validate(acl, client.identities, path)
    tree = engine.tree
    parent = tree.find(above)
    if parent is None:
        raise NoNodeError(path)
    if parent.acl is not OPEN_ACL:
        engine.access.check(parent.acl, _CREATE, client.identities, path)
    children = parent.children
    if flags in _SEQUENTIAL_MODES:
        number = f"{children.created if children is not None else 0:010d}"
        path += number
        name += number
    if above == "/":  # the path is "//x": its parent was found, but no valid path begins so
        validate_path(path)
    if name in _SPECIAL_NAMES or not (name.isascii() and name.isprintable()):
        if path == "/":
            raise NodeExistsError(path)
        validate_name(name, path)
    if children and name in children:
        raise NodeExistsError(path)
    if parent.owner and is_session(parent.owner):
        raise NoChildrenForEphemeralsError(path)
    if tree.quotas.prefixes:
        tree.quotas.check(path, 1, len(data or b""), engine.settings.enforce_quota)
    return Create, (path, name, data, acl, owner), parent


create2 = create


def create_container(engine: Transactions, client: Client, request: CreateFields) -> Resolved:
    """Resolve the create of a container. The op code makes the znode a container, whatever its flags are."""
    path, _, _, flags = request
    plain = flags in _MODES_WITHOUT_TTL
    return create(
        engine, client, request, CONTAINER_OWNER if plain else _owner_with_ttl(engine, path, flags, -1)
    )


def create_ttl(engine: Transactions, client: Client, request: CreateTTLFields) -> Resolved:
    """Resolve the create of a TTL znode. Only the two TTL modes are allowed."""
    path, data, acl, flags, ttl = request
    if flags in _MODES_WITHOUT_TTL:
        raise BadArgumentsError(path, "a TTL needs one of the TTL create modes")
    return create(engine, client, (path, data, acl, flags), _owner_with_ttl(engine, path, flags, ttl))


def _owner_with_ttl(engine: Transactions, path: str | None, flags: int, ttl: int) -> int:
    """Make checks 1 to 3 of section 4.1, and return the stored owner of a TTL znode.

    :param ttl: the TTL in ms; -1 for requests that have no TTL.
    """
    if flags not in _TTL_MODES:
        raise BadArgumentsError(path, f"unknown create flags {flags}")
    if not engine.settings.extended_types:
        if not engine.told_of_ttl:
            engine.told_of_ttl = True
            logger.warning(
                "TTL znodes are refused, as by an Apache ZooKeeper with its defaults; "
                "extendedTypesEnabled=true switches them on (--set extendedTypesEnabled=true)"
            )
        raise UnimplementedError(path, "TTL znodes need extendedTypesEnabled=true")
    if not 1 <= ttl <= MAX_TTL:
        raise BadArgumentsError(path, f"a TTL must be between 1 and {MAX_TTL} ms, not {ttl}")
    return ttl_owner(ttl)


def delete(engine: Transactions, client: Client, request: DeleteFields) -> Resolved:
    """Resolve a delete (section 4.2). The client needs the permission at the parent. This check comes before
    the checks of the znode."""
    path, version = request
    if path is None or "/" not in path or "\0" in path:
        raise _bad_path(path)
    if path in BUILT_IN:
        raise BadArgumentsError(path, "a built-in znode cannot be deleted")
    above, _, name = path.rpartition("/")
    parent = engine.tree.find(above)
    if parent is None:
        raise NoNodeError(path)
    if parent.acl is not OPEN_ACL:
        engine.access.check(parent.acl, _DELETE, client.identities, path)
    # If above is "/", the path is "//x"; see create().
    node = parent.children.get(name) if parent.children and above != "/" else None
    if node is None:
        raise NoNodeError(path)
    if version != -1 and version != node.version:
        raise _mismatch(version, node.version, path)
    if node.children:
        raise NotEmptyError(path)
    return Delete, (path, name), parent


def set_data(engine: Transactions, client: Client, request: SetDataFields) -> Resolved:
    """Resolve a setData (section 4.3). The quota is checked before the version."""
    path, data, version = request
    tree = engine.tree
    if not path or (node := tree.find(path)) is None:
        raise _missing(path)
    if node.acl is not OPEN_ACL:
        engine.access.check(node.acl, _WRITE, client.identities, path)
    if tree.quotas.prefixes:
        grown = len(data or b"") - len(node.data or b"")
        tree.quotas.check(path, 0, grown, engine.settings.enforce_quota)
    before = node.version
    if version != -1 and version != before:
        raise _mismatch(version, before, path)
    return SetData, (path, data, before + 1 if before != INT_MAX else INT_MIN), node


def set_acl(engine: Transactions, client: Client, request: SetACLFields) -> Resolved:
    """Resolve a setACL (section 4.4). The version of the request is compared with aversion."""
    path, acl, version = request
    path = _well_formed(path)
    stored = engine.access.validate(acl, client.identities, path)
    node = engine.tree.find(path)
    if node is None:
        raise NoNodeError(path)
    engine.access.check(node.acl, _ADMIN, client.identities, path)
    if version not in (-1, node.aversion):
        raise _mismatch(version, node.aversion, path)
    return SetACL, (path, stored, wrap32(node.aversion + 1)), node


def check(engine: Transactions, client: Client, request: CheckVersionFields) -> Resolved:
    """Resolve a check of a version (section 4.5). Only a multi can have such a check."""
    path, version = request
    if not path or (node := engine.tree.find(path)) is None:
        raise _missing(path)
    if node.acl is not OPEN_ACL:
        engine.access.check(node.acl, _READ, client.identities, path)
    if version != -1 and version != node.version:
        raise _mismatch(version, node.version, path)
    return Check, (path,), node


def check_reaping(tree: DataTree, path: str) -> None:
    """Check that the server may delete a container or TTL znode without a request (section 4.6).

    :raises ZooKeeperError: the server may not delete it.
    """
    node = tree.find(path)
    if node is None:
        raise NoNodeError(path)
    if node.children:
        raise NotEmptyError(path)
    if not node.owner or is_session(node.owner):
        raise BadVersionError(path, "neither a container nor a TTL znode")


def _well_formed(path: str | None) -> str:
    """Check a path by the full rules, which do not allow null.

    :raises BadArgumentsError: the path breaks a rule; the error names the rule.
    """
    if path is None:
        raise BadArgumentsError(path, "a null path")
    validate_path(path)
    return path


def _missing(path: str | None) -> ZooKeeperError:
    """Return the error for a path that is not in the tree.

    :raises BadArgumentsError: the path is malformed.
    """
    return NoNodeError(_well_formed(path))


def _bad_path(path: str | None) -> ZooKeeperError:
    """Return the error for a create or delete whose path has no slash or has a null character."""
    if path is None:
        return MarshallingError(None, "a null path")
    return BadArgumentsError(path, "a path must hold a / and no null character")


def _mismatch(wanted: int, actual: int, path: str) -> BadVersionError:
    return BadVersionError(path, f"the version is {actual}, not {wanted}")


def _has_stat(op: OpCode) -> bool:
    return op.response is not None and "stat" in op.response.__match_args__


RESOLVERS: dict[int, tuple[Resolver, bool]] = {
    op.value: (globals()[op.name.lower()], _has_stat(op))
    for op in OpCode
    if op.flags & (Flags.TAKES_ZXID | Flags.IN_MULTI) and op.name.lower() in globals()
}
"""The resolver of each op code, and whether the reply has the Stat."""
