"""A client's end of a connection without a socket.

No task and no buffer is between the client and the server. ``send_all`` handles the bytes of the client
inside the call, and the client fetches the server's output itself. Therefore the reply is ready when
``send_all`` returns, and does not depend on scheduling.
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from ..net.connection import Connection
from ..net.service import Service

_RECEIVE = 64 * 1024  # bytes


class MemoryStream(trio.abc.HalfCloseableStream):
    """One client's end.

    :param settle_others: sends the waiting output of other connections.
    :param endpoint: as for :meth:`.Service.accept`.
    """

    def __init__(
        self,
        service: Service,
        peer: tuple[str, int],
        now: Callable[[], float],
        settle_others: Callable[[], None],
        endpoint: str = "",
    ) -> None:
        self._now = now
        self._settle_others = settle_others
        self._news = trio.Event()
        self._inbox = bytearray()
        self._outbox = bytearray()  # what the connection does not want to read yet
        self._closed = self._finished = self._receiving = False
        self.connection: Connection | None = service.accept(peer, now(), self._wake, endpoint=endpoint)

    def _wake(self) -> None:
        self._news.set()

    def settle(self) -> None:
        """Take the waiting output now, so that the client gets this output even if the connection is
        aborted."""
        if self.connection is not None:
            self._inbox += self.connection.data_to_send()

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        if self._closed or self._finished:
            raise trio.ClosedResourceError
        await trio.lowlevel.checkpoint()
        connection = self.connection
        if connection is None or connection.close_expected:
            raise trio.BrokenResourceError("the server has closed the connection")
        self._outbox += data
        self.pump()
        self._news.set()  # the connection calls no wake-up for output that it makes at once

    def pump(self) -> None:
        """Let the connection handle the bytes that the client has sent, unless the connection must not read
        now."""
        connection = self.connection
        while connection is not None and not connection.close_expected:
            try:
                if self._outbox and connection.may_read:
                    data = bytes(self._outbox)
                    self._outbox.clear()
                    connection.receive_data(data, self._now())
                elif connection.has_work and not connection.is_full:  # a turn does a bounded amount of work
                    connection.proceed(self._now())
                else:
                    return
            except Exception:
                connection.fail()
            self._settle_others()

    async def wait_send_all_might_not_block(self) -> None:
        if self._closed:
            raise trio.ClosedResourceError
        await trio.lowlevel.checkpoint()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        if max_bytes is not None and max_bytes < 1:
            raise ValueError("max_bytes must be at least 1")
        if self._closed:
            raise trio.ClosedResourceError
        if self._receiving:
            raise trio.BusyResourceError("another task is receiving already")
        self._receiving = True
        try:
            await trio.lowlevel.checkpoint()
            while True:
                self.settle()
                if not self._inbox:
                    self.pump()
                    self.settle()
                if self._inbox:
                    break
                if self.connection is None or self.connection.close_expected:
                    return b""
                self._news = trio.Event()
                await self._news.wait()
                if self._closed:
                    raise trio.ClosedResourceError
        finally:
            self._receiving = False
        data = bytes(self._inbox[: max_bytes or _RECEIVE])
        del self._inbox[: len(data)]
        return data

    async def send_eof(self) -> None:
        if self._closed:
            raise trio.ClosedResourceError
        await trio.lowlevel.checkpoint()
        self._finished = True
        if self.connection is not None:
            self.connection.receive_eof()
            self._settle_others()

    async def aclose(self) -> None:
        if not self._closed:
            self._closed = True
            self._news.set()
            if self.connection is not None:
                self.connection.receive_eof()
                self._settle_others()
        await trio.lowlevel.checkpoint()
