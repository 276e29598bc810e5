"""All plain TCP clients, served by one trio task.

Every client socket is registered with an epoll object of our own, and the task waits for that object's file
descriptor. One wake-up then serves all sockets that are ready, with no task switch and no await for any of
them: that is worth 1.7 times the requests of a task per connection, and half of the latency with many
clients. Nobody starves: a connection does a bounded amount of work per turn, the less the more of them have
something to do. All that are ready get theirs in every turn, and trio's other tasks run after some
milliseconds of turns.
"""

from __future__ import annotations

import logging
import os
import select
import socket
import time
from collections.abc import Callable
from functools import partial

import trio

from ..core.failures import report
from . import descriptors
from .connection import Connection
from .service import SLICE, Service
from .streams import hang_up

logger = logging.getLogger("pyzk.server")

_IN, _OUT = select.EPOLLIN, select.EPOLLOUT
_LITTLE, _MUCH = 448, 64 * 1024
"""How many bytes are received at once: as a rule a request is small, and Python makes room for up to half a
kilobyte in a third of the time. Whoever fills that is read in large pieces."""
_SERVED_PER_NEW = 8
"""How many clients are served per turn for each one that is let in after the first. To ask for one more than
there are costs a tenth of a session; but where a turn takes long, newcomers must not wait for many."""
_FEW = 8
"""How many clients may each work for a whole slice in one turn; where more are ready they share that."""
_BUSY = 4 * SLICE
"""Seconds of a turn for clients whose input is left over from earlier turns; the rest has the next turn."""
_LEAST_SLICE = 0.0005
"""Seconds that each may work for, however many they are."""
_LOOKS, _NEWCOMERS = 3, 1000
"""How often all that is ready is served before sessions expire, and how many clients are let in each time.
Who has just been let in may have sent something already."""
_DRAIN = 16
"""How many pieces of input are thrown away per turn of a connection that is closing."""
_TOGETHER = 8
"""One in so many of a turn's answers go out together, and wait for each other till then. Who has many
connections, and is woken by one answer, finds the next one there when it is done: not to be woken for each is
worth a twentieth of the requests of a thousand clients. In a short turn nobody waits."""
_CROWD = 16
"""How many connections have their output sent without a look at the time."""
_REST = 0.1
"""Seconds till the next turn after one that has failed as a whole."""
_LARGE = 16 * 1024
"""Bytes of an answer that is not kept."""
_LINGER = 2.0
"""Seconds that a client has to take what is left, and to close its side after we have closed ours."""
_PARTINGS, _PARTINGS_PER_HOST = 256, 64
"""How many clients have these seconds at a time: in all, and of one address."""


_NOTHING = b""


class _Link:
    """A client's socket and its connection."""

    __slots__ = ("appetite", "connection", "fd", "interest", "sock", "unsent")

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.fd = sock.fileno()
        self.connection: Connection
        self.unsent: bytes | memoryview = _NOTHING
        self.interest = _IN
        self.appetite = _LITTLE


class Hub:
    """
    :param now: the clock, in seconds.
    """

    def __init__(self, service: Service, now: Callable[[], float]) -> None:
        self._service = service
        self._now = now
        self._poller = select.epoll()
        self._listeners: dict[int, socket.socket] = {}
        self._deaf: list[socket.socket] = []  # listeners at rest for want of file descriptors
        self._links: dict[int, _Link] = {}
        self._answered: list[_Link] = []  # the answer to a lone request is to be sent
        self._together = 0  # how many of them go out at once
        self._dirty: list[_Link] = []  # output waits, maybe till the next turn; or the connection is over
        self._busy: dict[_Link, None] = {}  # input is left over from an earlier turn
        self._lingering: dict[int, _Link] = {}  # our side is closed
        self._partings: dict[int, tuple[float, str]] = {}  # when those that are to close are given up; whose
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)  # wakes the task that waits in run()
        self._poller.register(self._bell, _IN)

    def listen(self, sock: socket.socket) -> None:
        """Let clients in through a listening, non-blocking socket, which is ours from now on. Their sockets
        come with its options."""
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, self._service.settings.tcp_keepalive)
        self._listeners[sock.fileno()] = sock
        self._poller.register(sock.fileno(), _IN)

    def close(self) -> None:
        """Close every socket, without a word."""
        for listener in (*self._listeners.values(), *self._deaf):
            hang_up(listener)
        for link in self._links.values():
            try:
                link.connection.receive_eof()
            except Exception:
                link.connection.fail()
        for link in (*self._links.values(), *self._lingering.values()):
            hang_up(link.sock)
        self._links.clear()
        self._lingering.clear()
        self._poller.close()
        os.close(self._bell)

    async def run(self) -> None:
        """Serve until cancelled."""
        while True:
            if self._busy or self._dirty:
                await trio.lowlevel.checkpoint()
            else:
                await trio.lowlevel.wait_readable(self._poller.fileno())
            # Trio's other tasks take a hundredth of that; in real seconds, whatever the server's clock says
            end = time.monotonic() + SLICE
            try:
                while self.turn() and time.monotonic() < end:
                    pass
            except Exception:
                report("a turn has ended early, and goes on in %g s", _REST)
                await trio.sleep(_REST)

    def turn(self) -> bool:
        """Serve the sockets that are ready, once; False if there was nothing to do."""
        events = self._poller.poll(0)
        if not (events or self._busy or self._dirty):
            return False
        self._serve(events, 1 + (len(events) + len(self._busy)) // _SERVED_PER_NEW)
        return True

    def _serve(self, events: list[tuple[int, int]], newcomers: int) -> None:
        """Serve these, and who could not be served to the end before.

        :param newcomers: how many clients are let in at most.
        """
        now = self._now()
        self._together = len(events) // _TOGETHER
        ready = len(events) + len(self._busy)
        self._service.slice = SLICE if ready <= _FEW else max(_LEAST_SLICE, _FEW * SLICE / ready)
        if self._busy:
            self._go_on(now)
        for fd, event in events:
            try:
                found = self._links.get(fd)
                if found is None:
                    self._other(fd, now, newcomers)
                elif event & _OUT:
                    self._proceed(found, now)
                else:
                    self._receive(found, now)
            except Exception:
                self._fail(fd)
        self._send()

    def _go_on(self, now: float) -> None:
        """Serve those whose input is left over; who has no turn any more is the first of the next one."""
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

    def look(self) -> None:
        """Serve all that is ready now, on behalf of another task than that of :meth:`run`: any sign of life
        that has arrived, be it of a client who is yet to be let in."""
        for _ in range(_LOOKS):
            sockets = len(self._listeners) + len(self._links) + len(self._lingering)
            events = self._poller.poll(0, 1 + sockets)
            self._serve(events, _NEWCOMERS)
            if not any(fd in self._listeners for fd, _ in events):
                break
        self._ring()

    def flush(self) -> None:
        """Send what has come to wait on any connection, after a change from outside."""
        self._send()
        self._ring()

    def _ring(self) -> None:
        if self._busy or self._dirty:  # nothing may ever become readable: it has been received already
            os.eventfd_write(self._bell, 1)

    def _send(self) -> None:
        """Send all answers, then what else waits, as far as that can be done in some milliseconds. This may
        be the end of any connection: nobody should count on his link after it."""
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
                except OSError:  # which comes again, and is seen to then
                    self._dirty.append(link)
                except Exception:
                    self._fail(link.fd)
        self._answered.clear()
        dirty, links = self._dirty, self._links
        if not dirty:
            return
        # An event for many: others need not wait until all of them have it
        clock = self._service.stopwatch if len(dirty) > _CROWD else None
        end = clock() + SLICE if clock is not None else 0.0
        count = 0
        for count, link in enumerate(dirty, 1):  # noqa: B007 -- they may grow in number meanwhile
            if links.get(link.fd) is link:
                try:
                    self._flush(link)
                except Exception:
                    self._fail(link.fd)
            if clock is not None and clock() > end:
                break
        del dirty[:count]

    def tidy(self, now: float) -> None:
        """What wants doing now and then: give up on clients that never close, listen again."""
        for fd, (deadline, _) in list(self._partings.items()):
            if deadline <= now:
                self._forget(fd)
        while self._deaf:
            self.listen(self._deaf[-1])
            self._deaf.pop()

    # --- a client comes ----------------------------------------------------------------------------------

    def _other(self, fd: int, now: float, newcomers: int) -> None:
        if fd in self._listeners:
            self._accept(self._listeners[fd], now, newcomers)
        elif fd in self._lingering:
            self._drain(self._lingering[fd])
        elif fd == self._bell:
            os.eventfd_read(self._bell)

    def _accept(self, listener: socket.socket, now: float, newcomers: int) -> None:
        for _ in range(newcomers):
            try:
                sock, address = listener.accept()
                descriptors.check(sock)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno not in descriptors.SHORTAGE:
                    logger.warning("a client could not be let in: %s", error)
                    continue
                logger.warning("clients must wait for now: %s; %s", error, descriptors.REMEDY)
            except Exception:
                report("clients must wait for now")
            else:
                self._admit(sock, address, now)
                continue
            del self._listeners[listener.fileno()]
            self._poller.unregister(listener.fileno())
            self._deaf.append(listener)
            return

    def _admit(self, sock: socket.socket, address: tuple[str, int], now: float) -> None:
        link = _Link(sock)
        try:
            wake = partial(self._dirty.append, link)
            connection = self._service.accept((address[0], address[1]), now, wake)
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
            data = sock.recv(link.appetite)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if len(data) < _LITTLE:
            link.appetite = _LITTLE
        elif link.appetite == _LITTLE:
            link.appetite = _MUCH
            data += _rest(sock)  # in the same turn: a large request is a sign of life as well
        if not data:
            connection.receive_eof()
        elif link.unsent:
            connection.receive_data(data, now)
        elif reply := connection.exchange(data, now):
            link.unsent = reply
            self._answered.append(link)
            if self._dirty or len(self._answered) >= self._together or len(reply) > _LARGE:
                self._send()
            return
        self._dirty.append(link)
        self._send()

    def _proceed(self, link: _Link, now: float) -> None:
        """Go on with a connection that had to stop: it has had its turn, or its output was not taken."""
        connection = link.connection
        self._busy.pop(link, None)
        self._flush(link)
        if not link.unsent and connection.has_work:
            connection.proceed(now)
            self._dirty.append(link)
        self._send()

    def _flush(self, link: _Link) -> None:
        """Send what waits, as far as the client takes it; wait for what is to come next."""
        connection = link.connection
        data = link.unsent or connection.data_to_send()
        if data:
            try:
                # what ends a connection goes out in one packet with its FIN
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
                self._flush(link)  # more may have come to wait meanwhile
                return
        if connection.may_read and not link.unsent:
            if link.interest != _IN:
                self._await(link, _IN)
            return
        if connection.close_expected:
            if connection.aborted or not link.unsent:
                self._part(link)
                return
            if link.fd not in self._partings:
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
        """Close our side, then wait for the client's: closing with unread input would make the kernel reset
        the connection and could destroy what was sent last (wire.md, trap 13)."""
        del self._links[link.fd]
        self._busy.pop(link, None)
        session_over, host = link.connection.session_over, link.connection.peer[0]
        if self._service.unread.total:
            self._service.unread.forget(link.connection)
        link.unsent = _NOTHING
        del link.connection  # which knows of the link: no work for the garbage collector
        if session_over and link.appetite == _LITTLE and link.interest == _IN:
            self._partings.pop(link.fd, None)
            hang_up(link.sock)  # all was read just now, and nothing can follow: no need to wait
            return
        self._lingering[link.fd] = link
        self._give_time(link.fd, host)
        try:
            link.sock.shutdown(socket.SHUT_WR)
            self._poller.modify(link.fd, _IN)
        except OSError:
            self._forget(link.fd)
        else:
            self._drain(link)

    def _give_time(self, fd: int, host: str) -> None:
        """Wait for a client that is to leave. Of too many the oldest is given up: no limit of connections
        counts them any more."""
        waiting = self._partings
        if fd not in waiting:
            same = [other for other, (_, of) in waiting.items() if of == host]
            if len(same) >= _PARTINGS_PER_HOST:
                self._forget(same[0])
            elif len(waiting) >= _PARTINGS:
                self._forget(next(iter(waiting)))
        waiting[fd] = (self._now() + _LINGER, host)

    def _drain(self, link: _Link) -> None:
        try:
            for _ in range(_DRAIN):
                if not link.sock.recv(_MUCH):
                    break
            else:
                return
        except BlockingIOError:
            return
        except OSError:
            pass
        self._forget(link.fd)

    def _fail(self, fd: int) -> None:
        """End what has this file descriptor, because of the exception that is being handled."""
        link = self._links.get(fd)
        if link is None:
            report("a client that came or went was closed")
        else:
            link.connection.fail()
        self._forget(fd)

    def _forget(self, fd: int) -> None:
        self._partings.pop(fd, None)
        link = self._lingering.pop(fd, None)
        if link is None:  # it has not even taken what was left
            link = self._links.pop(fd, None)
            if link is None:
                return
            self._busy.pop(link, None)
            link.unsent = _NOTHING
            self._service.unread.forget(link.connection)
            del link.connection
        link.sock.close()  # which takes it out of the poller too


def _rest(sock: socket.socket) -> bytes:
    """What else has arrived; an end or an error comes again, and is seen to then."""
    try:
        return sock.recv(_MUCH)
    except OSError:
        return b""
