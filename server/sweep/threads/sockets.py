"""Replaces socket functions for the threads of a run: how a thread waits for a socket, and how it connects to
the server in memory.

The rules:

1. Each client connects to its own address (:class:`Addresses`). Then the client's socket becomes one end of a
   pair of AF_UNIX sockets, because bytes between such sockets arrive at once. The ``family`` attribute of the
   socket still says AF_INET.
2. ``select``, ``poll``, ``epoll``, and calls that read from a blocking socket wait for the turn of their
   thread.
"""

from __future__ import annotations

import os
import select
import selectors
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import trio

from .replacing import replacing
from .turns import Turns

_PORT: Final = 2181

_real_select = select.select
_real_poll = getattr(select, "poll", None)  # Windows has no poll
_real_socketpair = socket.socketpair
_real_connect, _real_setsockopt = socket.socket.connect, socket.socket.setsockopt
_real_recv, _real_recv_into = socket.socket.recv, socket.socket.recv_into


class Addresses:
    """The addresses of the clients of a run.

    :param servers: the number of servers. A client gets an address, with its own port, for each server.
    """

    def __init__(self, servers: int) -> None:
        self._names: dict[str, str] = {}  # by host
        self._ports = range(_PORT, _PORT + servers)

    @property
    def names(self) -> list[str]:
        return sorted(self._names.values())

    def add(self, name: str) -> str:
        """Choose the addresses of a client; return the client's connect string."""
        host = f"127.0.1.{len(self._names) + 1}"
        self._names[host] = name
        return ",".join(f"{host}:{port}" for port in self._ports)

    def name_at(self, address: Any) -> str | None:
        """Return the name of the client to which an address belongs; None if it belongs to no client."""
        if isinstance(address, tuple) and address[1] in self._ports:
            return self._names.get(address[0])
        return None


class _Poller:
    """An object of ``select.poll`` or ``select.epoll`` that waits for its turn."""

    def __init__(self, turns: Turns, real: Any, units: float) -> None:
        """
        :param units: the number of units of a timeout in a second: 1000 for ``poll``, 1 for ``epoll``.
        """
        self._turns = turns
        self._real = real
        self._units = units

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def poll(self, timeout: float | None = None, *most: int) -> Any:
        turn = self._turns.current()
        if turn is None:
            return self._real.poll(timeout, *most)
        found = self._real.poll(0, *most)
        if found or timeout == 0:
            return found
        seconds = None if timeout is None or timeout < 0 else timeout / self._units
        self._turns.wait(
            turn,
            self._turns.deadline_of(seconds),
            self._is_ready,
            may_be_interrupted=not trio.lowlevel.in_trio_run(),  # trio does not survive an interrupt
        )
        return self._real.poll(0, *most)

    def _is_ready(self) -> bool:
        """Return whether there is an event, and leave the event in place.

        ``epoll.poll`` would take an event that comes only once. So the method asks whether the epoll object
        itself is readable.
        """
        if hasattr(self._real, "fileno"):
            return _are_ready([self._real], [])
        return bool(self._real.poll(0))


@contextmanager
def sockets_replaced(
    turns: Turns, addresses: Addresses, connect: Callable[[str, object], socket.socket]
) -> Iterator[None]:
    """Replace the functions that the rules name, for as long as the block lasts.

    The end of the block closes sockets that are still open.

    :param connect: a function that takes a client's name and a port, makes a connection, and returns the
        client's end.
    """
    made: list[socket.socket] = []

    def connect_socket(sock: socket.socket, address: Any) -> None:
        name = None if turns.current() is None else addresses.name_at(address)
        if name is None:
            _real_connect(sock, address)
            return
        timeout = sock.gettimeout()
        with connect(name, address[1]) as end:
            os.dup2(end.fileno(), sock.fileno())
        sock.settimeout(timeout)
        made.append(sock)

    def socketpair(*args: Any, **options: Any) -> tuple[socket.socket, socket.socket]:
        pair = _real_socketpair(*args, **options)
        if turns.current() is not None:
            made.extend(pair)
        return pair

    def setsockopt(sock: socket.socket, level: int, *args: Any) -> None:
        if level != socket.IPPROTO_TCP or turns.current() is None:
            _real_setsockopt(sock, level, *args)

    def wait_for(sock: socket.socket) -> None:
        timeout = sock.gettimeout()
        if timeout != 0:
            _wait(turns, [sock], [], timeout)

    def recv(sock: socket.socket, *args: Any) -> bytes:
        wait_for(sock)
        return _real_recv(sock, *args)

    def recv_into(sock: socket.socket, *args: Any) -> int:
        wait_for(sock)
        return _real_recv_into(sock, *args)

    def select_sockets(readers: Any, writers: Any, others: Any, timeout: float | None = None) -> Any:
        if turns.current() is None:
            return _real_select(readers, writers, others, timeout)
        _wait(turns, readers, writers, timeout)
        return _real_select(readers, writers, others, 0)

    def poller(real: Callable[[], Any], units: float) -> Callable[[], Any]:
        return lambda *args: real(*args) if turns.current() is None else _Poller(turns, real(*args), units)

    new: list[tuple[Any, str, Any]] = [
        (socket.socket, "connect", connect_socket),
        (socket.socket, "setsockopt", setsockopt),
        (socket.socket, "recv", recv),
        (socket.socket, "recv_into", recv_into),
        (socket, "socketpair", socketpair),
        (select, "select", select_sockets),
    ]
    for name, selector, units in ("poll", "PollSelector", 1000.0), ("epoll", "EpollSelector", 1.0):
        if hasattr(select, name):
            wrapped = poller(getattr(select, name), units)
            new += [
                (select, name, wrapped),
                (getattr(selectors, selector), "_selector_cls", staticmethod(wrapped)),
            ]
    try:
        with replacing(new):
            yield
    finally:
        for sock in made:
            sock.close()


def _wait(turns: Turns, readers: Any, writers: Any, timeout: float | None) -> None:
    """Wait until one of the sockets is ready, or the timeout is over."""
    turn = turns.current()
    if turn is not None and timeout != 0 and not _are_ready(readers, writers):
        turns.wait(turn, turns.deadline_of(timeout), lambda: _are_ready(readers, writers))


def _are_ready(readers: Any, writers: Any) -> bool:
    """Return whether a call of select would return or fail at once."""
    try:
        if _real_poll is None:
            return any(_real_select(readers, writers, [], 0))
        poll = _real_poll()
        for each in readers:
            poll.register(each, select.POLLIN)
        for each in writers:
            poll.register(each, select.POLLOUT)
        return bool(poll.poll(0))
    except (OSError, ValueError):
        return True
