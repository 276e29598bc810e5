"""The servers: the connect string, the addresses of their names, and the order in which they are tried.

The rules:

* Each address of a name counts as one server. Names are looked up again for each round of attempts.
* Instead of servers, a connect string can have a name with SRV records that list the servers (:mod:`.srv`).
  The SRV records are looked up again for each round too.
* When the list of servers changes, some clients move, so that all servers have equally many clients (wire.md
  section 16). The source of the random numbers is an argument.
* While a read-only server serves the client, the client asks the other servers, one at a time, with the
  four-letter word ``isro`` on a separate connection (ensemble.md sections 7 and 13.1). The first server is
  asked after 0.1 s. Each further pause is twice as long, up to 60 s. The client moves to the first server
  that answers ``rw``. The Java client does the same.
* In the configuration of the ensemble, ``/zookeeper/config``, each line
  ``server.1=host:2888:3888:participant;0.0.0.0:2181`` is a server. The address for clients follows the
  semicolon. If the address for clients has no host, or its host means all addresses, clients use the host
  before the first colon.
"""

from __future__ import annotations

import random
import re
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Self, TypeVar

import attrs
import trio

from ..protocol.constants import DEFAULT_PORT
from ..protocol.paths import validate_path
from . import srv


@attrs.frozen
class Host:
    """One server.

    :ivar name: a host name or an address (an IPv6 address without its brackets).
    :ivar address: one of the addresses of that name; None if the name was not looked up.
    """

    name: str
    port: int
    address: str | None = None

    @property
    def endpoint(self) -> tuple[str, int]:
        """The address and the port. Two names of one server have the same endpoint."""
        return self.address or self.name, self.port

    def __str__(self) -> str:
        text = f"[{self.name}]:{self.port}" if ":" in self.name else f"{self.name}:{self.port}"
        return text if self.address in (None, self.name) else f"{text} ({self.address})"


@attrs.frozen
class Service(Host):
    """A name with SRV records that list servers."""

    def __str__(self) -> str:
        return SRV_SCHEMES[0] + self.name


SRV_SCHEMES = ("srv+zk://", "dns-srv://")
"""The prefixes of a name of SRV records. The second prefix is the prefix of the Java client."""


@attrs.frozen
class ConnectString:
    """``host[:port][,host[:port]...][/chroot]``; an IPv6 address needs brackets. ``srv+zk://name[/chroot]``
    means the servers in the SRV records of a name.

    :ivar hosts: the servers, or a single :class:`Service`.
    :ivar chroot: the path in front of every path of this client; ``""`` for none.
    """

    hosts: tuple[Host, ...]
    chroot: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a connect string.

        :raises ValueError: there is no host, or a host or port is malformed.
        :raises BadArgumentsError: the chroot is malformed.
        """
        scheme, colon, rest = text.strip().partition("://")
        is_service = scheme + colon in SRV_SCHEMES
        if colon and not is_service:
            raise ValueError(f"a connect string has no scheme: write {rest!r} in place of {text!r}")
        servers, slash, chroot = (rest if is_service else text).partition("/")
        if _LATER_SERVER.search(chroot):
            raise ValueError(
                f"write the chroot once, after the last server, as in 'a:2181,b:2181/app', not {text!r}"
            )
        chroot = slash + chroot.rstrip("/") if chroot else ""
        if chroot:
            validate_path(chroot)
        if is_service:
            return cls((_parse_service(servers),), chroot)
        hosts = tuple(_parse_host(part.strip()) for part in servers.split(",") if part.strip())
        if not hosts:
            raise ValueError(f"no server in the connect string {text!r}; write host:port")
        return cls(hosts, chroot)


_LATER_SERVER = re.compile(r",[^,/]*:\d+(/|,|$)")


def _parse_service(name: str) -> Service:
    if not name or re.search(r"[\s,;:\[\]]", name):
        raise ValueError(
            f"SRV records have one name without a port, as in 'srv+zk://_zk._tcp.example', not {name!r}"
        )
    return Service(name, DEFAULT_PORT)


def _parse_host(text: str) -> Host:
    if re.search(r"[\s;]", text):
        raise ValueError(f"separate servers by commas, as in 'a:2181,b:2181', not as in {text!r}")
    if text.startswith("["):
        name, _, rest = text[1:].partition("]")
        port = rest.removeprefix(":")
    elif text.count(":") > 1:
        raise ValueError(f"an IPv6 address needs brackets, as in [{text}]:{DEFAULT_PORT}")
    else:
        name, _, port = text.partition(":")
    if port.isdecimal() and not 0 < int(port) < 65536:
        raise ValueError(f"a port is a number from 1 to 65535, not {port}")
    if not name or (port and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536)):
        raise ValueError(f"{text!r} is not host:port")
    return Host(name, int(port) if port else DEFAULT_PORT)


class HostCycle:
    """Chooses the next server, and the seconds to wait before the attempt (wire.md section 16). The rules:

    * The servers are shuffled once and tried in turn. Therefore the clients of a dead server spread over all
      other servers.
    * A round tries each server once, without pauses. The client waits for a random time between two rounds.
      The longest possible pause doubles with each round, from 0.05 s to 1 s.
    * A connection that has served long enough ends the round. When this connection is lost, a new round
      begins. In this round the server of the lost connection is the last server.

    :ivar rounds: the number of rounds since a connection has served long enough.
    """

    FIRST_PAUSE = 0.05
    """The longest possible pause before the first round after a lost connection, in seconds. A single lost
    connection is no reason for a longer pause."""
    LONGEST_PAUSE = 1.0
    """The longest possible pause before a round, in seconds. Other clients use the same limit (wire.md
    section 16). When all servers are down, a client tries each of them about twice a second."""

    def __init__(self, hosts: Iterable[Host], rng: random.Random) -> None:
        self._rng = rng
        self._order: deque[Host] = deque()
        self._left = 0  # servers to try in this round
        self.rounds = 0
        self._pause = 0.0  # the longest possible one before the next round, in seconds
        self.update(hosts)

    def __len__(self) -> int:
        return len(self._order)

    @property
    def starts_round(self) -> bool:
        """True if the next server is the first of a round."""
        return not self._left

    def update(self, hosts: Iterable[Host]) -> None:
        """Replace the servers, before a round. Known servers keep their order; new servers get random places.

        :param hosts: at least one.
        """
        found = dict.fromkeys(hosts)
        order = [host for host in self._order if host in found]
        for host in order:
            del found[host]
        for host in found:
            order.insert(self._rng.randint(0, len(order)), host)
        self._order = deque(order)
        self._left = min(self._left, len(order))

    def rebalance(self, hosts: Iterable[Host], current: Host | None) -> bool:
        """Replace the servers, so that each server gets its share of the clients (:func:`rebalance`).

        :param hosts: at least one.
        :param current: the server to which we are connected; None without a connection.
        :returns: whether to leave the present server. If so, the next round begins with the servers that need
            clients.
        """
        by_endpoint = {host.endpoint: host for host in hosts}
        old = [host.endpoint for host in self._order]
        moving = rebalance(old, [*by_endpoint], current.endpoint, self._rng) if current else None
        if moving is None:
            self.update(by_endpoint.values())
            return False
        self._order = deque(by_endpoint[endpoint] for endpoint in moving)
        self._left = 0
        return True

    def others(self, host: Host) -> list[Host]:
        """Return the servers other than this one."""
        return [other for other in self._order if other != host]

    def prefer(self, host: Host) -> None:
        """Begin the next round with this server, if it is still in the list."""
        if host in self._order:
            self._order.remove(host)
            self._order.appendleft(host)
        self._left = 0

    def next(self) -> tuple[Host, float]:
        """Return the next server, and how many seconds to wait before it is tried. The first server is tried
        at once."""
        pause = 0.0
        if self.starts_round:
            pause = self._rng.uniform(0, self._pause)
            self._pause = min(2 * self._pause or self.FIRST_PAUSE, self.LONGEST_PAUSE)
            self._left = len(self._order)
            self.rounds += 1
        self._left -= 1
        self._order.rotate(-1)
        return self._order[-1], pause

    def settled(self) -> None:
        """Note that a connection has served for long enough. The pauses and rounds begin anew after the next
        failure."""
        self._pause = self.FIRST_PAUSE
        self._left = self.rounds = 0


T = TypeVar("T")


def rebalance(old: Sequence[T], new: Sequence[T], current: T, rng: random.Random) -> list[T] | None:
    """Decide whether a client moves, and to which server. The Java client has the same rules:

    * The server is in the new list. If the list has grown, the client moves to an added server with the
      probability 1 - old/new. Otherwise the client stays.
    * The server is not in the new list. If the list has grown, the client moves to an added server. If the
      list has not grown, the client moves either to a server that is in both lists, or to an added server.
      The probability of the first case is kept * (old - new) / (new * (old - kept)), where kept is the number
      of servers in both lists.

    :param old: the present servers; ``new`` has the servers of the new list.
    :param current: the server to which the client is connected.
    :returns: the order in which to try the servers; None to stay.
    """
    before = set(old)
    kept = [server for server in new if server in before]
    added = [server for server in new if server not in before]
    grown = len(new) > len(before)
    if current in new:
        if not grown or rng.random() >= 1 - len(before) / len(new):
            return None
        to_kept = 0.0
    elif grown or len(kept) == len(before):
        to_kept = 0.0
    else:
        to_kept = len(kept) * (len(before) - len(new)) / (len(new) * (len(before) - len(kept)))
    rng.shuffle(kept)
    rng.shuffle(added)
    order = []
    while kept and added:
        order.append(kept.pop() if rng.random() < to_kept else added.pop())
    return order + kept + added


_ALL_ADDRESSES = ("", "0.0.0.0", "::")
_HOST = r"\[[^\]]*\]|[^:;|\]]*"
_SERVER = re.compile(rf"server\.\d+=({_HOST}):[^;]*;(?:({_HOST}):)?(\d+)\s*")


def servers_of(config: bytes | None) -> list[Host]:
    """Return the servers that a configuration names for clients."""
    found = []
    for line in (config or b"").decode("utf-8", "replace").splitlines():
        if match := _SERVER.fullmatch(line):
            host, client_host, port = (part.strip("[]") for part in match.groups(""))
            found.append(Host(host if client_host in _ALL_ADDRESSES else client_host, int(port)))
    return found


_NOT_YET = "the look-up of the name has not ended yet"


class Resolver:
    """Looks up the hosts again for each round of attempts. The rules:

    * Each look-up is a separate task. A look-up that hangs delays no other look-up. A host has at most one
      look-up at a time.
    * A host whose look-up fails or hangs keeps the addresses that it had. A host that never had an address
      stays in the list by its name.
    * The records of a service are looked up before the hosts that they list. If the look-up fails or hangs,
      the hosts of the last answer stay.

    :param start_soon: starts a task.
    :ivar unresolved: the hosts that never had an address, with the reasons.
    """

    def __init__(self, hosts: Iterable[Host], start_soon: Callable[..., Any]) -> None:
        self._servers: dict[Host, list[Host]] = {}
        self._services: tuple[Host, ...] = ()
        self._start_soon = start_soon
        self._running: dict[Host, trio.Event] = {}
        self.unresolved: dict[Host, str] = {}
        self.replace(hosts)

    def replace(self, hosts: Iterable[Host]) -> None:
        """Use other hosts, or another service. Known hosts keep their addresses."""
        hosts = tuple(hosts)
        services = tuple(host for host in hosts if isinstance(host, Service))
        if not services or services != self._services:
            self._services = services
            self._take(hosts)

    def _take(self, hosts: Iterable[Host]) -> None:
        self._servers = {host: self._servers.get(host, [host]) for host in hosts}
        waiting = {host: why for host, why in self.unresolved.items() if host in self._servers}
        self.unresolved = {
            host: _NOT_YET for host, servers in self._servers.items() if servers == [host]
        } | waiting

    async def servers(self, wait: float) -> list[Host]:
        """Look up all hosts and return the servers.

        :param wait: seconds to wait for the look-ups. An address that comes later counts in the next
            round.
        """
        deadline = trio.current_time() + wait
        if self._services:
            await self._look_up_all(self._services, deadline)
        await self._look_up_all(self._servers.keys() - set(self._services), deadline)
        return [server for servers in self._servers.values() for server in servers]

    async def _look_up_all(self, hosts: Iterable[Host], deadline: float) -> None:
        started = []
        for host in hosts:
            if host not in self._running:
                self._running[host] = ended = trio.Event()
                started.append(ended)
                self._start_soon(self._look_up, host, ended)
        with trio.CancelScope(deadline=deadline):
            for ended in started:
                await ended.wait()

    async def _look_up(self, host: Host, ended: trio.Event) -> None:
        is_service = isinstance(host, Service)
        try:
            found = await (_servers_of_service(host) if is_service else _addresses(host))
        except (OSError, ValueError) as error:  # ValueError: the text cannot be a name
            if host in self.unresolved:
                text = error.strerror if isinstance(error, OSError) else None
                self.unresolved[host] = text or str(error) or type(error).__name__
        else:
            if host in self._services:
                self._take(found)
            elif host in self._servers:
                self._servers[host] = found
            self.unresolved.pop(host, None)
        del self._running[host]
        ended.set()


async def _addresses(host: Host) -> list[Host]:
    found = await trio.socket.getaddrinfo(host.name, host.port, type=trio.socket.SOCK_STREAM)
    return [attrs.evolve(host, address=str(address[0])) for *_, address in found]


async def _servers_of_service(service: Host) -> list[Host]:
    return [Host(*server) for server in await srv.look_up(service.name)]


async def list_servers(hosts: Iterable[Host]) -> list[Host]:
    """Return the servers of a connect string: the servers in the string, or the servers in the SRV records of
    its name.

    :raises OSError: the look-up of the SRV records fails.
    """
    found = [await _servers_of_service(host) if isinstance(host, Service) else [host] for host in hosts]
    return [server for servers in found for server in servers]


FULL, READ_ONLY = b"rw", b"ro"
"""The answers of full servers and of read-only servers."""

_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 60.0
"""Seconds."""
_PATIENCE = 1.0
"""The seconds that a server has to accept a connection and to answer, as in the Java client."""
_LONGEST_ANSWER = 100
"""The largest accepted size of an answer, in bytes. If a server does not allow ``isro``, its answer has about
60 bytes."""


@attrs.frozen
class ReadWriteProbe:
    """Asks servers whether they serve writes.

    :ivar open: opens a connection to a server.
    """

    open: Callable[[Host], Awaitable[trio.abc.Stream]]

    async def mode(self, host: Host) -> bytes:
        """Ask a server with ``isro``. The answer is :data:`FULL`, :data:`READ_ONLY`, or another text if the
        server is neither."""
        answer = b""
        with trio.move_on_after(_PATIENCE):
            try:
                async with await self.open(host) as stream:
                    await stream.send_all(b"isro")
                    while len(answer) < _LONGEST_ANSWER and (data := await stream.receive_some()):
                        answer += bytes(data)
            except (OSError, UnicodeError, trio.BrokenResourceError):
                pass
        return answer

    async def full_server(self, others: Callable[[], list[Host]]) -> Host:
        """Wait for a server that serves writes.

        :param others: returns the servers to ask.
        """
        pause, turn = _FIRST_PAUSE, 0
        while True:
            await trio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
            if hosts := others():
                host = hosts[turn % len(hosts)]
                turn += 1
                if await self.mode(host) == FULL:
                    return host
