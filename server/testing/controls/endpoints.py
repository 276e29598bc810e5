"""Endpoints: further addresses of one server. A test can cut, pause and slow down each of them separately.

* An endpoint is a port. A connection through this port belongs to the endpoint, and its session has the name
  of the endpoint.
* A cut, a pause or a delay of an endpoint affects all of its connections, also later ones, until ``resume``
  or ``reset``. A restart of the server, or ``resume`` of the server, does not end it.
* A server without endpoints runs none of this code.
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
"""Endpoints of one server: each is a socket."""


class Endpoint:
    """An address of a server, for some of its clients; made by :meth:`.Controls.endpoint`.

    :ivar name: the name of its sessions in timelines.
    :ivar host: the address, on this machine.
    :ivar port: the port; the kernel has chosen it.
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
        """Close its connections without a reply, and close each new one too, until :meth:`resume`.

        :raises ValueError: the server was started again after the endpoint was made, and no longer has it.
        """
        self._controls._cut_endpoint(self.name)

    def pause(self) -> None:
        """Stop all traffic on its connections, also on new ones, until :meth:`resume`. The connections stay
        open.

        The server reads nothing from these clients, not even pings, so their sessions expire by the server's
        clock.

        :raises ValueError: as for :meth:`cut`.
        """
        self._controls._pause_endpoint(self.name)

    def delay(self, seconds: float) -> None:
        """Delay each request that arrives here, and each watch event that is sent from here, until
        :meth:`resume`. Later messages on the same connection wait behind a delayed one. Pings and handshakes
        are not delayed themselves.

        :param seconds: the delay, in seconds on the server's clock.
        :raises ValueError: ``seconds`` is not a positive number; and as for :meth:`cut`.
        """
        self._controls._delay_endpoint(self.name, seconds)

    def resume(self) -> None:
        """End :meth:`cut`, :meth:`pause` and :meth:`delay`, and handle the requests that arrived meanwhile.

        A message that is delayed already keeps its delay.

        :raises ValueError: as for :meth:`cut`.
        """
        self._controls._resume_endpoint(self.name)

    def open_stream(self) -> trio.abc.HalfCloseableStream:
        """Connect through this endpoint without a socket, and return the client's end. Call it only in the
        server's thread."""
        return self._controls.running.open_stream(self.name)


class EndpointControls(ServerBase):
    """The controls of endpoints."""

    @control
    def endpoint(self, name: str) -> Endpoint:
        """Return the endpoint with this name: an address of this server for some of its clients. A test can
        cut, pause and delay it separately. The first call with a name opens the endpoint. It is closed with
        the server.

        :param name: the name, in timelines, of the sessions that connect there: a letter and up to 23
            letters, digits, dots, dashes or underscores.
        :raises ValueError: the name is malformed, or the server has 1,000 endpoints already.
        :raises OSError: no port can be bound.
        """
        running = self.running
        if name in running.endpoints:
            return Endpoint(self, name, running.endpoints[name])
        check_name(name)
        if len(running.endpoints) >= _MOST:
            raise ValueError(f"there are {_MOST:,} endpoints already; use one of them")
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
            raise ValueError(f"a delay is a positive number of seconds, not {seconds!r}")
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

    :param origin: who asked for the delay (:mod:`..origin`).
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
    """Return the delay of an endpoint; None if it has none."""
    delays = (each for each in running.gate.injectors if isinstance(each, Latency))
    return next((each for each in delays if each.endpoint == endpoint), None)
