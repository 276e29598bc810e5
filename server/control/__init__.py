"""The control API: the controls of a test over HTTP, for any language.

:func:`serve_http` loads it for the first HTTP client, so an idle server does not load it.
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
