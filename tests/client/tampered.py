"""A server whose frames are changed on their way to the client: our server sends no malformed ones."""

from __future__ import annotations

from collections.abc import Callable

import trio

from pyzk.client.runner import Connector
from pyzk.protocol.framing import FrameBuffer, frame
from pyzk.server.testing import Controls

Tamper = Callable[[bytes], list[bytes]]
"""Makes the frames that the client gets of one that the server sends."""


class TamperedStream(trio.abc.Stream):
    """A connection to a server, with other frames coming out than the server has put in."""

    def __init__(self, stream: trio.abc.Stream, tamper: Tamper) -> None:
        self._stream = stream
        self._tamper = tamper
        self._buffer = FrameBuffer(2**24)

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        while True:
            data = await self._stream.receive_some()
            self._buffer.feed(bytes(data))
            frames = [
                frame(changed) for payload in self._buffer.take(1000) for changed in self._tamper(payload)
            ]
            if frames or not data:
                return b"".join(frames)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        await self._stream.aclose()


def tampered(server: Controls, tamper: Tamper) -> Connector:
    """Every host name and port leads to this server, whose frames are tampered with."""

    async def open_stream(host: str, port: int) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        return TamperedStream(server.open_stream(), tamper)

    return open_stream
