"""Validating writes: every check of semantics.md section 4, in its order; the first that fails decides.

What comes out is whatever the method of :class:`.tree.DataTree` that carries it out wants to know, with the
znodes looked up; or, for what is rare, an effect for :meth:`.tree.DataTree.apply`. Nothing here changes
anything.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...protocol.constants import INT_MAX, INT_MIN, Perms
from ...protocol.errors import (
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
from ...protocol.operations import OpCode
from ...protocol.paths import parent_of, validate_name, validate_path
from ...protocol.records import ACL, OPEN_ACL, Id
from ..config.settings import Settings
from .acl import AccessControl
from .tree import BUILT_IN, DataTree
from .txn import Delete, SetACL
from .znode import CONTAINER_OWNER, MAX_TTL, Znode, ttl_owner, wrap32

# plain ints: an IntFlag operation per request would cost more than the check itself
_READ, _WRITE, _CREATE, _DELETE, _ADMIN = (
    p.value for p in (Perms.READ, Perms.WRITE, Perms.CREATE, Perms.DELETE, Perms.ADMIN)
)
_ODD = frozenset(("", ".", ".."))  # names that are to be looked at closely
_PLAIN_CREATES = frozenset((OpCode.CREATE.value, OpCode.CREATE2.value))


class Preparer:
    """Validates one write at a time against the tree as it is."""

    def __init__(self, tree: DataTree, access: AccessControl, settings: Settings) -> None:
        self._tree = tree
        self._find = tree.find
        self._access = access
        self._extended_types = settings.extended_types
        self._enforce_quota = settings.enforce_quota

    def create(
        self,
        op: int,
        path: str | None,
        data: bytes | None,
        acl: Sequence[ACL] | None,
        flags: int,
        ttl: int,
        session: int,
        who: Sequence[Id],
    ) -> tuple[str, str, Znode, tuple[ACL, ...], int]:
        """Sections 4.1 and 6; ``op`` and flags together decide the kind of znode.

        Without a TTL ``ttl`` is -1. Returns the final path, its last component, the parent, ACL and owner.
        """
        if op in _PLAIN_CREATES and 0 <= flags <= 4:
            owner = session if flags in {1, 3} else 0
        else:
            owner = self._special_owner(op, path, flags, ttl)
        above, slash, name = path.rpartition("/") if path is not None else ("", "", "")
        if path is None or not slash or "\0" in path:
            raise _misshapen(path)
        if acl is not OPEN_ACL:
            acl = self._access.validate(acl, who, path)
        parent = self._find(above)
        if parent is None:
            raise NoNodeError(path)
        if parent.acl is not OPEN_ACL:
            self._access.check(parent.acl, _CREATE, who, path)
        children = parent.children
        if flags in {2, 3, 6}:
            number = f"{children.created if children is not None else 0:010d}"
            path += number
            name += number
        if above == "/":  # "//x": its parent "/" is in the tree, but not by that name
            validate_path(path)
        if name in _ODD or not (name.isascii() and name.isprintable()):
            if path == "/":
                raise NodeExistsError(path)
            validate_name(name, path)
        if children and name in children:
            raise NodeExistsError(path)
        if parent.owner > 0:
            raise NoChildrenForEphemeralsError(path)
        if self._tree.quotas.prefixes:
            self._tree.quotas.check(path, 1, len(data or b""), self._enforce_quota)
        return path, name, parent, acl, owner

    def _special_owner(self, op: int, path: str | None, flags: int, ttl: int) -> int:
        """The stored owner of a container or TTL znode; checks 1 to 3 of section 4.1."""
        if not 0 <= flags <= 6:
            raise BadArgumentsError(path, f"unknown create flags {flags}")
        if flags < 5:
            if op == OpCode.CREATE_TTL:
                raise BadArgumentsError(path, "a TTL needs one of the TTL create modes")
            return CONTAINER_OWNER
        if not self._extended_types:
            raise UnimplementedError(path, "TTL znodes need extendedTypesEnabled=true")
        if not 1 <= ttl <= MAX_TTL:
            raise BadArgumentsError(path, f"a TTL must be between 1 and {MAX_TTL} ms, not {ttl}")
        return ttl_owner(ttl)

    def delete(self, path: str | None, version: int, who: Sequence[Id]) -> tuple[str, str, Znode]:
        """Section 4.2: the permission is the parent's, and comes before the znode's own existence.

        Returns the path, its last component, and the parent.
        """
        if path is None or "/" not in path or "\0" in path:
            raise _misshapen(path)
        if path in BUILT_IN:
            raise BadArgumentsError(path, "a built-in znode cannot be deleted")
        above, _, name = path.rpartition("/")
        parent = self._find(above)
        if parent is None:
            raise NoNodeError(path)
        if parent.acl is not OPEN_ACL:
            self._access.check(parent.acl, _DELETE, who, path)
        # "//x": see create
        node = parent.children.get(name) if parent.children and above != "/" else None
        if node is None:
            raise NoNodeError(path)
        if version != -1 and version != node.version:
            raise _mismatch(version, node.version, path)
        if node.children:
            raise NotEmptyError(path)
        return path, name, parent

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

    def set_data(
        self, path: str | None, data: bytes | None, version: int, who: Sequence[Id]
    ) -> tuple[str, Znode, int]:
        """Section 4.3: quota comes before version. Returns the path, the znode and its new version."""
        node = self._find(path) if path else None
        if node is None or path is None:
            raise _missing(path)
        if node.acl is not OPEN_ACL:
            self._access.check(node.acl, _WRITE, who, path)
        if self._tree.quotas.prefixes:
            grown = len(data or b"") - len(node.data or b"")
            self._tree.quotas.check(path, 0, grown, self._enforce_quota)
        before = node.version
        if version != -1 and version != before:
            raise _mismatch(version, before, path)
        return path, node, before + 1 if before != INT_MAX else INT_MIN

    def set_acl(
        self, path: str | None, entries: Sequence[ACL] | None, version: int, who: Sequence[Id]
    ) -> SetACL:
        """Section 4.4: the version is compared with aversion."""
        path = _well_formed(path)
        acl = self._access.validate(entries, who, path)
        node = self._find(path)
        if node is None:
            raise NoNodeError(path)
        self._access.check(node.acl, _ADMIN, who, path)
        if version not in (-1, node.aversion):
            raise _mismatch(version, node.aversion, path)
        return SetACL(path, acl, wrap32(node.aversion + 1))

    def check(self, path: str | None, version: int, who: Sequence[Id]) -> tuple[str, Znode]:
        """Section 4.5. Returns the path and the znode."""
        node = self._find(path) if path else None
        if node is None or path is None:
            raise _missing(path)
        if node.acl is not OPEN_ACL:
            self._access.check(node.acl, _READ, who, path)
        if version != -1 and version != node.version:
            raise _mismatch(version, node.version, path)
        return path, node


def _well_formed(path: str | None) -> str:
    """Where the full rules are the first thing to look at a path, null only breaks one of them."""
    if path is None:
        raise BadArgumentsError(path, "a null path")
    validate_path(path)
    return path


def _missing(path: str | None) -> ZooKeeperError:
    """Of a path held to the full rules first; what is in the tree is well formed, but for the root's other
    name."""
    return NoNodeError(_well_formed(path))


def _misshapen(path: str | None) -> ZooKeeperError:
    """Create and delete ask only for a slash and no null character at first."""
    if path is None:
        return MarshallingError(None, "a null path")
    return BadArgumentsError(path, "a path must hold a / and no null character")


def _mismatch(wanted: int, actual: int, path: str) -> BadVersionError:
    return BadVersionError(path, f"the version is {actual}, not {wanted}")
