"""The programs behind the sessions of a server or an ensemble. :mod:`..net.programs` has the rules."""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import chain

from ..net import programs
from ..net.connection import Connection
from .running import Running


async def find_programs(servers: Iterable[Running]) -> None:
    """Find the programs of new connections from this machine, in a separate thread."""
    await programs.look_for_programs(*_connections_and_ports(servers))


def find_programs_now(servers: Iterable[Running]) -> None:
    """Do what :func:`find_programs` does, but in this thread. This takes some milliseconds."""
    programs.look_now(*_connections_and_ports(servers))


def other_programs(servers: Iterable[Running]) -> dict[int, str]:
    """Return the programs by session. The sessions of this process are left out, because their program is
    known."""
    this = programs.program_of(os.getpid())
    connections, _ = _connections_and_ports(servers)
    return {
        each.session_id: each.program
        for each in connections
        if each.session is not None and each.program and each.program != this
    }


def _connections_and_ports(servers: Iterable[Running]) -> tuple[list[Connection], set[int]]:
    servers = list(servers)
    ports = {port for each in servers for port in _ports(each)}
    return list(chain.from_iterable(each.service.connections for each in servers)), ports


def _ports(running: Running) -> Iterable[int]:
    yield running.server.address[1]
    yield from (port for _, port in running.endpoints.values())
    if running.server.secure_address is not None:
        yield running.server.secure_address[1]
