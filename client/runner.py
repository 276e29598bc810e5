"""The trio shell around the session: connections, one reader, one writer, one timer. It decides nothing."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import trio

from .hosts import Host, HostCycle
from .machine import SessionMachine, SessionState
from .request import Request
from .resolver import Resolver

Connector = Callable[[str, int], Awaitable[trio.abc.Stream]]
"""Opens a stream to a host name and a port; raises OSError where that fails."""

_READ_SIZE = 64 * 1024
_GOOD_AFTER = 1.0
"""Seconds a connection has to serve for the next failure to count as the first."""
_FIRST_SHARE = 1 / 4
"""Of the session timeout: what the first round of attempts takes at most after a connection was lost."""
_SHORTEST_BUDGET = 0.5
"""Seconds that a server has to accept a connection, and again to answer the handshake, at least."""
_LOOK_UP_PATIENCE = 1.0
"""Seconds that the look-up of the host names may keep a round waiting."""


@attrs.define
class Runner:
    """Keeps a session connected.

    :ivar resolver: finds the addresses of the hosts; None where the connector takes care of that.
    :ivar connect_timeout: seconds within which the first connection has to be there.
    :ivar renews: whether an expired session is followed by a new one.
    :ivar on_expired: called when it is not.
    :ivar server: where the present connection goes, or the last one went.
    """

    machine: SessionMachine
    hosts: HostCycle
    connector: Connector
    ssl_context: ssl.SSLContext | None
    resolver: Resolver | None
    connect_timeout: float
    renews: bool
    on_expired: Callable[[], object] = lambda: None
    server: Host | None = None
    _idle_writer: trio.lowlevel.Task | None = None
    _connection: trio.CancelScope | None = None
    _timer: trio.CancelScope | None = None

    def submit(self, request: Request[Any]) -> None:
        """Queue a request and have it sent as soon as the writer runs."""
        self.machine.submit(request, trio.current_time())
        self.wake()

    def wake(self) -> None:
        """A request was queued: have it written, or the time noted at which it gives up."""
        task = self._idle_writer
        if task is not None:
            self._idle_writer = None
            trio.lowlevel.reschedule(task)
        elif self._connection is None:
            self.reset_timer()

    def reset_timer(self) -> None:
        """The machine may want to be woken earlier than it has said before."""
        if self._timer is not None:
            deadline = self.machine.next_deadline()
            if deadline < self._timer.deadline:
                self._timer.deadline = deadline

    def _after_input(self) -> None:
        self.reset_timer()
        if self.machine.has_data_to_send:
            self.wake()
        if self._connection is not None and self.machine.should_close:
            self._connection.cancel()

    # --- the tasks ---------------------------------------------------------------------------------------

    async def run_timer(self) -> None:
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
                await self._prepare_round()
            host, pause = self.hosts.next()
            await trio.sleep(pause)
            stream = await self._open(host)
            if stream is None:
                continue
            await self._serve(stream, host)
            if machine.state is SessionState.EXPIRED:
                if not self.renews:
                    self.on_expired()
                    return
                machine.renew()

    async def _prepare_round(self) -> None:
        """Find out which servers there are, and how long each may take for all to have their turn: when a
        connection is lost, soon enough for what is held to be kept, and longer from round to round."""
        machine = self.machine
        if self.resolver is not None:
            patience = min(machine.data.connect_budget, _LOOK_UP_PATIENCE)
            self.hosts.update(await self.resolver.servers(patience))
        timeout = machine.data.timeout
        if machine.data.metrics.connections:
            timeout *= min(1.0, _FIRST_SHARE * 2**self.hosts.rounds)
        else:
            timeout = min(timeout, self.connect_timeout)
        machine.data.connect_budget = max(timeout / len(self.hosts), _SHORTEST_BUDGET)

    async def _open(self, host: Host) -> trio.abc.Stream | None:
        budget = self.machine.data.connect_budget
        try:
            if self.resolver is not None and host in self.resolver.unresolved:
                raise OSError(self.resolver.unresolved[host])
            with trio.fail_after(budget):
                return await self._open_secured(host)
        except trio.TooSlowError:
            reason = f"no connection within {budget:.1f} s"
        except (OSError, UnicodeError, trio.BrokenResourceError) as error:  # UnicodeError: no name for TLS
            reason = _describe(error)
        self.machine.connect_failed(f"{host}: {reason}")
        return None

    async def _open_secured(self, host: Host) -> trio.abc.Stream:
        stream = await self.connector(host.address or host.name, host.port)
        if self.ssl_context is None:
            return stream
        # Servers just close the connection, without the goodbye of TLS.
        secured = trio.SSLStream(stream, self.ssl_context, server_hostname=host.name, https_compatible=True)
        try:
            await secured.do_handshake()
        except BaseException:
            await trio.aclose_forcefully(stream)
            raise
        return secured

    async def _serve(self, stream: trio.abc.Stream, host: Host) -> None:
        machine = self.machine
        self.server = host
        machine.connection_made(trio.current_time())
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
                    machine.receive_data(bytes(data), trio.current_time())
                    self._after_input()
                nursery.cancel_scope.cancel()
        finally:
            self._connection = self._idle_writer = None
            now = trio.current_time()
            if now - machine.connected_since >= _GOOD_AFTER:
                self.hosts.settled()
            machine.connection_lost(now, f"{host}: {reason}")
            self.reset_timer()
            await trio.aclose_forcefully(stream)

    async def _write(self, stream: trio.abc.Stream) -> None:
        while True:
            data = self.machine.data_to_send(trio.current_time())
            if data:
                try:
                    await stream.send_all(data)
                except trio.BrokenResourceError:
                    return  # the reader learns it too, after what the server said last
            else:
                self._idle_writer = trio.lowlevel.current_task()
                await trio.lowlevel.wait_task_rescheduled(self._stop_idling)

    def _stop_idling(self, raise_cancel: object) -> trio.lowlevel.Abort:
        self._idle_writer = None
        return trio.lowlevel.Abort.SUCCEEDED


def _describe(error: BaseException) -> str:
    """The cause as the operating system or the TLS library has it."""
    while True:
        if isinstance(error, BaseExceptionGroup):  # one for each address of a host
            error = error.exceptions[0]
        elif error.__cause__ is not None:
            error = error.__cause__
        else:
            return str(error) or type(error).__name__
