"""Endpoints: further addresses of one server. A test can cut, pause and slow down each endpoint separately.

* An endpoint is a port. A connection through the port of an endpoint belongs to the endpoint, and the session
  of this connection has the name of the endpoint.
* A cut, a pause or a delay of an endpoint affects all present and later connections of the endpoint. It ends
  with ``resume`` of the endpoint or with ``reset``. A restart of the server does not end a cut, a pause or a
  delay. ``resume`` of the server does not end them either.
* A server without endpoints does not run the code of this module.
"""

from __future__ import annotations

import math

import trio

from ....protocol.operations import PING
from ...net.connection import Connection
from ..faults import Injection, Injector
from ..observers import check_name
from ..origin import mark, origin
from ..running import Running
from .base import ServerBase, control

_MOST = 1000
"""The largest number of endpoints of one server. Each endpoint is a socket."""


class Endpoint:
    """An address of a server for some of its clients. :meth:`.Controls.endpoint` makes it.

    :ivar name: the name of the endpoint. Timelines use this name for sessions that connect here.
    :ivar host: the address, on this machine.
    :ivar port: the port, which the kernel has chosen.
    """

    def __init__(self, controls: EndpointControls, name: str, address: tuple[str, int]) -> None:
        self._controls = controls
        self.name = name
        self.host, self.port = address

    def __repr__(self) -> str:
        return f"<Endpoint {self.name} {self.hosts}>"

    @property
    def hosts(self) -> str:
        """The connect string."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def cut(self) -> None:
        """Close the present and new connections of the endpoint without a reply, until :meth:`resume`.

        :raises ValueError: the server has restarted since the endpoint was made, and no longer has it.
        """
        self._controls._cut_endpoint(self.name)

    def pause(self) -> None:
        """Stop all traffic on the present and new connections of the endpoint, until :meth:`resume`.

        The connections stay open.
        The server reads nothing from these clients, not even pings, so their sessions expire by the server's
        clock.

        :raises ValueError: as for :meth:`cut`.
        """
        self._controls._pause_endpoint(self.name)

    def delay(self, seconds: float) -> None:
        """Delay each request that arrives here, and each event that is sent from here, until :meth:`resume`.

        Later messages on the same connection wait behind a delayed message. A ping or a handshake gets no
        delay of its own.

        :param seconds: the delay, in seconds on the server's clock.
        :raises ValueError: ``seconds`` is not a positive number, or the server no longer has the endpoint.
        """
        self._controls._delay_endpoint(self.name, seconds)

    def resume(self) -> None:
        """End :meth:`cut`, :meth:`pause` and :meth:`delay`, and handle the requests that arrived meanwhile.

        A message that is already delayed keeps its delay.

        :raises ValueError: the server has restarted since the endpoint was made, and no longer has it.
        """
        self._controls._resume_endpoint(self.name)

    def open_stream(self) -> trio.abc.HalfCloseableStream:
        """Connect through this endpoint without a socket, and return the client's end.

        Call this method only in the server's thread.
        """
        return self._controls.running.open_stream(self.name)


class EndpointControls(ServerBase):
    """The controls of endpoints."""

    @control
    def endpoint(self, name: str) -> Endpoint:
        """Return the endpoint with this name: an address of this server for some of its clients.

        A test can cut, pause and delay each endpoint separately. The first call with a name opens the
        endpoint, and the end of the server closes it.

        :param name: the name in timelines of the sessions that connect there: a letter and up to 23 letters,
            digits, dots, dashes or underscores.
        :raises ValueError: the name is malformed, or the server already has 1,000 endpoints.
        :raises OSError: no port can be bound.
        """
        running = self.running
        if name in running.endpoints:
            return Endpoint(self, name, running.endpoints[name])
        check_name(name)
        if len(running.endpoints) >= _MOST:
            raise ValueError(f"the server already has {_MOST:,} endpoints; use one of them")
        found = Endpoint(self, name, running.server.open_endpoint(name))
        running.endpoints[name] = found.host, found.port
        running.observe(running.names)
        self._enter(f"endpoint {name} at {found.hosts}")
        return found

    @control
    def _cut_endpoint(self, name: str) -> None:
        self._begin(name, "is cut")
        self.running.gate.cut_endpoint(name, f"the endpoint {name} is cut{mark()}")

    @control
    def _pause_endpoint(self, name: str) -> None:
        self._begin(name, "pauses")
        self.running.gate.pause_endpoint(name)

    @control
    def _delay_endpoint(self, name: str, seconds: float) -> None:
        if not 0 < seconds < math.inf:
            raise ValueError(f"a delay must be a positive number of seconds, not {seconds!r}")
        self._begin(name, f"is slow by {seconds:g} s")
        self._end_delay(name)
        self.running.gate.add_injector(Latency(self.running, name, seconds, origin()))

    @control
    def _resume_endpoint(self, name: str) -> None:
        self._begin(name, "resumes")
        self._end_delay(name)
        self.running.gate.resume_endpoint(name)
        self.running.server.receive()

    def _begin(self, name: str, what: str) -> None:
        if name not in self.running.endpoints:
            raise ValueError(f"this server has no endpoint {name}; call endpoint({name!r}) again")
        self._enter(f"endpoint {name} {what}")

    def _end_delay(self, name: str) -> None:
        delay = delay_of(self.running, name)
        if delay is not None:
            self.running.gate.remove_injector(delay)


class Latency(Injector):
    """Delays the messages that pass an endpoint.

    :param running: the parts of the server.
    :param endpoint: the name of the endpoint.
    :param seconds: the delay, in seconds on the server's clock.
    :param origin: the origin of the delay (:mod:`..origin`).
    """

    def __init__(self, running: Running, endpoint: str, seconds: float, origin: str) -> None:
        self._running = running
        self.endpoint = endpoint
        self.seconds = seconds
        self.origin = origin

    def __repr__(self) -> str:
        return f"<Endpoint {self.endpoint} is slow by {self.seconds:g} s>"

    def request(self, session: int, op: int, frame: bytes) -> Injection | None:
        return None if op == PING else self._injection(session)

    def event(self, session: int, path: str) -> Injection | None:
        return self._injection(session)

    def _injection(self, session: int) -> Injection | None:
        engine = self._running.engine
        found = engine.sessions.get(session)
        client = None if found is None else engine.client_of(found)
        if not isinstance(client, Connection) or client.endpoint != self.endpoint:
            return None
        cause = f"endpoint {self.endpoint}"
        return Injection("before", "delay", seconds=self.seconds, cause=cause, origin=self.origin)


def delay_of(running: Running, endpoint: str) -> Latency | None:
    """Return the delay of an endpoint; None if the endpoint has no delay."""
    delays = (each for each in running.gate.injectors if isinstance(each, Latency))
    return next((each for each in delays if each.endpoint == endpoint), None)
