"""The digest of a tree (files.md section 6): a sum of one number for each znode, so that a change costs two
of them, however large the tree is."""

from __future__ import annotations

from typing import Final
from zlib import crc32

VERSION: Final = 2
"""Of the digest; files of Apache ZooKeeper 3.6 and later have it."""
_MASK: Final = 2**64 - 1
LISTED, LIST = 128, 1024
"""The digest is listed for each zxid that is a multiple of the first number. The second number says how many
of the latest are kept."""
RESERVED: Final = "/zookeeper/"
"""Znodes below count 0."""


def value_of(path: str, data: bytes | None, stat: bytes) -> int:
    """Return the number of a znode, for the sum.

    :param path: ``""`` for the root.
    :param stat: its Stat as snapshots have it; see :data:`.snapshot.STAT`.
    """
    if path.startswith(RESERVED):
        return 0
    sum_ = crc32(path.encode("utf-8", "surrogatepass"))
    if data:
        sum_ = crc32(data, sum_)
    return crc32(stat[:16] + stat[52:] + stat[16:52], sum_)  # here pzxid stands third


def add(digest: int, value: int) -> int:
    """Add the number of a znode to a digest; a negative number removes the znode."""
    return (digest + value) & _MASK


def signed(digest: int) -> int:
    """Return a digest as the long of a file."""
    return digest - 2**64 if digest >= 2**63 else digest
