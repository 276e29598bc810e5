"""A client of a script: what it does and what arrives become lines of the transcript."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyzk.protocol.jute import Record
from pyzk.protocol.operations import WRITES, OpCode
from pyzk.protocol.records import ReconfigRequest, ReplyHeader

from ...support.requests import RESPONSES, Requests
from ...support.waiting import PATIENCE
from ...support.wire import ClosedError, Event, Handshake, Reply, WireClient
from .masks import error

if TYPE_CHECKING:
    from .sides import Side

_REPLY_HEADER = 16
"""Bytes of a reply without a body: too few for the answer to a handshake."""


class Speaker(WireClient):
    """A method named after an operation sends it and waits for its reply; ``later`` only sends it.

    :ivar seen: the last zxid that a reply has told; it goes with the session.
    """

    def __init__(self, side: Side, name: str, role: str) -> None:
        super().__init__(side.address(role), timeout=PATIENCE)
        self.side = side
        self.name = name
        self.seen = 0
        self.later = _Later(self)
        self.is_over = False

    # --- what it says ------------------------------------------------------------------------------------

    def attach(self, like: Speaker | None = None, **handshake: Any) -> None:
        """Ask for a new session, or for that of another, and know what that one has seen."""
        if like is not None:
            self.seen = handshake.get("last_zxid", like.seen)
            self._xids = like._xids  # as Java counts; servers confuse equal ones (ensemble.md 2.14)
            taken: dict[str, Any] = {"session_id": like.session_id, "password": like.password}
            handshake = {**taken, "last_zxid": self.seen, **handshake}
        self.send_connect(**{"timeout": 30_000, **handshake})

    def request(self, op: int, body: Record | bytes = b"", xid: int | None = None) -> Any:
        """Ask, and note what arrives up to the reply."""
        if self._say(op, body, xid):
            while isinstance(self.next(), Event):
                pass
        return self

    def _say(self, op: int, body: Record | bytes, xid: int | None) -> bool:
        path = getattr(body, "path", None)
        asked = OpCode(op).name.lower() + (f" {path}" if path else "")
        self.note(f"-> {asked}")
        try:
            self.send(op, body, xid)
        except OSError:
            self._ended()
            return False
        return True

    def change_config(self, from_config: int = -1) -> int:
        """Make a new version of the configuration, without a change in it; returns the version."""
        self.note("-> reconfig")
        reply = WireClient.request(self, OpCode.RECONFIG, ReconfigRequest(None, None, None, from_config))
        self.note(f"<- {self._describe(reply)}")
        self.side.spread(reply.zxid)
        return reply.zxid

    # --- what arrives ------------------------------------------------------------------------------------

    def next(self) -> Handshake | Reply | Event | None:
        """Wait for the next thing, and note it: None for the end of the connection."""
        if self.is_over:
            return None
        if not self.side.wait_for(self.socket, PATIENCE):
            self.note("<- nothing comes")
            self.is_over = True
            return None
        try:
            payload = self.receive_frame()
            if self.handshake is None and len(payload) == _REPLY_HEADER:
                self._note_reply_instead(payload)
                return None
            arrival = self.decode(payload)
        except (ClosedError, OSError):
            self._ended()
            return None
        self.note(f"<- {self._describe(arrival)}")
        if isinstance(arrival, Reply):
            self.seen = max(self.seen, arrival.zxid)
            if arrival.op in WRITES and arrival.zxid > 0:
                self.side.spread(arrival.zxid)
        return arrival

    def _note_reply_instead(self, payload: bytes) -> None:
        """A read-only server answers a handshake with a reply (ensemble.md 7.2)."""
        header = ReplyHeader.decode(payload)
        said = f"{error(header.err)} {self.side.masks.zxid(header.zxid)}"
        self.note(f"<- a reply, not a session: xid {header.xid}, {said}")

    def all_of(self, count: int) -> None:
        """Wait for so many arrivals."""
        for _ in range(count):
            self.next()

    def waits(self) -> None:
        """Give what may arrive now the time for it, and note it; nothing, as a rule."""
        self.side.settle()
        self.note("waits")
        while not self.is_over and self.side.wait_for(self.socket, 0):
            self.next()

    def until_closed(self) -> None:
        """Note what arrives until the connection is closed."""
        while self.next() is not None:
            pass

    def ping_until_closed(self, every: float) -> None:
        """Note only whether pings were answered."""
        answered = 0
        while not self.is_over:
            try:
                self.send(OpCode.PING, xid=-2)
                if not self.side.wait_for(self.socket, PATIENCE):
                    break
                self.decode(self.receive_frame())
                answered += 1
            except (ClosedError, OSError):
                self.note(f"pings were {'answered' if answered else 'not answered'}")
                self._ended()
            self.side.pass_time(every)

    def _ended(self) -> None:
        if not self.is_over:
            self.note("<- closed")
        self.is_over = True

    # --- the transcript ----------------------------------------------------------------------------------

    def note(self, text: str) -> None:
        self.side.note(f"{self.name} {text}")

    def _describe(self, arrival: Handshake | Reply | Event) -> str:
        masks = self.side.masks
        if isinstance(arrival, Handshake):
            if arrival.session_id:
                self.side.sessions[arrival.session_id] = arrival.password
            password = "a password" if any(arrival.password) else "no password"
            return (
                f"session {masks.session(arrival.session_id)}, {arrival.timeout} ms, {password} of "
                f"{len(arrival.password)} bytes, {arrival.extra.hex()}"
            )
        if isinstance(arrival, Event):  # its zxid is -1 in 3.8 (ensemble.md section 17)
            return f"event {arrival.type} {arrival.path} in state {arrival.state}"
        body = ""
        if arrival.err == 0 and arrival.op in (OpCode.MULTI, OpCode.MULTI_READ):
            body = " " + ", ".join(
                f"{result.type} {error(result.err)} {masks.show(result.response)}"
                for result in arrival.results
            )
        elif arrival.err == 0 and arrival.op in RESPONSES:
            body = " " + masks.show(arrival.record)
        elif arrival.body:
            body = f" {len(arrival.body)} bytes"
        op = OpCode(arrival.op).name.lower()
        return f"{op} {error(arrival.err)} {masks.zxid(arrival.zxid)}{body}"


class _Later(Requests[None]):
    def __init__(self, speaker: Speaker) -> None:
        self._speaker = speaker

    def request(self, op: int, body: Record | bytes = b"", xid: int | None = None) -> None:
        self._speaker._say(op, body, xid)
