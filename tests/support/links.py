"""The links between the servers of an ensemble, which a test can silence.

Each server reaches each other server through a port of its own; a link passes the bytes on.
"""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress

HOST = "127.0.0.1"
PATIENCE = 5.0
"""Seconds in which a server has to listen: what the real server allows, which tries five times."""


class Link:
    """The link from one server to the port where another server accepts followers.

    :ivar port: where the first server finds the second.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._there, self._back = threading.Event(), threading.Event()  # what is passed on now
        self._refuses = False
        self.heal()
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self._sockets: list[socket.socket] = [self._listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def silence(self, *, there: bool = True, back: bool = True) -> None:
        """Pass nothing on, in both directions or one. Connections stay open, and new ones are accepted."""
        if there:
            self._there.clear()
        if back:
            self._back.clear()

    def heal(self) -> None:
        """Go on; what was held up is passed on now."""
        self._refuses = False
        self._there.set()
        self._back.set()

    def refuse(self) -> None:
        """Close the connections, and new ones at once. What was held up is lost."""
        self._refuses = True
        for sock in self._sockets[1:]:
            self._sockets.remove(sock)
            _close(sock)

    def close(self) -> None:
        self.heal()
        for sock in self._sockets:
            _close(sock)

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                near, _ = self._listener.accept()
                self._sockets.append(near)
                threading.Thread(target=self._connect, args=(near,), daemon=True).start()

    def _connect(self, near: socket.socket) -> None:
        self._there.wait()
        far = None if self._refuses else self._reach()
        if far is None:
            near.close()
            return
        self._sockets.append(far)
        threading.Thread(target=self._pass_on, args=(far, near, self._back), daemon=True).start()
        self._pass_on(near, far, self._there)

    def _reach(self) -> socket.socket | None:
        """Connect to the target. A server that is refused tries again: a leader may listen a bit later than
        it was elected."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return socket.create_connection((HOST, self._target))
            except OSError:
                if time.monotonic() >= deadline:
                    return None
            time.sleep(0.02)  # between two attempts: nothing announces it

    def _pass_on(self, source: socket.socket, sink: socket.socket, is_open: threading.Event) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                is_open.wait()
                sink.sendall(data)
        is_open.wait()  # an end is news as well
        for sock in (source, sink):
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)


def _close(sock: socket.socket) -> None:
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
    sock.close()
