"""A tree in the form of a server's files, and how the entries of logs change the tree (files.md sections 4.1
and 5).

This module applies entries in the same way as a server that starts. An entry holds the result of a request
that the server has accepted. Therefore nothing is checked. An entry that was applied before changes nothing.

* An entry that cannot be applied is left out, because its znode is missing or exists already.
* The counters of a parent never become smaller. A snapshot may have been written while the tree changed. It
  becomes right when all entries after the zxid of the snapshot are applied.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

import attrs

from ..constants import INT_MAX
from ..records import ACL, OPEN_ACL
from .digest import add, value_of
from .snapshot import STAT
from .txnlog import (
    CloseSessionTxn,
    CreateContainerTxn,
    CreateSessionTxn,
    CreateTTLTxn,
    CreateTxn,
    DeleteTxn,
    Entry,
    ErrorTxn,
    MultiTxn,
    SetACLTxn,
    SetDataTxn,
)

CONTAINER: Final = -(2**63)
"""The stored ephemeralOwner of a container."""
TTL_MARK: Final = 0xFF << 56
"""The highest byte of the stored ephemeralOwner of a TTL znode."""
MAX_TTL: Final = 2**40 - 1
"""The longest TTL in ms."""
_OWNER: Final = slice(44, 52)
_NOBODY: Final = bytes(8)
_MASK: Final = 2**64 - 1
_LONG: Final = struct.Struct(">q")
BUILT_IN: Final = ("", "/zookeeper", "/zookeeper/quota", "/zookeeper/config")


@attrs.define(eq=True)
class ImageNode:
    """A znode of an image.

    :ivar stat: the Stat in the form of snapshots; see :data:`.snapshot.STAT`.
    """

    data: bytes | None
    acl: tuple[ACL, ...]
    stat: bytes

    @property
    def owner(self) -> int:
        """The stored ephemeralOwner."""
        owner: int = _LONG.unpack(self.stat[_OWNER])[0]
        return owner


class Image:
    """A tree, its sessions, and the zxid of the last transaction in it.

    :ivar nodes: the znodes by path; the root is ``""``. Parents come before children, except in a snapshot
        that was written while the tree changed.
    :ivar sessions: the timeouts in ms by session id.
    :ivar digest: the digest of the tree; None if it is not kept.
    """

    def __init__(self) -> None:
        self.nodes: dict[str, ImageNode] = {}
        self.sessions: dict[int, int] = {}
        self.zxid = 0
        self.digest: int | None = None
        self._counted: tuple[ImageNode | None, int] = None, 0  # the last changed znode, and its number
        self._ephemerals: dict[int, dict[str, None]] | None = None

    @classmethod
    def fresh(cls) -> Image:
        """Return the image of a server without data, at zxid 0."""
        image = cls()
        read_only = (ACL(1, OPEN_ACL[0].id),)
        for path in BUILT_IN:
            config = path == "/zookeeper/config"
            stat = STAT.pack(0, 0, 0, 0, 0, 0, -1 if config else 0, 0, 0)
            image.nodes[path] = ImageNode(b"", read_only if config else OPEN_ACL, stat)
        return image

    def count_digest(self) -> int:
        """Compute the digest of the whole tree. From now on each change updates the digest."""
        digest = 0
        for path, node in self.nodes.items():
            digest = add(digest, value_of(path, node.data, node.stat))
        self.digest = digest
        return digest

    # --- entries of a log --------------------------------------------------------------------------------

    def apply(self, entry: Entry) -> None:
        """Apply one transaction."""
        zxid, time, session = entry.zxid, entry.time, entry.session
        txn = entry.txn
        if isinstance(txn, MultiTxn):
            if not any(isinstance(part, ErrorTxn) for _, part in txn.parts):
                for _, part in txn.parts:
                    self._apply(part, zxid, time, session)
        elif isinstance(txn, CreateSessionTxn):
            self.sessions[session] = txn.timeOut
        elif isinstance(txn, CloseSessionTxn):
            self.sessions.pop(session, None)
            owned = list(self._owned().get(session, ()))
            for path in dict.fromkeys([*(txn.paths or ()), *owned]):
                self._delete(path, zxid)
        else:
            self._apply(txn, zxid, time, session)
        self.zxid = zxid

    def _apply(self, txn: object, zxid: int, time: int, session: int) -> None:
        match txn:
            case CreateTxn(path, data, acl, ephemeral, created):
                self._create(path, data, acl, session if ephemeral else 0, created, zxid, time)
            case SetDataTxn(path, data, version):
                path = "" if path == "/" else path
                node = self.nodes.get(path)
                if node is not None:
                    stat = list(STAT.unpack(node.stat))
                    stat[1], stat[3], stat[4] = zxid, time, version
                    self._replace(path, node, data, STAT.pack(*stat))
            case CreateContainerTxn(path, data, acl, created):
                self._create(path, data, acl, CONTAINER, created, zxid, time)
            case CreateTTLTxn(path, data, acl, created, ttl):
                self._create(path, data, acl, (TTL_MARK | ttl & MAX_TTL) - 2**64, created, zxid, time)
            case DeleteTxn(path):
                self._delete(path, zxid)
            case SetACLTxn(path, acl, version):
                path = "" if path == "/" else path
                node = self.nodes.get(path)
                if node is not None:
                    stat = list(STAT.unpack(node.stat))
                    stat[6] = version
                    node.acl = _shared(acl)
                    self._replace(path, node, node.data, STAT.pack(*stat))
            case _:  # a check, or a write that failed
                pass

    def _create(
        self,
        path: str,
        data: bytes | None,
        acl: Sequence[ACL] | None,
        owner: int,
        created: int,
        zxid: int,
        time: int,
    ) -> None:
        above = path.rpartition("/")[0]
        parent = self.nodes.get(above)
        if parent is None:
            return
        exists = path in self.nodes
        stat = list(STAT.unpack(parent.stat))
        if created == -1 and not exists:  # logs of very old releases lack the counter
            created = min(stat[5] + 1, INT_MAX)
        if created > stat[5]:
            stat[5], stat[8] = created, zxid
            self._replace(above, parent, parent.data, STAT.pack(*stat))
        if exists:
            return
        node = ImageNode(data, _shared(acl), STAT.pack(zxid, zxid, time, time, 0, 0, 0, owner, zxid))
        self.nodes[path] = node
        if owner and self._ephemerals is not None:
            self._ephemerals.setdefault(owner, {})[path] = None
        if self.digest is not None:
            self.digest = add(self.digest, value_of(path, data, node.stat))

    def _delete(self, path: str, zxid: int) -> None:
        above = path.rpartition("/")[0]
        parent = self.nodes.get(above)
        if parent is not None:
            stat = list(STAT.unpack(parent.stat))
            if zxid > stat[8]:
                stat[8] = zxid
                self._replace(above, parent, parent.data, STAT.pack(*stat))
        node = self.nodes.pop(path, None)
        if node is None:
            return
        if self._ephemerals is not None and node.stat[_OWNER] != _NOBODY:
            self._ephemerals.get(node.owner, {}).pop(path, None)
        if self.digest is not None:
            self.digest = add(self.digest, -value_of(path, node.data, node.stat))

    def _replace(self, path: str, node: ImageNode, data: bytes | None, stat: bytes) -> None:
        if self.digest is not None:
            last, before = self._counted  # often the same parent gets many children
            if last is not node:
                before = value_of(path, node.data, node.stat)
            after = value_of(path, data, stat)
            self.digest = add(self.digest, after - before)
            self._counted = node, after
        node.data, node.stat = data, stat

    # --- who owns what -----------------------------------------------------------------------------------

    def _owned(self) -> dict[int, dict[str, None]]:
        """Return the paths of the ephemerals, by the session that owns them. Only the first call searches the
        tree."""
        if self._ephemerals is None:
            self._ephemerals = {}
            for path, node in self.nodes.items():
                if node.stat[_OWNER] != _NOBODY:
                    self._ephemerals.setdefault(node.owner, {})[path] = None
        return self._ephemerals

    def drop_orphans(self) -> list[str]:
        """Delete the ephemerals of unknown sessions without a transaction, as a server does when it starts.
        Returns their paths."""
        gone = [
            path
            for owner, paths in self._owned().items()
            if is_session(owner) and owner not in self.sessions
            for path in paths
        ]
        for path in gone:
            self._delete(path, self.zxid)
        return gone


def is_session(owner: int) -> bool:
    """Return whether a stored ephemeralOwner is the id of a session. Any other ephemeralOwner is the mark of
    a container or TTL znode."""
    return owner > 0 or (owner < 0 and owner != CONTAINER and ttl_of(owner) is None)


def ttl_of(owner: int) -> int | None:
    """Return the TTL in ms that a stored ephemeralOwner contains; None if the ephemeralOwner contains no
    TTL."""
    stored = owner & _MASK
    ttl = stored - TTL_MARK
    return ttl if 0 < ttl <= MAX_TTL else None


def _shared(acl: Sequence[ACL] | None) -> tuple[ACL, ...]:
    found = tuple(acl or ())
    return OPEN_ACL if found == OPEN_ACL else found
