"""Our server in memory, in virtual time, behind a line that can be cut wherever a test wants it cut.

async with open_world() as world, world.connect() as zk:
    world.fault(OpCode.SET_DATA, lose="reply")
"""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Literal, Self

import attrs
import trio
import trio.testing

from pyzk.client import ZooKeeper, connect
from pyzk.protocol.framing import FrameBuffer, FrameLengthError, frame
from pyzk.server.config.settings import Settings
from pyzk.server.net.service import Service
from pyzk.server.net.streams import serve_stream

SERVER = "server:2181"


@attrs.define(eq=False)
class Fault:
    """What is to happen to the next request with some op code.

    :ivar lose: ``"request"``: the connection dies before the server sees it. ``"reply"``: the server applies
        it, and the connection dies instead of the reply. None: it is only delayed.
    :ivar delay: seconds for which the reply, and all behind it, is held back.
    :ivar expire: the server ends the session before the connection dies.
    """

    opcode: int
    lose: Literal["request", "reply"] | None = None
    delay: float = 0.0
    expire: bool = False
    fired: int = 0


@attrs.define(eq=False)
class World:
    """A server and the lines to it."""

    service: Service
    nursery: trio.Nursery
    refusing: bool = False
    paused: bool = False
    connections: int = 0
    opcodes: list[int] = attrs.Factory(list)
    """Every request that was let through, by op code, in order."""
    tamper: Callable[[bytes], list[bytes]] = lambda payload: [payload]
    """Makes the frames that a client gets of one that the server sends."""
    _faults: list[Fault] = attrs.Factory(list)
    _lines: set[trio.CancelScope] = attrs.Factory(set)
    _resumed: trio.Event = attrs.Factory(trio.Event)

    def connect(self, servers: str = SERVER, **options: Any) -> AbstractAsyncContextManager[ZooKeeper]:
        return connect(servers, **({"connector": self.connector} | options))

    def fault(self, opcode: int, **what: Any) -> Fault:
        fault = Fault(opcode, **what)
        self._faults.append(fault)
        return fault

    def cut(self) -> None:
        """Every connection dies."""
        for line in list(self._lines):
            line.cancel()

    def pause(self) -> None:
        """Connections are accepted, but nothing gets through any more."""
        self.paused = True
        self._resumed = trio.Event()

    def resume(self) -> None:
        self.paused = False
        self._resumed.set()

    def expire(self, session_id: int) -> None:
        """The server ends a session."""
        session = self.service.engine.sessions.get(session_id)
        assert session is not None
        self.service.engine.expire(session, trio.current_time())

    @property
    def watch_count(self) -> int:
        """The server's watches; a persistent one counts twice."""
        return self.service.engine.watches.count()

    @property
    def session_ids(self) -> list[int]:
        return [session.id for session in self.service.engine.sessions]

    async def connector(self, host: str, port: int) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        if self.refusing:
            raise ConnectionRefusedError(111, "Connection refused")
        self.connections += 1
        ours, theirs = trio.testing.memory_stream_pair()
        inner, outer = trio.testing.memory_stream_pair()
        self.nursery.start_soon(self._serve, outer)
        self.nursery.start_soon(self._relay, theirs, inner)
        return ours

    async def _serve(self, stream: trio.abc.Stream) -> None:
        await serve_stream(self.service, stream, ("127.0.0.1", 12345), trio.current_time, lambda: None)

    async def _relay(self, client: trio.abc.Stream, server: trio.abc.Stream) -> None:
        """Carry frames between the two, until either side ends or a fault cuts the line."""
        held: dict[int, Fault] = {}
        with trio.CancelScope() as line:
            self._lines.add(line)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._upstream, client, server, held, line)
                nursery.start_soon(self._downstream, server, client, held, line)
        self._lines.discard(line)
        await trio.aclose_forcefully(client)
        await trio.aclose_forcefully(server)

    async def _upstream(
        self,
        client: trio.abc.ReceiveStream,
        server: trio.abc.SendStream,
        held: dict[int, Fault],
        line: trio.CancelScope,
    ) -> None:
        first = True
        async for payload in _Frames(client):
            await self._gate()
            if not first:
                xid, opcode = struct.unpack_from(">ii", payload)
                fault = next((f for f in self._faults if f.opcode == opcode), None)
                if fault is not None:
                    self._faults.remove(fault)
                    fault.fired += 1
                    if fault.expire:
                        for session_id in self.session_ids:
                            self.expire(session_id)
                    if fault.lose == "request":
                        break
                    held[xid] = fault
                self.opcodes.append(opcode)
            first = False
            try:
                await server.send_all(frame(payload))
            except trio.BrokenResourceError:
                break
        line.cancel()

    async def _downstream(
        self,
        server: trio.abc.ReceiveStream,
        client: trio.abc.SendStream,
        held: dict[int, Fault],
        line: trio.CancelScope,
    ) -> None:
        first = True
        async for payload in _Frames(server):
            await self._gate()
            fault = None if first else held.pop(struct.unpack_from(">i", payload)[0], None)
            first = False
            if fault is not None:
                if fault.lose == "reply":
                    break
                await trio.sleep(fault.delay)
            try:
                await client.send_all(b"".join(map(frame, self.tamper(payload))))
            except trio.BrokenResourceError:
                break
        line.cancel()

    async def _gate(self) -> None:
        while self.paused:
            await self._resumed.wait()


class _Frames:
    """The frames of a stream, as an async iterator."""

    def __init__(self, stream: trio.abc.ReceiveStream) -> None:
        self._stream = stream
        self._buffer = FrameBuffer(2**24)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        try:
            while not (payloads := self._buffer.take(1)):
                data = await self._stream.receive_some()
                if not data:
                    raise StopAsyncIteration
                self._buffer.feed(bytes(data))
        except (trio.BrokenResourceError, trio.ClosedResourceError, FrameLengthError):
            raise StopAsyncIteration from None
        return payloads[0]


@asynccontextmanager
async def open_world(**settings: Any) -> AsyncIterator[World]:
    """A fresh server; sessions of 1 to 100 s, in ticks of 0.1 s."""
    options = {"tick_time": 100, "min_session_timeout": 1000, "max_session_timeout": 100_000}
    now = trio.current_time()
    service = Service(Settings(**(options | settings)), now=now, epoch=now + 1_700_000_000)
    async with trio.open_nursery() as nursery:
        world = World(service, nursery)
        nursery.start_soon(_keep_time, service)
        yield world
        nursery.cancel_scope.cancel()


async def _keep_time(service: Service) -> None:
    while True:
        await trio.sleep(0.1)
        service.advance(trio.current_time())
