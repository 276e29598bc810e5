"""A server with the interfaces for operators: four-letter words, the admin port and the port of the
metrics."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from ..config.settings import Settings
from ..net.clock import Clock
from ..net.server import HttpFactory, Listen, Server, Task
from ..net.service import Service
from . import four_letter_words

if TYPE_CHECKING:
    from ..net.http import Request, Response
    from ..net.https import Secure

_METRICS_TIMEOUT = 30.0
"""The time in seconds in which a client must send its request to the port of the metrics. The client has the
same time to read the answer."""
_MAX_BODY = 64 * 1024
"""The largest number of bytes of an HTTP request on these ports."""


class MonitoredServer(Server):
    """A server that answers four-letter words, and that has the ports for operators in its settings.

    :ivar admin_address: the host and the port of the admin server, if it is enabled and listens.
    :ivar metrics_address: the host and the port of the metrics for Prometheus, if the port is open.
    """

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        make_service: Callable[..., Service] = Service,
        *,
        http: HttpFactory | None = None,
    ) -> None:
        self.admin_address: tuple[str, int] | None = None
        self.metrics_address: tuple[str, int] | None = None
        super().__init__(
            settings, clock, partial(make_service, answer_word=four_letter_words.answer), http=http
        )

    def further_ports(self, listen: Listen) -> Iterator[Task]:
        settings = self.service.settings
        if settings.admin_port is not None:
            admin, self.admin_address = listen(settings.admin_host, settings.admin_port)
            yield self._admin_task(admin)
        if settings.metrics_port is not None:
            metrics, self.metrics_address = listen(settings.metrics_host, settings.metrics_port)
            yield self._metrics_task(metrics)

    def _admin_task(self, listener: socket.socket) -> Task:
        from .admin import answer, body_limit

        settings = self.service.settings
        timeout = settings.admin_idle_timeout / 1000
        secure = None
        if settings.admin_ssl_context is not None:
            from ..net.https import Secure

            def note_plain() -> None:
                self.service.engine.stats.plain_admin += 1

            secure = Secure(settings.admin_ssl_context, settings.admin_force_https, timeout, note_plain)
        return self._http_task(
            listener,
            answer,
            timeout,
            lambda request: body_limit(request, self.service, _MAX_BODY),
            secure,
        )

    def _metrics_task(self, listener: socket.socket) -> Task:
        from .prometheus import answer

        return self._http_task(listener, answer, _METRICS_TIMEOUT, lambda request: _MAX_BODY)

    def _http_task(
        self,
        listener: socket.socket,
        answer: Callable[[Request, Service, float], Response],
        timeout: float,
        max_body: Callable[[Request], int],
        secure: Secure | None = None,
    ) -> Task:
        from ..net.http import HttpServer

        def respond(request: Request) -> Response:
            response = answer(request, self.service, self.clock.now())
            self.flush()
            return response

        return partial(HttpServer(respond, timeout, self.service.unread, max_body).listen, listener, secure)
