"""The flight recorder: the requests, replies, events and sessions of a server.

Recording must be cheap, because it is always on. A request costs two tuples. An entry is described in words
only when a test reads the history. Memory is bounded, in entries and in bytes: the oldest entries are
dropped. A large message is described immediately and its text is cut (:mod:`.describe`), so no entry is
large.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Literal, TypeAlias, get_args

import attrs

from ...protocol.errors import ZooKeeperError
from ...protocol.operations import OpCode
from ..core.acl import Denied
from ..core.engine import Engine
from ..core.failures import report
from ..core.txn import CloseSession, CreateSession, Delete, Txn
from ..core.watches import Notification
from ..net.connection import Connection
from ..net.service import Service
from .describe import (
    LARGE,
    NO_FACTS,
    Described,
    Facts,
    describe_event,
    describe_reply,
    describe_request,
    reply_facts,
)
from .globs import Glob
from .operations import name_of, operation_name
from .sessions import SessionRef, session_id_of

EntryKind: TypeAlias = Literal[
    "request", "reply", "event", "session", "connection", "reaper", "fault", "hold", "control", "note", "role"
]
ENTRY_KINDS: tuple[EntryKind, ...] = get_args(EntryKind)
Result: TypeAlias = tuple[int, int, bytes]
"""The reply in an entry: its zxid, error code and body."""

Kept: TypeAlias = bytes | tuple[bytes, Described]
"""The request in an entry: the whole request, or its header and its description."""

FAULT = "a fault"
"""The first words of the reason with which a fault closes a connection."""

Listener: TypeAlias = "Callable[[Entry], object]"

_Client: TypeAlias = tuple[int, str]
"""The number of a connection, and its client's address and port."""
NOBODY: _Client = (0, "")
_LONGEST = 500
"""The largest number of characters of a reason or a list of paths. For example, a long ACL makes a long
reason."""
_LONGEST_TEXT = 10_000  # characters of what is entered as words
MOST_EVENTS = 32  # that are sent together
_KEPT = 512  # bytes of a request or reply that are kept as they are; larger ones are put into words at once
MOST_BYTES = 64 * 2**20
"""The approximate largest number of bytes of all entries of one server, if at most 48,000 entries are
kept."""
_SMALL = 1024  # bytes of an entry whose message is kept as it came, at most: these are not counted one by one
_IN_WORDS = 16  # bytes that the words for a byte of a message take at most, with what programs need to know
_XID = struct.Struct(">i")


@attrs.frozen(kw_only=True)
class Entry:
    """One entry of the history.

    :ivar kind: ``request``, ``reply``, ``event`` (a watch event was sent), ``session`` (a session began, was
        closed or expired), ``connection`` (a connection was opened, got its session, was refused, or ended),
        ``reaper`` (the server deleted a container or TTL znode), ``fault`` (a fault fired), ``hold`` (a
        message was held or lost), ``control`` (a test or an operator did something to the server), ``note``
        (a note of the test), ``role`` (a server of an ensemble has a new role).
    :ivar time: seconds on the server's clock since its start.
    :ivar session: the id of the session; 0 for none.
    :ivar connection: the number of the connection, from 1 in the order of arrival; 0 for none.
    :ivar zxid: the zxid of the reply, event or change. The zxid that a refused client has seen, if this zxid
        is higher than the last zxid of the server. Otherwise 0.
    :ivar xid: the number (xid) that the client has given the request.
    :ivar op: the operation of a request, reply or fault, as ``fault(op=...)`` takes it.
    :ivar path: the path of the znode, if there is exactly one.
    :ivar err: the error code of a reply; 0 is success.
    :ivar text: the entry in words.
    :ivar client: the address and port of the client; empty if the entry has no client.
    :ivar paths: the paths of all znodes of a request or reply.
    :ivar reason: for a reply: why the server refused the request, if the error code does not show the reason.
        Never a digest.
    :ivar server: in an ensemble, the number of the server; 0 if the entry concerns all servers.
    :ivar facts: values for programs, which ``text`` does not have exactly.
    """

    kind: EntryKind
    time: float
    session: int = 0
    connection: int = 0
    zxid: int = 0
    xid: int = 0
    op: str | None = None
    path: str | None = None
    err: int = 0
    text: str = ""
    client: str = ""
    paths: Sequence[str] = ()
    reason: str = ""
    server: int = 0
    facts: Facts = NO_FACTS


def _shortened(event: Notification) -> Notification:
    """Return the event for the history. Only the beginning of a long path is kept."""
    return event if len(event.path) <= _KEPT else Notification(event.zxid, event.type, _cut(event.path))


class History(ABC):
    """Keeps entries in their raw form, and describes entries in words when they are read.

    :param limit: the number of entries to keep. The oldest entries are dropped first. Entries are also
        dropped if all entries together take more than :data:`MOST_BYTES`. With 0 no entry is kept, and only
        listeners get the entries.
    :ivar sharing: the number of histories that share :data:`MOST_BYTES`.
    :ivar size: the approximate number of bytes of the entries that are not small.
    :ivar dropped: the number of dropped entries.
    :ivar zxid_base: the zxid at the start of the server. The timeline shows each zxid as the difference from
        this zxid.
    :ivar listeners: called immediately with each entry, in words. Without listeners, nothing is described.
    """

    zxid_base: int

    def __init__(self, limit: int) -> None:
        self._entries: deque[tuple[Any, ...]] = deque(maxlen=limit)
        self._large: deque[tuple[int, int]] = deque()  # how many entries there were with it, and its size
        self.size = 0
        self.dropped = 0
        self.sharing = 1
        self.listeners: list[Listener] = []

    @abstractmethod
    def in_words(self, entry: tuple[Any, ...]) -> Entry:
        """Describe an entry in words."""

    def keep(self, limit: int) -> None:
        """Set the number of entries that are kept from now on."""
        self._entries = deque(self._entries, maxlen=limit)
        self.dropped = 0

    def forget(self) -> None:
        """Drop all present entries."""
        self._entries.clear()
        self._large.clear()
        self.size = self.dropped = 0

    def begin_again(self, entry: tuple[Any, ...]) -> None:
        """Drop all present entries and keep this entry instead. Listeners do not get this entry."""
        self.forget()
        self._entries.append(entry)

    @property
    def is_heard(self) -> bool:
        """Whether there are listeners. Listeners get each entry immediately."""
        return bool(self.listeners)

    def append(self, entry: tuple[Any, ...], size: int = 0) -> None:
        """Keep an entry.

        :param size: the size in bytes, if it is not small.
        """
        entries = self._entries
        if len(entries) == entries.maxlen:
            self.dropped += 1
        entries.append(entry)
        if size:
            self._make_room(size)
        if self.listeners:
            self._tell(entry)

    def _make_room(self, size: int) -> None:
        large, entries = self._large, self._entries
        large.append((self.count, size))
        self.size += size
        most = MOST_BYTES // self.sharing
        room = max(most - self.limit * _SMALL, most // 4)
        while large and (large[0][0] <= self.dropped or self.size > room):
            number, gone = large.popleft()
            self.size -= gone
            while self.dropped < number:
                entries.popleft()
                self.dropped += 1

    def _tell(self, entry: tuple[Any, ...]) -> None:
        try:
            words = self.in_words(entry)
            for listener in self.listeners:
                listener(words)
        except Exception:  # the request goes on
            report("an entry of the history was not passed on")

    @property
    def limit(self) -> int:
        """The number of entries that are kept."""
        return self._entries.maxlen or 0

    @property
    def count(self) -> int:
        """The number of entries so far, including the dropped entries."""
        return self.dropped + len(self._entries)

    def entries(self, after: int = 0) -> Iterator[Entry]:
        """Yield the entries that are kept now, the oldest first. Entries that come meanwhile are left out.

        :param after: an earlier :attr:`count`: leave out this number of the first entries.
        """
        for entry in list(islice(self._entries, max(0, after - self.dropped), None)):
            yield self.in_words(entry)

    def last_entries(self, most: int) -> Iterator[Entry]:
        """Yield the last entries, the oldest first."""
        for entry in reversed(list(islice(reversed(self._entries), most))):
            yield self.in_words(entry)

    def latest(self) -> Iterator[Entry]:
        """Yield the entries that are kept now, the latest first. Entries that come meanwhile are left out."""
        return map(self.in_words, reversed(list(self._entries)))


class Recorder(History):
    """The history of one server.

    :param now: the server's clock, in seconds.
    :param started: the time of that clock at the start of the server, in seconds.
    :param limit: the number of entries that are kept.
    """

    def __init__(self, service: Service, now: Callable[[], float], started: float, limit: int) -> None:
        super().__init__(limit)
        self._service = service
        self._now = now
        self._silent: dict[Connection, tuple[Any, ...]] = {}  # the first entries of who has said nothing yet
        self.sessions: dict[int, None] = {}  # every session seen, in order
        self._clients: dict[Connection, _Client] = {}
        self._reason = ""  # of the last refusal, for the reply that follows
        self.clear(service.engine, started)
        self.number_all()

    def number_all(self) -> None:
        """Give a number to each open connection that has none."""
        for connection in self._service.connections:
            if connection not in self._clients:
                self._number(connection)

    def clear(self, engine: Engine, started: float) -> None:
        """Begin again. ``started`` is the time of the server's start, in seconds on the server's clock."""
        self._started = started
        self.zxid_base = engine.zxid
        self.forget()
        self.sessions.clear()
        self._clients.clear()
        self._silent.clear()
        self._opened = 0

    # --- recording ---------------------------------------------------------------------------------------

    @staticmethod
    def kept(op: int, frame: bytes) -> Kept:
        """Return the part of a request that the history keeps."""
        return frame if len(frame) <= _KEPT else (frame[:8], describe_request(op, frame))

    def request(self, connection: Connection, op: int, frame: bytes, now: float) -> Kept:
        self._reason = ""
        size = 0
        kept: Kept = frame
        if len(frame) > _KEPT:
            size, kept = _described(frame), self.kept(op, frame)
        client = self._clients.get(connection, NOBODY)
        self.append(("request", now, connection.session_id, client, op, kept), size)
        return kept

    def reply(self, connection: Connection, op: int, kept: Kept, now: float, result: Result) -> None:
        """:param kept: what :meth:`request` returned."""
        zxid, err, body = result
        said: bytes | tuple[str, Facts] = body
        size = 0
        if len(body) > _KEPT:
            what = kept[1] if isinstance(kept, tuple) else describe_request(op, kept)
            said = describe_reply(op, what.path, err, body), reply_facts(op, err, body)
            size = _described(body)
        reason = self._reason
        if reason:
            self._reason = ""
            if not err and op != OpCode.MULTI:
                reason = ""
        client = self._clients.get(connection, NOBODY)
        self.append(("reply", now, connection.session_id, client, op, kept, zxid, err, said, reason), size)

    def fault(self, connection: Connection, op: int, frame: bytes, text: str, zxid: int) -> None:
        client = self._client(connection)
        what = describe_request(op, frame)
        entry = {"op": name_of(op), "path": what.path, "xid": _XID.unpack_from(frame)[0]}
        entry |= {"zxid": zxid, "text": text}
        self.append(("fault", self._now(), connection.session_id, client, entry), _described(frame))

    def held(self, connection: Connection, text: str, kind: EntryKind = "hold") -> None:
        """Record an event about a message. The text describes the event."""
        self._add(kind, connection.session_id, self._client(connection), text)

    def control(self, text: str, session: int = 0, kind: EntryKind = "control") -> None:
        self._add(kind, session, NOBODY, text)

    def opened(self, connection: Connection) -> None:
        client = self._number(connection)
        entry = {"text": f"opened from {client[1]}", "facts": Facts(step="opened")}
        self._silent[connection] = ("connection", self._now(), 0, client, entry)

    def _number(self, connection: Connection) -> _Client:
        self._opened += 1
        self._clients[connection] = client = self._opened, "{}:{}".format(*connection.peer)
        return client

    def spoke(self, connection: Connection) -> None:
        """Record that a connection was opened, as soon as it is clear that the connection is not HTTP."""
        if connection in self._silent:
            self.append(self._silent.pop(connection))

    def attached(self, connection: Connection, resumed: bool) -> None:
        session = connection.session
        timeout = session.timeout / 1000 if session else 0
        peer = "{}:{}".format(*connection.peer)
        how = "reconnected" if resumed else "new session"
        text = f"{how}, timeout {timeout:g} s, from {peer}"
        self._add("connection", connection.session_id, self._client(connection), text, "attached")

    def refused(self, connection: Connection, session_id: int, seen: int) -> None:
        client = self._clients.pop(connection, NOBODY)  # its end, which follows at once, is no news then
        if not seen:
            self._add("connection", session_id, client, "learns that its session is gone", "refused")
            return
        text = "closed without a word: it has seen more than this server"
        entry = {"text": text, "zxid": seen, "facts": Facts(step="ahead")}
        self.append(("connection", self._now(), session_id, client, entry))

    def events(
        self, connection: Connection, events: Sequence[Notification], count: int | None = None
    ) -> None:
        """Record the events that are sent together. If one transaction causes very many events, only the
        first events are recorded.

        :param count: the number of all events, if ``events`` has only the first.
        """
        client, now, session = self._client(connection), self._now(), connection.session_id
        for event in events[:MOST_EVENTS]:
            self.append(("event", now, session, client, _shortened(event)))
        if (more := (len(events) if count is None else count) - MOST_EVENTS) > 0:
            self._add("connection", session, client, f"and {more:,} more events")

    def event(self, connection: Connection, notification: Notification) -> None:
        self.events(connection, (notification,))

    def closed(self, connection: Connection, reason: str) -> None:
        if connection.is_foreign:  # requests for the server itself are no part of what clients do
            self._silent.pop(connection, None)
            self._clients.pop(connection, None)
            return
        self.spoke(connection)
        client = self._clients.pop(connection, NOBODY)
        if client is not NOBODY:
            who = "" if connection.session_id else "{}:{} ".format(*connection.peer)
            text = f"{who}disconnected: {reason}"
            self._add("connection", connection.session_id, client, text, "over")

    def transaction(self, txn: Txn) -> None:
        """Record what sessions and the server itself do. Requests are recorded elsewhere."""
        effect = txn.effect
        if isinstance(effect, CreateSession):
            self.sessions[txn.session] = None
            if len(self.sessions) > self.limit:  # no entry is left of the first one
                del self.sessions[next(iter(self.sessions))]
            facts = Facts(step="begins", timeout=effect.timeout / 1000)
            text = f"session begins, timeout {facts.timeout:g} s"
        elif isinstance(effect, CloseSession):
            facts = Facts(step="expired" if effect.expired else "closed")
            text = "SESSION EXPIRED" if effect.expired else "session closed"
            if effect.paths:
                text += f", its ephemerals deleted: {_some_paths(effect.paths)}"
        elif isinstance(effect, Delete) and not txn.session:
            path = _cut(effect.path)
            entry = {"zxid": txn.zxid, "path": path, "text": f"reaped {path}"}
            self.append(("reaper", self._now(), 0, NOBODY, entry))
            return
        else:
            return
        entry = {"zxid": txn.zxid, "text": text, "facts": facts}
        self.append(("session", self._now(), txn.session, NOBODY, entry))

    def _add(self, kind: EntryKind, session: int, client: _Client, text: str, step: str = "") -> None:
        text = _cut(text, _LONGEST_TEXT)
        entry = {"text": text, "facts": Facts(step=step)} if step else {"text": text}
        self.append((kind, self._now(), session, client, entry), _described(text) if len(text) > _KEPT else 0)

    def _client(self, connection: Connection) -> _Client:
        return self._clients.get(connection, NOBODY)

    def refusal(self, error: ZooKeeperError) -> None:
        """Keep the message of an error, for the entry of the reply."""
        self._reason = str(error)[:_LONGEST] if error.message or isinstance(error, Denied) else ""

    # --- in words ----------------------------------------------------------------------------------------

    def in_words(self, entry: tuple[Any, ...]) -> Entry:
        kind, now, session, (number, peer), *rest = entry
        common: dict[str, Any] = {"kind": kind, "time": now - self._started, "session": session}
        common |= {"connection": number, "client": peer}
        if kind == "event":
            event = rest[0]
            text = f"{describe_event(event.type)} {event.path}"
            facts = Facts(step=describe_event(event.type))
            return Entry(zxid=max(event.zxid, 0), path=event.path, text=text, facts=facts, **common)
        if kind not in ("request", "reply"):
            return Entry(**common, **rest[0])
        op, frame = rest[:2]
        if isinstance(frame, tuple):
            header, what = frame
        else:
            header, what = frame, describe_request(op, frame)
        common |= {"xid": _XID.unpack_from(header)[0], "op": name_of(op)}
        common |= {"path": what.path, "paths": what.paths}
        if kind == "request":
            return Entry(text=what.text, facts=what.facts, **common)
        zxid, err, body, reason = rest[2:]
        if isinstance(body, tuple):
            text, facts = body
        else:
            text, facts = describe_reply(op, what.path, err, body), reply_facts(op, err, body)
        return Entry(zxid=max(zxid, 0), err=err, text=text, facts=facts, reason=reason, **common)


def _described(message: bytes | str) -> int:
    """Return the largest number of bytes of a message's description."""
    return _SMALL + _IN_WORDS * min(len(message), LARGE)


def _cut(text: str, most: int = _LONGEST) -> str:
    return text if len(text) <= most else f"{text[:most]}.. ({len(text):,} characters)"


def _some_paths(paths: Sequence[str]) -> str:
    """Show the first paths. The number of characters is limited."""
    room, shown = _LONGEST, 0
    for path in paths:
        if shown and len(path) > room:
            break
        shown, room = shown + 1, room - len(path)
    text = ", ".join(_cut(path) for path in paths[:shown])
    return text if shown == len(paths) else f"{text}, and {len(paths) - shown:,} more"


def select(entries: Iterable[Entry], **conditions: Any) -> list[Entry]:
    """List the entries that meet all conditions of :func:`selector`."""
    wanted = selector(**conditions)
    return [entry for entry in entries if wanted(entry)]


def selector(
    *,
    session: SessionRef | None = None,
    kind: EntryKind | Iterable[EntryKind] | None = None,
    op: str | None = None,
    path: str | None = None,
    since: float = 0.0,
) -> Callable[[Entry], bool]:
    """Return a function that says whether an entry meets all conditions; see :meth:`.Controls.history`.

    :raises ValueError: a kind or an operation is unknown.
    """
    kinds = set(ENTRY_KINDS) if kind is None else {kind} if isinstance(kind, str) else set(kind)
    if not kinds <= set(ENTRY_KINDS):
        raise ValueError(f"unknown kind in {sorted(kinds)}; there are: {', '.join(ENTRY_KINDS)}")
    wanted_op = None if op is None else operation_name(op)
    wanted_session = None if session is None else session_id_of(session)
    pattern = None if path is None else Glob(path)

    def wanted(entry: Entry) -> bool:
        return (
            entry.kind in kinds
            and wanted_op in (None, entry.op)
            and wanted_session in (None, entry.session)
            and (pattern is None or (entry.path is not None and pattern.matches(entry.path)))
            and entry.time >= since
        )

    return wanted
