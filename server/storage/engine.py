"""An engine whose transactions are entered in a log, each when it happens: writes of clients by
:meth:`JournaledEngine.written`, all others by :meth:`JournaledEngine.record`."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from ...protocol.files.digest import add, value_of
from ...protocol.records import OPEN_ACL
from ..core.engine import NO_REQUEST, Client, Engine
from ..core.sessions import computed_password
from ..core.tree import DataTree
from ..core.txn import AnyEffect, Applied, Create, Delete, Effect, Replace, SetData
from ..core.znode import Znode
from .building import stored_stat
from .entries import CREATE, CREATES, DELETE, HEADER, OPEN, SET_DATA, SETS, of_multi, of_other, of_write
from .journal import Journal

_LARGEST = 3 * 2**19
"""Bytes of an entry: a real server reads entries up to twice jute.maxbuffer, 2 MiB. Only a test that loads a
tree makes larger ones."""
_DELETED = struct.Struct(f">{HEADER}i").pack
_sets, _creates = SETS.of, CREATES.of


class JournaledEngine(Engine):
    """
    :ivar journal: set before the first request.
    :ivar on_replace: called when the whole tree is another one, which no entry can tell.
    :ivar on_large: called with zxid and time of a multi that is too large for an entry.
    """

    keeps_log = True
    journal: Journal
    on_replace: Callable[[], object]
    on_large: Callable[[int, int], object]
    enter: Callable[[bytes], object]

    def password_of(self, session_id: int) -> bytes:
        """Compute the password from the id, as the real server does: files hold no passwords, and the
        sessions in them live on at either server."""
        return computed_password(session_id)

    def written(
        self, client: Client, frame: bytes, kind: type[Effect], fields: Any, node: Znode, at: Znode
    ) -> None:
        # The most frequent entries are encoded right here: a call less is 2 % of a write
        if kind is SetData and fields[1] is not None:
            path, data, version = fields
            name = path.encode()
            try:
                pack = _sets[len(name)][len(data)]
            except KeyError:
                pack = SETS.make(len(name), len(data))
            self.enter(
                pack(
                    client.session_id,
                    frame,
                    self.zxid,
                    self.time,
                    SET_DATA,
                    len(name),
                    name,
                    len(data),
                    data,
                    version,
                )
            )
        elif kind is Create and fields[3] is OPEN_ACL and fields[4] == 0 and fields[2] is not None:
            path, _, data, _, _ = fields
            name = path.encode()
            try:
                pack = _creates[len(name)][len(data)]
            except KeyError:
                pack = CREATES.make(len(name), len(data))
            created = at.children.created  # type: ignore[union-attr]
            self.enter(
                pack(
                    client.session_id,
                    frame,
                    self.zxid,
                    self.time,
                    CREATE,
                    len(name),
                    name,
                    len(data),
                    data,
                    OPEN,
                    created,
                )
            )
        elif kind is Delete:
            name = fields[0].encode()
            self.enter(_DELETED(client.session_id, frame, self.zxid, self.time, DELETE, len(name)) + name)
        else:
            change = kind, fields, at.children.created if kind is Create else 0  # type: ignore[union-attr]
            self.enter(of_write(client.session_id, frame, self.zxid, self.time, change))
        if self.watches.watchers or self._on_txn is not None:
            super().written(client, frame, kind, fields, node, at)

    def written_together(self, client: Client, frame: bytes, changes: Sequence[Applied]) -> None:
        entry = of_multi(client.session_id, frame, self.zxid, self.time, changes)
        if len(entry) > _LARGEST:
            self.on_large(self.zxid, self.time)
        else:
            self.enter(entry)
        if self.watches.watchers or self._on_txn is not None:
            super().written_together(client, frame, changes)

    def record(self, effect: AnyEffect, session_id: int, request: bytes = NO_REQUEST) -> None:
        if isinstance(effect, Replace):
            self.on_replace()
        else:
            self.enter(of_other(session_id, request, self.zxid, self.time, effect))
        super().record(effect, session_id)

    def log_to(self, journal: Journal) -> None:
        """Let the entries wait in a log from now on."""
        self.journal = journal
        self.enter = journal.waiting.append

    def write_journal(self) -> None:
        """Hand all transactions so far to the kernel, before output leaves that could tell of them.

        :raises JournalFailed: that is impossible, and nothing may be answered.
        """
        journal = self.journal
        if self.zxid != journal.last:
            journal.write(self.zxid, self.time)


class DigestedTree(DataTree):
    """A tree that also keeps its digest (files.md section 6): twice the number of one znode for each
    change."""

    digest: int

    def _start(self, root: Znode) -> None:
        super()._start(root)
        self.digest = value_of("", root.data, stored_stat(root))
        for path, node in self.items_below("/"):
            self.digest = add(self.digest, value_of(path, node.data, stored_stat(node)))

    def change(self, kind: type[Effect], fields: Any, at: Znode, zxid: int, time: int) -> Znode:
        path = fields[0]
        other: Znode | None = None  # the znode that goes
        if kind is Create or kind is Delete:
            above = path[: -len(fields[1]) - 1]
            if kind is Delete and at.children is not None:
                other = at.children[fields[1]]
        else:
            above = "" if path == "/" else path
        before = value_of(above, at.data, stored_stat(at))
        if other is not None:
            before += value_of(path, other.data, stored_stat(other))
        node = super().change(kind, fields, at, zxid, time)
        after = value_of(above, at.data, stored_stat(at))
        if kind is Create:
            after += value_of(path, node.data, stored_stat(node))
        self.digest = add(self.digest, after - before)
        return node

    def begin(self) -> None:
        super().begin()
        self._before = self.digest

    def roll_back(self) -> None:
        super().roll_back()
        self.digest = self._before


class DigestedEngine(JournaledEngine):
    """An engine whose tree keeps its digest, and whose entries have it."""

    tree_type = DigestedTree
    tree: DigestedTree

    def log_to(self, journal: Journal) -> None:
        self.journal = journal
        self.enter = lambda entry: journal.add_digested(entry, self.zxid, self.tree.digest)
