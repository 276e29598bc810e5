"""Makes a snapshot of a running server, and restores the tree of a running server from a snapshot.

A restore is one transaction. Its zxid is above the zxid of the server and above the zxid of the snapshot, so
that no client sees a lower zxid than before. The sessions of the snapshot continue with their whole timeouts,
and all other sessions end.
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
"""The limit for the size of an unpacked snapshot: the number of bytes that every snapshot may have, and the
number of further bytes for each byte that was received."""
_PIECE = 2**20  # bytes
_ATTEMPTS = 2
"""The number of attempts to make a snapshot in steps. An attempt fails if the tree changes meanwhile. After
these attempts the snapshot is made in one step."""


class _Pieces:
    """A file in memory that is written and then read once, in pieces. The pieces are never joined, because
    joining 100 MB would take 50 ms. A piece has 1 MiB, because the system gets the memory of such a piece
    back as soon as the piece is freed."""

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

    It is made in steps of about 1 ms, so that clients are served meanwhile. If the tree changes before the
    snapshot is complete, the snapshot is begun again. After the second change the snapshot is made in one
    step, which takes 4 us for each znode.

    :returns: yields the zxid and a part of the bytes, again and again. While the snapshot is made, the pairs
        have no bytes.
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
    """Read a snapshot, which may be compressed. Its unpacked size may be 1 MiB and 100 times the received
    bytes at most. Real trees do not compress so well.

    :param max_buffer: ``jute.maxbuffer``.
    :raises FileError: the snapshot is damaged or too large.
    """
    bounds = Bounds.of(max_buffer, most=_SMALL + _UNPACKED * len(data))
    image, digest = read_image(io.BytesIO(data), -1, bounds=bounds)
    stats = [STAT.unpack(node.stat) for node in image.nodes.values()]
    image.zxid = max(image.zxid, *(max(stat[0], stat[1], stat[8]) for stat in stats))
    if digest is not None and digest.zxid == image.zxid and image.count_digest() != digest.digest:
        raise FileError(
            0, "the tree does not match its digest: it may contain half a transaction; take another snapshot"
        )
    return image


def restore(engine: Engine, image: Image, now: int) -> None:
    """Give an engine the tree and the sessions of an image. All connections of the engine must be closed
    before, because their watches belong to the old tree.

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
