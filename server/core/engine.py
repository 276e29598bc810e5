"""The Engine: every operation, one at a time, in one order.

The engine connects requests, sessions and time. :mod:`.transactions` applies the changes. Section 0 of
semantics.md is the model. :mod:`.operations` lists all operations. The rules:

* One request is processed to its end before the next one starts. This gives ZooKeeper's total order. So
  nothing here awaits. A read of very many znodes is done in steps (:mod:`.operations.long`). A write is never
  done in steps.
* A write takes one zxid, also if it is refused. A request that cannot be decoded takes no zxid.
* A write has a resolver (:mod:`.operations.writes`), which validates it against the tree and resolves it to
  an effect. The engine applies the effect, notifies the watchers and records it in the history. An effect
  cannot fail, and watchers are notified only after it is applied.
* Watchers are notified before the reply is returned: a client gets an event before any reply that could
  reveal the change. The ACL of the znode decides which watchers are notified.
* A bug or a lack of memory ends only the request in which it happened. If the request is a read, the answer
  is an error. If the request is a write, the exception is raised, because nobody can say how much of the
  write was done.
* The engine uses no socket and no clock. Callers pass the time, in whole ms of a monotonic clock. All times
  are in ms; wall-clock times are ms since the epoch.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...protocol.errors import MarshallingError, UnimplementedError, ZooKeeperError
from ...protocol.jute import MALFORMED, JuteError
from ...protocol.records import AuthPacket, ConnectRequest, ReconfigFields
from ...protocol.text import session_text
from ..config.settings import Settings
from ..logger import logger
from .acl import WrongEnsembleError, add_identities
from .client import Client
from .failures import report
from .operations import (
    OPERATIONS,
    PLAIN_READS,
    READS,
    NoZxidError,
    RefusedRead,
    Steps,
    Unfinished,
    look_up,
)
from .operations.multi import carry_out
from .operations.writes import check_reaping
from .reaper import Reaper
from .sessions import RandomPool, Session, SessionTracker
from .transactions import NO_REQUEST, Transactions
from .tree import DataTree
from .txn import CloseSession, Create, CreateSession, Refused

if TYPE_CHECKING:
    from .sasl import Login

_EXPIRED = 1000
"""The largest number of expired sessions that are ended in one step. Other clients are served between two
steps."""

_LENGTH = struct.Struct(">i").pack


class Engine(Transactions):
    """The operations, sessions and timers of one server.

    :param now: the monotonic time at the start, in ms.
    :param epoch: the wall-clock time at the start, in ms since the epoch.
    :param tree: the tree; an empty one by default.
    :param password_of: makes the password of a new session from its id; by default it is random.
    :ivar operations: the operations by op code; :func:`.operations.look_up` adds those that are missing.
    :ivar reads: the functions of the reads that a caller can call itself instead of :meth:`handle`; empty if
        a class has its own :meth:`handle`.
    :cvar flag_by_default: the last byte of the answer to a handshake that has no such byte.
    :ivar epoch_offset: the difference in ms between wall-clock time and monotonic time. The owner of a clock
        may correct it.
    """

    flag_by_default = b""
    carry_out = carry_out

    def __init__(
        self,
        settings: Settings,
        *,
        now: int,
        epoch: int,
        random_bytes: Callable[[int], bytes] | None = None,
        tree: DataTree | None = None,
        password_of: Callable[[int], bytes] | None = None,
    ) -> None:
        super().__init__(settings, epoch, tree)
        self.operations = OPERATIONS
        self.reads = PLAIN_READS if type(self).handle is Engine.handle else {}
        self.started = now
        self.epoch_offset = epoch - now
        self._random_bytes = random_bytes or RandomPool().take
        self.sessions = SessionTracker(settings.tick_time, epoch, password_of or self.password_of)
        self.reaper = Reaper(self.tree, settings, now)
        self._served: dict[int, Client] = {}  # session id: the connection that serves it
        self._now = now
        self._timeouts = settings.session_timeout_range

    # --- time --------------------------------------------------------------------------------------------

    def next_deadline(self) -> int:
        """Return the time in ms at which :meth:`advance` must be called; :data:`.sessions.NEVER` if no work
        is planned."""
        return self._now if self.watches.unswept else self._next_due()

    def _next_due(self) -> int:
        return min(self.sessions.next_deadline(), self.reaper.next_deadline())

    def advance(self, now: int, is_over: Callable[[], bool] = lambda: False) -> None:
        """Do all that is due at ``now``: expire sessions, delete containers and TTL znodes, remove the
        watches of connections that are over.

        :param is_over: returns whether to leave the rest to the next call. A session that gives a sign of
            life before the next call does not expire.
        """
        while (deadline := self._next_due()) <= now:
            self._set_time(max(deadline, self._now))  # a missed deadline does not set the time back
            for session in self.sessions.due(deadline, _EXPIRED):
                if session.id in self._served and not self.settings.expire_connected:
                    self.sessions.touch(session, self._now)
                    continue
                try:
                    self.expire(session, self._now)
                    text = "%s has expired: no request or ping for %d ms"
                    logger.info(text, session, session.timeout)
                except Exception as error:
                    self.write_failed(error)
                    report("%s has expired, but some of its ephemerals may remain", session)
                if is_over():
                    return
            try:
                for path in self.reaper.due(deadline, self.time):
                    self._reap(path)
                    if is_over():
                        return
            except Exception as error:
                self.write_failed(error)
                report("a container or TTL znode could not be deleted; the next check tries again")
            if is_over():
                return
        while self.watches.unswept:
            self.watches.sweep()
            if is_over():
                return

    def _reap(self, path: str) -> None:
        self.zxid += 1
        try:
            check_reaping(self.tree, path)
        except ZooKeeperError as error:  # a client has created a child, or has deleted the znode itself
            self.record(Refused(error.code), 0)
        else:
            self.record(self._delete(path), 0)

    def _set_time(self, now: int) -> None:
        self._now = now
        time = now + self.epoch_offset
        if time != self.time:  # all znodes of one millisecond share one int object
            self.time = time
        if now >= self.reaper.next_check:
            self.reaper.idle_until(now)

    def wall_clock(self, now: int) -> int:
        """Return a monotonic time as wall-clock time, in ms since the epoch."""
        return now + self.epoch_offset

    # --- sessions ----------------------------------------------------------------------------------------

    def connect(self, client: Client, request: ConnectRequest, now: int) -> Session | None:
        """Open a session, or re-attach to one (wire.md section 4.2, steps 5 to 7).

        Returns None if the session is unknown or over, or the password is wrong.
        """
        self._set_time(now)
        least, most = self._timeouts
        timeout = min(max(request.timeOut, least), most)
        if request.sessionId == 0:
            self.zxid += 1
            session = self.sessions.create(timeout, now)
            if self.is_recorded:
                self.record(CreateSession(timeout), session.id)
            logger.debug("%s is open, timeout %d ms", session, timeout)
        else:
            found = self.sessions.get(request.sessionId)
            if found is None:
                logger.info(
                    "session %s is refused: it has expired or was closed; the client must open a new session",
                    session_text(request.sessionId),
                )
                return None
            if not found.check_password(request.passwd):
                logger.warning("%s is refused: the password is wrong", found)
                return None
            session = found
            before = self._served.get(session.id)
            if before is not None:
                before.abort("its session moved to another connection")
                self.disconnected(before)
            session.timeout = timeout
            self.sessions.touch(session, now)
            logger.debug("%s has a new connection, timeout %d ms", session, timeout)
        self._served[session.id] = client
        client.session_id = session.id
        return session

    def disconnected(self, client: Client) -> None:
        """Forget a connection that is over. Its watches are removed. Its session stays."""
        self.watches.forget(client)
        if self._served.get(client.session_id) is client:
            del self._served[client.session_id]

    def password_of(self, session_id: int) -> bytes:
        """Make the password of a new session."""
        return self._random_bytes(16)

    def client_of(self, session: Session) -> Client | None:
        """Return the connection that serves a session now."""
        return self._served.get(session.id)

    def expire(self, session: Session, now: int) -> None:
        """End a session as if its timeout were over."""
        self._set_time(now)
        self.zxid += 1
        self.stats.sessions_expired += 1
        self.end_session(session, expired=True)

    def end_session(self, session: Session, expired: bool, request: bytes = NO_REQUEST) -> None:
        """End a session and delete its ephemerals, under the zxid that the caller has taken.

        :param expired: whether the session has expired; otherwise its client has closed it.
        :param request: the request with which the client has closed the session.
        """
        self.sessions.remove(session)  # first: if the rest fails, the session must not expire a second time
        try:
            paths = tuple(self.tree.ephemerals.get(session.id, ()))
            for path in paths:
                try:
                    self._delete(path)
                except Exception as error:  # other ephemerals may hold locks that clients wait for
                    self.write_failed(error)
                    report("%s is over; %s remains, or not all clients got their events", session, path)
            if self.is_recorded:
                self.record(CloseSession(paths, expired), session.id, request)
        finally:
            client = self._served.pop(session.id, None)
            if client is not None and expired:
                client.abort(f"its {session} has expired")
                self.disconnected(client)

    # --- requests ----------------------------------------------------------------------------------------

    def handle(self, client: Client, op: int, frame: bytes, now: int) -> tuple[int, int, bytes]:
        """Process one request, whose record starts behind the header of ``frame``.

        :returns: the reply's zxid, error code and body (wire.md section 6).
        :raises UnknownOperation: clients may not send this op code.
        :raises Unfinished: the client's turn is over before the request is done.
        :raises Exception: a bug or a lack of memory in a write; the caller must end the connection.
        """
        try:
            read, method, consumes, with_stat = self.operations[op]
        except KeyError:
            read, method, consumes, with_stat = look_up(op, self.operations)
        try:
            if read is READS:
                request = READS[frame[8:]]
            elif read is not None:
                request = read(frame, 8)
            else:
                request = frame
        except JuteError:
            return self.zxid, MarshallingError.code, b""
        if consumes:
            self.zxid += 1
            if now != self._now:
                self._set_time(now)
        try:
            if with_stat is None:  # the function is no resolver: it has done everything
                return self.zxid, 0, method(self, client, request)
            kind, fields, at = method(self, client, request)
            node = self.tree.change(kind, fields, at, self.zxid, self.time)
            if self.watches.watchers or self.is_recorded:
                self.written(client, frame, kind, fields, node, at)
            body = node.packed_stat() if with_stat else b""
            if kind is Create:
                path = fields[0].encode()
                return self.zxid, 0, _LENGTH(len(path)) + path + body
            return self.zxid, 0, body
        except ZooKeeperError as error:
            if self.on_refusal is not None:
                self.on_refusal(error)
            if consumes and self.is_recorded:
                self.record(Refused(error.code), client.session_id, frame)
            return self.zxid, error.code, b""
        except Unfinished as unfinished:
            return self.resume(client, op, unfinished.steps)
        except NoZxidError as refusal:
            self.zxid -= 1
            return self.zxid, refusal.code, refusal.body
        except Exception as error:
            if consumes:  # a write: it is unknown how much of it was done, so the client gets no answer
                self.write_failed(error)
                raise
            return self._failed(op)

    def resume(self, client: Client, op: int, steps: Steps) -> tuple[int, int, bytes]:
        """Continue an operation that is done in steps. The reply has the zxid of the last step.

        :returns: the reply's zxid, error code and body, as :meth:`handle`.
        :raises Unfinished: the client's turn is over again before the request is done.
        """
        try:
            while True:
                if client.turn_is_over(next(steps)):
                    break
        except StopIteration as end:
            return self.zxid, 0, end.value
        except ZooKeeperError as error:
            if self.on_refusal is not None:
                self.on_refusal(error)
            return self.zxid, error.code, b""
        except RefusedRead as refusal:
            return self.zxid, refusal.code, refusal.body
        except Exception:
            return self._failed(op)
        raise Unfinished(steps)

    def _failed(self, op: int) -> tuple[int, int, bytes]:
        report("a request of op %d failed, and was answered with error -5", op)
        return self.zxid, MarshallingError.code, b""

    def authenticate(self, client: Client, packet: AuthPacket, peer: str) -> None:
        """Add the identities that the client gets by an auth packet.

        :raises AuthFailedError: the packet is refused.
        """
        if packet.scheme == "ensemble" and self.settings.ensemble_names is not None:
            self._check_ensemble(packet.auth, self.settings.ensemble_names)
            return
        add_identities(client.identities, self.access.authenticate(packet.scheme, packet.auth, peer))

    def _check_ensemble(self, name: bytes | None, names: frozenset[str]) -> None:
        """Check that a client looks for this ensemble. The client gets no identity for the name of the
        ensemble (semantics.md section 8.4).

        :raises WrongEnsembleError: the client looks for another ensemble.
        """
        if not name or not names:
            self.stats.ensemble_auth["skip"] += 1
        elif name.decode("utf-8", MALFORMED) in names:
            self.stats.ensemble_auth["success"] += 1
        else:
            self.stats.ensemble_auth["fail"] += 1
            known = ", ".join(sorted(names))
            raise WrongEnsembleError(
                message=f"it looks for the ensemble {name!r:.80}, and ensembleAuthName names {known}"
            )

    def new_login(self) -> Login | None:
        """Return a login for a connection; None if the settings have no users. After a login that succeeds
        the connection calls :meth:`logged_in`."""
        users = self.settings.sasl_users
        if users is None:
            return None
        from .sasl import Login  # with hashlib, which a server without users need not load

        return Login(users, self._random_bytes)

    def logged_in(self, client: Client, user: str) -> None:
        """Add the identities of a user who has logged in by SASL.

        :raises AuthFailedError: the connection would have too many identities.
        """
        add_identities(client.identities, self.access.sasl_identities(user))

    def reconfigure(self, client: Client, request: ReconfigFields) -> bytes:
        """Refuse a change of the members: a single server has no members (semantics.md section 4.7).

        :raises UnimplementedError: always.
        """
        raise UnimplementedError(message="a single server has nothing to reconfigure")
