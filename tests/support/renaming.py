"""A server that sends what no server should: a relay before ours, which changes bytes of its answers."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def renaming(hosts: str, changes: dict[bytes, bytes]) -> Iterator[str]:
    """Put a relay before a server; gives its connect string.

    :param changes: bytes that the server sends, and as many that come out instead.
    """
    assert all(len(old) == len(new) for old, new in changes.items())
    name, _, port = hosts.partition(":")

    class Relay(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with socket.create_connection((name, int(port))) as server:
                upwards = threading.Thread(target=_carry, args=(self.request, server, {}))
                upwards.start()
                _carry(server, self.request, changes)
                upwards.join()

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Relay) as relay:
        relay.daemon_threads = True
        thread = threading.Thread(target=relay.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"127.0.0.1:{relay.server_address[1]}"
        finally:
            relay.shutdown()
            thread.join()


def _carry(source: socket.socket, target: socket.socket, changes: dict[bytes, bytes]) -> None:
    with suppress(OSError):
        while data := source.recv(2**20):
            for old, new in changes.items():
                data = data.replace(old, new)
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
