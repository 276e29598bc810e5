"""The hub serves all plain TCP clients in one trio task.

The hub has its own epoll object, with every client socket. The task waits for the file descriptor of this
object. So one wake-up serves all sockets that are ready, without a task switch or an await for each of them.
With many clients this gives 1.7 times as many requests per second as a task for each connection, and half the
latency.

The rules:

1. A *turn* serves every ready socket once. A connection works at most one slice of time in a turn
   (:data:`.service.SLICE` seconds). If more than 8 connections are ready, they share 8 slices.
2. The rest of the input is handled in the next turn, before new input. The connections with such a rest may
  take 4 slices of a turn. Connections that are not served in this time are the first in the turn after it.
3. When turns have taken one slice, trio's other tasks run: timers, TLS clients, HTTP. The hubs of an ensemble
  let other tasks run more often (:attr:`Hub.share`), because the clients of one server wait for the turns of
  the other servers. In a process with no other work, the hub itself waits up to 1 ms for the next request
  (:attr:`Hub.patience`). Then trio's other tasks run after 2 ms at the latest. But a single client can send
  many requests, one after the other, without a round of trio's loop for each request.
4. If very many sockets are ready, clients that end their session or connection are served after all others,
  in at most 4 slices of each turn. Ending a session takes three times as long as a small request, and its
  client does not wait for anything else.
5. The replies of a turn are sent in about 8 groups. Then events and long output are sent. An event for many
  clients is sent in many turns, and no reply waits until all clients have the event.
6. An error of one socket ends only its connection.
7. When a connection ends, the server closes its side first. The client has some seconds to close its side
   (:mod:`.leaving`).
"""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import trio

from ...protocol.operations import CLOSE_SESSION
from ..core.failures import report
from ..logger import logger
from . import descriptors
from .connection import Connection
from .leaving import Leaving
from .listening import Listener
from .service import SLICE, Service
from .streams import hang_up

_IN, _OUT = select.EPOLLIN, select.EPOLLOUT
_SMALL_READ, _LARGE_READ = 448, 64 * 1024
"""The numbers of bytes that one call receives at most: the usual number and the large number. Most requests
are small, and Python allocates up to 512 bytes in a third of the time. If a client fills the small number,
the large number is used next."""
_SERVED_PER_NEW = 8
"""A turn accepts 1 new client, and 1 further client for each group of this number of served clients. More
would cost time: a call of accept() without a waiting client takes 10 % of the time of a session. Fewer would
make new clients wait for many turns."""
_FEW = 8
"""The largest number of clients that each have a whole slice of a turn. More clients share the same time."""
_BUSY = 4 * SLICE
"""The time in seconds of a turn for input of earlier turns. The same time is for clients that end their
connection, if very many sockets are ready."""
_MANY = 1000
"""The number of ready sockets above which clients that end their connection are served last. By default the
poller returns 1,023 sockets at most."""
_END_SIZE, _END = 12, CLOSE_SESSION.to_bytes(4, signed=True)
"""The number of bytes of a request that ends a session, and the last four bytes."""
_LEAST_SLICE = 0.0005
"""The least time in seconds that each client gets in a turn, also if very many clients are ready."""
_LOOKS, _NEWCOMERS = 3, 1000
"""Before sessions expire, all ready sockets are served this number of times. Each time, at most the second
number of clients is accepted. A new client may already have sent a request."""
_REPLY_GROUPS = 8
"""The number of groups in which the replies of one turn are sent if no log is kept. A process with many
connections then wakes once for each group, not for each reply. With 1,000 clients this gives 5 % more
requests per second. With fewer than 8 ready sockets each reply is sent immediately."""
_CROWD = 16
"""The number of connections with output above which the hub sends for one slice only. The rest is sent in the
next turn."""
_WAIT = 0.001
"""The longest time in seconds that the hub itself waits for a request. It is the shortest timeout of
epoll."""
_REST = 0.1
"""The time in seconds between a turn that has failed as a whole and the next turn."""
_SHARING = 64
"""The largest number of clients with several requests in flight that share a write of the log. With more
clients the first client would wait long for its replies."""
_LARGE = 16 * 1024
"""The size in bytes above which a reply is sent immediately, and not with its group."""

_NOTHING = b""


class _Link:
    """A client's socket and its connection.

    :ivar unsent: the bytes that the socket has not yet taken.
    :ivar interest: the events that the poller waits for.
    :ivar read_size: the number of bytes that one call receives.
    """

    __slots__ = ("connection", "fd", "interest", "read_size", "sock", "unsent")

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.fd = sock.fileno()
        self.connection: Connection
        self.unsent: bytes | memoryview = _NOTHING
        self.interest = _IN
        self.read_size = _SMALL_READ


class Hub:
    """The server of all plain TCP clients.

    :param now: the clock, in seconds.
    :param hand_over: a function that takes a client that speaks HTTP or TLS: its socket, its address, and the
        bytes that it has sent.
    :ivar share: the time in seconds that turns may take before trio's other tasks run.
    :ivar patience: the time in seconds for which the hub waits for requests before trio's other tasks run. It
        is 0 if other tasks of this process may serve the clients, or be the clients.
    """

    def __init__(
        self,
        service: Service,
        now: Callable[[], float],
        hand_over: Callable[[socket.socket, str, bytes], object],
    ) -> None:
        self._service = service
        self.share = SLICE
        self.patience = 0.0
        self._now = now
        self._hand_over = hand_over
        self._poller = select.epoll()
        self._listeners: dict[int, Listener] = {}
        self._paused_listeners: list[Listener] = []  # paused because file descriptors have run out
        self._links: dict[int, _Link] = {}
        self._answered: list[_Link] = []  # clients whose reply to a single request must be sent
        self._ready = 0  # the number of connections that the present turn serves
        self._handed_over = False  # whether a task of trio has got a client, and must run now
        self._catching_up = False  # whether look() has started the present turn
        self._group = 0  # the number of replies that are sent together
        self._dirty: list[_Link] = []  # clients with output that waits, or whose connection is over
        self._busy: dict[_Link, None] = {}  # clients with input that is left from an earlier turn
        self._leaving = Leaving()
        self._wakeup_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)  # wakes run()
        self._poller.register(self._wakeup_fd, _IN)

    def listen(self, sock: Listener) -> None:
        """Accept clients at a listening, non-blocking socket, which belongs to the hub from now on. The
        clients' sockets inherit the options of this socket."""
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, self._service.settings.tcp_keepalive)
        self._listeners[sock.fileno()] = sock
        self._poller.register(sock.fileno(), _IN)

    def stop_listening(self, *, endpoints: bool = False) -> None:
        """Close the listening sockets. Connected clients stay.

        :param endpoints: whether to close the sockets of endpoints, too.
        """
        for listener in (*self._listeners.values(), *self._paused_listeners):
            if endpoints or not listener.endpoint:
                self._listeners.pop(listener.fileno(), None)
                hang_up(listener)
        self._paused_listeners = [each for each in self._paused_listeners if each.fileno() >= 0]

    def close(self) -> None:
        """Close every socket, and send nothing."""
        self.stop_listening(endpoints=True)
        for link in self._links.values():
            try:
                link.connection.receive_eof()
            except Exception:
                link.connection.fail()
        for sock in (*(link.sock for link in self._links.values()), *self._leaving.sockets.values()):
            hang_up(sock)
        self._links.clear()
        self._leaving.sockets.clear()
        self._poller.close()
        os.close(self._wakeup_fd)

    async def run(self) -> None:
        """Serve until cancelled."""
        failed = False
        while True:
            try:
                if failed:
                    failed = False
                    await trio.sleep(_REST)
                elif self._busy or self._dirty:
                    await trio.lowlevel.checkpoint()
                else:
                    await trio.lowlevel.wait_readable(self._poller.fileno())
                # in real seconds, not by the server's clock; trio's other tasks take 1 % of this time
                now = time.monotonic()
                end, waiting_ends = now + self.share, now + self.patience
                self._handed_over = False
                while self.turn(_WAIT if now < waiting_ends and not self._handed_over else 0):
                    now = time.monotonic()
                    if now >= end:
                        break
            except MemoryError:  # the next turn would have no memory either
                raise
            except Exception:
                report("a turn has ended early, and continues in %g s", _REST)
                failed = True

    def turn(self, wait: float = 0) -> bool:
        """Serve each ready socket once. The result is False if there was nothing to do.

        :param wait: the longest time in seconds to wait if there is nothing to do.
        """
        events = self._poller.poll(0 if self._busy or self._dirty else wait)
        if events or self._busy or self._dirty:
            self._serve(events)
            return True
        return False

    def _serve(self, events: list[tuple[int, int]], whole: bool = False) -> None:
        """Serve some clients, and the clients with input that is left from earlier turns.

        :param whole: serve all clients, also if very many end their session.
        """
        now = self._now()
        ready = len(events) + len(self._busy)
        order: Iterable[tuple[int, int]] = events
        if ready != self._ready:
            self._share_turn(ready)
        if self._busy:
            self._go_on(now)
        if len(events) > _MANY and not whole:
            order = self._ends_last(now)
        for fd, event in order:
            try:
                found = self._links.get(fd)
                if found is None:
                    self._serve_other(fd, now)
                elif event & _OUT:
                    self._proceed(found, now)
                else:
                    self._receive(found, now)
            except Exception:
                self._fail(fd)
        if self._answered or self._dirty:
            self._send()

    def _ends_last(self, now: float) -> Iterator[tuple[int, int]]:
        """Yield all ready clients. Clients that end their session or connection come last, until their time
        in the turn is over. All other clients that end are ready in the next turn."""
        ends = []
        for fd, event in self._poll_all():
            if event & _IN and (last := self._last_words(fd)) is not None:
                ends.append((fd, event, last))
            else:
                yield fd, event
        self._send()
        # Processor time, because on a busy machine a turn would look at very many clients and end only few.
        end = time.thread_time() + _BUSY
        for number, (fd, event, _) in enumerate(ends, 1):
            yield fd, event
            if time.thread_time() > end:
                if self._catching_up:
                    self._touch([fd for fd, _, last in ends[number:] if last], now)
                return

    def _touch(self, fds: Sequence[int], now: float) -> None:
        """Count the input of some clients as a sign of life."""
        at = self._service.at(now)
        for fd in fds:
            link = self._links.get(fd)
            if link is not None and link.connection.session is not None:
                self._service.engine.sessions.touch(link.connection.session, at)

    def _last_words(self, fd: int) -> bytes | None:
        """Return the bytes of a client if they are nothing but the request that ends its session; empty bytes
        if the client has sent nothing but the end of the connection; otherwise None."""
        link = self._links.get(fd)
        if link is None:
            return None
        try:
            data = link.sock.recv(1 + _END_SIZE, socket.MSG_PEEK)
        except OSError:
            return None
        return data if not data or (len(data) == _END_SIZE and data.endswith(_END)) else None

    def _share_turn(self, ready: int) -> None:
        self._ready = ready
        # One write of the log costs as much as a small request, so that more replies share it.
        has_log = self._service.engine.log is not None
        self._group = min(ready // 2, _SHARING) if has_log else ready // _REPLY_GROUPS
        self._service.slice = SLICE if ready <= _FEW else max(_LEAST_SLICE, _FEW * SLICE / ready)

    def _go_on(self, now: float) -> None:
        """Serve clients with input that is left from earlier turns, until their time in the turn is over."""
        clock = self._service.stopwatch
        end = clock() + _BUSY
        for link in list(self._busy):
            if self._links.get(link.fd) is link:
                try:
                    self._proceed(link, now)
                except Exception:
                    self._fail(link.fd)
                if clock() > end:
                    break

    def look(self, whole: bool = True) -> None:
        """Serve all ready sockets now, for a caller outside of :meth:`run`. Then every sign of life that has
        arrived counts, also of a client that was not accepted before.

        :param whole: serve all clients, also if very many end their session. If this is false, some of these
            sessions end later.
        """
        self._catching_up = True
        for _ in range(_LOOKS):
            events = self._poll_all()
            self._serve(events, whole)
            if not any(fd in self._listeners for fd, _ in events):
                break
        self._catching_up = False
        self._wake()

    def _poll_all(self) -> list[tuple[int, int]]:
        """Return all sockets that are ready."""
        sockets = len(self._listeners) + len(self._links) + len(self._leaving.sockets)
        return self._poller.poll(0, 1 + sockets)

    @property
    def is_idle(self) -> bool:
        """Whether no input has arrived, and there is nothing to do or to send."""
        return not (self._busy or self._dirty or self._answered or self._poller.poll(0, 1))

    def flush(self) -> None:
        """Send the waiting output of all connections, after a change that no client has caused."""
        self._send()
        self._wake()

    def _wake(self) -> None:
        if self._busy or self._dirty:  # perhaps all input is already received, so no socket would wake run()
            os.eventfd_write(self._wakeup_fd, 1)

    def _send(self) -> None:
        """Send all replies. Then send other output for some milliseconds.

        If a log is kept, it is written first: one write for all clients that get output.

        This may end any connection, so callers must not use a link afterwards.
        """
        log = self._service.engine.log
        if log is not None:
            log.write()
        for link in self._answered:
            reply = link.unsent
            if reply:
                try:
                    sent = link.sock.send(reply)
                    if sent == len(reply):
                        link.unsent = _NOTHING
                    else:
                        link.unsent = memoryview(reply)[sent:]
                        self._dirty.append(link)
                except OSError:  # _flush_link() gets the same error again, and handles it
                    self._dirty.append(link)
                except Exception:
                    self._fail(link.fd)
        self._answered.clear()
        dirty = self._dirty
        if not dirty:
            return
        if len(dirty) > _CROWD:
            self._send_to_crowd()
            return
        for link in dirty:  # the list may grow meanwhile
            self._flush_link(link)
        dirty.clear()

    def _send_soon(self) -> None:
        """Send all replies, if enough replies share one write of the log."""
        if self._service.engine.log is None or len(self._dirty) + len(self._answered) >= self._group:
            self._send()

    def _send_to_crowd(self) -> None:
        """Send the output of many connections, such as an event, for one slice; the rest in later turns."""
        clock = self._service.stopwatch
        end = clock() + SLICE
        dirty = self._dirty
        count = 0
        for count, link in enumerate(dirty, 1):  # noqa: B007 -- the list may grow meanwhile
            self._flush_link(link)
            if clock() > end:
                break
        del dirty[:count]

    def tidy(self, now: float) -> None:
        """Do the periodic work: close clients that do not close their side, and retry paused listeners."""
        for fd in self._leaving.late(now):
            self._forget(fd)
        while self._paused_listeners:
            self.listen(self._paused_listeners[-1])
            self._paused_listeners.pop()

    # --- a client comes ----------------------------------------------------------------------------------

    def _serve_other(self, fd: int, now: float) -> None:
        """Serve a socket of a listener, of a client that must close, or of the wake-up."""
        if fd in self._listeners:
            self._accept(self._listeners[fd], now)
        elif fd in self._leaving.sockets:
            self._drain(fd)
        elif fd == self._wakeup_fd:
            os.eventfd_read(self._wakeup_fd)

    def _accept(self, listener: Listener, now: float) -> None:
        newcomers = _NEWCOMERS if self._catching_up else 1 + self._ready // _SERVED_PER_NEW
        for _ in range(newcomers):
            try:
                sock, address = listener.accept()
                descriptors.check(sock)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno not in descriptors.SHORTAGE:
                    logger.warning("a client was not accepted: %s", error)
                    continue
                logger.warning("new clients must wait: %s; %s", error, descriptors.REMEDY)
            except Exception:
                report("new clients must wait")
            else:
                self._admit(sock, address, now, listener.endpoint)
                continue
            del self._listeners[listener.fileno()]
            self._poller.unregister(listener.fileno())
            self._paused_listeners.append(listener)
            return

    def _admit(self, sock: socket.socket, address: tuple[str, int], now: float, endpoint: str) -> None:
        link = _Link(sock)
        try:
            wake = partial(self._dirty.append, link)
            connection = self._service.accept((address[0], address[1]), now, wake, endpoint=endpoint)
            if connection is None:
                hang_up(sock)
                return
            sock.setblocking(False)
            link.connection = connection
            self._links[link.fd] = link
            self._poller.register(link.fd, _IN)
        except Exception:
            self._fail(link.fd)
            hang_up(sock)

    # --- a client is served ------------------------------------------------------------------------------

    def _receive(self, link: _Link, now: float) -> None:
        sock, connection = link.sock, link.connection
        try:
            data = sock.recv(link.read_size)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if len(data) < _SMALL_READ:
            link.read_size = _SMALL_READ
        elif link.read_size == _SMALL_READ:
            link.read_size = _LARGE_READ
            data += _rest(sock)  # in the same turn, because a large request is a sign of life too
        if not data:
            connection.receive_eof()
            self._dirty.append(link)  # closed at the end of the turn, because thousands may leave together
            return
        if link.unsent:
            connection.receive_data(data, now)
        elif reply := connection.exchange(data, now):
            link.unsent = reply
            self._answered.append(link)
            if self._dirty or len(self._answered) >= self._group or len(reply) > _LARGE:
                self._send()
            return
        self._send_own(link)

    def _send_own(self, link: _Link) -> None:
        """Queue the reply to a client. The reply is sent before an event for many clients."""
        if len(self._dirty) > _CROWD:
            self._flush_link(link)
        else:
            self._dirty.append(link)
        self._send_soon()

    def _proceed(self, link: _Link, now: float) -> None:
        """Continue a connection that had to stop, because of the end of its turn or because of its output."""
        connection = link.connection
        self._busy.pop(link, None)
        self._flush(link)
        if not link.unsent and connection.has_work:
            connection.proceed(now)
            self._send_own(link)
        else:
            self._send_soon()

    def _flush_link(self, link: _Link) -> None:
        """Call :meth:`_flush` if the client still has its connection. An error ends only this connection."""
        if self._links.get(link.fd) is link:
            try:
                self._flush(link)
            except Exception:
                self._fail(link.fd)

    def _flush(self, link: _Link) -> None:
        """Send the waiting output that the client takes. Then register for the next event."""
        connection = link.connection
        data = link.unsent or connection.data_to_send()
        if data:
            try:
                # the last output of a connection is in one packet with its FIN
                sent = link.sock.send(data, socket.MSG_MORE if connection.close_expected else 0)
            except BlockingIOError:
                sent = 0
            except OSError:
                sent = len(data)
                connection.abort("it has gone away")
            if sent < len(data):
                link.unsent = rest = memoryview(data)[sent:]
                self._service.unread.note(connection, memoryview(rest.obj).nbytes, progress=sent > 0)
            elif link.unsent:
                link.unsent = _NOTHING
                self._service.unread.forget(connection)
                self._flush(link)  # more output may wait now
                return
        if connection.may_read and not link.unsent:
            if link.interest != _IN:
                self._await(link, _IN)
            return
        if connection.close_expected:
            if connection.aborted or not link.unsent:
                self._part(link)
                return
            if link.fd not in self._leaving.deadlines:
                self._give_time(link.fd, connection.peer[0])
        if link.unsent:
            self._await(link, _OUT)
        else:
            self._await(link, 0)
            if connection.has_work:
                self._busy[link] = None

    def _await(self, link: _Link, interest: int) -> None:
        if interest != link.interest:
            link.interest = interest
            self._poller.modify(link.fd, interest)

    # --- a client goes -----------------------------------------------------------------------------------

    def _part(self, link: _Link) -> None:
        """Close the server's side, then wait for the client to close its side."""
        connection = link.connection
        del link.connection  # it refers to the link, and the cycle would be garbage
        del self._links[link.fd]
        self._busy.pop(link, None)
        if self._service.unread.total:
            self._service.unread.forget(connection)
        link.unsent = _NOTHING
        if connection.is_foreign:
            self._poller.unregister(link.fd)
            self._handed_over = True
            self._hand_over(link.sock, connection.peer[0], connection.input.peek(len(connection.input)))
            return
        if connection.session_over and link.read_size == _SMALL_READ and link.interest == _IN:
            self._leaving.deadlines.pop(link.fd, None)
            hang_up(link.sock)  # the client has closed its side and all its input was read: no need to wait
            return
        self._leaving.sockets[link.fd] = link.sock
        self._give_time(link.fd, connection.peer[0])
        try:
            link.sock.shutdown(socket.SHUT_WR)
            self._poller.modify(link.fd, _IN)
        except OSError:
            self._forget(link.fd)
        else:
            self._drain(link.fd)

    def _give_time(self, fd: int, host: str) -> None:
        given_up = self._leaving.give_time(fd, host, self._now())
        if given_up is not None:
            self._forget(given_up)

    def _drain(self, fd: int) -> None:
        if self._leaving.drain(fd):
            self._forget(fd)

    def _fail(self, fd: int) -> None:
        """Close the client that has this file descriptor, because of the exception that is being handled."""
        link = self._links.get(fd)
        if link is None:
            report("a client was closed while it came or went")
        else:
            link.connection.fail()
        self._forget(fd)

    def _forget(self, fd: int) -> None:
        sock = self._leaving.forget(fd)
        if sock is None:  # the client has not taken the rest of the output
            link = self._links.pop(fd, None)
            if link is None:
                return
            self._busy.pop(link, None)
            link.unsent = _NOTHING
            self._service.unread.forget(link.connection)
            del link.connection
            sock = link.sock
        sock.close()  # this also removes the socket from the poller


def _rest(sock: socket.socket) -> bytes:
    """Receive the rest of the input. The next read handles an error or the end of the input."""
    try:
        return sock.recv(_LARGE_READ)
    except OSError:
        return b""
