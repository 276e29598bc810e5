"""The digest of a tree (files.md section 6). Each znode has a number, and the digest is the sum of these
numbers. To update the digest for one changed znode, the old number is subtracted and the new number is added.
The cost does not depend on the size of the tree."""

from __future__ import annotations

from typing import Final
from zlib import crc32

VERSION: Final = 2
"""The version of the digest in files of Apache ZooKeeper 3.6 and later."""
_MASK: Final = 2**64 - 1
LISTED, LIST = 128, 1024
"""A server keeps a list of digests, which the word ``hash`` shows. The list has the digest of each zxid that
is a multiple of ``LISTED``, and at most ``LIST`` digests."""
RESERVED: Final = "/zookeeper/"
"""The number of each znode below this path is 0."""


def value_of(path: str, data: bytes | None, stat: bytes) -> int:
    """Return the number that a znode adds to the digest.

    :param path: the path of the znode; ``""`` for the root.
    :param stat: the Stat of the znode in the form of snapshots; see :data:`.snapshot.STAT`.
    """
    if path.startswith(RESERVED):
        return 0
    name = path.encode("utf-8", "surrogatepass")
    return crc32(b"".join((name, data or b"", stat[:16], stat[52:], stat[16:52])))  # pzxid is the third field


def add(digest: int, value: int) -> int:
    """Add the number of a znode to a digest; a negative number removes the znode."""
    return (digest + value) & _MASK


def signed(digest: int) -> int:
    """Return a digest as the signed number that a file stores."""
    return digest - 2**64 if digest >= 2**63 else digest
