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
    """Yield the znodes at and below a path, parents before children, siblings in order. Their paths begin at
    it.

    :param top: where to begin; if nothing is there, nothing is yielded.
    """
    base = "" if top == "/" else top
    below = f"{base}/"
    paths = [path for path in image.nodes if path == base or path.startswith(below)]
    # a / counts less than any other character: a znode's children follow it at once
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
    """Return the Stat that a client has got as files have it: cversion as the number of children ever
    created."""
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
