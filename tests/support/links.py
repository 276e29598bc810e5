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
        self._open = threading.Event()
        self._open.set()
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self._sockets: list[socket.socket] = [self._listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def silence(self) -> None:
        """Pass nothing on, in either direction. Connections stay open, and new ones are accepted."""
        self._open.clear()

    def heal(self) -> None:
        """Go on; what was held up is passed on now."""
        self._open.set()

    def close(self) -> None:
        self._open.set()
        for sock in self._sockets:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                near, _ = self._listener.accept()
                self._sockets.append(near)
                threading.Thread(target=self._connect, args=(near,), daemon=True).start()

    def _connect(self, near: socket.socket) -> None:
        self._open.wait()
        far = self._reach()
        if far is None:
            near.close()
            return
        self._sockets.append(far)
        threading.Thread(target=self._pass_on, args=(far, near), daemon=True).start()
        self._pass_on(near, far)

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

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                self._open.wait()
                sink.sendall(data)
        self._open.wait()  # an end is news as well
        for sock in (source, sink):
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
