"""Endpoints: further addresses of one server, each with a network of its own that a test cuts, pauses, slows.

* An endpoint is a port. Connections that come by it belong to it, and sessions are called by its name.
* What a test does to an endpoint holds for all of its connections, later ones too, until ``resume`` or
  ``reset``. A restart, or ``resume`` of the server, does not end it.
* A server without endpoints looks at none of this.
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
    """An address of a server, for some of its clients: :meth:`.Controls.endpoint` makes it.

    :ivar name: by which timelines call its sessions.
    :ivar host: the address, of this machine.
    :ivar port: which the kernel has chosen.
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
        """Close its connections without a reply, and each new one, until :meth:`resume`.

        :raises ValueError: the server has been started again since, and has no such endpoint.
        """
        self._controls._cut_endpoint(self.name)

    def pause(self) -> None:
        """Let its connections hear and say nothing, new ones included, until :meth:`resume`.

        Nothing that clients send counts as a sign of life, so their sessions expire by the server's clock.

        :raises ValueError: as for :meth:`cut`.
        """
        self._controls._pause_endpoint(self.name)

    def delay(self, seconds: float) -> None:
        """Let each request that comes here, and each watch event that leaves here, take so many seconds more
        on the server's clock, until :meth:`resume`. What comes behind it on its connection waits too. Pings
        and handshakes are not delayed themselves.

        :raises ValueError: if it is no positive number; and as for :meth:`cut`.
        """
        self._controls._delay_endpoint(self.name, seconds)

    def resume(self) -> None:
        """End :meth:`cut`, :meth:`pause` and :meth:`delay`, and handle what has arrived meanwhile.

        What is being delayed keeps its time.

        :raises ValueError: as for :meth:`cut`.
        """
        self._controls._resume_endpoint(self.name)

    def open_stream(self) -> trio.abc.HalfCloseableStream:
        """Connect without a socket, by way of this endpoint; returns the client's end. Only in the thread of
        the server."""
        return self._controls.running.open_stream(self.name)


class EndpointControls(ServerBase):
    """What a test does to endpoints."""

    @control
    def endpoint(self, name: str) -> Endpoint:
        """Return the endpoint of this name: an address of this server for some of its clients, with a cut, a
        pause and a delay of its own. It is made at the first call, and closed with the server.

        :param name: by which timelines call the sessions that connect there: a letter and up to 23 letters,
            digits, dots, dashes or underscores.
        :raises ValueError: if this is no name, or there are too many.
        :raises OSError: if no port can be bound.
        """
        running = self.running
        if name in running.endpoints:
            return Endpoint(self, name, running.endpoints[name])
        check_name(name)
        if len(running.endpoints) >= _MOST:
            raise ValueError(f"there are {_MOST:,} endpoints already")
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
    """Delays what passes an endpoint.

    :param origin: by whom that was asked for (:mod:`..origin`).
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
    """Return what delays an endpoint; None if nothing does."""
    delays = (each for each in running.gate.injectors if isinstance(each, Latency))
    return next((each for each in delays if each.endpoint == endpoint), None)
