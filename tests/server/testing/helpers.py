"""A client that says what it is told to, and waiting without sleeping through it."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from typing import Any

import attrs
import trio

from pyzk.protocol import records as r
from pyzk.protocol.constants import WATCH_XID
from pyzk.protocol.framing import FrameBuffer, frame
from pyzk.protocol.jute import Record
from pyzk.protocol.operations import OpCode

OPEN = r.OPEN_ACL


@attrs.frozen
class Reply:
    xid: int
    zxid: int
    err: int
    body: bytes


@attrs.frozen
class Event:
    type: int
    path: str | None


class Closed(Exception):
    """The server has closed the connection."""


class RawClient:
    """The protocol over a trio stream, one frame at a time."""

    def __init__(self, stream: trio.abc.HalfCloseableStream) -> None:
        self.stream = stream
        self.session = 0
        self.password: bytes | None = bytes(16)
        self.timeout = 0
        self._buffer = FrameBuffer(2**20)
        self._frames: list[bytes] = []
        self._xid = 0

    async def connect(
        self, *, session: int = 0, password: bytes | None = None, timeout: int = 10_000, seen: int = 0
    ) -> RawClient:
        request = r.ConnectRequest(0, seen, timeout, session, password or bytes(16))
        await self.stream.send_all(frame(request.encode() + b"\0"))
        response, _ = r.ConnectResponse.read(await self.next_frame())
        self.session, self.timeout, self.password = response.sessionId, response.timeOut, response.passwd
        return self

    async def send(self, op: int, record: Record | bytes = b"") -> int:
        self._xid += 1
        body = record if isinstance(record, bytes) else record.encode()
        await self.stream.send_all(frame(struct.pack(">ii", self._xid, op) + body))
        return self._xid

    async def next_frame(self) -> bytes:
        while not self._frames:
            data = await self.stream.receive_some()
            if not data:
                raise Closed
            self._buffer.feed(bytes(data))
            self._frames += self._buffer.take(1000)
        return self._frames.pop(0)

    async def next(self) -> Reply | Event:
        payload = await self.next_frame()
        xid, zxid, err = struct.unpack_from(">iqi", payload)
        if xid == WATCH_XID:
            event, _ = r.WatcherEvent.read(payload, 16)
            return Event(event.type, event.path)
        return Reply(xid, zxid, err, payload[16:])

    async def call(self, op: int, record: Record | bytes = b"") -> Reply:
        """Events that come before the reply are lost."""
        xid = await self.send(op, record)
        while True:
            got = await self.next()
            if isinstance(got, Reply):
                assert got.xid == xid
                return got

    async def silent(self) -> bool:
        """Whether nothing comes, as far as the server can say without being moved."""
        with trio.move_on_after(0.001) as scope:
            await self.next_frame()
        return scope.cancelled_caught

    async def create(self, path: str, data: bytes = b"", flags: int = 0) -> Reply:
        return await self.call(OpCode.CREATE, r.CreateRequest(path, data, OPEN, flags))

    async def exists(self, path: str, watch: bool = False) -> Reply:
        return await self.call(OpCode.EXISTS, r.ExistsRequest(path, watch))


def create(path: str, flags: int = 0) -> r.CreateRequest:
    return r.CreateRequest(path, b"", OPEN, flags)


def wait_until(condition: Callable[[], Any], timeout: float = 10.0) -> Any:
    """Poll until the condition holds; its value."""
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        assert time.monotonic() < deadline, "it never came to pass"
        time.sleep(0.002)
    return value
