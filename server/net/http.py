"""A small HTTP/1.1 server for operators. A function that does not block makes the answers.

Three things are limited: the number of clients, the size of a request, and the time in which a client must
send a request and read the answer. All other tasks run between two requests. Bad input ends only its own
connection, and the log gets one line.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import suppress
from email.utils import formatdate
from http import HTTPStatus
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

import attrs
import h11
import trio

from ..core.failures import report
from ..logger import logger
from .listening import serve_clients
from .streams import hang_up, send_counted
from .unread import UnreadOutput

if TYPE_CHECKING:
    from .https import Secure

_MAX_HEAD: Final = 16 * 1024  # bytes
_MAX_BODY: Final = 64 * 1024  # bytes
_MAX_CLIENTS: Final = 64
"""The largest number of clients at the same time. Operators need only a few clients, and the answer to one
client may have some MB."""
_RECEIVE: Final = 16 * 1024  # bytes
_PIECE: Final = 64 * 1024  # bytes
_CHUNKS, _CHUNK = 2000, 128
"""The number of chunks that every body may have, which takes 10 ms. For each further chunk the body must have
the second number of bytes."""
_SHOWN: Final = 100  # characters of a header in a log line
_LINGER: Final = 2.0
"""The time in seconds in which a client must close its side after the server has closed its own side."""


@attrs.frozen
class Request:
    """One request.

    :ivar target: the path and the query, exactly as they were sent.
    :ivar headers: the headers, by name in lower case.
    :ivar peer: the client's address.
    :ivar certificate: the certificate of the client, from :meth:`ssl.SSLSocket.getpeercert`.
    """

    method: str
    target: str
    headers: Mapping[str, str] = attrs.field(factory=dict)
    body: bytes = b""
    peer: str = "127.0.0.1"
    certificate: Mapping[str, Any] | None = attrs.field(default=None, repr=False)

    @property
    def path(self) -> str:
        """The path, decoded and without the query."""
        path = self.target.partition("?")[0]
        return unquote(re.sub("^https?://[^/]*", "", path, flags=re.IGNORECASE))

    @property
    def arguments(self) -> dict[str, str]:
        """The arguments of the query, by name. If a name has several values, the first value counts."""
        pairs = parse_qsl(self.target.partition("?")[2], keep_blank_values=True)
        return dict(reversed(pairs))


Send: TypeAlias = Callable[[bytes], Awaitable[None]]
"""A function that sends a piece of a body. The piece may be empty. The first piece is sent with the head."""


@attrs.frozen
class Response:
    """One answer.

    :ivar rest: the pieces after ``body``, for a body that takes long to make. Each piece takes a bounded
        time, and other tasks run in between.
    :ivar stream: an async function that sends the body piece by piece, in place of ``body``. The function is
        cancelled when the client leaves.
    """

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = attrs.field(factory=dict)
    rest: Iterator[bytes] = attrs.field(factory=lambda: iter(()))
    stream: Callable[[Send], Awaitable[None]] | None = None


_PAGE_HEADERS: Final = frozenset(("origin", "referer", "sec-fetch-site"))
"""The headers in which browsers name the site of the web page behind a request."""

Answer: TypeAlias = Callable[[Request], Response | Awaitable[Response]]


def plain(status: int, **headers: str) -> Response:
    """Make an answer whose body is the name of its status."""
    text = f"{status} {HTTPStatus(status).phrase}\n"
    return Response(status, text.encode(), {"content-type": "text/plain; charset=utf-8", **headers})


def method_refused(method: str, *allowed: str) -> Response | None:
    """Return None if a method is in ``allowed``; otherwise return the answer that refuses the method."""
    if method in allowed:
        return None
    return plain(403) if method == "TRACE" else plain(405, allow=", ".join(allowed))


def web_page_behind(request: Request, names: Collection[str], *, strict: bool) -> str | None:
    """Return the reason why a request may come from a web page of an unknown site; None if it does not.

    A browser names the site of the page behind a request. This is not enough. An attacker may let his own
    domain name lead to this machine. Then the browser treats his page as a page of this server. So the
    request must also be for an address, or for one of the ``names``.

    :param strict: whether a browser must name the site. Without TLS, or if the host is an address, a page can
        make the browser leave out the name of its site.
    """
    host = request.headers.get("host", "").lower()
    name = host_name(request)
    if name and "*" not in names and name not in names and not _is_address(name):
        return f"it is for {host[:_SHOWN]!r}"
    for header in ("origin", "referer"):
        page = request.headers.get(header)
        if page is not None and _split(page).netloc.lower() != host:
            return f"it comes from {page[:_SHOWN]!r}"
    if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        return "it comes from another site"
    if strict and not _PAGE_HEADERS & request.headers.keys():
        return "a browser does not say where it comes from" if _is_browser(request) else None
    return None


def host_name(request: Request) -> str:
    """Return the host name or address of a request, without a port; empty if the request has none."""
    host = request.headers.get("host", "").lower()
    return (_split(f"//{host}").hostname or "").rstrip(".")


def _is_browser(request: Request) -> bool:
    return request.headers.get("user-agent", "").startswith("Mozilla/")


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("//invalid")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _head(response: Response, more: Mapping[str, str] = MappingProxyType({})) -> h11.Response:
    headers = {"date": formatdate(usegmt=True), **more, **response.headers}
    return h11.Response(
        status_code=response.status,
        headers=list(headers.items()),
        reason=HTTPStatus(response.status).phrase,
    )


class HttpServer:
    """A server for clients that speak HTTP, over any kind of stream.

    :param answer: the function that answers a request; for long answers it may be async.
    :param timeout: the time in seconds in which a client must send each request. The client has the same time
        to read the answer.
    :param unread: the counter of the output that clients do not read.
    :param max_body: returns the largest number of bytes of the body of a request. It is called with the
        request without its body.
    """

    def __init__(
        self,
        answer: Answer,
        timeout: float,
        unread: UnreadOutput,
        max_body: Callable[[Request], int] = lambda request: _MAX_BODY,
    ) -> None:
        self._answer = answer
        self._timeout = timeout
        self._unread = unread
        self._max_body = max_body
        self._exchanges: dict[_Exchange, None] = {}
        self._turns = trio.Lock()
        self._crowded = False

    async def listen(self, listener: socket.socket, secure: Secure | None = None) -> None:
        """Serve the clients of a listener until cancelled.

        :param secure: the object that opens streams of TLS; None without TLS.
        """

        async def serve(stream: trio.SocketStream) -> None:
            try:
                peer = stream.socket.getpeername()[0]
            except OSError:  # the client has already closed the connection
                await trio.aclose_forcefully(stream)
                return
            if secure is None:
                await self.serve(stream, peer)
                return
            try:
                opened, received = await secure.open(stream)
            except (trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError) as error:
                reason = getattr(error.__cause__, "reason", None) or "it has gone away, or was too slow"
                logger.warning("HTTPS from %s: closed, its TLS handshake failed: %s", peer, reason)
                await trio.aclose_forcefully(stream)
            else:
                await self.serve(opened, peer, received)

        await serve_clients(listener, serve)

    async def serve(self, stream: trio.abc.Stream, peer: str, received: bytes = b"") -> None:
        """Serve one client, then close its stream.

        :param peer: the address of the client.
        :param received: the bytes that the client has already sent.
        """
        exchange = _Exchange(stream, peer, self._answer_in_turn, self._unread, self._max_body)
        try:
            self._make_room()
            self._exchanges[exchange] = None
            await exchange.run(self._timeout, received)
        except (OSError, trio.BrokenResourceError) as error:
            logger.debug("an HTTP client has gone away: %s", error)
        except Exception:
            report("an HTTP client was closed")
        finally:
            self._exchanges.pop(exchange, None)
            if isinstance(stream, trio.SocketStream):
                hang_up(stream.socket)
            await trio.aclose_forcefully(stream)

    async def _answer_in_turn(self, request: Request) -> Response:
        """Answer one request in each round of trio's scheduler, so that all other tasks run between two
        requests."""
        async with self._turns:  # the next request that waits is answered in the next round
            pass
        response = self._answer(request)
        return response if isinstance(response, Response) else await response

    def _make_room(self) -> None:
        if len(self._exchanges) < _MAX_CLIENTS:
            self._crowded = False
            return
        # Clients without a request are closed first. A new client has most likely sent its request already.
        oldest = min(self._exchanges, key=lambda found: (found.answering, found.asked))
        del self._exchanges[oldest]
        oldest.scope.cancel()
        if not self._crowded:
            self._crowded = True
            logger.warning(
                "more than %d HTTP clients, such as %s; closing those idle for longest",
                _MAX_CLIENTS,
                oldest.peer,
            )


class _Exchange:
    """The requests of one client, one after the other.

    :ivar scope: the cancel scope; its cancellation ends the connection.
    :ivar answering: whether a whole request has arrived, and its answer is not yet sent.
    :ivar asked: the time at which the last request arrived, in seconds of trio's clock; before the first
        request the time at which the client connected.
    """

    def __init__(
        self,
        stream: trio.abc.Stream,
        peer: str,
        answer: Callable[[Request], Awaitable[Response]],
        unread: UnreadOutput,
        max_body: Callable[[Request], int],
    ) -> None:
        self.peer = peer
        self.answering = False
        self.aborted = False
        self.waiting = 0  # the bytes of the answer after the piece that is being sent
        self.asked = trio.current_time()
        self._stream = stream
        self._certificate = stream.getpeercert() if isinstance(stream, trio.SSLStream) else None
        self._answer = answer
        self._unread = unread
        self._max_body = max_body
        self.scope = trio.CancelScope()
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_HEAD)
        self._method = b""

    def reject(self, reason: str) -> None:
        """Close the connection immediately, because the client does not read."""
        logger.warning("HTTP from %s: closed, %s", self.peer, reason)
        self.aborted = True
        self.scope.cancel()

    async def run(self, timeout: float, received: bytes) -> None:
        if received:
            self._http.receive_data(received)
        with self.scope:
            await self._run(timeout)

    async def _run(self, timeout: float) -> None:
        http = self._http
        while True:
            with trio.move_on_after(timeout) as scope:
                try:
                    request = await self._receive()
                except h11.RemoteProtocolError as error:
                    logger.warning("HTTP from %s: refused, %s", self.peer, error)
                    error.__traceback__ = None  # it refers to the error, and the cycle would be garbage
                    refusal = plain(error.error_status_hint)
                    await self._send(refusal, [refusal.body])
                    break
            if scope.cancelled_caught:
                if http.their_state is not h11.IDLE or http.trailing_data[0]:
                    self._log_timeout(timeout)
                return
            if request is None:
                break
            self.answering, self.asked = True, trio.current_time()
            response, body = await self._respond(request)
            if response.stream is not None and request.method != "HEAD":
                await self._send_stream(response, response.stream)
                break
            with trio.move_on_after(timeout) as scope:
                await self._send(response, body)
            if scope.cancelled_caught:
                self._log_timeout(timeout)
                return
            self.answering = False
            if http.our_state is not h11.DONE or http.their_state is not h11.DONE:
                break
            http.start_next_cycle()
        await self._close()

    def _log_timeout(self, timeout: float) -> None:
        logger.warning("HTTP from %s: closed, no whole request and answer within %g s", self.peer, timeout)

    async def _respond(self, request: Request) -> tuple[Response, list[bytes]]:
        """Return the answer, and the pieces of its whole body. The pieces are not small, and nothing joins
        them."""
        try:
            response = await self._answer(request)
            body: list[bytes] = []
            some, size = [response.body], len(response.body)
            for piece in response.rest:
                some.append(piece)
                size += len(piece)
                if size >= _PIECE:
                    body.append(b"".join(some))
                    some, size = [], 0
                await trio.lowlevel.checkpoint()
            return response, [*body, b"".join(some)]
        except Exception:
            logger.exception("%s %s failed; this is a bug of the server", request.method, request.path)
            failure = plain(500)
            return failure, [failure.body]

    async def _receive(self) -> Request | None:
        self._method = b""
        head = await self._next_event()
        if not isinstance(head, h11.Request):
            return None  # the client has closed its side
        self._method = head.method
        request = Request(
            head.method.decode("latin-1"),
            head.target.decode("latin-1"),
            {name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers},
            peer=self.peer,
            certificate=self._certificate,
        )
        body = bytearray()
        chunks, most = 0, self._max_body(request)
        while isinstance(part := await self._next_event(), h11.Data):
            body += part.data
            chunks += part.chunk_start
            if len(body) > most:
                raise h11.RemoteProtocolError(f"a body of more than {most:,} bytes", 413)
            if chunks > _CHUNKS + len(body) // _CHUNK:
                raise h11.RemoteProtocolError("a body in very small chunks", 413)
        return attrs.evolve(request, body=bytes(body))

    async def _next_event(self) -> object:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            if self._http.they_are_waiting_for_100_continue:
                go_ahead = h11.InformationalResponse(status_code=100, headers=[])
                await self._stream.send_all(self._http.send(go_ahead) or b"")
            self._http.receive_data(bytes(await self._stream.receive_some(_RECEIVE)))
        return event

    async def _send_stream(self, response: Response, stream: Callable[[Send], Awaitable[None]]) -> None:
        head = self._http.send(_head(response)) or b""

        async def send(data: bytes) -> None:
            nonlocal head
            piece = head + (self._http.send(h11.Data(data=data)) or b"")
            head = b""
            await send_counted(self._stream, piece, self, self._unread)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._wait_for_end, nursery.cancel_scope)
            try:
                await stream(send)
                end = self._http.send(h11.EndOfMessage()) or b""
                await send_counted(self._stream, end, self, self._unread)
            except trio.BrokenResourceError as error:
                logger.debug("an HTTP client has gone away: %s", error)
            nursery.cancel_scope.cancel()

    async def _wait_for_end(self, scope: trio.CancelScope) -> None:
        """Cancel the scope when the client closes its side. Bytes after the client's request are dropped."""
        with suppress(trio.BrokenResourceError):
            while await self._stream.receive_some(_RECEIVE):
                pass
        scope.cancel()

    async def _send(self, response: Response, body: list[bytes]) -> None:
        """Send a whole answer.

        :param body: the pieces of the body; the list is empty afterwards.
        """
        self.waiting = sum(map(len, body))
        length = {"content-length": str(self.waiting)} if response.stream is None else {}
        data = self._http.send(_head(response, length)) or b""
        if self._method == b"HEAD":
            body.clear()
        body.reverse()
        while body:
            piece = body.pop()
            self.waiting -= len(piece)
            data += self._http.send(h11.Data(data=piece)) or b""
            if not body:
                break
            await send_counted(self._stream, data, self, self._unread)
            data = b""
        data += self._http.send(h11.EndOfMessage()) or b""
        self.waiting = 0
        await send_counted(self._stream, data, self, self._unread)

    async def _close(self) -> None:
        """Close the server's side, then wait for the client to close its side. If the server closed the
        socket while there is unread input, the answer could be lost."""
        with trio.move_on_after(_LINGER):
            if isinstance(self._stream, trio.abc.HalfCloseableStream):
                await self._stream.send_eof()
            while await self._stream.receive_some(_RECEIVE):
                pass
