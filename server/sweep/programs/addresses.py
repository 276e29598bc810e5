"""The addresses to which the clients of programs connect.

The rules:

1. A single server listens at an address of its own for each client. A Java or Go client waits for 1 s after
   it has tried all addresses. Therefore the client's connect string names the address three times.
2. In an ensemble each client has an address for each server. Clients shuffle their addresses, so the server
   for an address is chosen only when the client tries the address (:mod:`..servers`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import trio

from ...testing.host import LocalServer
from ..relay import relay
from ..servers import Servers

_TIMES = 3


async def open_addresses(
    servers: Servers, clients: Sequence[str], nursery: trio.Nursery, happened: Callable[[], object]
) -> dict[str, str]:
    """Open the addresses of the clients; return the connect string of each client.

    :param clients: the names of the clients.
    :param nursery: the nursery for the connections to an ensemble.
    :param happened: a function that is called when a message goes to a client.
    """
    if isinstance(servers.whole, LocalServer):
        return {name: ",".join([servers.whole.endpoint(name).hosts] * _TIMES) for name in clients}
    found = {}
    for server in servers.each:
        server.running.observe(server.running.names)
    for name in clients:
        ports = []
        for _ in servers.each:
            listener = trio.socket.socket()
            await listener.bind(("127.0.0.1", 0))
            listener.listen()
            port = listener.getsockname()[1]
            nursery.start_soon(_accept, listener, port, name, servers, nursery, happened)
            ports.append(port)
        found[name] = ",".join(f"127.0.0.1:{port}" for port in ports)
    return found


async def _accept(
    listener: trio.socket.SocketType,
    port: int,
    name: str,
    servers: Servers,
    nursery: trio.Nursery,
    happened: Callable[[], object],
) -> None:
    with listener:
        while True:
            sock, _ = await listener.accept()
            try:
                stream = servers.open_stream(name, port)
            except ConnectionRefusedError:
                sock.close()
            else:
                nursery.start_soon(relay, sock, stream, happened)
