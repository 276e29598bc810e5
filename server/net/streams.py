"""A client over any trio stream: TLS, a stream in memory, or a plain socket on a system without epoll."""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeAlias

import trio

from ...protocol.records import Id
from ..logger import logger
from .connection import Connection
from .service import Service
from .unread import Reader, UnreadOutput

_RECEIVE = 64 * 1024  # bytes
_SEND = 64 * 1024
"""The number of bytes that one call sends."""
_LINGER = 2.0
"""The time in seconds in which a client must read the rest of the output when the server closes."""


Handshake: TypeAlias = Callable[[], Awaitable[Iterable[Id]]]
"""A function that returns the identities of a TLS client, or raises :class:`HostNameError`."""


class HostNameError(Exception):
    """A client's certificate is not for the client's host."""


_forked = False
"""Whether this process has forked. (The processes that the module subprocess starts have no sockets of this
process.)"""


def _note_fork() -> None:
    global _forked
    _forked = True


if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(before=_note_fork)


async def serve_stream(
    service: Service,
    stream: trio.abc.Stream,
    peer: tuple[str, int],
    now: Callable[[], float],
    flush: Callable[[], None],
    serve_foreign: Callable[[Any, str, bytes], Awaitable[None]],
    handshake: Handshake | None = None,
    endpoint: str = "",
) -> None:
    """Serve one client until the client or the server closes the connection. Then close the stream.

    :param flush: a function that is called when events may wait on other connections.
    :param serve_foreign: a function that serves a client that does not speak ZooKeeper's protocol. Its
        arguments are the stream, the address, and the bytes that the client has sent.
    :param handshake: for TLS, a function that returns the identities of the client after the handshake.
    :param endpoint: the name of the client's endpoint, as for :meth:`.Service.accept`.
    """
    link = _StreamLink(service, stream, now, flush)
    try:
        secure = isinstance(stream, trio.SSLStream)
        connection = service.accept(peer, now(), link.wake, secure=secure, endpoint=endpoint)
        if connection is not None:
            await link.run(connection, handshake)
            if connection.is_foreign:
                await serve_foreign(stream, peer[0], connection.input.peek(len(connection.input)))
    finally:
        transport = stream.transport_stream if isinstance(stream, trio.SSLStream) else stream
        if isinstance(transport, trio.SocketStream | Begun):
            hang_up(transport.socket)
        await trio.aclose_forcefully(stream)


class Begun(trio.abc.Stream):
    """The stream of a socket from which some bytes were already received. The stream returns these bytes
    first."""

    def __init__(self, stream: trio.SocketStream, received: bytes) -> None:
        self.socket = stream.socket
        self._received = received
        self._stream = stream

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Receive bytes. The bytes that were already received come first."""
        if not self._received:
            return bytes(await self._stream.receive_some(max_bytes))
        await trio.lowlevel.checkpoint()
        size = len(self._received) if max_bytes is None else max_bytes
        data, self._received = self._received[:size], self._received[size:]
        return data

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send data."""
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until the socket may take more data."""
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()


async def send_counted(stream: trio.abc.Stream, data: bytes, reader: Reader, unread: UnreadOutput) -> None:
    """Send data in pieces, which shows whether the client reads. Bytes that are not yet sent count as
    unread."""
    try:
        for start in range(0, len(data), _SEND):
            unread.note(reader, len(data), progress=True)
            await stream.send_all(memoryview(data)[start : start + _SEND])
    finally:
        unread.forget(reader)


def hang_up(sock: socket.socket | trio.socket.SocketType) -> None:
    """Close a socket so that its other end notices it, also if a fork of this process still has the socket
    open."""
    if (
        _forked
    ):  # else to close it is enough, at half the cost: each session that is closed comes through here
        try:
            sock.shutdown(socket.SHUT_RDWR)
        except OSError as error:
            logger.debug("a socket was not connected any more: %s", error)
    sock.close()


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
        self._output = trio.Event()  # set when output waits, or when the connection is over
        self._taken = trio.Event()  # set when the client has taken output
        self._sending = 0  # the number of bytes that are being sent

    def wake(self) -> None:
        self._output.set()
        connection = self._connection
        if connection is not None and connection.close_expected:
            # The rest of the output is still sent if the client takes it in time.
            left = 0.0 if connection.aborted else _LINGER
            self._scope.deadline = min(self._scope.deadline, trio.current_time() + left)

    async def run(self, connection: Connection, handshake: Handshake | None) -> None:
        self._connection = connection
        try:
            with self._scope:
                if isinstance(self._stream, trio.SSLStream) and not await self._secure(
                    self._stream, connection
                ):
                    return
                if handshake is not None:
                    try:
                        connection.identities.extend(await handshake())
                    except HostNameError as error:
                        connection.reject(str(error))
                        return
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._read, connection)
                    await self._write(connection)
                    nursery.cancel_scope.cancel()
        except* (trio.BrokenResourceError, trio.ClosedResourceError):
            logger.debug("%s: the stream broke", connection)
        except* Exception:
            connection.fail()
        finally:
            connection.receive_eof()
            self._service.unread.forget(connection)
            self._flush()
            self._connection = None  # it refers to this link, and the cycle would be garbage

    async def _secure(self, stream: trio.SSLStream[trio.abc.Stream], connection: Connection) -> bool:
        """Do the TLS handshake. If the handshake fails, the connection is aborted."""
        service = self._service
        patience = service.settings.sessionless_timeout / 1000
        service.shaking_hands += 1
        try:
            # From Python 3.12 on a TooSlowError would be in a cycle of references with this connection.
            with trio.move_on_after(patience) as limit:
                await stream.do_handshake()
            if limit.cancelled_caught:
                connection.abort(f"no TLS handshake within {patience:g} s")
        except trio.BrokenResourceError as error:
            reason = getattr(error.__cause__, "reason", None) or "it has gone away"
            connection.reject(f"its TLS handshake failed: {reason}")
        finally:
            service.shaking_hands -= 1
        service.engine.stats.tls_failed += connection.close_expected
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
                    if self._sending:  # the new answers wait for the end of this
                        self._service.unread.note(connection, self._sending, progress=False)
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
                self._sending = len(data)
                await send_counted(self._stream, data, connection, self._service.unread)
                self._sending = 0
            self._taken.set()
            if connection.close_expected:
                return
