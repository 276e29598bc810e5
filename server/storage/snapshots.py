"""Writes snapshots while clients are served. A snapshot is a file with the whole tree (files.md sections 2
and 4.1).

The tree may change while it is written. Therefore the name of the snapshot has the zxid of its beginning, and
a new log begins with this zxid. A reader applies all entries of that log to the snapshot and gets the right
tree. Its digest is the digest of the tree at the moment when the last znode was encoded. A reader compares
the digest only after it has applied the entries up to that moment. Without ``digest.enabled`` a snapshot has
a digest only if the tree did not change meanwhile.

The work is done in steps of about 1 ms. The znodes are encoded first, into a separate file, because the
access control lists precede the znodes in a snapshot.

When another tree replaces the served tree, a snapshot of the new tree is written before the server answers
from the new tree. The znodes of the new tree are encoded before the replacement (:class:`Ahead`), so that the
replacement itself is short.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol
from zlib import adler32

from ...protocol.constants import CONFIG_PATH
from ...protocol.files.digest import add, value_of
from ...protocol.files.snapshot import NodeEncoder, ZxidDigest, tail
from ...protocol.files.streams import compressing
from ..core.engine import Engine
from ..core.tree import DataTree
from ..core.znode import Znode
from .building import stored_stat
from .directory import DataDirectory, StorageError
from .log_writer import DigestedTree

_STEP = 200
"""The number of znodes that one step encodes, which takes 0.6 ms."""
_COPIED = 2**20
"""The number of bytes that one step copies, which takes 0.5 ms."""
_COMPRESSED = 32 * 1024
"""The number of bytes that one step compresses, which takes 1 ms."""
_SOME = 64 * 1024
"""The number of bytes after which a step ends. Its last znode may exceed this number."""


def snapshot_steps(
    engine: Engine, directory: DataDirectory, compression: str = "", ahead: Ahead | None = None
) -> Iterator[int]:
    """Write a snapshot into a directory, and yield the number of written znodes after each step.

    :param compression: one of :data:`~pyzk.protocol.files.streams.COMPRESSIONS`.
    :param ahead: the znodes that are already encoded; None if there are none.
    :raises OSError: a file cannot be written. Then there is no snapshot.
    """
    with directory.unfinished() as (_, body), directory.unfinished() as (path, target):
        with compressing(target, compression) as stream:
            writer = SnapshotWriter(engine, body, stream, _COMPRESSED if compression else _COPIED)
            if ahead is None:
                yield from writer.steps()
            else:
                yield from writer.finish(ahead)
        target.flush()
        directory.finish(path, writer.zxid, compression)


class Ahead:
    """The encoded znodes of a tree that will replace the served tree.

    :param body: a file for the znodes.
    """

    def __init__(self, engine: Engine, tree: DataTree, body: Medium) -> None:
        self.body = body
        self.writer = SnapshotWriter(engine, body, body)
        self._tree = tree
        self._state: object = None

    def steps(self) -> Iterator[int]:
        """Encode the znodes, and yield the number of encoded znodes after each step.

        :raises OSError: the file cannot be written.
        """
        self._state = _state_of(self._tree)
        yield from self.writer.encode(self._tree.nodes["/"])

    def is_of(self, tree: DataTree) -> bool:
        """Return whether a tree has exactly the znodes that were encoded."""
        return self._state == _state_of(tree)


def _state_of(tree: DataTree) -> object:
    """Return a value that differs if the tree has changed. Before a tree is served, only two changes are
    possible: ephemerals are removed, and the list of the servers is replaced."""
    return tree.nodes["/"], len(tree), tree.data_size, stored_stat(tree.nodes[CONFIG_PATH])


def export(engine: Engine, path: str | os.PathLike[str]) -> Path:
    """Write the tree and the sessions into a data directory without data. A server can start from it.

    :returns: the path of the snapshot.
    :raises StorageError: the directory has data already, or the snapshot cannot be written.
    """
    directory = DataDirectory(path)
    directory.open()
    try:
        if any(directory.listing()):
            raise StorageError(f"{directory} already contains data; name another directory")
        for _ in snapshot_steps(engine, directory):
            pass
        return directory.folder / directory.listing().snapshots[0].text
    except OSError as error:
        raise StorageError(f"cannot write a snapshot in {directory}: {error.strerror}") from None
    finally:
        directory.close()


class Medium(Protocol):
    """The methods of a file that a snapshot needs while it is made."""

    def write(self, data: bytes, /) -> object: ...

    def read(self, size: int, /) -> bytes: ...

    def seek(self, offset: int, /) -> object: ...

    def flush(self) -> object: ...


class SnapshotWriter:
    """The writer of one snapshot of an engine.

    :param body: a file for the znodes, which is read again.
    :param target: the file for the snapshot.
    :param piece: the number of bytes that one step copies.
    :ivar zxid: the zxid in the name of the snapshot.
    :ivar count: the number of znodes that are written so far.
    """

    def __init__(self, engine: Engine, body: Medium, target: Medium, piece: int = _COPIED) -> None:
        self._piece = piece
        self._engine = engine
        self._body = body
        self._target = target
        self.zxid = engine.zxid
        self.count = 0
        self._digest = 0
        self._encoder = NodeEncoder()

    def steps(self) -> Iterator[int]:
        """Write the snapshot, and yield the number of written znodes after each step.

        :raises OSError: a file cannot be written.
        """
        sessions = self._sessions()
        yield from self.encode(self._engine.tree.nodes["/"])
        yield from self._write(sessions, self._digest_of_the_end())

    def encode(self, root: Znode) -> Iterator[int]:
        """Encode the znodes of a tree, and write them to the body.

        :raises OSError: the file cannot be written.
        """
        for pieces in self._encoded(root):
            self._body.write(b"".join(pieces))
            yield self.count

    def finish(self, ahead: Ahead) -> Iterator[int]:
        """Write the snapshot of a tree that was encoded before the engine got the tree.

        :raises OSError: a file cannot be written.
        """
        self._body, self._encoder = ahead.body, ahead.writer._encoder
        self.count, self._digest = ahead.writer.count, ahead.writer._digest
        return self._write(self._sessions(), self._digest_of_the_end())

    def _sessions(self) -> dict[int, int]:
        return {session.id: session.timeout for session in self._engine.sessions}

    def _write(self, sessions: dict[int, int], digest: ZxidDigest | None) -> Iterator[int]:
        """Write the target.

        :param sessions: ids and timeouts.
        """
        head = self._encoder.head(sessions)
        self._target.write(head)
        checksum = adler32(head)
        self._body.seek(0)
        while piece := self._body.read(self._piece):
            self._target.write(piece)
            checksum = adler32(piece, checksum)
            yield self.count
        # Of the end only what stands before its checksum counts
        self._target.write(tail(checksum, digest, self.zxid))
        self._target.flush()

    def _digest_of_the_end(self) -> ZxidDigest | None:
        engine = self._engine
        if isinstance(engine.tree, DigestedTree):
            assert engine.log is not None
            engine.log.write()  # whoever reads the digest must find the log up to its zxid
            return ZxidDigest(engine.zxid, engine.tree.digest)
        return ZxidDigest(self.zxid, self._digest) if engine.zxid == self.zxid else None

    def _encoded(self, root: Znode) -> Iterator[list[bytes]]:
        """Yield for each step a list of encoded znodes, parents before children."""
        pieces = [self._encode("", root)]
        size = 0
        waiting: list[tuple[str, Znode, Iterator[str]]] = [("", root, iter(list(root.children or ())))]
        while waiting:
            above, parent, names = waiting[-1]
            for name in names:
                children = parent.children
                node = children.get(name) if children else None
                if node is None:  # deleted meanwhile
                    continue
                path = f"{above}/{name}"
                piece = self._encode(path, node)
                pieces.append(piece)
                size += len(piece)
                if len(pieces) >= _STEP or size > _SOME:
                    yield pieces
                    pieces, size = [], 0
                if node.children:
                    waiting.append((path, node, iter(list(node.children))))
                    break
            else:
                waiting.pop()
        yield pieces

    def _encode(self, path: str, node: Znode) -> bytes:
        stat = stored_stat(node)
        self.count += 1
        self._digest = add(self._digest, value_of(path, node.data, stat))
        return self._encoder.encode(path, node.data, node.acl, stat)
