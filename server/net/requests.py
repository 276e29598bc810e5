"""Handles the requests of a connection, and makes their replies. There are two ways with the same result.

**The long way** is :func:`serve_requests`, one turn of a connection. The long way handles any frames: it
keeps the session alive, checks credentials and limits, asks the gate, and continues a request that an earlier
turn has not finished. It stops when the turn is over or too much output waits. It closes the connection after
the last request of a session.

**The short way** is :func:`exchange`, for the most frequent case: a client that waits for each reply before
its next request, so that one whole request arrives alone. This way only calls the engine, or the function of
a plain read. Then it encodes the reply, counts the request, and returns the reply directly to the transport.
A request takes the short way only if all other parts of the long way would do nothing:

* The connection has a ``fast_session``: the handshake is done, no input is left, the connection is open, and
  the settings ask for no check of each request.
* The session is fresh: the present time is before ``fresh_until``. A session expires at a tick, so a second
  request within the same tick does not move the deadline of the session. The first request after
  ``fresh_until`` takes the long way, which touches the session.
* There is no gate between the clients and the engine.
* The data is exactly one frame of a legal length, with a non-negative xid and a plain operation. A ping, an
  authentication, an operation that may need several turns, and an unknown op code are not plain operations.

In two cases the short way queues the reply. If the engine has queued events for this connection, the events
must come before the reply. If the request ends the session, the end of the connection must come after the
reply.

``test_the_short_way_leads_where_the_long_one_does`` sends the same input both ways, and compares all output,
all figures and all deadlines of sessions.

**Limits.** A turn ends after 32 requests (64 if a log is kept) or after a slice of time. No request is
handled while more than 256 KiB of output wait. A client that sends too much, asks for too much or does not
read delays only itself, and takes a bounded amount of memory. Its other requests wait in ``frames`` for the
next turn.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...protocol import records
from ...protocol.constants import PING_XID
from ...protocol.errors import (
    AuthFailedError,
    SessionClosedRequireAuthError,
    ThrottledOpError,
    UnimplementedError,
    ZooKeeperError,
)
from ...protocol.jute import JuteError
from ...protocol.operations import CLIENTS, CLOSE_SESSION, CREDENTIALS, PING, WRITES, OpCode
from ..core.acl import WrongEnsembleError
from ..core.operations import IN_STEPS, READS, Unfinished, UnknownOperation
from ..core.sessions import Session
from ..logger import logger
from .gate import Withheld

if TYPE_CHECKING:
    from .connection import Connection


MAX_REQUESTS = 32
"""The largest number of requests of one connection that are handled in one turn."""
MAX_LOGGED = 2 * MAX_REQUESTS
"""The largest number of requests of one turn if a log is kept. It is larger, because the requests of a turn
share one write of the log."""
HIGH_WATER = 256 * 1024
"""No further request is handled while more bytes of output than this number wait for the client."""

_HEADER = struct.Struct(">ii").unpack_from  # records.RequestHeader
_FRAME = struct.Struct(">iii").unpack_from  # a frame length, then records.RequestHeader
_REPLY = struct.Struct(">iiqi").pack  # a frame length, then records.ReplyHeader
_SPECIAL = CREDENTIALS | {PING}
_SLOW = IN_STEPS | {CLOSE_SESSION, OpCode.MULTI.value}
"""After these operations a turn looks at the clock, which takes 10 % of the time of a small request. The cost
of all other operations is bounded, because the received bytes and the waiting output are bounded."""
_SLOW_IF_WATCHED = _SLOW | WRITES
_SHORT_WAY = CLIENTS - IN_STEPS - {PING}
_PLAIN = CLIENTS - _SLOW - _SPECIAL
"""The operations for which the long way only calls the engine and queues the reply."""
_PLAIN_IF_WATCHED = _PLAIN - WRITES
_NONE_PLAIN: frozenset[int] = frozenset()
MAX_NULL_TOKENS = 16
"""The largest number of SASL tokens of one connection that get a null answer. Some clients, such as kazoo,
send tokens without end. These clients are refused (sasl.md, trap 7)."""
_NO_TOKEN = records.SetSASLResponse(None).encode()
_CREDENTIALS = frozenset(op.to_bytes(4) for op in CREDENTIALS)


# --- the short way -----------------------------------------------------------------------------------------


def exchange(connection: Connection, data: bytes, now: float) -> bytes:
    """Do the same as :meth:`.connection.Connection.receive_data`, by the short way if possible.

    :returns: the reply, if there is nothing else to send or to do. If the result is empty, the caller must
        continue as after ``receive_data``.
    """
    session, size = connection.fast_session, len(data) - 4
    service = connection.service
    at = service.now_ms if now == service.now else service.at(now)
    if (
        session is None
        or at >= session.fresh_until
        or service.gate is not None
        or not 8 <= size <= connection.input.limit
    ):
        connection.receive_data(data, now)
        return b""
    length, xid, op = _FRAME(data)
    if length != size or op not in _SHORT_WAY or xid < 0:
        connection.receive_data(data, now)
        return b""
    engine, own = connection.engine, connection.stats
    stats = own.stats
    zxid = engine.zxid
    read = engine.reads.get(op)
    if read is not None:  # the same as Engine.handle does, but without a call
        err, body = 0, b""
        try:
            body = read(engine, connection, READS[data[12:]])
        except ZooKeeperError as error:
            if engine.on_refusal is not None:
                engine.on_refusal(error)
            err = error.code
        except Exception:
            _, err, body = engine.handle(connection, op, data[4:], at)
        stats.read_latency.zeros += 1
    else:
        before = zxid  # every write takes a zxid, and no other request does
        zxid, err, body = engine.handle(connection, op, data[4:], at)
        if zxid == before:
            stats.read_latency.zeros += 1
        else:
            stats.update_latency.zeros += 1
    answer_size = 16 + len(body)
    reply = _REPLY(answer_size, xid, zxid, err) + body
    own.at_once += 1
    own.last = (op, xid, zxid, err, now, 0)
    stats.last_response = answer_size
    if answer_size not in stats.response_sizes:
        stats.new_response_size(answer_size)
    stats.bytes_received += size + 4
    if connection.output or connection.fast_session is None or op == CLOSE_SESSION:
        if not connection.close_expected:
            connection.send(reply)
            if op == CLOSE_SESSION:
                connection.end_session()
        return b""
    stats.bytes_sent += answer_size + 4
    return reply


# --- the long way ------------------------------------------------------------------------------------------


def serve_requests(connection: Connection, session: Session, frames: list[bytes], now: float) -> None:
    """Handle the requests of one turn. Afterwards the rest is in ``connection.frames``."""
    service, engine, output = connection.service, connection.engine, connection.output
    at = service.at(now)
    handle: Callable[..., tuple[int, int, bytes]] = engine.handle
    when: float = at
    if service.gate is not None:  # the gate needs the time in seconds
        handle, when = service.gate.handle, now
        begun = int(connection.unfinished is not None)
        frames = [*frames[:begun], *service.gate.requests(connection, frames[begun:])]
        if connection.close_expected:
            return
        connection.frames = frames
        if not frames:
            return
    if connection.unfinished is not None:
        handle, when = _resume, now
    if at >= session.fresh_until:
        _keep_alive(connection, session, frames, at)
    if connection.waiting > HIGH_WATER:
        connection.frames = frames
        return
    plain, slow = _PLAIN, _SLOW
    if engine.watches.watchers:
        plain, slow = _PLAIN_IF_WATCHED, _SLOW_IF_WATCHED
    if service.has_request_checks or service.gate is not None:
        plain = _NONE_PLAIN
    clock, end = service.stopwatch, connection.start_turn()
    own, stats = connection.stats, engine.stats
    sizes, before = stats.response_sizes, engine.zxid
    xid = op = zxid = err = size = 0
    # The bytes of replies that connection.waiting does not yet count, and the largest number of such bytes.
    added, room = 0, HIGH_WATER - connection.waiting
    left = iter(frames)
    for payload in left:
        try:
            xid, op = _HEADER(payload)
            if is_plain := op in plain:
                zxid, err, body = handle(connection, op, payload, when)
            else:
                connection.waiting += added
                added = 0
                if op in _SPECIAL or service.has_request_checks:
                    if not _admit(connection, xid, op, payload, now):
                        size, room = 0, HIGH_WATER - connection.waiting
                        if connection.close_expected:
                            break
                        continue
                    if op == PING:
                        xid = PING_XID  # also if the client has sent another xid (wire.md section 5)
                zxid, err, body = handle(connection, op, payload, when)
                room = HIGH_WATER - connection.waiting
                if connection.close_expected:
                    break
        except Withheld:
            if connection.frozen or connection.close_expected:
                break
            continue
        except Unfinished as unfinished:
            connection.unfinished = unfinished.steps
            left = iter([payload, *left])
            break
        except UnknownOperation:
            size = 0
            _reply(connection, xid, -1, UnimplementedError.code)
            connection.refuse(f"it sent op {op}, which does not exist or is not for clients")
            break
        except struct.error:
            connection.refuse(f"a request of {len(payload)} bytes is shorter than its header of 8")
            break
        if size != (size := 16 + len(body)) and size not in sizes:
            stats.new_response_size(size)
        output.append(_REPLY(size, xid, zxid, err))
        output.append(body)
        added += size + 4
        if not is_plain:
            if op == CLOSE_SESSION:
                connection.end_session()
                break
            if op in slow and clock() > end:
                break
        if added > room:
            break
    connection.waiting += added
    if connection.aborted:  # the events of the connection's own requests were too many
        output.clear()
        connection.waiting = 0
    undone = [*left]
    if not connection.close_expected:
        connection.frames = undone
    if size:
        stats.last_response = size
    handled = len(frames) - len(undone)
    latency = own.answered(handled, engine.zxid - before, now - connection.arrived)
    own.last = (op, xid if xid >= 0 else own.last_xid, zxid, err, now, latency)


def _resume(connection: Connection, op: int, payload: bytes, now: float) -> tuple[int, int, bytes]:
    """Handle one request of a turn whose first request was begun in an earlier turn."""
    steps, connection.unfinished = connection.unfinished, None
    if steps is None:
        if connection.service.gate is not None:
            return connection.service.gate.handle(connection, op, payload, now)
        return connection.engine.handle(connection, op, payload, connection.service.at(now))
    result = connection.engine.resume(connection, op, steps)
    if connection.service.gate is not None:
        connection.service.gate.finished(connection, op, payload, result, now)
    return result


def _keep_alive(connection: Connection, session: Session, frames: list[bytes], now: int) -> None:
    """Keep the session alive. Every request does this, except a request that has only credentials
    (semantics.md section 12.4)."""
    if any(frame[4:8] not in _CREDENTIALS for frame in frames):
        connection.engine.sessions.touch(session, now)


# --- before the engine -------------------------------------------------------------------------------------


def _admit(connection: Connection, xid: int, op: int, payload: bytes, now: float) -> bool:
    """Handle credentials, and make the checks that are switched off by default.

    :returns: False if the request is already answered, or has ended the connection.
    """
    if connection.unfinished is not None:
        return True  # it was admitted in an earlier turn
    if op in CREDENTIALS:
        _authenticate(connection, xid, op, payload)
        return False
    settings, stats = connection.service.settings, connection.engine.stats
    required = settings.required_auth_schemes
    if required and not any(identity.scheme in required for identity in connection.identities):
        _reply(connection, xid, 0, SessionClosedRequireAuthError.code)
        connection.refuse(f"it must authenticate first, by one of: {', '.join(sorted(required))}")
        return False
    # Requests are handled one after the other, so each large request may use the whole budget.
    if -1 < settings.large_request_threshold < len(payload) > settings.large_request_max_bytes:
        stats.large_rejected += 1
        connection.refuse(
            f"a request of {len(payload):,} bytes is over the limit; largeRequestMaxBytes raises it"
        )
        return False
    waited = (now - connection.arrived) * 1000
    limit = settings.throttled_op_wait_time
    if 0 < limit < waited and op not in (PING, CLOSE_SESSION):
        stats.throttled += 1
        _reply(connection, xid, connection.engine.zxid, ThrottledOpError.code)
        return False
    return True


def _authenticate(connection: Connection, xid: int, op: int, payload: bytes) -> None:
    """Handle an auth or sasl request. Such requests concern only the connection: they take no zxid, and do
    not keep the session alive (wire.md section 12)."""
    try:
        if op == OpCode.SASL:
            _log_in(connection, xid, records.GetSASLRequest.decode(payload, 8).token)
            return
        packet = records.AuthPacket.decode(payload, 8)
    except JuteError as error:
        connection.refuse(f"its auth packet cannot be read: {error}")
        return
    try:
        connection.engine.authenticate(connection, packet, connection.peer[0])
    except WrongEnsembleError as error:
        connection.reject(str(error))
    except AuthFailedError as error:
        connection.engine.stats.auth_failed += 1
        _reply(connection, xid, 0, error.code)
        connection.refuse(str(error))
    else:
        _reply(connection, xid, 0, 0)


def _log_in(connection: Connection, xid: int, token: bytes | None) -> None:
    """Take a token of a SASL login (sasl.md sections 2 and 5).

    :raises JuteError: the real server closes the connection at such a token.
    """
    if token is None:
        raise JuteError("a null token")
    engine = connection.engine
    if connection.login is None and not connection.null_tokens:
        connection.login = engine.new_login()
    login = connection.login
    if login is None:
        _answer_no_token(connection, xid)
        return
    try:
        answer = login.answer(token)
        if login.user is not None:
            engine.logged_in(connection, login.user)
    except AuthFailedError as error:
        _refuse_login(connection, xid, str(error))
    else:
        _reply(connection, xid, 0, 0, records.SetSASLResponse(answer).encode())


def _refuse_login(connection: Connection, xid: int, reason: str) -> None:
    settings = connection.service.settings
    connection.engine.stats.auth_failed += 1
    if "sasl" in settings.required_auth_schemes:
        err = SessionClosedRequireAuthError.code
    elif settings.allow_sasl_failed_clients:
        logger.warning("%s: it continues without its SASL login, which has failed: %s", connection, reason)
        connection.login = None
        _answer_no_token(connection, xid)
        return
    else:
        err = AuthFailedError.code
    _reply(connection, xid, 0, err, _NO_TOKEN)
    connection.refuse(f"its SASL login was refused: {reason}")


def _answer_no_token(connection: Connection, xid: int) -> None:
    """Answer that there is no SASL login. Refuse a client that sends too many tokens."""
    connection.null_tokens += 1
    if connection.null_tokens <= MAX_NULL_TOKENS:
        _reply(connection, xid, 0, 0, _NO_TOKEN)
        return
    _reply(connection, xid, 0, AuthFailedError.code, _NO_TOKEN)
    if connection.service.settings.sasl_users is None:
        advice = "switch SASL off in the client, or give the server users (sasl.user.NAME)"
    else:
        advice = "its login is over, as the first attempt has failed; correct name and password"
    connection.refuse(f"it asks for a SASL login again and again: {advice}")


def reply_frame(xid: int, zxid: int, err: int, body: bytes) -> bytes:
    """Encode a reply."""
    return _REPLY(16 + len(body), xid, zxid, err) + body


def _reply(connection: Connection, xid: int, zxid: int, err: int, body: bytes = b"") -> None:
    size = 16 + len(body)
    stats = connection.engine.stats
    stats.last_response = size
    stats.new_response_size(size)
    connection.send(reply_frame(xid, zxid, err, body))
