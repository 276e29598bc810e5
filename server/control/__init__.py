"""The control API: what a test can do to the server, over HTTP, for any language.

:func:`serve_http` loads it for the first HTTP client: an idle server has none of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..net.importing import load

if TYPE_CHECKING:
    import trio

    from ..net.http import HttpServer
    from ..net.server import Server


async def serve_http(server: Server, nursery: trio.Nursery) -> HttpServer:
    """Make what answers HTTP on the port of clients: a :data:`pyzk.server.net.server.HttpFactory`."""
    await load(f"{__name__}.port")
    from .port import make_http

    return make_http(server, nursery)
