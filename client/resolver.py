"""Looking up host names. Each address of a name counts as a server of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import attrs
import trio

from .hosts import Host

_NOT_YET = "the look-up of the name has not ended yet"


class Resolver:
    """Looks up the hosts again for each round of attempts. The rules:

    * Each look-up is a task of its own. One that hangs delays no other, and a host has one at a time.
    * A host whose look-up fails or hangs keeps the addresses that it had. A host that never had an address
      stays in the list by its name.

    :param start_soon: starts a task.
    :ivar unresolved: the hosts that never had an address, and why.
    """

    def __init__(self, hosts: Iterable[Host], start_soon: Callable[..., Any]) -> None:
        self._servers = {host: [host] for host in hosts}
        self._start_soon = start_soon
        self._running: dict[Host, trio.Event] = {}
        self.unresolved = dict.fromkeys(self._servers, _NOT_YET)

    def replace(self, hosts: Iterable[Host]) -> None:
        """Take other hosts. Those that are known keep their addresses."""
        self._servers = {host: self._servers.get(host, [host]) for host in hosts}
        waiting = {host: why for host, why in self.unresolved.items() if host in self._servers}
        self.unresolved = {
            host: _NOT_YET for host, servers in self._servers.items() if servers == [host]
        } | waiting

    async def servers(self, patience: float) -> list[Host]:
        """Look up all hosts and return the servers.

        :param patience: seconds to wait for the look-ups. An address that comes later counts in the next
            round.
        """
        started = []
        for host in self._servers.keys() - self._running.keys():
            self._running[host] = ended = trio.Event()
            started.append(ended)
            self._start_soon(self._look_up, host, ended)
        with trio.move_on_after(patience):
            for ended in started:
                await ended.wait()
        return [server for servers in self._servers.values() for server in servers]

    async def _look_up(self, host: Host, ended: trio.Event) -> None:
        try:
            found = await trio.socket.getaddrinfo(host.name, host.port, type=trio.socket.SOCK_STREAM)
        except (OSError, ValueError) as error:  # ValueError: the text cannot be a name
            if host in self.unresolved:
                text = error.strerror if isinstance(error, OSError) else str(error)
                self.unresolved[host] = text or type(error).__name__
        else:
            if host in self._servers:
                self._servers[host] = [attrs.evolve(host, address=str(address[0])) for *_, address in found]
            self.unresolved.pop(host, None)
        del self._running[host]
        ended.set()
