"""One client over any trio stream: TLS, memory, or a plain socket where there is no epoll."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

import trio

from ..protocol.records import Id
from .connection import Connection
from .service import Service

logger = logging.getLogger("pyzk.server")

_RECEIVE = 64 * 1024  # bytes
_LINGER = 2.0
"""Seconds that a client has to take what is left when the server closes."""


async def serve_stream(
    service: Service,
    stream: trio.abc.Stream,
    peer: tuple[str, int],
    now: Callable[[], float],
    flush: Callable[[], None],
    handshake: Callable[[], Iterable[Id]] | None = None,
) -> None:
    """Serve one client until it or the server closes the connection, then close the stream.

    :param flush: called when events may have come to wait on other connections.
    :param handshake: for TLS: tells the identities of the client, once the stream is up.
    """
    link = _StreamLink(service, stream, now, flush)
    try:
        connection = service.accept(peer, now(), link.wake, secure=isinstance(stream, trio.SSLStream))
        if connection is not None:
            await link.run(connection, handshake)
    finally:
        await trio.aclose_forcefully(stream)


class _StreamLink:
    def __init__(
        self, service: Service, stream: trio.abc.Stream, now: Callable[[], float], flush: Callable[[], None]
    ) -> None:
        self._service = service
        self._stream = stream
        self._now = now
        self._flush = flush
        self._connection: Connection | None = None
        self._scope = trio.CancelScope()
        self._output = trio.Event()  # output waits, or the connection is over
        self._taken = trio.Event()  # output was taken

    def wake(self) -> None:
        self._output.set()
        connection = self._connection
        if connection is not None and connection.close_expected:
            # what is left may still be sent, unless the client does not take it
            left = 0.0 if connection.aborted else _LINGER
            self._scope.deadline = min(self._scope.deadline, trio.current_time() + left)

    async def run(self, connection: Connection, handshake: Callable[[], Iterable[Id]] | None) -> None:
        self._connection = connection
        try:
            with self._scope:
                if isinstance(self._stream, trio.SSLStream) and not await self._secure(
                    self._stream, connection
                ):
                    return
                if handshake is not None:
                    connection.identities.extend(handshake())
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._read, connection)
                    await self._write(connection)
                    nursery.cancel_scope.cancel()
                await self._stream.aclose()
        except* (trio.BrokenResourceError, trio.ClosedResourceError):
            logger.debug("%s: the stream broke", connection)
        except* Exception:
            connection.fail()
        finally:
            connection.receive_eof()
            self._flush()

    async def _secure(self, stream: trio.SSLStream[trio.abc.Stream], connection: Connection) -> bool:
        """Do the TLS handshake; where it fails the connection is aborted."""
        patience = self._service.settings.sessionless_timeout / 1000
        try:
            with trio.fail_after(patience):
                await stream.do_handshake()
        except trio.TooSlowError:
            connection.abort(f"no TLS handshake within {patience:g} s")
        except trio.BrokenResourceError as error:
            reason = getattr(error.__cause__, "reason", None) or "it has gone away"
            connection.abort(f"its TLS handshake failed: {reason}")
        return not connection.close_expected

    async def _read(self, connection: Connection) -> None:
        while not connection.close_expected:
            if connection.may_read:
                try:
                    data = await self._stream.receive_some(_RECEIVE)
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    data = b""
                if data:
                    connection.receive_data(bytes(data), self._now())
                else:
                    connection.receive_eof()
            else:
                await self._taken.wait()
                connection.proceed(self._now())
            self._output.set()
            self._taken = trio.Event()
            self._flush()

    async def _write(self, connection: Connection) -> None:
        while True:
            await self._output.wait()
            self._output = trio.Event()
            while data := connection.data_to_send():
                await self._stream.send_all(data)
            self._taken.set()
            if connection.close_expected:
                return
