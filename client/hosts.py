"""The servers: the connect string, the order in which they are tried, and the pauses between attempts."""

from __future__ import annotations

import random
import re
from collections import deque
from collections.abc import Iterable
from typing import Self

import attrs

from ..protocol.constants import DEFAULT_PORT
from ..protocol.paths import validate_path
from .rebalancing import rebalance


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
        """What two names of one server have in common."""
        return self.address or self.name, self.port

    def __str__(self) -> str:
        text = f"[{self.name}]:{self.port}" if ":" in self.name else f"{self.name}:{self.port}"
        return text if self.address in (None, self.name) else f"{text} ({self.address})"


@attrs.frozen
class ConnectString:
    """``host[:port][,host[:port]...][/chroot]``; an IPv6 address needs brackets.

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
        _, colon, rest = text.partition("://")
        if colon:
            raise ValueError(f"a connect string has no scheme: write {rest!r} in place of {text!r}")
        servers, slash, chroot = text.partition("/")
        if _LATER_SERVER.search(chroot):
            raise ValueError(
                f"the chroot stands once, behind the last server, as in 'a:2181,b:2181/app', not {text!r}"
            )
        chroot = slash + chroot.rstrip("/") if chroot else ""
        if chroot:
            validate_path(chroot)
        hosts = tuple(_parse_host(part.strip()) for part in servers.split(",") if part.strip())
        if not hosts:
            raise ValueError(f"no server in the connect string {text!r}")
        return cls(hosts, chroot)


_LATER_SERVER = re.compile(r",[^,/]*:\d+(/|,|$)")


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
    if not name or (port and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536)):
        raise ValueError(f"{text!r} is not host:port")
    return Host(name, int(port) if port else DEFAULT_PORT)


class HostCycle:
    """Choose the server to try next, and the seconds to wait before (wire.md section 16). The rules:

    * The servers are shuffled once and tried in turn. So, when a server dies, its clients spread over the
      others.
    * A round tries each server once, without pauses. Before the next round comes a pause of random length.
      The longest possible pause doubles with each round, from 0.05 s to 1 s.
    * A connection that has proved good ends the round. When it is lost, a new round begins, and its server
      comes last.

    :ivar rounds: how many rounds have begun since a connection proved good.
    """

    FIRST_PAUSE = 0.05
    """Seconds. One lost connection is no reason to wait longer."""
    LONGEST_PAUSE = 1.0
    """Seconds, as in other clients (wire.md section 16). When all servers are down, a client tries each of
    them about twice a second."""

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
        """Replace the servers, before a round. Those that are known keep their order, new ones get random
        places.

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
        """Replace the servers, so that each gets its share of the clients (:mod:`.rebalancing`).

        :param hosts: at least one.
        :param current: the server to which we are connected; None without a connection.
        :returns: whether to leave it. Then the next round begins with those that need clients.
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
        """Return the next server, and how many seconds to wait before it is tried. The first is tried at
        once."""
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
        """Note that a connection has proved good: the next failure counts as the first."""
        self._pause = self.FIRST_PAUSE
        self._left = self.rounds = 0
