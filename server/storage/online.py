"""Snapshots of a running server, as bytes, and restoring: a running server gets the tree of a snapshot.

A restore is one transaction. Its zxid is above those of the server and of the snapshot, so that no client
sees zxids fall back. The sessions of the snapshot live on with their whole timeouts, and all others are over.
"""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Iterator

from ...protocol.files.image import Image
from ...protocol.files.restoring import read_image
from ...protocol.files.snapshot import STAT, Bounds
from ...protocol.files.streams import FileError
from ..core.engine import Engine
from ..core.txn import Replace
from .building import build
from .snapshots import SnapshotWriter

_SMALL, _UNPACKED = 2**20, 100
"""Bytes that any snapshot may have, and how many more for each byte that was sent."""
_PIECE = 2**20  # bytes
_ATTEMPTS = 2
"""How often a snapshot is made in steps, in the hope that nothing changes meanwhile. Then it is made at
once."""


class _Pieces:
    """A file in memory that is written, and then read once, in pieces. To join 100 MB takes 50 ms; and memory
    for pieces of this size goes back to the system."""

    def __init__(self) -> None:
        self._pieces: deque[bytes] = deque()
        self._last: list[bytes] = []
        self._size = 0

    def write(self, data: bytes) -> object:
        self._last.append(data)
        self._size += len(data)
        if self._size >= _PIECE:
            self.flush()
        return None

    def flush(self) -> object:
        self._pieces.append(b"".join(self._last))
        self._last.clear()
        self._size = 0
        return None

    def seek(self, offset: int) -> object:
        return self.flush()

    def read(self, size: int) -> bytes:
        return self._pieces.popleft() if self._pieces else b""


def snapshot_steps(engine: Engine) -> Iterator[tuple[int, bytes]]:
    """Make a snapshot of the tree at one zxid.

    It is made in steps of about 1 ms, so that clients are served meanwhile. If the tree changes before it is
    whole, that is tried once more; then it is made in one go, which takes 4 us for each znode.

    :returns: yields the zxid and a part of the bytes, again and again; before, pairs without bytes.
    """
    for attempt in range(_ATTEMPTS + 1):
        body, target = _Pieces(), _Pieces()
        writer = SnapshotWriter(engine, body, target)
        for _ in writer.steps():
            if attempt < _ATTEMPTS:
                yield writer.zxid, b""
                if engine.zxid != writer.zxid:
                    break
        else:
            while piece := target.read(_PIECE):
                yield writer.zxid, piece
            return


def read_snapshot(data: bytes, max_buffer: int) -> Image:
    """Read a snapshot, which may be compressed: to a hundredth at most, which no real tree comes near.

    :param max_buffer: ``jute.maxbuffer``.
    :raises FileError: it is damaged or too large.
    """
    bounds = Bounds.of(max_buffer, most=_SMALL + _UNPACKED * len(data))
    image, digest = read_image(io.BytesIO(data), -1, bounds=bounds)
    stats = [STAT.unpack(node.stat) for node in image.nodes.values()]
    image.zxid = max(image.zxid, *(max(stat[0], stat[1], stat[8]) for stat in stats))
    if digest is not None and digest.zxid == image.zxid and image.count_digest() != digest.digest:
        raise FileError(0, "the tree does not match its digest: it may hold half a transaction")
    return image


def restore(engine: Engine, image: Image, now: int) -> None:
    """Give an engine the tree and the sessions of an image. All its connections must be closed: their watches
    are of another tree.

    :param now: the monotonic time in ms.
    """
    image.sessions = {session: timeout for session, timeout in image.sessions.items() if session > 0}
    for session in list(engine.sessions):
        if session.id not in image.sessions:
            engine.sessions.remove(session)
    for session_id, timeout in image.sessions.items():
        known = engine.sessions.get(session_id)
        if known is None:
            engine.sessions.restore(session_id, timeout, now)
        else:
            engine.sessions.touch(known, now)
    image.drop_orphans()
    zxid = image.zxid
    root, _ = build(image)
    engine.replace_tree(Replace(root, frozenset()), zxid)
