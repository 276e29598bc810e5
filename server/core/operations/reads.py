"""Operations that read the tree and change nothing (semantics.md section 5). The rules:

* A read takes no zxid. Its reply has the zxid of the last processed transaction.
* The order of the checks: null path, existence, permission. ``exists`` also checks that the path has no null
  character.
* The watch of a read is set after the checks, so a refused read leaves no watch. Only ``exists`` leaves a
  watch if there is no znode.
* A reply is joined from packed parts. The Stat and the names of the children are packed once for each change
  of the znode (:mod:`..znode`), not for each read.
* A read of very many znodes is done in steps (:mod:`.long`).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from ....protocol import records
from ....protocol.constants import Perms
from ....protocol.errors import BadArgumentsError, MarshallingError, NoNodeError
from ..znode import NO_CHILDREN
from .long import Steps, in_steps

if TYPE_CHECKING:
    from ..client import Client
    from ..transactions import Transactions
    from ..znode import Znode

_READ = Perms.READ.value
_READ_OR_ADMIN = (Perms.READ | Perms.ADMIN).value
_INT = struct.Struct(">i").pack
_NULL = _INT(-1)
_STEP = 1000
"""The number of znodes or paths that one step reads, which takes less than 1 ms."""


def readable(engine: Transactions, client: Client, path: str | None, perm: int = _READ) -> Znode:
    """Return the znode at ``path``, after the checks of a read.

    :param perm: some permissions; the client needs one of them.
    :raises MarshallingError: the path is null.
    :raises NoNodeError: there is no such znode.
    :raises NoAuthError: the client may not read it.
    """
    if path is None:
        raise MarshallingError(None, "a null path")
    node = engine.tree.find(path)
    if node is None:
        raise NoNodeError(path)
    if node.acl is not records.OPEN_ACL:
        engine.access.check(node.acl, perm, client.identities, path)
    return node


def exists(engine: Transactions, client: Client, request: records.ExistsFields) -> bytes:
    """Return the Stat, and set the watch also if there is no znode.

    :raises BadArgumentsError: the path has a null character.
    :raises ZooKeeperError: a check of :func:`readable` fails.
    """
    path, watch = request
    if path is None:
        raise MarshallingError(None, "a null path")
    if "\0" in path:
        raise BadArgumentsError(path, "a path must not hold a null character")
    node = engine.tree.find(path)
    if node is not None and node.acl is not records.OPEN_ACL:
        engine.access.check(node.acl, _READ, client.identities, path)
    if watch:
        engine.watches.add_data(path, client)
    if node is None:
        raise NoNodeError(path)
    return node.packed or node.packed_stat()


def get_data(engine: Transactions, client: Client, request: records.GetDataFields) -> bytes:
    """Return the data and the Stat."""
    path, watch = request
    node = readable(engine, client, path)
    if watch and path is not None:
        engine.watches.add_data(path, client)
    data, stat = node.data, node.packed or node.packed_stat()
    if data is None:
        return _NULL + stat
    return b"".join((_INT(len(data)), data, stat))


def get_children(engine: Transactions, client: Client, request: records.GetChildrenFields) -> bytes:
    """Return the names of the children."""
    path, watch = request
    node = readable(engine, client, path)
    if watch and path is not None:
        engine.watches.add_child(path, client)
    return node.children.pack() if node.children else NO_CHILDREN


def get_children2(engine: Transactions, client: Client, request: records.GetChildren2Fields) -> bytes:
    """Return the names of the children, and the Stat."""
    path, _ = request
    names = get_children(engine, client, request)
    return names + readable(engine, client, path).packed_stat()


@in_steps
def get_all_children_number(
    engine: Transactions, client: Client, request: records.GetAllChildrenNumberFields
) -> Steps:
    """Count the descendants at all depths. The client needs no permission for the descendants."""
    (path,) = request
    node = readable(engine, client, path)
    if path == "/":  # all entries of the tree without the two entries of the root
        return _INT(len(engine.tree) - 2)
    if path == "":  # the real server counts the paths that begin with a slash: the root is one of them
        return _INT(len(engine.tree) - 1)
    count = looked_at = 0
    waiting = [node]
    while waiting:
        children = waiting.pop().children
        if not children:
            continue
        count += len(children)
        znodes = list(children.values())
        for start in range(0, len(znodes), _STEP):
            some = znodes[start : start + _STEP]
            waiting += [znode for znode in some if znode.children]
            looked_at += len(some)
            if looked_at >= _STEP:
                looked_at = 0
                yield 0.0
    return _INT(count)


_BLANKS = "".join(map(chr, range(33)))
"""The characters that String.trim() of Java removes from both ends of a text."""


@in_steps
def get_ephemerals(engine: Transactions, client: Client, request: records.GetEphemeralsFields) -> Steps:
    """Return the paths of this session's ephemerals that begin with a prefix.

    The prefix is a plain string, so it may end inside a name. If the prefix has nothing but blanks, or
    nothing but blanks and one slash, all paths are returned.
    """
    (prefix,) = request
    prefix = prefix or ""
    everything = prefix.strip(_BLANKS) in ("", "/")
    mine = list(engine.tree.ephemerals.get(client.session_id, ()))
    count, encoded = 0, [b""]
    for start in range(0, len(mine), _STEP):
        some = mine[start : start + _STEP]
        found = tuple(path for path in some if everything or path.startswith(prefix))
        count += len(found)
        encoded.append(records.GetEphemeralsResponse(found).encode()[len(_NULL) :])
        yield 0.0
    encoded[0] = _INT(count)
    return b"".join(encoded)


def get_acl(engine: Transactions, client: Client, request: records.GetACLFields) -> bytes:
    """Return the ACL and the Stat. The client needs the READ or the ADMIN permission."""
    (path,) = request
    node = readable(engine, client, path, _READ_OR_ADMIN)
    acl = engine.access.masked(node.acl, client.identities)
    return records.GetACLResponse(tuple(acl), node.stat()).encode()
