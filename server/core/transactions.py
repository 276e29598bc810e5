"""Transactions. A transaction takes a zxid, changes the tree, is recorded in the history, and its watchers
are notified.

This module is the lower half of the engine. This module uses no requests and no sessions, except the session
id of a transaction. The rules are at the head of :mod:`.engine`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeAlias

from ...protocol.constants import Perms
from ...protocol.errors import ZooKeeperError
from ...protocol.multi import Reread, reread_create
from ...protocol.paths import name
from ...protocol.records import ACL, OPEN_ACL
from ..config.settings import Settings
from .acl import AccessControl
from .client import Client
from .stats import ServerStats
from .tree import DataTree
from .txn import AnyEffect, Change, Delete, Effect, Multi, Refused, Replace, Txn
from .watches import Notification, WatchManager
from .znode import Znode

_READ = Perms.READ.value
NO_REQUEST = bytes(8)
"""The request of a transaction that no client has requested: a header with the xid 0."""


NotePart: TypeAlias = Callable[[type[Effect], Any, Znode, Any], object]
"""A function that is called with a part of a multi: the kind and the fields of its effect, the znode at its
path, and the changed znode."""


class TransactionLog(Protocol):
    """The log that keeps all transactions in files. The methods have the arguments of the methods of
    :class:`Transactions` that have the same names."""

    def written(
        self, client: Client, frame: bytes, kind: type[Effect], fields: Any, node: Znode, at: Znode
    ) -> None:
        """Log a write, and let the engine announce it."""

    def note_parts(self, note: NotePart | None) -> NotePart:
        """Return a function that notes the parts of a multi for :meth:`written_together`.

        :param note: a function that it calls with each part, too.
        """

    def written_together(self, client: Client, frame: bytes) -> None: ...
    def record(self, effect: AnyEffect, session_id: int, request: bytes) -> None: ...
    def write_failed(self, error: Exception) -> None: ...
    def write(self) -> None:
        """Write all transactions so far to the kernel. This is called before replies and events are sent. So
        no client sees a transaction that is lost if the server is killed.

        :raises JournalFailed: that is impossible, and the server must answer nothing.
        """


class Transactions:
    """The tree, the watches and the figures of one server, and the changes that transactions make.

    :param epoch: the wall-clock time at the start, in ms since the epoch.
    :param tree: the tree; an empty one by default.
    :ivar zxid: the zxid of the last processed transaction.
    :ivar time: the wall-clock time of the last request or timer, in ms since the epoch.
    :ivar settings: the settings of the engine.
    :ivar on_refusal: called with the error of each request that is refused, if set.
    :ivar told_of_ttl: whether the log says that TTL znodes are switched off.
    :ivar log: keeps all transactions in files; None if the data is in memory only.
    :ivar has_history: whether ``on_txn`` is set.
    :ivar is_recorded: whether :meth:`record` and similar methods must be called, because there is a history
        or a log.
    :ivar written: called with each write of a client: :meth:`announce`, or the method of the log.
    """

    log: TransactionLog | None = None
    reread: Reread = staticmethod(reread_create)
    """The function with which the decoder of a multi changes the op code and the fields of a create."""

    def __init__(self, settings: Settings, epoch: int, tree: DataTree | None = None) -> None:
        # The server drops a client that has seen a later zxid than its own, and this client would reconnect
        # without end (wire.md, trap 17). So no process may start below the last zxid of an earlier process.
        # The ms since the epoch, times 2**18, leave room for 262 million transactions a second, in 60 bits.
        self.zxid = epoch << 18 if settings.initial_zxid is None else settings.initial_zxid
        self.time = epoch
        self.settings = settings
        self.tree = DataTree() if tree is None else tree
        self.watches: WatchManager[Client] = WatchManager()
        self.access = AccessControl(settings)
        self.stats = ServerStats()
        self.has_history = False
        self.is_recorded = False
        self.written = self.announce
        self.on_refusal: Callable[[ZooKeeperError], None] | None = None
        self.told_of_ttl = False
        self._on_txn: Callable[[Txn], None] | None = None

    @property
    def on_txn(self) -> Callable[[Txn], None] | None:
        """The function that is called with each transaction after the tree has changed; None at first."""
        return self._on_txn

    @on_txn.setter
    def on_txn(self, listener: Callable[[Txn], None] | None) -> None:
        """Set the function that is called with each transaction."""
        self._on_txn = listener
        self.has_history = listener is not None
        self.is_recorded = self.log is not None or self.has_history

    def keep_log(self, log: TransactionLog) -> None:
        """Write all later transactions to a log."""
        self.log = log
        self.is_recorded = True
        self.written = log.written

    def carry_out(
        self, client: Client, requests: Iterable[tuple[int, tuple[Any, ...]]], results: list[bytes]
    ) -> list[Change]:
        """Carry out the operations of a multi. The engine does this with
        :func:`.operations.multi.carry_out`."""
        raise NotImplementedError

    def note_parts(self, changes: list[Change]) -> NotePart | None:
        """Return a function to call with each applied part of a multi; None if there are neither watchers
        nor a history.

        :param changes: the list to which the function adds the changes for :meth:`written_together`.
        """
        note: NotePart | None = None
        if self.watches.watchers or self.has_history:
            note = lambda kind, fields, node, at: changes.append((kind(*fields), node, at))  # noqa: E731
        return note if self.log is None else self.log.note_parts(note)

    def announce(
        self, client: Client, frame: bytes, kind: type[Effect], fields: Any, node: Znode, at: Znode
    ) -> None:
        """Notify the watchers of a write of a client, and record it in the history.

        :param frame: the request.
        :param node: the znode of the path.
        :param at: the znode that was changed.
        """
        effect = kind(*fields)
        self.fire(((effect, node, at),))
        if self._on_txn is not None:
            self._tell_history(effect, client.session_id)

    def written_together(self, client: Client, frame: bytes, changes: Sequence[Change]) -> None:
        """Log the writes of a multi, notify the watchers, and record the multi in the history.

        :param frame: the request.
        """
        if self.log is not None:
            self.log.written_together(client, frame)
        self.fire(changes)
        if self._on_txn is not None:
            self._tell_history(Multi(tuple(effect for effect, _, _ in changes)), client.session_id)

    def record(self, effect: AnyEffect, session_id: int, request: bytes = NO_REQUEST) -> None:
        """Record a transaction that is not a write of a client, or a write that failed.

        :param request: the frame of the request that has caused the transaction.
        """
        if self.log is not None:
            self.log.record(effect, session_id, request)
        self._tell_history(effect, session_id)

    def _tell_history(self, effect: AnyEffect, session_id: int) -> None:
        if self._on_txn is not None:
            self._on_txn(Txn(self.zxid, self.time, session_id, effect))

    def _delete(self, path: str) -> Delete:
        """Delete a znode without a request of a client, and notify the watchers."""
        effect = Delete(path, name(path))
        parent = self.tree.nodes[effect.parent]
        node = self.tree.change(Delete, effect, parent, self.zxid, self.time)
        self.fire(((effect, node, parent),))
        return effect

    def write_failed(self, error: Exception) -> None:
        """End the process if an unexpected exception comes in the middle of a transaction, because then the
        tree and the log may differ. Without a log this does nothing.

        :raises OutOfMemory: the tree may have a change that the log will not have.
        """
        if self.log is not None:
            self.log.write_failed(error)

    def refuse(self, code: int, session_id: int, request: bytes = NO_REQUEST) -> int:
        """Refuse a write without checking it.

        :returns: the zxid that the refused write takes (semantics.md section 2).
        """
        self.zxid += 1
        self.record(Refused(code), session_id, request)
        return self.zxid

    def replace_tree(
        self, effect: Replace, zxid: int, prepared: tuple[DataTree, list[Change]] | None = None
    ) -> None:
        """Make the tree a copy of another tree. Watches fire for the differences.

        :param zxid: a zxid; no client has seen a later zxid. The transaction takes the zxid after it, or the
            zxid after the engine's own, whichever is later.
        :param prepared: the new tree and the changes for watchers, made by :mod:`.replacing`.
        """
        self.zxid = max(self.zxid, zxid) + 1
        changes: Iterable[Change]
        if prepared is None:
            changes = self.tree.replay(Txn(self.zxid, self.time, 0, effect))
        else:
            tree, changes = prepared
            self.tree.become(tree)
        self.record(effect, 0)
        self.fire(changes)

    def fire(self, changes: Iterable[Change]) -> None:
        """Notify the watchers of some changes. A client gets an event only if it may read the znode that the
        event names (semantics.md section 10.4).

        :param changes: in the order in which they were applied.
        """
        if not self.watches.watchers:
            return
        events: list[Notification] = []
        told: list[Client] = []
        try:
            for effect, node, at in changes:
                for event_type, path, watchers in self.watches.hit(effect):
                    self.stats.watchers[event_type].add(len(watchers))
                    acl = node.acl if path == effect.path else at.acl
                    if acl is not OPEN_ACL:
                        watchers = [each for each in watchers if self._may_read(each, acl)]
                    if watchers is not told and watchers != told:  # other clients than for the last event
                        self.tell(events, told)
                        events, told = [], watchers
                    last = events[-1] if events else None
                    if last is not None and last.type == event_type and last.path == path:
                        events.append(last)
                    else:
                        events.append(Notification(self.zxid, event_type, path))
        finally:  # if one change fails, the events of the changes before it are not lost
            self.tell(events, told)

    def _may_read(self, client: Client, acl: Sequence[ACL]) -> bool:
        try:
            return self.access.allows(acl, _READ, client.identities)
        except Exception:  # other clients must get the event; this one sets its watches again on reconnect
            client.fail()
            return False

    def tell(self, events: Sequence[Notification], clients: Sequence[Client]) -> None:
        """Queue watch events on each of some clients."""
        if not clients:
            return
        try:
            frames = b"".join([event.frame for event in events])
        except Exception:  # a client that misses an event must lose its connection
            for client in clients:
                client.fail()
            return
        for client in clients:
            try:
                client.notify(events, frames)
            except Exception:  # the same for one client
                client.fail()
        stats = self.stats
        stats.more_sent += len(clients) * len(events)
        stats.watch_bytes += len(clients) * len(frames)
        for event in events:
            stats.last_response = len(event.frame) - 4
            stats.new_response_size(stats.last_response)
