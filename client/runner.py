"""The trio shell around the session: connections, one reader, one writer, one timer.

This module decides only how much time a server has to accept a connection and to answer a handshake:

* Before the first session a server has the session timeout, or ``connect_timeout`` if it is shorter, divided
  by the number of servers.
* After a lost connection the first round of attempts has 1/4 of the session timeout. Each further round has
  twice as much time, up to the whole timeout. This time is divided by the number of servers. The first rounds
  are short, so that the session is kept. Later rounds are longer, for slow servers.
* A server always has at least 0.5 s.
"""

from __future__ import annotations

import math
import os
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import attrs
import trio

from .handoff import Handoff
from .hosts import READ_ONLY, Host, HostCycle, ReadWriteProbe, Resolver
from .machine import UNSERVED, SessionMachine, SessionState
from .observer import Reporter
from .request import Request

Connector = Callable[[str, int], Awaitable[trio.abc.Stream]]
"""A function that opens a stream to a host name and a port. The function raises OSError if the connection
fails."""

_READ_SIZE = 64 * 1024
"""The number of bytes in one read. This is enough for hundreds of replies, so that few system calls are
needed."""
_GOOD_AFTER = 1.0
"""The seconds after which a serving connection ends the round. The pauses and rounds then begin anew after
the next failure."""
_FIRST_SHARE = 1 / 4
"""The fraction of the session timeout for the first round after a lost connection. When the client gives up a
silent server, 1/3 of the timeout is left (connection.py)."""
_MOST_DOUBLINGS = 10
"""The number of rounds after which the time no longer doubles. The time reaches the whole session timeout in
an earlier round."""
_SHORTEST_BUDGET = 0.5
"""The smallest number of seconds that a server has to accept a connection, and again to answer the handshake.
This is enough for a slow network, even if there are hundreds of servers."""
_LOOK_UP_WAIT = 1.0
"""The longest time in seconds by which a look-up of host names delays a round."""


@attrs.define(eq=False)
class Runner:
    """Keeps a session connected.

    :ivar resolver: looks up the hosts; None if the connector does that.
    :ivar connect_timeout: the seconds in which the first connection must begin to serve.
    :ivar renews: whether a new session follows an expired one.
    :ivar on_end: called when the session has ended and no new session follows.
    :ivar _send_now: the method of the stream, if it can send without waiting.
    :ivar _unsent: the bytes that the stream has not accepted. The writer sends these bytes first.
    :ivar in_sequence: whether no more than one request was in flight when the last bytes came.
    :ivar socket: the socket of the connection; None with TLS or with a connector of the user.
    :ivar handoff: hands the connection to callers in other threads.
    """

    machine: SessionMachine
    reporter: Reporter
    hosts: HostCycle
    connector: Connector
    ssl_context: ssl.SSLContext | None
    resolver: Resolver | None
    connect_timeout: float
    renews: bool
    on_end: Callable[[], object] = lambda: None
    probe: ReadWriteProbe = attrs.Factory(lambda self: ReadWriteProbe(self._open_secured), takes_self=True)
    _idle_writer: trio.lowlevel.Task | None = None
    _connection: trio.CancelScope | None = None
    _timer: trio.CancelScope | None = None
    _send_now: Callable[[bytes], int] | None = None
    _unsent: bytes = b""
    in_sequence: bool = False
    socket: socket.socket | None = None
    handoff: Handoff = attrs.Factory(lambda self: Handoff(self), takes_self=True)

    @trio.lowlevel.enable_ki_protection  # what was sent is noted
    def submit(self, request: Request[Any]) -> None:
        """Send a request at once if requests come one after another, because this saves the switch to the
        writer. Otherwise queue the request: the writer sends the requests that all tasks submit in one turn
        together."""
        now = trio.current_time()
        self.machine.submit(request, now)
        if self.reporter.observer is not None:
            self.reporter.follow(request, self.reporter.observer)
        if self.in_sequence and self._idle_writer is not None and not self.machine.in_flight:
            self._unsent = self._try_to_send(self.machine.data_to_send(now))
            if not self._unsent:
                return
        self.wake()

    def end_connection(self, reason: str) -> None:
        """End the connection."""
        self.machine.end_connection(reason)
        self._after_input()

    @property
    def is_idle(self) -> bool:
        """True if nothing is to be sent."""
        return not self._unsent and self._idle_writer is not None

    @property
    def is_observed(self) -> bool:
        """True if an observer follows each request."""
        return self.reporter.observer is not None

    def go_on(self, unsent: bytes) -> None:
        """Continue after another thread has used the connection.

        :param unsent: the bytes to send first.
        """
        if unsent:
            self._unsent = unsent
            self.wake()
        self._after_input()

    def wake(self) -> None:
        """Wake the writer, which checks the queue. Without a connection, note the deadline of the new
        request."""
        task = self._idle_writer
        if task is not None:
            self._idle_writer = None
            trio.lowlevel.reschedule(task)
        elif self._connection is None:
            self.reset_timer()

    def reset_timer(self) -> None:
        """Note that the machine's next deadline may be earlier than it was."""
        if self._timer is not None:
            deadline = self.machine.next_deadline()
            if deadline < self._timer.deadline:
                self._timer.deadline = deadline

    def _after_input(self, nearer: bool = True) -> None:
        """Continue after input has arrived.

        :param nearer: whether the machine's next deadline may be earlier than it was.
        """
        if nearer:
            self.reset_timer()
        if self.machine.has_data_to_send:
            self.wake()
        if self._connection is not None and self.machine.should_close:
            self._connection.cancel()

    # --- the tasks ---------------------------------------------------------------------------------------

    async def run_timer(self) -> None:
        """Wake the machine at its deadlines."""
        while True:
            with trio.CancelScope(deadline=self.machine.next_deadline()) as self._timer:
                await trio.sleep_forever()
            self.machine.handle_timer(trio.current_time())
            self._after_input()

    async def run(self) -> None:
        """Connect, serve, and connect again, until the session is over."""
        machine = self.machine
        while machine.state is not SessionState.CLOSED:
            if self.hosts.starts_round:
                if machine.refusal is not None:
                    machine.give_up(machine.refusal)
                    self.on_end()
                    return
                await self._prepare_round()
            host, pause = self.hosts.next()
            await trio.sleep(pause)
            stream = await self._open(host)
            if stream is None:
                continue
            await self._serve(stream, host)
            if self._may_be_read_only and await self.probe.mode(host) == READ_ONLY:
                stream = await self._open(host)
                if stream is not None:
                    await self._serve(stream, host, apart=True)
            if machine.state is SessionState.EXPIRED:
                if not self.renews:
                    self.on_end()
                    return
                machine.renew()

    async def update_hosts(self, hosts: Sequence[Host]) -> None:
        """Replace the servers, and move to another one if a server would otherwise lack its share of the
        clients.

        :param hosts: at least one.
        """
        servers = list(hosts)
        if self.resolver is not None:
            self.resolver.replace(hosts)
            servers = await self.resolver.servers(_LOOK_UP_WAIT)
        connected = self.machine.state is SessionState.CONNECTED
        if self.hosts.rebalance(servers, self.reporter.server if connected else None):
            self._leave_server("moving to another server, because the list of servers has changed")

    def _leave_server(self, reason: str) -> None:
        self.machine.leave_server(reason)
        if self._connection is not None and self.machine.should_close:
            self._connection.cancel()

    async def _prepare_round(self) -> None:
        """Look up the servers, and set the time for each server; see above."""
        machine = self.machine
        if self.resolver is not None:
            wait = min(machine.data.connect_budget, _LOOK_UP_WAIT)
            self.hosts.update(await self.resolver.servers(wait))
        timeout = machine.data.timeout
        if machine.data.metrics.connections:
            timeout *= min(1.0, math.ldexp(_FIRST_SHARE, min(self.hosts.rounds, _MOST_DOUBLINGS)))
        else:
            timeout = min(timeout, self.connect_timeout)
        machine.data.connect_budget = max(timeout / len(self.hosts), _SHORTEST_BUDGET)

    async def _open(self, host: Host) -> trio.abc.Stream | None:
        """Open a connection; None if that fails."""
        budget = self.machine.data.connect_budget
        try:
            if self.resolver is not None and host in self.resolver.unresolved:
                raise OSError(self.resolver.unresolved[host])
            with trio.fail_after(budget):
                return await self._open_secured(host)
        except trio.TooSlowError:
            reason = f"no connection within {budget:.1f} s"
        except (
            OSError,
            UnicodeError,
            trio.BrokenResourceError,
        ) as error:  # UnicodeError: TLS rejects the name
            reason = _describe(error)
        self.machine.peer = str(host)
        self.machine.connect_failed(reason)
        self.reporter.server_failed(host, reason)
        return None

    async def _open_secured(self, host: Host) -> trio.abc.Stream:
        stream = await self.connector(host.address or host.name, host.port)
        if self.ssl_context is None:
            return stream
        # Servers close the connection without TLS's closing message.
        secured = trio.SSLStream(stream, self.ssl_context, server_hostname=host.name, https_compatible=True)
        try:
            await secured.do_handshake()
        except BaseException:
            await trio.aclose_forcefully(stream)
            raise
        return secured

    @property
    def _may_be_read_only(self) -> bool:
        """True if the last server may serve reads in one of its own sessions (ensemble.md section 7.2)."""
        machine = self.machine
        wanted = machine.data.read_only and machine.accepting and machine.state in UNSERVED
        return bool(wanted and machine.dismissed and machine.data.session_id)

    async def _serve(self, stream: trio.abc.Stream, host: Host, *, apart: bool = False) -> None:
        """Move bytes between a connection and the machine until the connection is over.

        :param apart: request a new session at a read-only server.
        """
        machine = self.machine
        probing = False
        self._send_now, self._unsent = getattr(stream, "send_now", None), b""
        self.socket = getattr(stream, "plain_socket", None)
        self.reporter.server = host
        machine.peer = str(host)
        machine.connection_made(trio.current_time(), apart=apart)
        reason = "the server closed the connection"
        try:
            async with trio.open_nursery() as nursery:
                self._connection = nursery.cancel_scope
                self.reset_timer()
                nursery.start_soon(self._write, stream)
                while not machine.should_close:
                    try:
                        data = await stream.receive_some(_READ_SIZE)
                    except trio.BrokenResourceError as error:
                        reason = _describe(error)
                        break
                    if not data:
                        break
                    self.in_sequence = self._send_now is not None and machine.in_flight <= 1
                    nearer = machine.receive_data(bytes(data), trio.current_time())
                    self._after_input(nearer)
                    if machine.state is SessionState.CONNECTED_READ_ONLY and not probing:
                        probing = True
                        nursery.start_soon(self._look_for_writes, host)
                    if self.handoff.asker is not None:
                        await self.handoff.offer()
                nursery.cancel_scope.cancel()
        finally:
            self._connection = self._idle_writer = self._send_now = self.socket = None
            self.handoff.reset()
            now, since = trio.current_time(), machine.connected_since
            if now - since >= _GOOD_AFTER:
                self.hosts.settled()
            machine.connection_lost(now, reason)
            if since == math.inf and machine.state in UNSERVED:
                self.reporter.server_failed(host, machine.why)
            self.reset_timer()
            await trio.aclose_forcefully(stream)

    async def _look_for_writes(self, present: Host) -> None:
        """Look for a full server while a read-only server serves the client, and move to the full server."""
        found = await self.probe.full_server(lambda: self.hosts.others(present))
        self.hosts.prefer(found)
        self._leave_server(f"moving to {found}, which serves writes")

    def _try_to_send(self, data: bytes) -> bytes:
        """Send without waiting. Returns what is left."""
        if self._send_now is not None and data:
            try:
                return data[self._send_now(data) :]
            except trio.BrokenResourceError:
                return b""  # the reader learns it, too
        return data

    async def _write(self, stream: trio.abc.Stream) -> None:
        while True:
            data = self._unsent or self._try_to_send(self.machine.data_to_send(trio.current_time()))
            self._unsent = b""
            if data:
                try:
                    await stream.send_all(data)
                except trio.BrokenResourceError:
                    return  # the reader learns it, too, after it has read what the server sent last
            elif not self.machine.has_data_to_send:
                self._idle_writer = trio.lowlevel.current_task()
                await trio.lowlevel.wait_task_rescheduled(self._stop_idling)

    def _stop_idling(self, raise_cancel: object) -> trio.lowlevel.Abort:
        self._idle_writer = None
        return trio.lowlevel.Abort.SUCCEEDED


def _describe(error: BaseException) -> str:
    """Return the cause, in the words of the operating system or the TLS library."""
    while True:
        if isinstance(error, BaseExceptionGroup):  # an error for each address of a host
            error = error.exceptions[0]
        elif error.__cause__ is not None:
            error = error.__cause__
        elif isinstance(error, OSError) and not isinstance(error, ssl.SSLError) and error.errno:
            # trio's own text names the address once more; look-ups have numbers of their own, below 0
            return os.strerror(error.errno) if error.errno > 0 else str(error.strerror)
        else:
            return str(error) or type(error).__name__
