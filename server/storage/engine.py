"""An engine whose transactions are entered in a log.

* A change of the tree is entered where it happens: :meth:`.tree.DataTree.change` is the only way in which a
  tree changes. Those of a multi are kept until it is committed; those of a session's end belong to its entry.
* What changes no tree is entered by the engine: sessions that begin and end, writes that fail.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...protocol.files.digest import add, value_of
from ...protocol.files.txnlog import CloseSessionTxn, CreateSessionTxn
from ...protocol.operations import OpCode
from ...protocol.records import ConnectRequest
from ..core.engine import Client, Engine
from ..core.sessions import Session, computed_password
from ..core.tree import DataTree
from ..core.txn import AnyEffect, Create, Delete, Effect, Refused, Replace
from ..core.znode import Znode
from .building import stored_stat
from .journal import Change, Journal, failure

_CREATE_SESSION, _CLOSE_SESSION = OpCode.CREATE_SESSION.value, OpCode.CLOSE_SESSION.value


_LARGEST = 3 * 2**19
"""Bytes of an entry, about: a real server reads entries up to twice jute.maxbuffer, 2 MiB. Only a test that
loads a tree makes larger ones."""


def _size(change: Change) -> int:
    return sum(len(field) for field in change[1] if isinstance(field, str | bytes))


class JournaledTree(DataTree):
    """A tree whose changes are entered in a log.

    :ivar journal: set before the first change.
    :ivar on_large: called with zxid and time of a multi that is too large for an entry.
    :ivar session: the id of the session whose requests are handled now; 0 for the server itself.
    :ivar digest: of the tree; None if it is not kept.
    """

    journal: Journal
    on_large: Callable[[int, int], object]
    session = 0
    digest: int | None = None
    change_tree = DataTree.change

    def __init__(self) -> None:
        super().__init__()
        self._kept: list[Change] | None = None  # changes that belong to one entry
        self._at = (0, 0)  # their zxid and time

    def change(self, kind: type[Effect], fields: Any, at: Znode, zxid: int, time: int) -> Znode:
        node = self.change_tree(kind, fields, at, zxid, time)
        number = at.children.created if kind is Create else node.version  # type: ignore[union-attr]
        if self._kept is None:
            self.journal.waiting.append((kind, fields, number, zxid, time, self.digest, self.session))
        else:
            self._kept.append((kind, fields, number))
            self._at = zxid, time
        return node

    def begin(self) -> None:
        super().begin()
        self.keep()

    def commit(self) -> None:
        super().commit()
        changes = self.take_kept()
        if not changes:
            return
        zxid, time = self._at
        if sum(map(_size, changes)) > _LARGEST:
            self.on_large(zxid, time)
        else:
            self.journal.waiting.append((list, changes, 0, zxid, time, self.digest, self.session))

    def roll_back(self) -> None:
        super().roll_back()
        self.take_kept()

    def keep(self) -> None:
        """Enter no change until :meth:`take_kept`: they belong to one entry."""
        self._kept = []

    def take_kept(self) -> list[Change]:
        """End :meth:`keep`; returns the changes."""
        changes, self._kept = self._kept, None
        return changes or []


class DigestedTree(JournaledTree):
    """A tree that also keeps its digest (files.md section 6): twice the number of one znode for each
    change."""

    digest: int

    def _start(self, root: Znode) -> None:
        super()._start(root)
        self.digest = value_of("", root.data, stored_stat(root))
        for path, node in self.items_below("/"):
            self.digest = add(self.digest, value_of(path, node.data, stored_stat(node)))

    def change_tree(self, kind: type[Effect], fields: Any, at: Znode, zxid: int, time: int) -> Znode:
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
        node = DataTree.change(self, kind, fields, at, zxid, time)
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


class JournaledEngine(Engine):
    """
    :ivar journal: set before the first request.
    :ivar on_replace: called when the whole tree is another one, which no entry can tell.
    """

    tree_type: type[JournaledTree] = JournaledTree
    tree: JournaledTree
    journal: Journal
    on_replace: Callable[[], object]

    def password_of(self, session_id: int) -> bytes:
        """Compute the password from the id, as the real server does: files hold no passwords, and the
        sessions in them live on at either server."""
        return computed_password(session_id)

    def connect(self, client: Client, request: ConnectRequest, now: int) -> Session | None:
        session = super().connect(client, request, now)
        if session is not None and request.sessionId == 0:
            self._enter(session, _CREATE_SESSION, CreateSessionTxn(session.timeout).encode())
        return session

    def end_session(self, session: Session, expired: bool) -> None:
        paths = tuple(self.tree.ephemerals.get(session.id, ()))
        self.tree.keep()
        try:
            super().end_session(session, expired)
        finally:
            self.tree.take_kept()
            self._enter(session, _CLOSE_SESSION, CloseSessionTxn(paths).encode())

    def _enter(self, session: Session, type_: int, record: bytes) -> None:
        self.journal.waiting.append(
            (None, (type_, record), 0, self.zxid, self.time, self.tree.digest, session.id)
        )

    def record(self, effect: AnyEffect, session_id: int) -> None:
        if isinstance(effect, Refused):
            self.journal.waiting.append(
                failure(session_id, effect.err, self.zxid, self.time, self.tree.digest)
            )
        super().record(effect, session_id)
        if isinstance(effect, Replace):
            self.on_replace()

    def write_journal(self) -> None:
        """Hand all transactions so far to the kernel, before output leaves that could tell of them.

        :raises JournalFailed: that is impossible, and nothing may be answered.
        """
        journal = self.journal
        if self.zxid != journal.last:
            journal.write(self.zxid, self.time)


class DigestedEngine(JournaledEngine):
    """An engine whose tree keeps its digest."""

    tree_type = DigestedTree
