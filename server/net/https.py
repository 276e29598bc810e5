"""TLS for a port that speaks HTTP. If the port also speaks plain HTTP, the first byte of a client decides."""

from __future__ import annotations

import ssl
from collections.abc import Callable

import trio

from ...protocol.constants import TLS_HELLO
from .streams import Begun

_FIRST = 4096
"""The number of bytes that are received to recognise the client's protocol."""


class Secure:
    """The way in which a port opens streams of TLS.

    :param only: whether plain HTTP is refused.
    :param timeout: the time in seconds in which a client must send its first byte. The handshake has the same
        time.
    :param on_plain: called for each client that speaks plain HTTP.
    """

    def __init__(
        self, context: ssl.SSLContext, only: bool, timeout: float, on_plain: Callable[[], None]
    ) -> None:
        self._context = context
        self._only = only
        self._timeout = timeout
        self._on_plain = on_plain

    async def open(self, stream: trio.SocketStream) -> tuple[trio.abc.Stream, bytes]:
        """Return the stream for HTTP, and the bytes that were already received.

        :raises trio.BrokenResourceError: the handshake has failed.
        :raises trio.TooSlowError: the first byte or the handshake takes too long.
        """
        begun: trio.SocketStream | Begun = stream
        if not self._only:
            with trio.fail_after(self._timeout):
                first = bytes(await stream.receive_some(_FIRST))
            if first[:1] != TLS_HELLO[:1]:
                self._on_plain()
                return stream, first
            begun = Begun(stream, first)
        secure = trio.SSLStream(begun, self._context, server_side=True, https_compatible=True)
        with trio.fail_after(self._timeout):
            await secure.do_handshake()
        return secure, b""
