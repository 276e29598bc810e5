"""The members of an ensemble, as ``zoo.cfg`` and ``/zookeeper/config`` write them (ensemble.md sections 9.3
and 12)."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

_QUORUM, _ELECTION = 2887, 3887
"""Ports that are shown for server 1 are one more; nobody listens there."""


@attrs.frozen
class Address:
    """One ``server.N`` line.

    :ivar host: where the server is said to run.
    :ivar quorum: the port for the other servers, which is shown only; ``election`` likewise.
    :ivar votes: False for an observer.
    :ivar client: host and port for clients, if the line has them.
    """

    number: int
    host: str
    quorum: int
    election: int
    votes: bool
    client: str = ""

    @classmethod
    def default(cls, number: int, votes: bool) -> Address:
        """Return the line of a server that is written nowhere."""
        return cls(number, "127.0.0.1", _QUORUM + number, _ELECTION + number, votes)

    @property
    def text(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        role = "participant" if self.votes else "observer"
        line = f"server.{self.number}={host}:{self.quorum}:{self.election}:{role}"
        return f"{line};{self.client}" if self.client else line


def config_text(addresses: Iterable[Address], version: int) -> str:
    """Return the data of ``/zookeeper/config``."""
    return "\n".join([*sorted(address.text for address in addresses), f"version={version:x}"])
