"""The control API: the controls of the test kit over HTTP, for any language.

The server loads this package when the first HTTP client connects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..net.importing import load

if TYPE_CHECKING:
    import trio

    from ..net.http import HttpServer
    from ..net.server import Server


async def serve_http(server: Server, nursery: trio.Nursery) -> HttpServer:
    """Make the HTTP server on the port for clients: a :data:`pyzk.server.net.server.HttpFactory`."""
    await load(f"{__name__}.port")
    from .port import make_http

    return make_http(server, nursery)
