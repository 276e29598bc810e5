"""The least that a server in Python can do: send back what it has received, by one loop over an epoll object.

    python benchmarks/echo.py       # prints its port, and serves until it is killed

:mod:`benchmarks.cost` measures it beside the server. The script imports nothing of the project, so that any
Python runs it.
"""

from __future__ import annotations

import select
import socket

READ_SIZE = 64 * 1024
"""Bytes in one read, as the server's."""


def main() -> None:
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    print(listener.getsockname()[1], flush=True)
    poller = select.epoll()
    poller.register(listener.fileno(), select.EPOLLIN)
    connections = {}
    while True:
        for number, _ in poller.poll():
            if number == listener.fileno():
                connection, _ = listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connections[connection.fileno()] = connection
                poller.register(connection.fileno(), select.EPOLLIN)
            elif data := connections[number].recv(READ_SIZE):
                connections[number].sendall(data)
            else:
                connections.pop(number).close()


if __name__ == "__main__":
    main()
