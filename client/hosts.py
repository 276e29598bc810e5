"""Where the servers are: the connect string, the order in which to try them, and how long to wait between."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Self

import attrs

from ..protocol.constants import DEFAULT_PORT
from ..protocol.paths import validate_path


@attrs.frozen
class Host:
    """One server.

    :ivar name: a host name or an address (an IPv6 address without its brackets).
    """

    name: str
    port: int

    def __str__(self) -> str:
        return f"[{self.name}]:{self.port}" if ":" in self.name else f"{self.name}:{self.port}"


@attrs.frozen
class ConnectString:
    """``host[:port][,host[:port]...][/chroot]``; an IPv6 address goes in brackets.

    :ivar chroot: the path in front of every path of this client, ``""`` for none.
    """

    hosts: tuple[Host, ...]
    chroot: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises ValueError for a malformed host or port and :class:`BadArgumentsError` for the chroot."""
        servers, slash, chroot = text.partition("/")
        chroot = slash + chroot.rstrip("/") if chroot else ""
        if chroot:
            validate_path(chroot)
        hosts = tuple(_parse_host(part.strip()) for part in servers.split(",") if part.strip())
        if not hosts:
            raise ValueError(f"no server in the connect string {text!r}")
        return cls(hosts, chroot)


def _parse_host(text: str) -> Host:
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
    """Which server to try next, and after how many seconds (wire.md section 16).

    The hosts are shuffled once and tried in turn, so that the clients of a server that dies spread over the
    others. A single failure costs next to no time; every further round through all hosts doubles the longest
    pause, up to a second, and the pause itself is drawn at random.
    """

    FIRST_PAUSE = 0.05
    LONGEST_PAUSE = 1.0

    def __init__(self, hosts: Sequence[Host], rng: random.Random) -> None:
        self._hosts = list(hosts)
        rng.shuffle(self._hosts)
        self._rng = rng
        self._next = 0
        self._failures = 0

    def __len__(self) -> int:
        return len(self._hosts)

    def next(self) -> tuple[Host, float]:
        """The next host and the seconds to wait before trying it. The very first is tried at once."""
        host = self._hosts[self._next % len(self._hosts)]
        pause = 0.0
        if self._next:
            rounds = min(self._failures // len(self._hosts), 10)
            pause = self._rng.uniform(0, min(self.LONGEST_PAUSE, self.FIRST_PAUSE * 2**rounds))
        self._next += 1
        self._failures += 1
        return host, pause

    def settled(self) -> None:
        """A connection has proved good: the next failure is a first one again."""
        self._failures = 0
