"""Adds each transaction of an engine to the log.

The engine calls :meth:`LogWriter.written` for a write of a client, :meth:`LogWriter.note_parts` and
:meth:`LogWriter.written_together` for a multi, and :meth:`LogWriter.record` for all other transactions.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any
from zlib import adler32, crc32

from ...protocol.files.digest import RESERVED, add
from ...protocol.records import OPEN_ACL
from ..core.client import Client
from ..core.engine import Engine
from ..core.failures import OutOfMemory
from ..core.transactions import NO_REQUEST, NotePart
from ..core.tree import DataTree
from ..core.txn import AnyEffect, Create, Delete, Effect, Replace, SetData
from ..core.znode import Znode
from .entries import (
    COUNTED,
    CREATES,
    DELETE,
    MULTI,
    OPEN,
    OPEN_EPHEMERAL,
    PART_SETS,
    SETS,
    of_other,
    of_part,
    of_write,
)
from .journal import FRAME, NEXT, Journal

_LARGEST = 3 * 2**19
"""The largest number of bytes of an entry. A real server reads entries of up to 2 MiB, which is twice the
default of jute.maxbuffer. Only a test that loads a tree makes larger entries."""
_VALUES = 4096
"""The largest number of znodes whose numbers for the digest are remembered."""
_FIELDS = struct.Struct(">qqqqqiiiq").pack
"""Packs the fields of a Stat in the order of the digest."""
_LONG = struct.Struct(">q").pack
_sets, _creates, _part_sets = SETS.by_length, CREATES.by_length, PART_SETS.by_length


class LogWriter:
    """
    :param engine: the engine whose transactions are logged.
    :param on_replace: a function that is called when the whole tree is replaced, because no entry can express
        this.
    :param on_large: a function that is called with the zxid and the time of a multi that is too large for an
        entry.
    """

    def __init__(
        self,
        engine: Engine,
        journal: Journal,
        on_replace: Callable[[], object],
        on_large: Callable[[int, int], object],
    ) -> None:
        self.engine = engine
        self.journal = journal
        self.on_replace = on_replace
        self.on_large = on_large
        self._waiting = journal.waiting
        self._time = -1
        self._packed_time = b""  # in the form of files, encoded once for all transactions of a millisecond

    def _pack_time(self, time: int) -> bytes:
        self._time = time
        self._packed_time = packed = _LONG(time)
        return packed

    def written(
        self, client: Client, frame: bytes, kind: type[Effect], fields: Any, node: Znode, at: Znode
    ) -> None:
        # The most frequent entries are encoded right here, with their frames: a call less is 2 % of a write
        engine = self.engine
        zxid = engine.zxid
        time = self._packed_time if engine.time == self._time else self._pack_time(engine.time)
        if kind is SetData:
            path, data, version = fields
            name = path.encode()
            try:
                pack, head, length, size = _sets[len(name)][len(data)]
            except (KeyError, TypeError):  # not kept, or null
                (pack, head, length, size), data = SETS.make(len(name), data)
            entry = pack(client.session_id, frame, zxid, time, head, name, length, data, version)
        elif kind is Create and fields[3] is OPEN_ACL and fields[4] >= 0:
            path, _, data, _, owner = fields
            name = path.encode()
            try:
                pack, head, length, size = _creates[len(name)][len(data)]
            except (KeyError, TypeError):
                (pack, head, length, size), data = CREATES.make(len(name), data)
            created = at.children.created  # type: ignore[union-attr]
            acl = OPEN_EPHEMERAL if owner else OPEN
            entry = pack(client.session_id, frame, zxid, time, head, name, length, data, acl, created)
        elif kind is Delete:
            name = fields[0].encode()
            entry = COUNTED(client.session_id, frame, zxid, time, DELETE, len(name)) + name
            size = len(entry)
        else:
            change = kind, fields, at.children.created if kind is Create else 0  # type: ignore[union-attr]
            entry = of_write(client.session_id, frame, zxid, engine.time, change)
            size = len(entry)
        waiting = self._waiting
        waiting.append(FRAME(NEXT, adler32(entry), size))
        waiting.append(entry)
        if engine.watches.watchers or engine.has_history:
            engine.announce(client, frame, kind, fields, node, at)

    def note_parts(self, note_change: NotePart | None) -> NotePart:
        self._parts = parts = [b""]  # the first one is for the header
        enter = parts.append

        def note(kind: type[Effect], fields: Any, node: Znode, at: Any) -> None:
            if kind is SetData:
                path, data, version = fields
                name = path.encode()
                try:
                    pack, head, length, _ = _part_sets[len(name)][len(data)]
                except (KeyError, TypeError):  # as in :meth:`written`
                    (pack, head, length, _), data = PART_SETS.make(len(name), data)
                enter(pack(head, name, length, data, version))
            else:
                enter(of_part(kind, fields, at.children.created if kind is Create else node.version))
            if note_change is not None:
                note_change(kind, fields, node, at)

        return note

    def written_together(self, client: Client, frame: bytes) -> None:
        engine, parts = self.engine, self._parts
        time = self._packed_time if engine.time == self._time else self._pack_time(engine.time)
        parts[0] = COUNTED(client.session_id, frame, engine.zxid, time, MULTI, len(parts) - 1)
        entry = b"".join(parts)
        if len(entry) > _LARGEST:
            self.on_large(engine.zxid, engine.time)
        else:
            self.enter(entry)

    def record(self, effect: AnyEffect, session_id: int, request: bytes = NO_REQUEST) -> None:
        if isinstance(effect, Replace):
            self.on_replace()
            return
        try:
            self.enter(of_other(session_id, request, self.engine.zxid, self.engine.time, effect))
        except MemoryError as error:
            self.write_failed(error)

    def write_failed(self, error: Exception) -> None:
        if isinstance(error, MemoryError):
            self.journal.is_broken = True
            raise OutOfMemory from error

    def enter(self, entry: bytes) -> None:
        """Queue an entry for the next write."""
        self.journal.add(entry)

    def write(self) -> None:
        """Write all transactions so far to the kernel, before any output that could reveal them is sent.

        :raises JournalFailed: the log cannot be written; then the server must answer nothing.
        """
        engine, journal = self.engine, self.journal
        if engine.zxid != journal.last:
            journal.write(engine.zxid, engine.time)


class DigestedTree(DataTree):
    """A tree that also computes its digest (files.md section 6). The digest is the sum of a number for each
    znode. A change subtracts the old number of each changed znode, and adds the new number. Recent numbers
    are remembered."""

    digest: int

    def _start(self, root: Znode) -> None:
        super()._start(root)
        self._values: dict[Znode, int] = {}
        self.digest = _value("", root)
        for path, node in self.items_below("/"):
            self.digest = add(self.digest, _value(path, node))

    def change(self, kind: type[Effect], fields: Any, at: Znode, zxid: int, time: int) -> Znode:
        values = self._values
        path = fields[0]
        above = "" if path == "/" else path  # the path of what is changed: a parent, or the znode itself
        gone = 0
        if kind is Create or kind is Delete:
            above = path[: -len(fields[1]) - 1]
            if kind is Delete and at.children is not None:
                other = at.children[fields[1]]
                known = values.pop(other, None)
                gone = _value(path, other) if known is None else known
        known = values.get(at)
        before = _value(above, at) if known is None else known
        node = super().change(kind, fields, at, zxid, time)
        if len(values) > _VALUES:
            values.clear()
        values[at] = after = _value(above, at)
        if kind is Create:
            values[node] = new = _value(path, node)
            after += new
        self.digest = add(self.digest, after - before - gone)
        return node

    def begin(self) -> None:
        super().begin()
        self._before = self.digest

    def roll_back(self) -> None:
        super().roll_back()
        self.digest = self._before
        self._values.clear()


def _value(path: str, node: Znode) -> int:
    """Return the number of one znode for the digest; see :func:`~pyzk.protocol.files.digest.value_of`."""
    if path.startswith(RESERVED):
        return 0
    children = node.children
    created, changed = (0, node.czxid) if children is None else (children.created, children.changed)
    sum_ = crc32(path.encode())
    if node.data:
        sum_ = crc32(node.data, sum_)
    czxid, ctime = node.czxid, node.ctime
    versions = node.version, created, node.aversion
    return crc32(_FIELDS(czxid, node.mzxid, changed, ctime, node.mtime, *versions, node.owner), sum_)


class DigestedLogWriter(LogWriter):
    """A log writer whose entries have the digest of the tree. The tree must be a :class:`DigestedTree`."""

    def written(
        self, client: Client, frame: bytes, kind: type[Effect], fields: Any, node: Znode, at: Znode
    ) -> None:
        engine = self.engine
        change = kind, fields, at.children.created if kind is Create else 0  # type: ignore[union-attr]
        self.enter(of_write(client.session_id, frame, engine.zxid, engine.time, change))
        if engine.watches.watchers or engine.has_history:
            engine.announce(client, frame, kind, fields, node, at)

    def enter(self, entry: bytes) -> None:
        tree = self.engine.tree
        assert isinstance(tree, DigestedTree)
        self.journal.add_digested(entry, self.engine.zxid, tree.digest)
