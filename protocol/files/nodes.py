"""The znodes of an image in the form of :mod:`pyzk.protocol.dump`."""

from __future__ import annotations

from collections.abc import Iterator

from ..dump import Node
from ..records import Stat
from .image import CONTAINER, Image, ttl_of
from .snapshot import STAT

RESERVED = "/zookeeper"
"""The server's own subtree, which is left out."""


def nodes_of(image: Image, top: str = "/") -> Iterator[Node]:
    """Yield the znodes at and below the path ``top``: parents before children, siblings in order of their
    names. In the yielded paths, ``top`` has the path ``/``.

    :param top: the path of the first znode; if it does not exist, nothing is yielded.
    """
    base = "" if top == "/" else top
    below = f"{base}/"
    paths = [path for path in image.nodes if path == base or path.startswith(below)]
    # a slash sorts before any other character, so the children of a znode come directly after it
    for path in sorted(paths, key=lambda path: path.replace("/", "\0")):
        if not base and f"{path}/".startswith(f"{RESERVED}/"):
            continue
        node = image.nodes[path]
        owner = node.owner
        ttl = ttl_of(owner)
        kind, session, timeout = "persistent", 0, 0
        if owner == CONTAINER:
            kind = "container"
        elif ttl is not None:
            kind = "ttl"
        elif owner:
            kind, session, timeout = "ephemeral", owner, image.sessions.get(owner, 0)
        yield Node(
            path[len(base) :] or "/",
            node.data,
            node.acl,
            kind,
            ttl / 1000 if ttl is not None else None,
            session,
            node.stat,
            timeout / 1000 if timeout > 0 else None,
        )


def stored_stat(stat: Stat) -> bytes:
    """Return a client's Stat in the form of files. In files, cversion is the number of children that were
    ever created."""
    created = (stat.cversion + stat.numChildren) % 2**32 // 2
    return STAT.pack(
        stat.czxid,
        stat.mzxid,
        stat.ctime,
        stat.mtime,
        stat.version,
        created,
        stat.aversion,
        stat.ephemeralOwner,
        stat.pzxid,
    )
