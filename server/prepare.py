"""Validating writes: every check of semantics.md section 4, in its order; the first that fails decides.

What comes out is an effect with everything resolved, which :meth:`.tree.DataTree.apply` carries out.
Nothing here changes anything.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..protocol.constants import OpCode, Perms
from ..protocol.errors import (
    BadArgumentsError,
    BadVersionError,
    MarshallingError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    UnimplementedError,
)
from ..protocol.paths import parent_of, validate_name, validate_path
from ..protocol.records import (
    ACL,
    OPEN_ACL,
    CheckVersionRequest,
    CreateRequest,
    CreateTTLRequest,
    DeleteRequest,
    Id,
    SetACLRequest,
    SetDataRequest,
)
from .acl import AccessControl
from .settings import Settings
from .tree import BUILT_IN, DataTree
from .txn import Check, Create, Delete, SetACL, SetData
from .znode import CONTAINER_OWNER, MAX_TTL, Znode, ttl_owner, wrap32

# plain ints: an IntFlag operation per request would cost more than the check itself
_READ, _WRITE, _CREATE, _DELETE, _ADMIN = (
    p.value for p in (Perms.READ, Perms.WRITE, Perms.CREATE, Perms.DELETE, Perms.ADMIN)
)
_PLAIN_CREATES = frozenset((OpCode.CREATE.value, OpCode.CREATE2.value))


class Preparer:
    """Validates one write at a time against the tree as it is."""

    def __init__(self, tree: DataTree, access: AccessControl, settings: Settings) -> None:
        self._tree = tree
        self._find = tree.find_to_change
        self._access = access
        self._extended_types = settings.extended_types
        self._enforce_quota = settings.enforce_quota

    def create(
        self, op: int, request: CreateRequest | CreateTTLRequest, session: int, who: Sequence[Id]
    ) -> Create:
        """Sections 4.1 and 6; ``op`` and flags together decide the kind of znode."""
        flags = request.flags
        if op in _PLAIN_CREATES and 0 <= flags <= 4:
            owner = session if flags in (1, 3) else 0
        else:
            owner = self._special_owner(op, request)
        path = _shaped(request.path)
        acl: Sequence[ACL] | None = request.acl
        if acl is not OPEN_ACL:
            acl = self._access.validate(acl, who, path)
        slash = path.rindex("/")
        above = path[:slash]
        parent = self._find(above)
        if parent is None:
            raise NoNodeError(path)
        if parent.acl is not OPEN_ACL:
            self._access.check(parent.acl, _CREATE, who, path)
        if flags in (2, 3, 6):
            path = f"{path}{parent.cversion:010d}"
        name = path[slash + 1 :]
        if above == "/":  # "//x": its parent "/" is in the tree, but not by that name
            validate_path(path)
        if path != "/":
            validate_name(name, path)
        if path == "/" or (parent.children and name in parent.children):
            raise NodeExistsError(path)
        if parent.owner > 0:
            raise NoChildrenForEphemeralsError(path)
        if self._tree.quotas.prefixes:
            self._tree.quotas.check(path, 1, len(request.data or b""), self._enforce_quota)
        return Create(path, above, request.data, acl, owner)

    def _special_owner(self, op: int, request: CreateRequest | CreateTTLRequest) -> int:
        """The stored owner of a container or TTL znode; checks 1 to 3 of section 4.1."""
        flags = request.flags
        if not 0 <= flags <= 6:
            raise BadArgumentsError(request.path, f"unknown create flags {flags}")
        if flags < 5:
            if op == OpCode.CREATE_TTL:
                raise BadArgumentsError(request.path, "a TTL needs one of the TTL create modes")
            return CONTAINER_OWNER
        if not self._extended_types:
            raise UnimplementedError(request.path, "TTL znodes need extendedTypesEnabled=true")
        ttl = request.ttl if isinstance(request, CreateTTLRequest) else -1
        if not 1 <= ttl <= MAX_TTL:
            raise BadArgumentsError(request.path, f"a TTL must be between 1 and {MAX_TTL} ms, not {ttl}")
        return ttl_owner(ttl)

    def delete(self, request: DeleteRequest, who: Sequence[Id]) -> Delete:
        """Section 4.2: the permission is the parent's, and comes before the znode's own existence."""
        path = _shaped(request.path)
        if path in BUILT_IN:
            raise BadArgumentsError(path, "a built-in znode cannot be deleted")
        above = path[: path.rindex("/")]
        parent = self._find(above)
        if parent is None:
            raise NoNodeError(path)
        if parent.acl is not OPEN_ACL:
            self._access.check(parent.acl, _DELETE, who, path)
        node = self._find(path)
        if node is None:
            raise NoNodeError(path)
        if request.version not in (-1, node.version):
            raise _mismatch(request.version, node.version, path)
        if node.children:
            raise NotEmptyError(path)
        return Delete(path, above)

    def reap(self, path: str) -> Delete:
        """Section 4.6: the server's own deletion of a container or TTL znode."""
        node = self._find(path)
        if node is None:
            raise NoNodeError(path)
        if node.children:
            raise NotEmptyError(path)
        if node.owner >= 0:
            raise BadVersionError(path, "neither a container nor a TTL znode")
        return Delete(path, parent_of(path))

    def set_data(self, request: SetDataRequest, who: Sequence[Id]) -> SetData:
        """Section 4.3: quota comes before version."""
        path, node = self._existing(request.path)
        if node.acl is not OPEN_ACL:
            self._access.check(node.acl, _WRITE, who, path)
        data = request.data
        if self._tree.quotas.prefixes:
            grown = len(data or b"") - len(node.data or b"")
            self._tree.quotas.check(path, 0, grown, self._enforce_quota)
        if request.version not in (-1, node.version):
            raise _mismatch(request.version, node.version, path)
        return SetData(path, data, wrap32(node.version + 1))

    def set_acl(self, request: SetACLRequest, who: Sequence[Id]) -> SetACL:
        """Section 4.4: the version is compared with aversion."""
        path = _well_formed(request.path)
        acl = self._access.validate(request.acl, who, path)
        path, node = self._existing(path)
        self._access.check(node.acl, _ADMIN, who, path)
        if request.version not in (-1, node.aversion):
            raise _mismatch(request.version, node.aversion, path)
        return SetACL(path, acl, wrap32(node.aversion + 1))

    def check(self, request: CheckVersionRequest, who: Sequence[Id]) -> Check:
        """Section 4.5."""
        path, node = self._existing(request.path)
        self._access.check(node.acl, _READ, who, path)
        if request.version not in (-1, node.version):
            raise _mismatch(request.version, node.version, path)
        return Check(path)

    def _existing(self, path: str | None) -> tuple[str, Znode]:
        """The znode, where the path is held to the full rules first. What is in the tree is well formed,
        but for the root's other name."""
        node = self._find(path) if path else None
        if path and node is not None:
            return path, node
        raise NoNodeError(_well_formed(path))


def _well_formed(path: str | None) -> str:
    """Where the full rules are the first thing to look at a path, null only breaks one of them."""
    if path is None:
        raise BadArgumentsError(path, "a null path")
    validate_path(path)
    return path


def _shaped(path: str | None) -> str:
    """All that create and delete ask of a path at first: a slash, and no null character."""
    if path is None:
        raise MarshallingError(None, "a null path")
    if "/" not in path or "\0" in path:
        raise BadArgumentsError(path, "a path must hold a / and no null character")
    return path


def _mismatch(wanted: int, actual: int, path: str) -> BadVersionError:
    return BadVersionError(path, f"the version is {actual}, not {wanted}")
