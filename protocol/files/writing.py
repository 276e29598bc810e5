"""Making an image from znodes, and the bytes of a snapshot from an image.

If the Stat of a znode is known, the written znode keeps its zxids, times and versions, and the counter for
sequential names. All other znodes get the zxid and the time of a single transaction.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from zlib import adler32

from ..dump import Node
from ..records import OPEN_ACL
from .image import CONTAINER, MAX_TTL, TTL_MARK, Image, ImageNode
from .snapshot import STAT, NodeEncoder, ZxidDigest, tail

_TIMEOUT = 30.0
"""The timeout in seconds of a session that owns a copied ephemeral, if the timeout is not known. Within this
time the client must continue its session at the server of the copy."""
_MAX_TIMEOUT = 2**31 - 1
"""The longest timeout in ms. Files store a timeout in 32 bits."""


def image_of(nodes: Iterable[Node], now: int) -> Image:
    """Make an image of znodes. Parents must come before children.

    :param now: the time in ms since the epoch for znodes without a Stat.
    """
    image = Image.fresh()
    image.zxid = 1
    unknown: dict[str, int] = {}  # the number of children of each znode without a Stat
    for node in nodes:
        path = "" if node.path == "/" else node.path
        owner = _owner(node)
        stat = node.stat
        if stat is None:
            stat = STAT.pack(1, 1, now, now, 0, 0, 0, owner, 1)
            unknown[path] = 0
        above = path.rpartition("/")[0]
        if path and above in unknown:
            unknown[above] += 1
        fields = STAT.unpack(stat)
        image.zxid = max(image.zxid, fields[0], fields[1], fields[8])
        stat = STAT.pack(*fields[:7], owner, fields[8])
        image.nodes[path] = ImageNode(node.data, OPEN_ACL if node.acl is None else node.acl, stat)
        if node.kind == "ephemeral":
            timeout = _TIMEOUT if node.timeout is None else node.timeout
            image.sessions[owner] = min(math.ceil(timeout * 1000), _MAX_TIMEOUT)
    for path, children in unknown.items():
        fields = STAT.unpack(image.nodes[path].stat)
        image.nodes[path].stat = STAT.pack(*fields[:5], children, *fields[6:])
    return image


def _owner(node: Node) -> int:
    """Return the stored ephemeralOwner."""
    if node.kind == "container":
        return CONTAINER
    if node.kind == "ttl":
        return (TTL_MARK | min(round((node.ttl or 0) * 1000), MAX_TTL)) - 2**64
    return node.owner if node.kind == "ephemeral" else 0


def encoded(image: Image) -> Iterator[bytes]:
    """Yield the bytes of a snapshot of an image, piece by piece."""
    encoder = NodeEncoder()
    nodes = [encoder.encode(path, node.data, node.acl, node.stat) for path, node in image.nodes.items()]
    head = encoder.head(image.sessions)
    checksum = adler32(head)
    yield head
    for piece in nodes:
        checksum = adler32(piece, checksum)
        yield piece
    yield tail(checksum, ZxidDigest(image.zxid, image.count_digest()), image.zxid)
