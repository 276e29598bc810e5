"""The answers to HTTP requests on the port for clients: the page, the API, the admin commands, metrics.

=====================  =====================================================================================
``/``                  for browsers the page, with its files below ``/page/`` (:mod:`.files`); for programs
                       what there is
``/api/v1/...``        the control API (:mod:`.api`); ``/openapi.json`` describes it
``/commands/...``      the commands of ZooKeeper's admin server (:mod:`..monitoring.admin`)
``/metrics``           metrics for Prometheus (:mod:`..monitoring.prometheus`)
=====================  =====================================================================================

A request that a web page may have sent is refused first (:mod:`.guard`).
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

import attrs
import trio

from ...protocol.version import __version__
from ..logger import logger
from ..monitoring import admin
from ..net.http import HttpServer, Request, Response
from ..net.importing import load
from ..testing.takeover import controls_of
from . import api, files
from .api import PREFIX
from .control import Control
from .guard import check_control, check_page
from .routes import ApiError, answer_text, problem
from .servers import Servers

if TYPE_CHECKING:
    from ..net.server import Server

_LET_IN_NOBODY: Final = (401, 403)
"""The statuses of requests that are not allowed."""
_SHOWN: Final = 100
"""The number of characters of a path in a log line."""
_TIMEOUT = 30.0
"""A client must send a request within this number of seconds. The same time is allowed for reading the
answer."""
_MAX_BODY = 4 * 2**20
"""The largest number of bytes of a request, such as a tree to load."""


def make_http(server: Server, nursery: trio.Nursery) -> HttpServer:
    """Make the HTTP server for the ports of one server. The arguments are the arguments of :class:`Port`."""

    def body_limit(request: Request) -> int:
        return admin.body_limit(request, server.service, _MAX_BODY)

    return HttpServer(Port(server, nursery).answer, _TIMEOUT, server.service.unread, body_limit)


class Port:
    """The answers to HTTP requests on the ports of one server.

    :param nursery: the nursery of the server. The servers that this server starts run in this nursery too.
    """

    def __init__(self, server: Server, nursery: trio.Nursery) -> None:
        self._server = server
        self._servers = Servers(nursery, server.http_factory)
        self._control: Control | None = None

    async def answer(self, request: Request) -> Response:
        response = await self._checked(request)
        return attrs.evolve(response, headers={**files.SAFE, **response.headers})

    async def _checked(self, request: Request) -> Response:
        try:
            check_page(request, self._hosts())
            return await self._answer(request)
        except ApiError as error:
            if error.status in _LET_IN_NOBODY:
                told = request.method, request.path[:_SHOWN], error.detail
                logger.warning("HTTP from %s: %s %s: %s", request.peer, *told)
            return problem(error)

    async def _answer(self, request: Request) -> Response:
        settings = self._server.service.settings
        path = request.path
        if path.startswith(files.PREFIX) or (path == "/" and files.wants_page(request)):
            return files.answer(request)
        if path == "/":
            return answer_text(self._welcome())
        if path.startswith(f"{PREFIX}/") or path == "/openapi.json":
            check_control(request, self._hosts(), settings.control_token)
            return await api.answer(self._for_control(), request)
        service, now = self._server.service, self._server.clock.now()
        if path == settings.admin_url or path.startswith(f"{settings.admin_url}/"):
            response = admin.answer(request, service, now)
            self._server.flush()
            return response
        if path == "/metrics":
            if find_spec("prometheus_client") is None:
                raise ApiError(501, "metrics need more: pip install prometheus-client")
            await load("pyzk.server.monitoring.prometheus")
            from ..monitoring import prometheus

            return prometheus.answer(request, service, now)
        raise ApiError(404, f"there is no {path}; / lists what there is")

    def _for_control(self) -> Control:
        """Return the state of the control API. The first request makes the state."""
        if self._control is None:
            self._server.service.is_controlled = True
            self._control = Control(controls_of(self._server), self._servers)
        return self._control

    def _hosts(self) -> list[str]:
        addresses = (self._server.address, self._server.secure_address)
        return [address[0] for address in addresses if address is not None]

    def _welcome(self) -> str:
        host, port = self._server.address
        return "\n".join(
            [
                f"pyzk-server {__version__}, a ZooKeeper server for development and tests, at {host}:{port}",
                "",
                "/ in a browser: the page of the server",
                f"{PREFIX}/server  the control API: sessions, time, faults, tree, history",
                "/openapi.json   its description",
                f"{self._server.service.settings.admin_url:15} the commands of ZooKeeper's admin server",
                "/metrics        metrics for Prometheus",
            ]
        )
