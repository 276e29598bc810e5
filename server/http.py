"""A small HTTP/1.1 server, for what operators ask: what it answers is a function that does not block.

Each client has a bounded time to make a request of bounded size and to take the answer, and there is a
bounded number of clients. Whatever is wrong with one ends its own connection, with one log line.
"""

from __future__ import annotations

import logging
import re
import socket
from collections.abc import Callable, Mapping
from email.utils import formatdate
from http import HTTPStatus
from typing import Final, TypeAlias
from urllib.parse import parse_qsl, unquote

import attrs
import h11
import trio

from .listening import serve_clients

logger = logging.getLogger("pyzk.server")

_MAX_HEAD: Final = 16 * 1024  # bytes
_MAX_BODY: Final = 64 * 1024  # bytes
_MAX_CLIENTS: Final = 64
_RECEIVE: Final = 16 * 1024  # bytes
_LINGER: Final = 2.0
"""Seconds that a client has to close its side when we close ours."""


@attrs.frozen
class Request:
    """
    :ivar target: path and query as they were sent.
    :ivar headers: by name in lower case.
    :ivar peer: the client's address.
    """

    method: str
    target: str
    headers: Mapping[str, str] = attrs.field(factory=dict)
    body: bytes = b""
    peer: str = "127.0.0.1"

    @property
    def path(self) -> str:
        path = self.target.partition("?")[0]
        return unquote(re.sub("^https?://[^/]*", "", path, flags=re.IGNORECASE))

    @property
    def arguments(self) -> dict[str, str]:
        """The query; of several values of a name the first counts."""
        pairs = parse_qsl(self.target.partition("?")[2], keep_blank_values=True)
        return dict(reversed(pairs))


@attrs.frozen
class Response:
    status: int
    body: bytes = b""
    headers: Mapping[str, str] = attrs.field(factory=dict)


Answer: TypeAlias = Callable[[Request], Response]


def plain(status: int, **headers: str) -> Response:
    """An answer without content but the name of its status."""
    text = f"{status} {HTTPStatus(status).phrase}\n"
    return Response(status, text.encode(), {"content-type": "text/plain; charset=utf-8", **headers})


def method_refused(method: str, *allowed: str) -> Response | None:
    """What is answered to a method that is not one of ``allowed``."""
    if method in allowed:
        return None
    return plain(403) if method == "TRACE" else plain(405, allow=", ".join(allowed))


async def serve_http(listener: socket.socket, answer: Answer, timeout: float) -> None:
    """Serve until cancelled.

    :param timeout: the seconds that a client has for each request and its answer, idle time included.
    """
    clients: set[trio.SocketStream] = set()
    refusing = False

    async def serve(stream: trio.SocketStream) -> None:
        nonlocal refusing
        clients.add(stream)
        try:
            host = stream.socket.getpeername()[0]
            if len(clients) <= _MAX_CLIENTS:
                refusing = False
                await _Exchange(stream, host, answer).run(timeout)
            elif not refusing:
                refusing = True
                logger.warning("refusing HTTP clients, such as %s: there are %d already", host, _MAX_CLIENTS)
        except (OSError, trio.BrokenResourceError) as error:
            logger.debug("an HTTP client has gone away: %s", error)
        finally:
            clients.discard(stream)
            await trio.aclose_forcefully(stream)

    await serve_clients(listener, serve)


class _Exchange:
    """One client's requests, one after the other."""

    def __init__(self, stream: trio.SocketStream, peer: str, answer: Answer) -> None:
        self._stream = stream
        self._peer = peer
        self._answer = answer
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_HEAD)
        self._method = b""

    async def run(self, timeout: float) -> None:
        http = self._http
        while True:
            with trio.move_on_after(timeout) as scope:
                try:
                    request = await self._receive()
                except h11.RemoteProtocolError as error:
                    logger.info("HTTP from %s: %s", self._peer, error)
                    await self._send(plain(error.error_status_hint))
                    break
                if request is None:
                    break
                await self._send(self._respond(request))
            if scope.cancelled_caught:
                if http.their_state is not h11.IDLE or http.trailing_data[0]:
                    logger.info("HTTP from %s: no whole request and answer in %g s", self._peer, timeout)
                return
            if http.our_state is not h11.DONE or http.their_state is not h11.DONE:
                break
            http.start_next_cycle()
        await self._part()

    def _respond(self, request: Request) -> Response:
        try:
            return self._answer(request)
        except Exception:
            logger.exception("%s %s failed; this is a bug of the server", request.method, request.path)
            return plain(500)

    async def _receive(self) -> Request | None:
        self._method = b""
        head = await self._next_event()
        if not isinstance(head, h11.Request):
            return None  # closed
        self._method = head.method
        body = bytearray()
        while isinstance(part := await self._next_event(), h11.Data):
            body += part.data
            if len(body) > _MAX_BODY:
                raise h11.RemoteProtocolError(f"a body of more than {_MAX_BODY:,} bytes", 413)
        return Request(
            head.method.decode("latin-1"),
            head.target.decode("latin-1"),
            {name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers},
            bytes(body),
            self._peer,
        )

    async def _next_event(self) -> object:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            if self._http.they_are_waiting_for_100_continue:
                go_ahead = h11.InformationalResponse(status_code=100, headers=[])
                await self._stream.send_all(self._http.send(go_ahead) or b"")
            self._http.receive_data(await self._stream.receive_some(_RECEIVE))
        return event

    async def _send(self, response: Response) -> None:
        headers = {
            "date": formatdate(usegmt=True),
            "content-length": str(len(response.body)),
            **response.headers,
        }
        events: list[h11.Event] = [
            h11.Response(
                status_code=response.status,
                headers=list(headers.items()),
                reason=HTTPStatus(response.status).phrase,
            )
        ]
        if self._method != b"HEAD":
            events.append(h11.Data(data=response.body))
        events.append(h11.EndOfMessage())
        await self._stream.send_all(b"".join(self._http.send(event) or b"" for event in events))

    async def _part(self) -> None:
        """Close our side, then wait for the client's: closing with unread input could destroy the answer."""
        with trio.move_on_after(_LINGER):
            await self._stream.send_eof()
            while await self._stream.receive_some(_RECEIVE):
                pass
