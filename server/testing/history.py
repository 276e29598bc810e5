"""The flight recorder: what the server was asked, what it said, and what became of its sessions.

Recording must be cheap enough to be always on: a request costs two tuples, kept as they came, and is put
into words only when a test asks. Memory is bounded: the oldest entries go, and what is large is put into
words at once.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Literal, TypeAlias, get_args

import attrs

from ..core.engine import Engine
from ..core.txn import CloseSession, CreateSession, Delete, Txn
from ..core.watches import Notification
from ..net.connection import Connection
from ..net.service import Service
from .describe import Described, describe_event, describe_reply, describe_request
from .operations import name_of

EntryKind: TypeAlias = Literal[
    "request", "reply", "event", "session", "connection", "reaper", "fault", "hold", "control", "note"
]
ENTRY_KINDS: tuple[EntryKind, ...] = get_args(EntryKind)
Result: TypeAlias = tuple[int, int, bytes]
"""A reply: zxid, error code, body."""

Kept: TypeAlias = bytes | tuple[bytes, Described]
"""A whole request, or its header and what is to be said of it."""

FAULT = "a fault of the test"
"""Why a fault closes a connection."""

_KEPT = 512  # bytes of a request or reply that are kept as they are; larger ones are put into words at once
_XID = struct.Struct(">i")


@attrs.frozen(kw_only=True)
class Entry:
    """One thing that happened.

    :ivar kind: ``request``, ``reply``, ``event`` (a watch event was sent), ``session`` (it began, was closed
        or expired), ``connection`` (it was opened, got its session, was refused one, or is over), ``reaper``
        (the server deleted a container or TTL znode), ``fault`` (one fired), ``hold`` (a message is held, or
        lost), ``control`` (the test did something to the server), ``note`` (the test said something).
    :ivar time: seconds on the server's clock since its start.
    :ivar session: the id of the session concerned; 0 if there is none.
    :ivar connection: the number of the connection, from 1 in the order of arrival; 0 if there is none.
    :ivar zxid: of the reply, event or change; 0 where there is none.
    :ivar xid: the client's number of the request.
    :ivar op: the operation of a request, reply or fault, as ``fault(op=...)`` takes it.
    :ivar path: the znode concerned, if it is one.
    :ivar err: the error code of a reply; 0 is success.
    :ivar text: all of it in words.
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


class Recorder:
    """Keeps what happens as it came, and puts it into words when asked.

    :param now: the server's clock, in seconds.
    :param started: that clock at the start of the server.
    :param limit: how many entries are kept; the oldest go first.
    """

    def __init__(self, service: Service, now: Callable[[], float], started: float, limit: int) -> None:
        self._now = now
        self._entries: deque[tuple[Any, ...]] = deque(maxlen=limit)
        self.sessions: dict[int, None] = {}  # every session seen, in order
        self._numbers: dict[Connection, int] = {}
        self.clear(service.engine, started)

    def clear(self, engine: Engine, started: float) -> None:
        """Begin anew, with ``started`` as the server's start in seconds of its clock."""
        self._started = started
        self.zxid_base = engine.zxid  # where it began: the numbers after it are easier to read
        self._entries.clear()
        self.dropped = 0  # entries that had to go
        self.sessions.clear()
        self._numbers.clear()
        self._opened = 0

    # --- recording ---------------------------------------------------------------------------------------

    def request(self, connection: Connection, op: int, frame: bytes, now: float) -> Kept:
        kept = frame if len(frame) <= _KEPT else (frame[:8], describe_request(op, frame))
        self._append(("request", now, connection.session_id, self._numbers.get(connection, 0), op, kept))
        return kept

    def reply(self, connection: Connection, op: int, kept: Kept, now: float, result: Result) -> None:
        """:param kept: what :meth:`request` returned."""
        zxid, err, body = result
        said: bytes | str = body
        if len(body) > _KEPT:
            what = kept[1] if isinstance(kept, tuple) else describe_request(op, kept)
            said = describe_reply(op, what.path, err, body)
        number = self._numbers.get(connection, 0)
        self._append(("reply", now, connection.session_id, number, op, kept, zxid, err, said))

    def fault(self, connection: Connection, op: int, frame: bytes, text: str, zxid: int) -> None:
        number = self._numbers.get(connection, 0)
        what = describe_request(op, frame)
        entry = {"op": name_of(op), "path": what.path, "xid": _XID.unpack_from(frame)[0]}
        entry |= {"zxid": zxid, "text": text}
        self._append(("fault", self._now(), connection.session_id, number, entry))

    def held(self, connection: Connection, text: str) -> None:
        self._add("hold", connection.session_id, self._numbers.get(connection, 0), text)

    def control(self, text: str, session: int = 0, kind: EntryKind = "control") -> None:
        self._add(kind, session, 0, text)

    def opened(self, connection: Connection) -> None:
        self._opened += 1
        self._numbers[connection] = self._opened
        self._add("connection", 0, self._opened, "opened from {}:{}".format(*connection.peer))

    def attached(self, connection: Connection, resumed: bool) -> None:
        session = connection.session
        timeout = session.timeout / 1000 if session else 0
        peer = "{}:{}".format(*connection.peer)
        how = "reconnected" if resumed else "new session"
        text = f"{how}, timeout {timeout:g} s, from {peer}"
        self._add("connection", connection.session_id, self._numbers.get(connection, 0), text)

    def refused(self, connection: Connection, session_id: int) -> None:
        number = self._numbers.pop(connection, 0)  # its end, which follows at once, is no news then
        self._add("connection", session_id, number, "told that its session is gone")

    def event(self, connection: Connection, notification: Notification) -> None:
        number = self._numbers.get(connection, 0)
        self._append(("event", self._now(), connection.session_id, number, notification))

    def closed(self, connection: Connection, reason: str) -> None:
        number = self._numbers.pop(connection, 0)
        if number and not connection.speaks_http:
            who = "" if connection.session_id else "{}:{} ".format(*connection.peer)
            self._add("connection", connection.session_id, number, f"{who}disconnected: {reason}")

    def transaction(self, txn: Txn) -> None:
        """Record what sessions and the server itself do; requests are recorded as such."""
        effect = txn.effect
        if isinstance(effect, CreateSession):
            self.sessions[txn.session] = None
            text = f"session begins, timeout {effect.timeout / 1000:g} s"
        elif isinstance(effect, CloseSession):
            text = "SESSION EXPIRED" if effect.expired else "session closed"
            if effect.paths:
                text += f", its ephemerals deleted: {', '.join(effect.paths)}"
        elif isinstance(effect, Delete) and not txn.session:
            entry = {"zxid": txn.zxid, "path": effect.path, "text": f"reaped {effect.path}"}
            self._append(("reaper", self._now(), 0, 0, entry))
            return
        else:
            return
        self._append(("session", self._now(), txn.session, 0, {"zxid": txn.zxid, "text": text}))

    def _add(self, kind: EntryKind, session: int, number: int, text: str) -> None:
        self._append((kind, self._now(), session, number, {"text": text}))

    def _append(self, entry: tuple[Any, ...]) -> None:
        entries = self._entries
        if len(entries) == entries.maxlen:
            self.dropped += 1
        entries.append(entry)

    # --- reading -----------------------------------------------------------------------------------------

    def entries(self) -> Iterator[Entry]:
        """Yield everything that is kept, the oldest first."""
        for kind, now, session, number, *rest in self._entries:
            time = now - self._started
            common: dict[str, Any] = {"time": time, "session": session, "connection": number, "kind": kind}
            if kind == "event":
                event = rest[0]
                text = f"{describe_event(event.type)} {event.path}"
                yield Entry(zxid=max(event.zxid, 0), path=event.path, text=text, **common)
                continue
            if kind not in ("request", "reply"):
                yield Entry(**common, **rest[0])
                continue
            op, frame = rest[:2]
            if isinstance(frame, tuple):
                header, what = frame
            else:
                header, what = frame, describe_request(op, frame)
            common |= {"xid": _XID.unpack_from(header)[0], "op": name_of(op), "path": what.path}
            if kind == "request":
                yield Entry(text=what.text, **common)
            else:
                zxid, err, body = rest[2:]
                text = body if isinstance(body, str) else describe_reply(op, what.path, err, body)
                yield Entry(zxid=max(zxid, 0), err=err, text=text, **common)
